//! The files of a dataset, opened for decoding.

use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::ColumnDescPtr;

use crate::chunk::{Chunk, read_index};
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::page::{Buffers, Pages};
use crate::pageplaces::PagePlaces;
use crate::schema::Column;
use crate::source::{LocalFile, Source};

/// A file of the dataset, opened for decoding.
pub struct OpenFile {
    source: Arc<dyn Source>,
    metadata: Arc<ParquetMetaData>,
    places: Arc<PagePlaces>,
}

impl OpenFile {
    /// Opens a file of the manifest and checks that it is still the one that it was.
    ///
    /// # Errors
    /// `Source` if it can't be opened; `Data` if it is damaged or was changed.
    pub fn open(manifest: &Manifest, file: usize) -> Result<Self> {
        let file = &manifest.files()[file];
        let source = LocalFile::open(&file.path)?;
        let changed = |what: &str| {
            Error::data(format!("the file was changed since the dataset was opened: {what}"))
                .in_file(&file.path)
        };
        if source.size() != file.size {
            return Err(changed(&format!("it had {} bytes, it has {}", file.size, source.size())));
        }
        let footer = manifest.footers().read(&source)?;
        if footer.hash != file.footer_hash {
            return Err(changed(
                "its footer differs, though its size does not; if manifest_cache= was given, that file is stale: \
                 remove it",
            ));
        }
        Ok(Self { source: Arc::new(source), metadata: footer.metadata, places: Arc::default() })
    }

    /// What its footer says.
    #[must_use]
    pub fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// The leaf of the file's schema that a column is read from.
    ///
    /// # Errors
    /// `Data` if the file has no such leaf.
    pub fn leaf(&self, column: &Column) -> Result<ColumnDescPtr> {
        let leaves = self.metadata.file_metadata().schema_descr().columns();
        leaves.get(column.leaf).cloned().ok_or_else(|| undeliverable(column))
    }

    /// The pages of a column chunk.
    ///
    /// # Errors
    /// `Data` if the row group's metadata contradict each other.
    pub fn pages<'a>(
        &self,
        row_group: usize,
        leaf_number: usize,
        leaf: &ColumnDescPtr,
        buffers: &'a mut Buffers,
    ) -> Result<Pages<'a>> {
        let chunk = self.chunk(row_group, leaf_number, leaf)?;
        Pages::new(Arc::clone(&self.source), chunk, Arc::clone(&self.places), buffers)
    }

    /// Where a column chunk lies.
    fn chunk(&self, row_group: usize, leaf_number: usize, leaf: &ColumnDescPtr) -> Result<Chunk> {
        let group = self.metadata.row_group(row_group);
        let chunk = group.column(leaf_number);
        let is_flat = leaf.max_rep_level() == 0;
        if is_flat && chunk.num_values() != group.num_rows() {
            return Err(Error::data(format!(
                "the column chunk claims {} values, its row group {} rows",
                chunk.num_values(),
                group.num_rows()
            )));
        }
        place(chunk, leaf, group.num_rows(), is_flat)
    }

    /// The first row of each data page of a column chunk, as its index names them; none if it has none.
    ///
    /// # Errors
    /// `Data` if the index is damaged; `Source` if it can't be read.
    pub fn page_starts(&self, row_group: usize, column: &Column) -> Result<Option<Vec<u64>>> {
        let chunk = self.chunk(row_group, column.leaf, &self.leaf(column)?)?;
        let Some(place) = chunk.index.clone() else { return Ok(None) };
        let pages = read_index(self.source.as_ref(), place, &chunk)?;
        Ok(Some(pages.into_iter().map(|page| page.first_row).collect()))
    }

    /// The file's bytes.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        self.source.as_ref()
    }

    /// The definition level at which the outermost list that a leaf is in is there.
    pub fn outermost_level(&self, leaf: &ColumnDescPtr) -> u8 {
        let mut node = self.metadata.file_metadata().schema_descr().root_schema();
        let mut level = 0_u8;
        for part in leaf.path().parts() {
            let Some(next) = node.get_fields().iter().find(|field| field.name() == part) else { break };
            match next.get_basic_info().repetition() {
                Repetition::REPEATED => break,
                Repetition::OPTIONAL => level = level.saturating_add(1),
                Repetition::REQUIRED => {}
            }
            node = next;
            if node.is_primitive() {
                break;
            }
        }
        level
    }
}

/// Says that a column's type can't be delivered.
pub fn undeliverable(column: &Column) -> Error {
    Error::data(format!("the type {} can't be delivered", column.type_name))
}

/// Bytes of one plain value; 0 for values of a bit, none if values differ in length.
pub fn value_bytes(leaf: &ColumnDescPtr) -> Option<usize> {
    match leaf.physical_type() {
        Physical::INT32 | Physical::FLOAT => Some(4),
        Physical::INT64 | Physical::DOUBLE => Some(8),
        Physical::INT96 => Some(12),
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(leaf.type_length()).ok(),
        Physical::BYTE_ARRAY => None,
        Physical::BOOLEAN => Some(0),
    }
}

fn place(chunk: &ColumnChunkMetaData, leaf: &ColumnDescPtr, rows: i64, is_flat: bool) -> Result<Chunk> {
    let data = chunk.data_page_offset();
    let start = chunk.dictionary_page_offset().filter(|&offset| offset > 0 && offset < data).unwrap_or(data);
    let end = start.checked_add(chunk.compressed_size());
    let (Ok(start), Some(Ok(end))) = (u64::try_from(start), end.map(u64::try_from)) else {
        return Err(Error::data(format!(
            "the column chunk claims to start at {start} and to have {} bytes",
            chunk.compressed_size()
        )));
    };
    let index = match (chunk.offset_index_offset(), chunk.offset_index_length()) {
        (Some(offset), Some(length)) => match (u64::try_from(offset), u64::try_from(length)) {
            (Ok(offset), Ok(length)) => Some(offset..offset.saturating_add(length)),
            _ => None,
        },
        _ => None,
    };
    Ok(Chunk {
        start,
        end,
        index,
        rows: rows.unsigned_abs(),
        values: chunk.num_values().unsigned_abs(),
        uncompressed_bytes: u64::try_from(chunk.uncompressed_size()).unwrap_or(0),
        compression: chunk.compression(),
        value_bytes: value_bytes(leaf),
        is_flat,
    })
}
