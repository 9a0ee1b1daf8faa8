//! Where a column chunk and its pages lie.

use std::ops::Range;

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use crate::error::{Error, Result};
use crate::format::metadata::thrift::{Walk, Wire};
use crate::source::local::Source;

/// A longer index is taken for damaged: it has some 20 bytes for a page.
pub const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Where the pages of a column chunk lie, and what its values are.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The offset of the first page.
    pub start: u64,
    /// The offset after the last page.
    pub end: u64,
    /// Where the index of its data pages lies, if there is one.
    pub index: Option<Range<u64>>,
    /// Rows of the row group.
    pub rows: u64,
    /// Values of all pages, as the footer states them: rows in a flat column, else pairs of levels.
    pub values: u64,
    /// Bytes of all pages, decompressed, as the footer states them.
    pub uncompressed_bytes: u64,
    /// How the pages are compressed.
    pub compression: Compression,
    /// Bytes of one plain value; 0 for values of a bit, none if values differ in length.
    pub value_bytes: Option<usize>,
    /// Whether each row has one value, which may be null.
    pub is_flat: bool,
}

/// The offset of the first page of a chunk, as its footer claims it: that of the dictionary, if it names one before the data.
#[must_use]
pub fn start_of(chunk: &ColumnChunkMetaData) -> i64 {
    let data = chunk.data_page_offset();
    chunk.dictionary_page_offset().filter(|&offset| offset > 0 && offset < data).unwrap_or(data)
}

/// Where a data page is.
#[derive(Debug, Clone, Copy)]
pub struct PagePlace {
    /// The offset of its header.
    pub offset: u64,
    /// Its first row, counted within the row group.
    pub first_row: u64,
}

/// The data pages of a chunk, in order, as its index names them.
///
/// Source: <https://github.com/apache/parquet-format/blob/master/PageIndex.md>
///
/// # Errors
/// `Data` if the index lies outside of the file, or its pages outside of the chunk, or out of order.
pub fn read_index(source: &dyn Source, place: Range<u64>, chunk: &Chunk) -> Result<Vec<PagePlace>> {
    let length = place.end.saturating_sub(place.start);
    if length > MAX_INDEX_BYTES {
        return Err(Error::data(format!(
            "the page index claims {length} bytes, at most {MAX_INDEX_BYTES} are read"
        )));
    }
    let bytes = source.read(place.start, usize::try_from(length).unwrap_or(usize::MAX))?;
    let mut pages = Vec::new();
    let mut walk = Walk::new(&bytes);
    walk.fields(|walk, number, wire| {
        if (number, wire) != (1, Wire::List) {
            return Ok(false);
        }
        let (element, length) = walk.list()?;
        for _ in 0..length {
            if element != Wire::Struct {
                return Err(Error::data("the page index lists something else than pages"));
            }
            pages.push(read_place(walk)?);
        }
        Ok(true)
    })?;
    let is_in_order = pages
        .windows(2)
        .all(|pair| pair[0].offset < pair[1].offset && pair[0].first_row <= pair[1].first_row);
    let is_inside = pages
        .iter()
        .all(|page| (chunk.start..chunk.end).contains(&page.offset) && page.first_row <= chunk.rows);
    if is_in_order && is_inside {
        Ok(pages)
    } else {
        Err(Error::data(format!(
            "the page index names pages out of order, or outside of the column chunk at [{}, {}) of {} rows",
            chunk.start, chunk.end, chunk.rows
        )))
    }
}

fn read_place(walk: &mut Walk<'_>) -> Result<PagePlace> {
    let (mut offset, mut first_row) = (-1, -1);
    walk.fields(|walk, number, wire| {
        match (number, wire) {
            (1, Wire::I64) => offset = walk.integer()?,
            (3, Wire::I64) => first_row = walk.integer()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match (u64::try_from(offset), u64::try_from(first_row)) {
        (Ok(offset), Ok(first_row)) => Ok(PagePlace { offset, first_row }),
        _ => Err(Error::data(format!("the page index places row {first_row} at byte {offset}"))),
    }
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
        // Some writers name the offset 0 where there is none.
        assert_eq!(
            [None, Some(4), Some(0), Some(-1), Some(500), Some(900)].map(start),
            [500, 4, 500, 500, 500, 500]
        );
    }
}
