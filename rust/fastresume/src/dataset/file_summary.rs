//! What a manifest keeps of one file.

use std::path::Path;
use std::sync::Arc;

use parquet::file::metadata::{FileMetaData, ParquetMetaDataOptions, ParquetStatisticsPolicy};

use crate::error::{Error, Result};
use crate::format::metadata::footer::{Footer, FooterBytes, HASH_BYTES};
use crate::format::metadata::integer_bounds::IntegerBounds;
use crate::format::metadata::null_count::NullCount;
use crate::format::metadata::size_estimate::{self, SizeEstimate, to_count};
use crate::schema::arrow_schema::{self, ArrowSchema};
use crate::schema::columns::{self, Column, Stored};
use crate::source::byte_source::ByteSource;
use crate::source::file_system::FileSystem;
use crate::source::status::Status;

/// What a manifest keeps of one file's footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSummary {
    /// The file's size in bytes.
    pub size: u64,
    /// The hash of the footer's bytes.
    pub footer_hash: [u8; HASH_BYTES],
    /// The footer's bytes.
    pub footer_bytes: u64,
    pub columns: Arc<[Column]>,
    /// The rows of each row group.
    pub group_rows: Vec<u64>,
    /// The uncompressed bytes of all row groups, as the footer says.
    pub data_bytes: u64,
    /// The number of each jagged column, and the size of its rows.
    pub extents: Vec<(usize, SizeEstimate)>,
    /// The number of each column with large pages, and their bytes beyond what writers usually make.
    pub large_pages: Vec<(usize, u64)>,
    /// The number of each column that may have nulls, and how many the footer counts.
    pub nulls: Vec<(usize, NullCount)>,
    /// The number of each column of integers of which the footer tells bounds, and these.
    pub bounds: Vec<(usize, IntegerBounds)>,
}

impl FileSummary {
    /// Reads the footer of a file of a listing.
    ///
    /// # Errors
    /// As for `FileSystem::open`, `FooterBytes::read` and `FooterBytes::parse`.
    pub fn read(files: &FileSystem, path: &Path, listed: Option<&Status>) -> Result<Self> {
        let read = || {
            let (source, _) = files.open(path, listed)?;
            let summary = Self::of_file(source.as_ref())?;
            // The first pass may take its rows from what came with the footer.
            source.hand_on();
            Ok(summary)
        };
        read().map_err(|error: Error| error.in_file(path))
    }

    fn of_file(source: &dyn ByteSource) -> Result<Self> {
        let bytes = FooterBytes::read(source)?;
        let (footer_hash, footer_bytes) = (bytes.hash, bytes.count() as u64);
        let footer = bytes.parse()?;
        let columns = columns::columns(footer.file().schema_descr(), &arrow_fields(footer.file())?);
        let may_be_null = |column: &Column| column.lists == 0 && column.level > 0;
        let asked = columns.iter().filter(|column| may_be_null(column) || IntegerBounds::are_of(column));
        let asked: Vec<usize> = asked.map(|column| column.leaf).collect();
        // Statistics that can't be decoded tell nothing, and refuse no file.
        let totals = Totals::of(source, &footer, &columns, ParquetStatisticsPolicy::skip_except(&asked))
            .or_else(|_| Totals::of(source, &footer, &columns, ParquetStatisticsPolicy::SkipAll))?;
        Ok(Self {
            size: source.size(),
            footer_hash,
            footer_bytes,
            columns: columns.into(),
            group_rows: footer.into_group_rows(),
            data_bytes: totals.data_bytes,
            extents: totals.extents,
            large_pages: some(totals.large_pages),
            nulls: some(totals.nulls),
            bounds: totals
                .bounds
                .into_iter()
                .enumerate()
                .filter_map(|(number, of)| Some((number, of?)))
                .collect(),
        })
    }
}

/// What the row groups of a file have together.
struct Totals {
    data_bytes: u64,
    /// Of each jagged column its number and extent.
    extents: Vec<(usize, SizeEstimate)>,
    /// Of each column.
    large_pages: Vec<u64>,
    /// Of each column.
    nulls: Vec<NullCount>,
    /// Of each column.
    bounds: Vec<Option<IntegerBounds>>,
}

impl Totals {
    fn of(
        source: &dyn ByteSource,
        footer: &Footer,
        columns: &[Column],
        statistics: ParquetStatisticsPolicy,
    ) -> Result<Self> {
        let numbered = columns.iter().enumerate();
        let jagged = numbered.filter(|(_, column)| column.dtype.is_some() && column.kind.is_jagged());
        let extents: Vec<_> = jagged.map(|(number, _)| (number, SizeEstimate::default())).collect();
        // As the first dictionary of each column tells: one read, however many row groups there are.
        let mut entry_bytes = vec![None; extents.len()];
        let (large_pages, nulls) = (vec![0; columns.len()], vec![NullCount::default(); columns.len()]);
        let mut totals =
            Self { data_bytes: 0, extents, large_pages, nulls, bounds: vec![None; columns.len()] };
        let options = ParquetMetaDataOptions::new()
            .with_encoding_stats_as_mask(false)
            .with_column_stats_policy(statistics);
        for group in footer.row_groups(options) {
            let group = group?.metadata;
            totals.data_bytes = totals.data_bytes.saturating_add(to_count(group.total_byte_size()));
            for ((number, extent), entry_bytes) in totals.extents.iter_mut().zip(&mut entry_bytes) {
                let column = &columns[*number];
                if entry_bytes.is_none() && column.stored == Stored::Bytes {
                    *entry_bytes = size_estimate::entry_bytes(source, group.column(column.leaf));
                }
                *extent = extent.and(SizeEstimate::of_column(column, &group, entry_bytes.unwrap_or(0)));
            }
            for (column, bytes) in columns.iter().zip(&mut totals.large_pages) {
                *bytes = size_estimate::large_page_bytes(group.column(column.leaf)).max(*bytes);
            }
            for (column, count) in columns.iter().zip(&mut totals.nulls) {
                *count = count.and(NullCount::of_chunk(column, group.column(column.leaf)));
            }
            for (column, bounds) in columns.iter().zip(&mut totals.bounds) {
                let more = IntegerBounds::of_chunk(column, group.column(column.leaf));
                *bounds = more.map(|more| bounds.map_or(more, |known| known.and(more))).or(*bounds);
            }
        }
        Ok(totals)
    }
}

/// The values that are not nothing, with their numbers.
fn some<T: Default + PartialEq>(values: Vec<T>) -> Vec<(usize, T)> {
    values.into_iter().enumerate().filter(|(_, value)| *value != T::default()).collect()
}

/// The fields of a file's Arrow schema, if it has one.
pub(super) fn arrow_fields(file: &FileMetaData) -> Result<ArrowSchema> {
    let pairs = file.key_value_metadata().map_or(&[][..], Vec::as_slice);
    let text = pairs.iter().find(|pair| pair.key == arrow_schema::KEY).and_then(|pair| pair.value.as_deref());
    text.map_or_else(|| Ok(ArrowSchema::default()), ArrowSchema::parse)
}
