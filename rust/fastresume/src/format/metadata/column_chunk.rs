//! Where a column chunk and its pages lie in the file.

use std::ops::Range;

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

/// Where the pages of a column chunk lie, and what values they hold.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The offset of the first page.
    pub start: u64,
    /// The offset after the last page.
    pub end: u64,
    /// Where the chunk's offset index lies, if there is one.
    pub index: Option<Range<u64>>,
    /// Rows of the row group.
    pub rows: u64,
    /// The number of values in all pages, as the footer states it: rows in a flat column, else pairs of
    /// levels.
    pub values: u64,
    /// Uncompressed bytes of all pages, as the footer states them.
    pub uncompressed_bytes: u64,
    /// The codec of the pages.
    pub compression: Compression,
    /// Bytes of one plain value; 0 for booleans, `None` if values differ in length.
    pub value_bytes: Option<usize>,
    /// Whether each row has one value, which may be null.
    pub is_flat: bool,
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
