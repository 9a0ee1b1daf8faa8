//! The page index of a column chunk: where its data pages lie (`OffsetIndex`), and the bounds of their values
//! (`ColumnIndex`).
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/PageIndex.md>

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::metadata::column_chunk::ColumnChunk;
use crate::format::metadata::thrift::{ThriftWalk, Wire};
use crate::source::byte_source::ByteSource;

/// The longest index that is accepted: it has some 20 bytes for a page.
pub const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Where a data page is.
#[derive(Debug, Clone, Copy)]
pub struct PagePlace {
    /// The offset of its header.
    pub offset: u64,
    /// The first row that begins in it, counted within the row group.
    pub first_row: u64,
    /// How many rows it has, as an index tells.
    pub index_rows: Option<u64>,
}

/// The data pages of a chunk, in order, from its offset index.
///
/// Source: <https://github.com/apache/parquet-format/blob/master/PageIndex.md>
///
/// # Errors
/// `Data` if the index lies outside of the file, or its pages outside of the chunk or out of order. The same if the
/// first page does not begin with row 0.
pub fn read_index(source: &dyn ByteSource, place: Range<u64>, chunk: &ColumnChunk) -> Result<Vec<PagePlace>> {
    let length = place.end.saturating_sub(place.start);
    if length > MAX_INDEX_BYTES {
        return Err(Error::data(format!(
            "the page index claims {length} bytes, at most {MAX_INDEX_BYTES} are read"
        )));
    }
    let bytes = source.read(place.start, usize::try_from(length).unwrap_or(usize::MAX))?;
    let mut pages = Vec::new();
    let mut walk = ThriftWalk::new(&bytes);
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
    // Some writers state -1 for what they do not know.
    let Some(mut pages) = pages.into_iter().collect::<Option<Vec<PagePlace>>>() else {
        return Ok(Vec::new());
    };
    if let Some(first) = pages.first().filter(|first| first.first_row != 0) {
        return Err(Error::data(format!("the page index begins at row {}, expected 0", first.first_row)));
    }
    let is_in_order = pages
        .windows(2)
        .all(|pair| pair[0].offset < pair[1].offset && pair[0].first_row <= pair[1].first_row);
    let is_inside = pages
        .iter()
        .all(|page| (chunk.start..chunk.end).contains(&page.offset) && page.first_row <= chunk.rows);
    if is_in_order && is_inside {
        let ends: Vec<u64> = pages.iter().skip(1).map(|page| page.first_row).chain([chunk.rows]).collect();
        for (page, end) in pages.iter_mut().zip(ends) {
            page.index_rows = Some(end - page.first_row);
        }
        Ok(pages)
    } else {
        Err(Error::data(format!(
            "the page index names pages out of order, or outside of the column chunk at [{}, {}) of {} rows",
            chunk.start, chunk.end, chunk.rows
        )))
    }
}

fn read_place(walk: &mut ThriftWalk<'_>) -> Result<Option<PagePlace>> {
    let (mut offset, mut first_row) = (-1, -1);
    walk.fields(|walk, number, wire| {
        match (number, wire) {
            (1, Wire::I64) => offset = walk.integer()?,
            (3, Wire::I64) => first_row = walk.integer()?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let numbers = u64::try_from(offset).ok().zip(u64::try_from(first_row).ok());
    Ok(numbers.map(|(offset, first_row)| PagePlace { offset, first_row, index_rows: None }))
}

/// The bounds of the pages of a column chunk, from its column index: plain values, which may be truncated.
#[derive(Debug)]
pub struct PageIndex {
    bytes: Vec<u8>,
    pages: Vec<PageBounds>,
}

/// The bounds and the null count of one page.
#[derive(Debug, Clone, Default)]
struct PageBounds {
    is_null: bool,
    low: Range<usize>,
    high: Range<usize>,
    nulls: Option<u64>,
}

/// The lists of a column index, each with an element for each page.
#[derive(Debug, Default)]
struct IndexLists {
    are_null: Vec<bool>,
    lows: Vec<Range<usize>>,
    highs: Vec<Range<usize>>,
    nulls: Option<Vec<i64>>,
}

impl PageIndex {
    /// The column index of a chunk of `pages` pages.
    ///
    /// # Errors
    /// `Data` if it lies outside of the file, is damaged, or has another number of pages.
    pub fn read(source: &dyn ByteSource, place: Range<u64>, pages: usize) -> Result<Self> {
        let length = place.end.saturating_sub(place.start);
        if length > MAX_INDEX_BYTES {
            return Err(Error::data(format!(
                "the page index claims {length} bytes of bounds, at most {MAX_INDEX_BYTES} are read"
            )));
        }
        let bytes = source.read(place.start, usize::try_from(length).unwrap_or(usize::MAX))?;
        let IndexLists { are_null, lows, highs, nulls } = IndexLists::read(&bytes)?;
        let counts = [are_null.len(), lows.len(), highs.len(), nulls.as_ref().map_or(pages, Vec::len)];
        if let Some(other) = counts.into_iter().find(|&count| count != pages) {
            return Err(Error::data(format!(
                "the page index bounds {other} pages, and places {pages} of them"
            )));
        }
        let mut nulls = nulls.into_iter().flatten().map(|count| u64::try_from(count).ok());
        let each = are_null.into_iter().zip(lows).zip(highs);
        let pages = each.map(|((is_null, low), high)| {
            let nulls = nulls.next().flatten();
            PageBounds { is_null, low, high, nulls }
        });
        let pages = pages.collect();
        Ok(Self { bytes, pages })
    }

    /// Whether all values of a page are null.
    pub fn is_null(&self, page: usize) -> bool {
        self.pages[page].is_null
    }

    /// The bounds of the values of a page that has some: no value is below the first, none above the second.
    pub fn bounds(&self, page: usize) -> (&[u8], &[u8]) {
        let PageBounds { low, high, .. } = &self.pages[page];
        (&self.bytes[low.clone()], &self.bytes[high.clone()])
    }

    /// The number of nulls of a page, if the index has it.
    pub fn nulls(&self, page: usize) -> Option<u64> {
        self.pages[page].nulls
    }
}

impl IndexLists {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut found = Self::default();
        ThriftWalk::new(bytes).fields(|walk, number, wire| {
            if wire != Wire::List || !matches!(number, 1 | 2 | 3 | 5) {
                return Ok(false);
            }
            let (element, length) = walk.list()?;
            let is_its_own = match number {
                1 => matches!(element, Wire::True | Wire::False),
                5 => element == Wire::I64,
                _ => element == Wire::Binary,
            };
            if !is_its_own && length > 0 {
                return Err(Error::data(format!(
                    "damaged page index: field {number} is a list of {element:?}, which is not its own"
                )));
            }
            match number {
                1 => (0..length)
                    .try_for_each(|_| walk.listed_boolean().map(|mark| found.are_null.push(mark)))?,
                5 => {
                    let nulls = found.nulls.get_or_insert_default();
                    (0..length).try_for_each(|_| walk.integer().map(|count| nulls.push(count)))?;
                }
                _ => {
                    let bounds = if number == 2 { &mut found.lows } else { &mut found.highs };
                    for _ in 0..length {
                        let length = walk.binary()?.len();
                        bounds.push(walk.position() - length..walk.position());
                    }
                }
            }
            Ok(true)
        })?;
        Ok(found)
    }
}
