//! Where a column chunk and its pages lie in the file.

use std::ops::Range;

use parquet::basic::{Compression, EncodingMask};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;

use crate::format::metadata::writer::Writer;

/// Where the pages of a column chunk lie, and what its values are.
#[derive(Debug, Clone)]
pub struct ColumnChunk {
    /// The offset of the first page.
    pub start: u64,
    /// The offset after the last page.
    pub end: u64,
    /// Where the index of its data pages lies, if its writer is known to count rows there: nothing else tells rows of pages of
    /// lists before these are decompressed.
    pub index: Option<Range<u64>>,
    /// Rows of the row group.
    pub rows: u64,
    /// The number of values in all pages, as the footer states it: rows in a flat column, else pairs of
    /// levels.
    pub values: u64,
    /// Uncompressed bytes of all pages, as the footer states them.
    pub uncompressed_bytes: u64,
    /// A page that takes more when it is decompressed, or decoded, is refused.
    pub most_page_bytes: u64,
    /// How the pages are compressed.
    pub compression: Compression,
    /// Bytes of one plain value; 0 for booleans, `None` if values differ in length.
    pub value_bytes: Option<usize>,
    /// The largest repetition level, and the largest definition level.
    pub levels: (u8, u8),
    pub encodings: Encodings,
    pub writer: Writer,
}

impl ColumnChunk {
    /// Whether each row has one value, which may be null.
    pub fn is_flat(&self) -> bool {
        self.levels.0 == 0
    }

    /// Whether a page states so many bytes of repetition and of definition levels where the type has none of either.
    pub fn has_no_such_levels(&self, stated: Option<(usize, usize)>) -> bool {
        let (repetition, definition) = self.levels;
        stated.is_some_and(|stated| repetition == 0 && stated.0 > 0 || definition == 0 && stated.1 > 0)
    }
}

/// What a footer states of a column chunk that is read, in few words: a file may have a million of them.
#[derive(Debug, Clone)]
pub struct StatedChunk {
    /// The offset of the first page.
    pub start: i64,
    pub compressed_bytes: i64,
    pub uncompressed_bytes: i64,
    pub values: i64,
    pub compression: Compression,
    pub encodings: Encodings,
    /// The least and the greatest value, of 64-bit integers.
    pub bounds: [Option<i64>; 2],
    /// Whether it states that there are no nulls, of 64-bit integers.
    pub states_no_nulls: bool,
    /// Offsets and lengths of the offset index, the column index and the bloom filter; -1 if there is none.
    offsets: [i64; 3],
    lengths: [i32; 3],
}

impl StatedChunk {
    pub fn of(chunk: &ColumnChunkMetaData) -> Self {
        let (mut bounds, mut states_no_nulls) = ([None; 2], false);
        if let Some(Statistics::Int64(statistics)) = chunk.statistics() {
            bounds = [statistics.min_opt().copied(), statistics.max_opt().copied()];
            states_no_nulls = statistics.null_count_opt() == Some(0);
        }
        let offsets = [chunk.offset_index_offset(), chunk.column_index_offset(), chunk.bloom_filter_offset()];
        let lengths = [chunk.offset_index_length(), chunk.column_index_length(), chunk.bloom_filter_length()];
        Self {
            start: start_of(chunk),
            compressed_bytes: chunk.compressed_size(),
            uncompressed_bytes: chunk.uncompressed_size(),
            values: chunk.num_values(),
            compression: chunk.compression(),
            encodings: Encodings::of(chunk),
            bounds,
            states_no_nulls,
            offsets: offsets.map(|offset| offset.unwrap_or(-1)),
            lengths: lengths.map(|length| length.unwrap_or(-1)),
        }
    }

