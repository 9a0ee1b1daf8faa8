//! The footer's metadata of the leaf columns that are read. Nothing is kept of the others: a file may have
//! thousands.

use std::mem::{size_of, size_of_val};

use parquet::basic::{ColumnOrder, Repetition, Type as Physical};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaDataOptions, ParquetStatisticsPolicy,
};
use parquet::schema::types::{ColumnDescPtr, Type};

use crate::error::{Error, Result};
use crate::format::metadata::column_chunk::StatedChunk;
use crate::format::metadata::footer::{Footer, ParsedGroup};
use crate::format::metadata::thrift_types::Unreadable;
use crate::format::metadata::writer::Writer;
use crate::memory::vectors::{collected, with_room};

/// The estimated memory of a leaf, with its path and its type.
pub const LEAF_BYTES: usize = 1 << 10;

/// The estimated memory of a column chunk's metadata, while its row group is parsed.
pub const PARSED_CHUNK_BYTES: usize = size_of::<ColumnChunkMetaData>();

/// The memory of what is kept of a column chunk's metadata.
pub const CHUNK_BYTES: usize = size_of::<StatedChunk>();

/// A leaf column of a file's schema.
#[derive(Debug)]
pub struct LeafColumn {
    /// Its index among the leaves, in the file's order.
    number: usize,
    pub described: ColumnDescPtr,
    /// How its values are ordered, if the footer says it.
    pub order: Option<ColumnOrder>,
    /// For each list around it, from the outermost on, the lowest definition level of an element.
    pub element_levels: Vec<u8>,
    /// Why it can't be read, if it can't.
    pub unreadable: Option<Unreadable>,
}

impl LeafColumn {
    /// Leaves by their numbers.
    ///
    /// # Errors
    /// `Data` if the file has fewer.
    pub fn all(file: &FileMetaData, numbers: &[usize]) -> Result<Vec<Self>> {
        let mut levels = Vec::new();
        element_levels(file.schema_descr().root_schema(), 0, &[], &mut levels);
        let leaves = file.schema_descr().columns();
        let of = |&number: &usize| {
            let described = leaves.get(number).cloned().ok_or_else(|| not_there(number))?;
            let order = file.column_orders().and_then(|orders| orders.get(number)).copied();
            let element_levels = levels.get(number).cloned().unwrap_or_default();
            Ok(Self { number, described, order, element_levels, unreadable: None })
        };
        numbers.iter().map(of).collect()
    }
}

/// The leaves of one file that are read, and their column chunks.
#[derive(Debug)]
pub struct ColumnMetadata {
    /// In ascending order of their indices.
    each: Vec<LeafColumn>,
    writer: Writer,
    group_rows: Vec<u64>,
    /// The column chunks of all leaves, row group after row group.
    chunks: Vec<StatedChunk>,
}

impl ColumnMetadata {
    /// The footer's metadata of leaves, whose indices ascend. Statistics are kept for 64-bit integers only.
    ///
    /// # Errors
    /// `Data` if the footer is damaged, or the file has fewer leaves.
    pub fn of(footer: &Footer, numbers: &[usize]) -> Result<Self> {
        let mut each = LeafColumn::all(footer.file(), numbers)?;
        let bounded = each.iter().filter(|leaf| leaf.described.physical_type() == Physical::INT64);
        let bounded: Vec<usize> = bounded.map(|leaf| leaf.number).collect();
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(ParquetStatisticsPolicy::skip_except(&bounded))
            .with_encoding_stats_policy(ParquetStatisticsPolicy::skip_except(numbers))
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let group_rows = collected(footer.group_rows().iter().copied())?;
        let mut chunks = with_room(group_rows.len().saturating_mul(each.len()))?;
        for leaf in &mut each {
            leaf.unreadable = footer.unreadable(leaf.number);
        }
        for group in footer.row_groups(options) {
            let ParsedGroup { metadata: group, unreadable } = group?;
            for leaf in each.iter_mut().filter(|_| !unreadable.is_empty()) {
                leaf.unreadable = leaf.unreadable.or(unreadable.get(&leaf.number).copied());
            }
            chunks.extend(numbers.iter().map(|&number| StatedChunk::of(group.column(number))));
        }
        let writer = Writer::of(footer.file().created_by());
        Ok(Self { each, writer, group_rows, chunks })
    }

    /// The leaves of what has these rows in no file; nothing describes their values.
    ///
    /// # Errors
    /// `Data` if there are fewer leaves.
    pub fn of_rows(footer: &Footer, numbers: &[usize], group_rows: Vec<u64>) -> Result<Self> {
        let each = LeafColumn::all(footer.file(), numbers)?;
        let mut chunks = with_room(group_rows.len().saturating_mul(each.len()))?;
        for &rows in &group_rows {
            chunks.extend(each.iter().map(|_| StatedChunk::unknown(rows)));
        }
        Ok(Self { each, writer: Writer::default(), group_rows, chunks })
    }

    /// The leaf of this index.
    ///
    /// # Errors
    /// `Data` if it is not among those that were read.
    pub fn leaf(&self, number: usize) -> Result<&LeafColumn> {
        self.each.get(self.place(number)?).ok_or_else(|| not_there(number))
    }

    /// The column chunk of a leaf in a row group.
    ///
    /// # Errors
    /// `Data` if it is not among those that were read.
    pub fn chunk(&self, row_group: usize, number: usize) -> Result<&StatedChunk> {
        if let Some(why) = self.leaf(number)?.unreadable {
            return Err(why.error());
        }
        let place = row_group * self.each.len() + self.place(number)?;
        self.chunks.get(place).ok_or_else(|| not_there(number).in_row_group(row_group))
    }

    /// Which program wrote the file.
    pub fn writer(&self) -> Writer {
        self.writer
    }

    /// The rows of a row group; none of one that is not there.
    pub fn rows(&self, row_group: usize) -> u64 {
        self.group_rows.get(row_group).copied().unwrap_or(0)
    }

    /// The memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.each.len() * LEAF_BYTES + size_of_val(&self.group_rows[..]) + size_of_val(&self.chunks[..])
    }

    /// Metadata of row groups with these numbers of rows.
    #[cfg(test)]
    pub fn of_no_columns(group_rows: Vec<u64>) -> Self {
        Self { each: Vec::new(), writer: Writer::default(), group_rows, chunks: Vec::new() }
    }

    fn place(&self, number: usize) -> Result<usize> {
        self.each.binary_search_by_key(&number, |leaf| leaf.number).map_err(|_| not_there(number))
    }
}

fn not_there(number: usize) -> Error {
    Error::data(format!("the file has no leaf {number} that is read"))
}

/// The definition levels at which the lists around each leaf below a group have elements; `level` and `lists` are those of the
/// group. The schema is gone over once: for each leaf alone, it would be gone over from its root.
fn element_levels(group: &Type, level: u8, lists: &[u8], found: &mut Vec<Vec<u8>>) {
    for node in group.get_fields() {
        let repetition = node.get_basic_info().has_repetition().then(|| node.get_basic_info().repetition());
        let is_repeated = repetition == Some(Repetition::REPEATED);
        let level = level.saturating_add(u8::from(is_repeated || repetition == Some(Repetition::OPTIONAL)));
        let of_node = [lists, &[level][..usize::from(is_repeated)]].concat();
        if node.is_primitive() {
            found.push(of_node);
        } else {
            element_levels(node, level, &of_node, found);
        }
    }
}
