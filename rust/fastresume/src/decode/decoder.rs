//! The decoders' traits: from row ranges of one row group to columns, in memory that the caller provides.
//!
//! [`ScalarDecoder`] and [`JaggedDecoder`] are the seam: the decoders behind them may change, the traits may
//! not.

use std::ops::Range;

use crate::error::Result;
use crate::memory::buffer::Memory;
use crate::memory::vectors::room_for;

/// Where the values of a scalar column are written.
#[derive(Debug)]
pub struct Target<'a> {
    /// A whole number of elements, aligned to them.
    pub values: &'a mut [u8],
    /// A byte for each value, 1 if it is valid; empty if no mask is asked for.
    pub valid: &'a mut [u8],
}

/// Sets all marks to one value. Without marks it returns at once: an empty slice has no address, and even
/// writing nothing to it takes time.
#[inline]
pub fn mark_all(marks: &mut [u8], mark: u8) {
    if !marks.is_empty() {
        marks.fill(mark);
    }
}

/// The wanted rows among those that are decoded.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Their numbers, ascending.
    pub rows: &'a [u32],
    /// The number of the first row that is decoded.
    pub first: usize,
}

impl Wanted<'_> {
    /// Whether row `index`, counted from the first decoded one, is wanted.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.rows.binary_search_by_key(&(self.first + index), |&row| row as usize).is_ok()
    }
}

/// Decodes one scalar column of one row group from its start to its end.
pub trait ScalarDecoder {
    /// Skips `rows` values.
    ///
    /// # Errors
    /// `Data` if there are fewer, or their pages are damaged; `Source` if they can't be read.
    fn skip(&mut self, rows: usize) -> Result<()>;

    /// The number of next rows that lie in one page, which is decompressed; at least one.
    ///
    /// # Errors
    /// As for `skip`.
    fn page_rows(&mut self) -> Result<usize>;

    /// Fills the target with the next values.
    ///
    /// # Errors
    /// As for `skip`; and `Data` for a null that is refused, or a value that does not fit its type.
    fn read(&mut self, target: Target<'_>) -> Result<()>;

    /// Fills the target with the next values, at most those of one page. Only some rows are wanted: a value
    /// of another row that does not fit its type is no error.
    ///
    /// # Errors
    /// As for `read`.
    fn read_among(&mut self, target: Target<'_>, _wanted: Wanted<'_>) -> Result<()> {
        self.read(target)
    }

    /// Fills the target with some of the next values. `places` ascend, counted from the next value on. All
    /// values up to the last of them are passed.
    ///
    /// # Errors
    /// As for `read`.
    fn pick(&mut self, places: &[u32], target: Target<'_>) -> Result<()> {
        let width = target.values.len().checked_div(places.len()).unwrap_or(1);
        let mut valid = target.valid;
        let mut passed = 0;
        for (&place, values) in places.iter().zip(target.values.chunks_exact_mut(width)) {
            self.skip(place as usize - passed)?;
            let (mark, unmarked) = valid.split_at_mut(valid.len().min(1));
            self.read(Target { values, valid: mark })?;
            (valid, passed) = (unmarked, place as usize + 1);
        }
        Ok(())
    }
}

/// Rows of a jagged column, one behind another.
#[derive(Debug, Default)]
pub struct JaggedRows {
    /// The values of all rows.
    pub values: Memory,
    /// For each row, where its last value ends, as an offset in bytes into `values`.
    pub ends: Vec<usize>,
    /// For each row, 1 if it is not null.
    pub valid: Vec<u8>,
    /// What rows have besides their values, each with as many rows as these. Where rows are lists of lists, the lengths
    /// of the lists in them, level by level from the outermost on; of lists of texts, then those of the texts: values of 64
    /// bits, of which a null one has [`NULL_ROW`] set as well. If the elements of lists are marked, then a byte for each, 1
    /// if it is not null. Rows may be missing at the end: they have none of these.
    pub inner: Vec<JaggedRows>,
}

/// The bit of a length that marks an inner list as null.
pub const NULL_ROW: u64 = 1 << 63;

impl JaggedRows {
    /// Removes all rows, and keeps their memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.ends.clear();
        self.valid.clear();
        self.inner.iter_mut().for_each(JaggedRows::clear);
    }

    /// Removes all rows but the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.valid.truncate(rows);
        self.values.truncate(self.ends.last().copied().unwrap_or(0));
        self.inner.iter_mut().for_each(|inner| inner.truncate(rows));
    }

    /// Makes sure that there are so many inner rows, and that each has as many rows as these.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn with_inner(&mut self, count: usize) -> Result<()> {
        let Self { values, ends, inner, .. } = self;
        if inner.len() < count {
            inner.resize_with(count, || Self { values: values.another(), ..Self::default() });
        }
        for of in inner {
            let missing = ends.len().saturating_sub(of.ends.len());
            room_for(&mut of.ends, missing)?;
            of.ends.resize(ends.len(), of.values.len());
        }
        Ok(())
    }

    /// The bytes that a row has of the inner rows of a number.
    #[must_use]
    pub fn inner_bytes(&self, number: usize, row: usize) -> &[u8] {
        let inner = self.inner.get(number).filter(|inner| row < inner.ends.len());
        inner.map_or(&[], |inner| &inner.values.bytes()[inner.bytes_of(row)])
    }

    /// The bytes of `values` that a row has.
    #[must_use]
    #[inline]
    pub fn bytes_of(&self, row: usize) -> Range<usize> {
        self.start(row)..self.ends[row]
    }

    /// The byte of `values` where a row begins.
    #[must_use]
    pub fn start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// Decodes one jagged column of one row group from its start to its end.
pub trait JaggedDecoder {
    /// Skips rows, as `ScalarDecoder` does.
    ///
    /// # Errors
    /// As for [`ScalarDecoder::skip`].
    fn skip(&mut self, rows: usize) -> Result<()>;

    /// Appends the next rows to `output`.
    ///
    /// # Errors
    /// As for `skip`; and `Data` for a null that is refused, or a value that does not fit its type.
    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()>;
}
