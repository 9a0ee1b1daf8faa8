//! Estimates of how many bytes the rows of a column take, from footers: on average, and at most.

use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use serde::{Deserialize, Serialize};

use crate::format::metadata::column_chunk::start_of;
use crate::format::metadata::page_header::PageHeader;
use crate::schema::columns::{Column, Dtype, Kind};
use crate::source::byte_source::ByteSource;

/// The bytes of an offset, where the values of a row end.
const OFFSET_BYTES: u64 = size_of::<i64>() as u64;

/// Writers end a page at about this many bytes. Where the pages of a chunk have more, cells are large.
pub const PAGE_BYTES: u64 = 1 << 20;

/// Writers check the size of a page after this many values.
pub const PAGE_VALUES: u64 = 1024;

/// The bytes that are read of a dictionary page's header, which has some 20.
const HEADER_BYTES: u64 = 64;

/// The bytes of the length in front of each string in a dictionary.
const LENGTH_BYTES: u64 = size_of::<u32>() as u64;

/// The size of the rows of a jagged column as they are delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeEstimate {
    /// Bytes of all rows.
    pub bytes: u64,
    /// Mean bytes of a row without large cells, rounded up, in the row group where that is largest.
    pub densest: u64,
    /// The most bytes of large cells in one row group, beyond pages as writers make them.
    pub large: u64,
}

impl SizeEstimate {
    /// The size of the rows of a jagged column in a row group. `entry_bytes` is the mean size of a dictionary
    /// entry, used where the footer does not say how much strings take.
    #[must_use]
    pub fn of_column(column: &Column, group: &RowGroupMetaData, entry_bytes: u64) -> Self {
        let width = column.dtype.map_or(1, Dtype::width) as u64;
        let chunk = group.column(column.leaf);
        let rows = to_count(group.num_rows());
        // Counts nulls and empty lists, too.
        let count = to_count(chunk.num_values());
        let values = match column.kind {
            Kind::List | Kind::Lists => count.saturating_mul(width),
            _ => chunk.unencoded_byte_array_data_bytes().map_or_else(
                || to_count(chunk.uncompressed_size()).max(count.saturating_mul(entry_bytes)),
                to_count,
            ),
        };
        // Lists of lists take no more than there are values.
        let inner =
            if column.kind.is_nested() || column.lists > 1 { count.saturating_mul(OFFSET_BYTES) } else { 0 };
        let bytes = values.saturating_add(inner).saturating_add(rows.saturating_mul(OFFSET_BYTES));
        let large = match large_page_bytes(chunk) {
            0 => 0,
            stored => stored.max(values.saturating_sub(paged_bytes(chunk))),
        };
        Self { bytes, densest: bytes.saturating_sub(large).div_ceil(rows.max(1)), large }
    }

    /// The same with elements of `width` bytes instead of `before`.
    #[must_use]
    pub fn of_width(self, width: u64, before: u64) -> Self {
        let as_wide = |bytes: u64| bytes.saturating_mul(width) / before.max(1);
        Self { bytes: as_wide(self.bytes), densest: as_wide(self.densest), large: as_wide(self.large) }
    }

    /// The size of these rows and of others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            densest: self.densest.max(other.densest),
            large: self.large.max(other.large),
        }
    }
}

/// The mean bytes of an entry in a string chunk's dictionary, from that page's header. `None` if there is no
/// such page, or if the footer says how much the strings take. A page that can't be read is an error only
/// when its values are read.
#[must_use]
pub fn entry_bytes(source: &dyn ByteSource, chunk: &ColumnChunkMetaData) -> Option<u64> {
    let is_dictionary = |encoding| matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
    if chunk.unencoded_byte_array_data_bytes().is_some() || !chunk.encodings().any(is_dictionary) {
        return None;
    }
    let start = to_count(start_of(chunk));
    let length = HEADER_BYTES.min(source.size().saturating_sub(start));
    let bytes = source.read(start, usize::try_from(length).ok()?).ok()?;
    let (header, _) = PageHeader::parse(&bytes).ok().filter(|(header, _)| header.is_dictionary())?;
    let entries = header.values() as u64;
    let stored = header.uncompressed_bytes().min(to_count(chunk.uncompressed_size()));
    (entries > 0).then(|| stored.saturating_sub(entries.saturating_mul(LENGTH_BYTES)).div_ceil(entries))
}

/// The most uncompressed bytes of a chunk's pages beyond what writers make where cells are small. It is the
/// most of any page, or of the dictionary and one page together.
#[must_use]
pub fn large_page_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    to_count(chunk.uncompressed_size()).saturating_sub(paged_bytes(chunk))
}

/// The bytes of as many pages as the chunk has, if cells are small; of one page if the footer does not say
/// how many.
fn paged_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    let counts = chunk.page_encoding_stats().map_or(&[][..], Vec::as_slice).iter();
    let pages: u64 = counts.map(|of| u64::from(of.count.max(0).unsigned_abs())).sum();
    pages.max(1).saturating_mul(PAGE_BYTES)
}

