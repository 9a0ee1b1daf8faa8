//! What the index of a column chunk's pages tells of the values of each.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/PageIndex.md>

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::metadata::column_chunk::MAX_INDEX_BYTES;
use crate::format::metadata::thrift::{Walk, Wire};
use crate::source::local::Source;

/// The bounds of the pages of a column chunk, as its index holds them: plain values, which may be cut short.
#[derive(Debug)]
pub struct PageIndex {
    bytes: Vec<u8>,
    pages: Vec<PageBounds>,
}

/// What is told of one page.
#[derive(Debug, Clone, Default)]
struct PageBounds {
    is_null: bool,
    low: Range<usize>,
    high: Range<usize>,
    nulls: Option<u64>,
}

/// The lists of an index, each with an element for each page.
#[derive(Debug, Default)]
struct Lists {
    are_null: Vec<bool>,
    lows: Vec<Range<usize>>,
    highs: Vec<Range<usize>>,
    nulls: Option<Vec<i64>>,
}

impl PageIndex {
    /// The index of a chunk of so many pages.
    ///
    /// # Errors
    /// `Data` if it lies outside of the file, is damaged, or is of another number of pages.
    pub fn read(source: &dyn Source, place: Range<u64>, pages: usize) -> Result<Self> {
        let length = place.end.saturating_sub(place.start);
        if length > MAX_INDEX_BYTES {
            return Err(Error::data(format!(
                "the page index claims {length} bytes of bounds, at most {MAX_INDEX_BYTES} are read"
            )));
        }
        let bytes = source.read(place.start, usize::try_from(length).unwrap_or(usize::MAX))?;
        let Lists { are_null, lows, highs, nulls } = Lists::read(&bytes)?;
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

    /// The bounds of the values of a page that has some: none is below the first, none above the second.
    pub fn bounds(&self, page: usize) -> (&[u8], &[u8]) {
        let PageBounds { low, high, .. } = &self.pages[page];
        (&self.bytes[low.clone()], &self.bytes[high.clone()])
    }

    /// How many values of a page are null, if that is told.
    pub fn nulls(&self, page: usize) -> Option<u64> {
        self.pages[page].nulls
    }
}

impl Lists {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut found = Self::default();
        Walk::new(bytes).fields(|walk, number, wire| {
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
