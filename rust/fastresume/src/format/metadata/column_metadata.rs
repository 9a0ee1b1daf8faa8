//! What a footer tells of the leaves that are read. Of no others anything is kept: a file may have thousands.

use std::mem::{size_of, size_of_val};

use parquet::basic::{ColumnOrder, Repetition, Type as Physical};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaDataOptions, ParquetStatisticsPolicy,
};
use parquet::schema::types::{ColumnDescPtr, Type};

use crate::error::{Error, Result};
use crate::format::metadata::footer::Footer;
use crate::format::metadata::writer::Writer;

/// What a leaf takes, with its path and its type.
pub const LEAF_BYTES: usize = 1 << 10;

/// What is kept of a column chunk.
pub const CHUNK_BYTES: usize = size_of::<ColumnChunkMetaData>();

/// A leaf of a file's schema.
#[derive(Debug)]
pub struct Leaf {
    /// Which one it is, in the file's order.
    number: usize,
    pub described: ColumnDescPtr,
    /// How its values are compared, if that is said.
    pub order: Option<ColumnOrder>,
    /// The definition level at which the outermost list that it is in is there.
    pub outermost_level: u8,
}

impl Leaf {
    /// Leaves by their numbers.
    ///
    /// # Errors
    /// `Data` if the file has fewer.
    pub fn all(file: &FileMetaData, numbers: &[usize]) -> Result<Vec<Self>> {
        let mut levels = Vec::new();
        outermost_levels(file.schema_descr().root_schema(), 0, false, &mut levels);
        let leaves = file.schema_descr().columns();
        let of = |&number: &usize| {
            let described = leaves.get(number).cloned().ok_or_else(|| not_there(number))?;
            let order = file.column_orders().and_then(|orders| orders.get(number)).copied();
            let outermost_level = levels.get(number).copied().unwrap_or(0);
            Ok(Self { number, described, order, outermost_level })
        };
        numbers.iter().map(of).collect()
    }
}

/// The leaves of one file that are read, and their column chunks.
#[derive(Debug)]
pub struct Leaves {
    /// In the order of their numbers.
    each: Vec<Leaf>,
    writer: Writer,
    group_rows: Vec<u64>,
    /// Of each row group those of all leaves.
    chunks: Vec<ColumnChunkMetaData>,
}

impl Leaves {
    /// What a footer tells of leaves, whose numbers ascend. Bounds of values are kept of integers of 64 bits alone.
    ///
    /// # Errors
    /// `Data` if the footer is damaged, or the file has not so many leaves.
    pub fn of(footer: &Footer, numbers: &[usize]) -> Result<Self> {
        let each = Leaf::all(footer.file(), numbers)?;
        let bounded = each.iter().filter(|leaf| leaf.described.physical_type() == Physical::INT64);
        let bounded: Vec<usize> = bounded.map(|leaf| leaf.number).collect();
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(ParquetStatisticsPolicy::skip_except(&bounded))
            .with_encoding_stats_policy(ParquetStatisticsPolicy::skip_except(numbers))
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let group_rows: Vec<u64> = footer.group_rows().collect();
        let mut chunks = Vec::with_capacity(group_rows.len().saturating_mul(each.len()));
        for group in footer.row_groups(options) {
            let group = group?;
            chunks.extend(numbers.iter().map(|&number| group.column(number).clone()));
        }
        let writer = Writer::of(footer.file().created_by());
        Ok(Self { each, writer, group_rows, chunks })
    }

    /// A leaf by its number.
    ///
    /// # Errors
    /// `Data` if it is not among these.
    pub fn leaf(&self, number: usize) -> Result<&Leaf> {
        self.each.get(self.place(number)?).ok_or_else(|| not_there(number))
    }

    /// The column chunk of a leaf in a row group.
    ///
    /// # Errors
    /// `Data` if it is not among these.
    pub fn chunk(&self, row_group: usize, number: usize) -> Result<&ColumnChunkMetaData> {
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

    /// What they take.
    pub fn bytes(&self) -> usize {
        let paths = self.chunks.iter().filter_map(ColumnChunkMetaData::file_path).map(str::len);
        let leaves = self.each.len() * LEAF_BYTES;
        leaves + size_of_val(&self.group_rows[..]) + size_of_val(&self.chunks[..]) + paths.sum::<usize>()
    }

    /// Row groups of so many rows.
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

/// The definition levels at which the outermost lists of all leaves below a group are there. The schema is gone over once: for
/// each leaf alone, it would be gone over from its root.
fn outermost_levels(group: &Type, level: u8, is_in_list: bool, found: &mut Vec<u8>) {
    for node in group.get_fields() {
        let repetition = node.get_basic_info().has_repetition().then(|| node.get_basic_info().repetition());
        let is_in_list = is_in_list || repetition == Some(Repetition::REPEATED);
        let is_counted = !is_in_list && repetition == Some(Repetition::OPTIONAL);
        let level = level.saturating_add(u8::from(is_counted));
        if node.is_primitive() {
            found.push(level);
        } else {
            outermost_levels(node, level, is_in_list, found);
        }
    }
}