/// A number that a footer states; a negative one is 0.
#[must_use]
pub fn to_count(claimed: i64) -> u64 {
    u64::try_from(claimed).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::{Encoding, PageType};
    use parquet::file::metadata::{ColumnChunkMetaDataBuilder, PageEncodingStats};
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;
    use crate::schema::arrow_schema::ArrowSchema;
    use crate::schema::columns;

    type Edit = fn(ColumnChunkMetaDataBuilder) -> ColumnChunkMetaDataBuilder;

    const MESSAGE: &str = "message root {
        required int64 a;
        optional group b (LIST) { repeated group list { required int32 element; } }
        optional binary c (STRING);
    }";

    fn group(schema: &Arc<SchemaDescriptor>, rows: i64, edits: [Edit; 3]) -> RowGroupMetaData {
        let chunks = edits
            .into_iter()
            .enumerate()
            .map(|(leaf, edit)| edit(ColumnChunkMetaData::builder(schema.column(leaf))).build().unwrap());
        let builder = RowGroupMetaData::builder(Arc::clone(schema)).set_num_rows(rows);
        builder.set_column_metadata(chunks.collect()).build().unwrap()
    }

    fn of_groups(groups: &[(i64, [Edit; 3])]) -> Vec<Option<SizeEstimate>> {
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(MESSAGE).unwrap())));
        let groups: Vec<_> = groups.iter().map(|&(rows, edits)| group(&schema, rows, edits)).collect();
        let columns = columns::columns(&schema, &ArrowSchema::default());
        let extent = |column: &Column| {
            let extents = groups.iter().map(|group| SizeEstimate::of_column(column, group, 0));
            extents.reduce(SizeEstimate::and).filter(|_| column.kind.is_jagged())
        };
        columns.iter().map(extent).collect()
    }

    fn pages(of: ColumnChunkMetaDataBuilder, count: i32) -> ColumnChunkMetaDataBuilder {
        let page_type = PageType::DATA_PAGE;
        of.set_page_encoding_stats(vec![PageEncodingStats { page_type, encoding: Encoding::PLAIN, count }])
    }

    #[test]
    fn jagged_columns_are_as_long_as_footers_tell() {
        let found = of_groups(&[
            (
                3,
                [
                    |of| of,
                    |of| of.set_num_values(10),
                    |of| of.set_total_uncompressed_size(70).set_unencoded_byte_array_data_bytes(Some(500)),
                ],
            ),
            (2, [|of| of, |of| of.set_num_values(2), |of| of.set_total_uncompressed_size(70)]),
        ]);
        let lists =
            SizeEstimate { bytes: 4 * 12 + 8 * 5, densest: (4 * 10 + 8 * 3_u64).div_ceil(3), large: 0 };
        let texts = SizeEstimate { bytes: 570 + 8 * 5, densest: (500 + 8 * 3_u64).div_ceil(3), large: 0 };
        assert_eq!(found, [None, Some(lists), Some(texts)]);
        let estimates = [500, 0].map(|entry_bytes| {
            let edits: [Edit; 3] =
                [|of| of, |of| of, |of| of.set_num_values(4).set_total_uncompressed_size(70)];
            let schema = Arc::new(SchemaDescriptor::new(Arc::new(parse_message_type(MESSAGE).unwrap())));
            let texts = &columns::columns(&schema, &ArrowSchema::default())[2];
            SizeEstimate::of_column(texts, &group(&schema, 4, edits), entry_bytes).bytes
        });
        assert_eq!(
            estimates,
            [4 * (500 + 8), 70 + 4 * 8],
            "of a dictionary's entries, or as they are stored"
        );
        let lies = of_groups(&[(
            i64::MAX,
            [|of| of, |of| of.set_num_values(i64::MAX), |of| of.set_total_uncompressed_size(-1)],
        )]);
        assert_eq!(lies.iter().flatten().map(|extent| extent.bytes).collect::<Vec<_>>(), [u64::MAX; 2]);
    }

    #[test]
    fn what_pages_have_beyond_their_usual_size_is_large_cells() {
        let large = |edit: Edit| of_groups(&[(9, [|of| of, |of| of, edit])])[2].map(|extent| extent.large);
        assert_eq!(large(|of| pages(of, 3).set_total_uncompressed_size(3 << 20)), Some(0));
        assert_eq!(large(|of| pages(of, 3).set_total_uncompressed_size(10 << 20)), Some(7 << 20));
        // A chunk whose footer does not say how many pages it has.
        assert_eq!(large(|of| of.set_total_uncompressed_size(10 << 20)), Some(9 << 20));
        // A few small values repeated many times are not large. A few large ones may be.
        let repeated: [Edit; 2] = [
            |of| {
                pages(of, 2)
                    .set_total_uncompressed_size(2 << 20)
                    .set_unencoded_byte_array_data_bytes(Some(1 << 30))
            },
            |of| {
                pages(of, 2)
                    .set_total_uncompressed_size(5 << 20)
                    .set_unencoded_byte_array_data_bytes(Some(1 << 30))
            },
        ];
        assert_eq!(repeated.map(large), [Some(0), Some((1 << 30) - (2 << 20))]);
    }
}
