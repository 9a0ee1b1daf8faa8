//! What a manifest keeps of one file, and by what it is known to be the same file again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use parquet::file::metadata::{FileMetaData, RowGroupMetaData};

use crate::arrowschema::{self, ArrowFields};
use crate::error::Result;
use crate::extent::{self, Extent, to_count};
use crate::footer::HASH_BYTES;
use crate::footers::Footers;
use crate::schema::{self, Column};
use crate::source::{LocalFile, Source};

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
    /// Of each jagged column its number, and how much its rows take.
    pub extents: Vec<(usize, Extent)>,
    /// Of each column that has large pages its number, and what they have beyond those that writers make.
    pub large_pages: Vec<(usize, u64)>,
}

impl Summary {
    /// Reads a file's footer.
    ///
    /// # Errors
    /// As for `Footers::read`.
    pub fn read(path: &Path, footers: &Footers) -> Result<Self> {
        let source = LocalFile::open(path)?;
        let footer = footers.read(&source)?;
        let groups = footer.metadata.row_groups();
        let bytes = groups.iter().map(|group| to_count(group.total_byte_size()));
        let of_file = footer.metadata.file_metadata();
        let arrow = arrow_fields(of_file).map_err(|error| error.in_file(path))?;
        let columns = schema::columns(of_file.schema_descr(), &arrow);
        let numbered = columns.iter().enumerate();
        let extents =
            numbered.filter_map(|(number, column)| Some((number, Extent::of_column(column, groups)?)));
        Ok(Self {
            size: source.size(),
            footer_hash: footer.hash,
            extents: extents.collect(),
            large_pages: large_pages(&columns, groups),
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

/// Of each column with large pages its number, and what they have at most beyond those that writers make.
fn large_pages(columns: &[Column], groups: &[RowGroupMetaData]) -> Vec<(usize, u64)> {
    let of_column = |(number, column): (usize, &Column)| {
        let bytes = groups.iter().map(|group| extent::large_page_bytes(group.column(column.leaf))).max();
        Some((number, bytes.filter(|&bytes| bytes > 0)?))
    };
    columns.iter().enumerate().filter_map(of_column).collect()
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
