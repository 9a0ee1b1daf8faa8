//! What a manifest keeps of one file, and by what it is known to be the same file again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use parquet::file::metadata::{FileMetaData, RowGroupMetaData};

use crate::arrowschema::{self, ArrowFields};
use crate::error::Result;
use crate::footer::{Footer, HASH_BYTES};
use crate::schema::{self, Column, Kind};
use crate::source::{LocalFile, Source};

/// Where the values of a row end.
const OFFSET_BYTES: u64 = size_of::<i64>() as u64;

/// What a manifest keeps of one file's footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The file's size in bytes.
    pub size: u64,
    /// The hash of the footer's bytes.
    pub footer_hash: [u8; HASH_BYTES],
    pub columns: Arc<[Column]>,
    /// The rows of each row group.
    pub group_rows: Vec<u64>,
    /// What the row groups decompress to, as the footer says.
    pub data_bytes: u64,
    /// Of each jagged column its number, and the bytes of all its rows as delivered.
    pub jagged_bytes: Vec<(usize, u64)>,
}

impl Summary {
    /// Reads a file's footer.
    ///
    /// # Errors
    /// As for `Footer::read`.
    pub fn read(path: &Path) -> Result<Self> {
        let source = LocalFile::open(path)?;
        let footer = Footer::read(&source)?;
        let groups = footer.metadata.row_groups();
        let bytes = groups.iter().map(|group| to_count(group.total_byte_size()));
        let of_file = footer.metadata.file_metadata();
        let arrow = arrow_fields(of_file).map_err(|error| error.in_file(path))?;
        let columns = schema::columns(of_file.schema_descr(), &arrow);
        Ok(Self {
            size: source.size(),
            footer_hash: footer.hash,
            jagged_bytes: jagged_bytes(&columns, groups),
            columns: columns.into(),
            // Not negative: the footer was checked.
            group_rows: groups.iter().map(|group| group.num_rows().unsigned_abs()).collect(),
            data_bytes: bytes.fold(0, u64::saturating_add),
        })
    }
}

/// What a file's Arrow schema says, if it has one.
fn arrow_fields(file: &FileMetaData) -> Result<ArrowFields> {
    let pairs = file.key_value_metadata().map_or(&[][..], Vec::as_slice);
    let text = pairs.iter().find(|pair| pair.key == arrowschema::KEY).and_then(|pair| pair.value.as_deref());
    text.map_or_else(|| Ok(ArrowFields::default()), ArrowFields::parse)
}

/// Of each jagged column its number, and the bytes of its rows as delivered, as near as a footer tells.
fn jagged_bytes(columns: &[Column], groups: &[RowGroupMetaData]) -> Vec<(usize, u64)> {
    let of_column = |(number, column): (usize, &Column)| {
        let width = column.dtype.filter(|_| column.kind.is_jagged())?.width() as u64;
        let bytes = groups.iter().map(|group| {
            let chunk = group.column(column.leaf);
            // Counts nulls and empty lists, too.
            let count = to_count(chunk.num_values());
            let values = match column.kind {
                Kind::List | Kind::Lists => count.saturating_mul(width),
                _ => to_count(chunk.unencoded_byte_array_data_bytes().unwrap_or(chunk.uncompressed_size())),
            };
            // Of lists of lists, no more than there are values.
            let inner = if column.kind.is_nested() || column.lists > 1 {
                count.saturating_mul(OFFSET_BYTES)
            } else {
                0
            };
            values
                .saturating_add(inner)
                .saturating_add(to_count(group.num_rows()).saturating_mul(OFFSET_BYTES))
        });
        Some((number, bytes.fold(0, u64::saturating_add)))
    };
    columns.iter().enumerate().filter_map(of_column).collect()
}

/// What a footer claims; less than nothing is nothing.
fn to_count(claimed: i64) -> u64 {
    u64::try_from(claimed).unwrap_or(0)
}

/// What the system says of a regular file without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub size: u64,
    /// What differs if the content does: of a local file, the time of its last modification in nanoseconds
    /// (an object store would say its `ETag`).
    pub version: String,
    pub modified_ns: i128,
    /// The device and the number on it: two paths of one file have the same. (Links share it, too.)
    pub node: (u64, u64),
}

impl Status {
    /// The status of a file; none of what is no file, or not there, which says so when it is opened.
    pub fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().filter(Metadata::is_file).map(|found| {
            let modified_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
            Self {
                size: found.size(),
                version: modified_ns.to_string(),
                modified_ns,
                node: (found.dev(), found.ino()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::{ColumnChunkMetaData, ColumnChunkMetaDataBuilder};
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    type Edit = fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder;

    fn group(schema: &Arc<SchemaDescriptor>, rows: i64, edits: [Edit; 3]) -> RowGroupMetaData {
        let chunks = edits
            .into_iter()
            .enumerate()
            .map(|(leaf, edit)| edit(ColumnChunkMetaData::builder(schema.column(leaf))).build().unwrap());
        let builder = RowGroupMetaData::builder(Arc::clone(schema)).set_num_rows(rows);
        builder.set_column_metadata(chunks.collect()).build().unwrap()
    }

    #[test]
    fn jagged_columns_are_as_long_as_footers_tell() {
        let message = "message root {
            required int64 a;
            optional group b (LIST) { repeated group list { required int32 element; } }
            optional binary c (STRING);
        }";
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(message).unwrap())));
        let groups = [
            group(
                &schema,
                3,
                [
                    |of| of,
                    |of| of.set_num_values(10),
                    |of| of.set_total_uncompressed_size(70).set_unencoded_byte_array_data_bytes(Some(500)),
                ],
            ),
            group(&schema, 2, [|of| of, |of| of.set_num_values(2), |of| of.set_total_uncompressed_size(70)]),
        ];
        let columns = schema::columns(&schema, &ArrowFields::default());
        let found = jagged_bytes(&columns, &groups);
        assert_eq!(found, [(1, 4 * 12 + 8 * 5), (2, 570 + 8 * 5)]);

        let lies = group(
            &schema,
            i64::MAX,
            [|of| of, |of| of.set_num_values(i64::MAX), |of| of.set_total_uncompressed_size(-1)],
        );
        assert_eq!(jagged_bytes(&columns, &[lies]), [(1, u64::MAX), (2, u64::MAX)]);
    }
}