    /// That of rows whose values nothing describes.
    pub fn unknown(rows: u64) -> Self {
        Self {
            start: 0,
            compressed_bytes: 0,
            uncompressed_bytes: 0,
            values: i64::try_from(rows).unwrap_or(i64::MAX),
            compression: Compression::UNCOMPRESSED,
            encodings: Encodings::default(),
            bounds: [None; 2],
            states_no_nulls: false,
            offsets: [-1; 3],
            lengths: [-1; 3],
        }
    }

    /// Where the index of its data pages lies, if there is one.
    pub fn offset_index(&self) -> Option<Range<u64>> {
        self.index(0)
    }

    /// Where the bounds of its pages lie, if there are some.
    pub fn column_index(&self) -> Option<Range<u64>> {
        self.index(1)
    }

    /// The offset of its bloom filter, if it has one, and the length if that is stated.
    pub fn bloom_filter(&self) -> Option<(u64, Option<u64>)> {
        Some((u64::try_from(self.offsets[2]).ok()?, u64::try_from(self.lengths[2]).ok()))
    }

    /// Some writers state -1 where they write none.
    fn index(&self, kind: usize) -> Option<Range<u64>> {
        let (offset, length) = (self.offsets[kind], self.lengths[kind]);
        let (offset, length) = (u64::try_from(offset).ok()?, u64::try_from(length).ok()?);
        Some(offset..offset.saturating_add(length))
    }
}

/// The encodings that a footer states of a column chunk, as bits by their numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Encodings {
    /// All that are listed; 0 if there is no list.
    listed: i32,
    /// Those of data pages; 0 if that is not stated.
    of_pages: i32,
}

/// Indices to the dictionary have two names.
const DICTIONARY: i32 = 1 << 2 | 1 << 8;

/// Plain values, and those split by byte.
const SAME_LENGTHS: i32 = 1 | 1 << 9;

impl Encodings {
    pub fn of(chunk: &ColumnChunkMetaData) -> Self {
        let of_pages = chunk.page_encoding_stats_mask().map_or(0, EncodingMask::as_i32);
        Self { listed: chunk.encodings_mask().as_i32(), of_pages }
    }

    /// Whether a page may have the encoding of this number.
    ///
    /// Some writers list the same few for all columns, as Parquet.Net does. So where nothing is stated of data pages, an encoding
    /// need not be listed if values of another one would not end where its page does.
    pub fn has(self, number: i32) -> bool {
        let bit = u32::try_from(number).ok().and_then(|number| 1_i32.checked_shl(number)).unwrap_or(0);
        let bits = if bit & DICTIONARY == 0 { bit } else { DICTIONARY };
        let known = self.listed | self.of_pages;
        self.listed == 0 || known & bits != 0 || self.of_pages == 0 && bit & SAME_LENGTHS == 0
    }

    /// Whether all data pages are said to hold indices to the dictionary.
    pub fn are_dictionary(self) -> bool {
        self.of_pages != 0 && self.of_pages & !DICTIONARY == 0
    }
}

/// The offset of a chunk's first page, as its footer states it: the dictionary page, if that is named and
/// lies before the data.
#[must_use]
pub fn start_of(chunk: &ColumnChunkMetaData) -> i64 {
    let data = chunk.data_page_offset();
    chunk.dictionary_page_offset().filter(|&offset| offset > 0 && offset < data).unwrap_or(data)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::*;

    #[test]
    fn a_chunk_starts_with_its_dictionary_if_that_lies_before_its_data() {
        let message = parse_message_type("message m { required binary x; }").unwrap();
        let leaf = SchemaDescriptor::new(Arc::new(message)).column(0);
        let start = |dictionary| {
            let chunk = ColumnChunkMetaData::builder(Arc::clone(&leaf));
            let chunk = chunk.set_data_page_offset(500).set_dictionary_page_offset(dictionary);
            start_of(&chunk.build().unwrap())
        };
        // Some writers state the offset 0 for a missing dictionary.
        assert_eq!(
            [None, Some(4), Some(0), Some(-1), Some(500), Some(900)].map(start),
            [500, 4, 500, 500, 500, 500]
        );
    }
}
