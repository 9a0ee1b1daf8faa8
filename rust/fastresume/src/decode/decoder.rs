//! The decoders' traits: from row ranges of one row group to columns, in memory that the caller provides.
//!
//! [`ScalarDecoder`] and [`JaggedDecoder`] are the seam: the decoders behind them may change, the traits may
//! not.

use std::ops::Range;

use crate::error::Result;
use crate::memory::buffer::Memory;

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
    /// If the rows are lists of lists, the lengths of the inner lists, as values of 64 bits. A null list has
    /// [`NULL_ROW`] set as well. If the elements of lists are marked, a byte for each, 1 if it is not null. Rows may be
    /// missing at the end: they have none of these.
    pub inner: Option<Box<JaggedRows>>,
}

/// The bit of a length that marks an inner list as null.
pub const NULL_ROW: u64 = 1 << 63;

/// The parts of rows that are lists of lists.
pub struct NestedRows<'r> {
    /// The values of all rows.
    pub values: &'r mut Memory,
    /// For each row, where its last value ends, as an offset in bytes into `values`.
    pub ends: &'r mut Vec<usize>,
    /// For each row, 1 if it is not null.
    pub valid: &'r mut Vec<u8>,
    /// The lengths of the inner lists, with as many rows.
    pub inner: &'r mut JaggedRows,
}

impl JaggedRows {
    /// Removes all rows, and keeps their memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.ends.clear();
        self.valid.clear();
        self.inner.iter_mut().for_each(|inner| inner.clear());
    }

    /// Removes all rows but the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.valid.truncate(rows);
        self.values.truncate(self.ends.last().copied().unwrap_or(0));
        self.inner.iter_mut().for_each(|inner| inner.truncate(rows));
    }

    /// The parts, if the rows are lists of lists, or their elements are marked.
    pub fn nested(&mut self) -> NestedRows<'_> {
        let Self { values, ends, valid, inner } = self;
        let inner =
            inner.get_or_insert_with(|| Box::new(Self { values: values.another(), ..Self::default() }));
        inner.ends.resize(ends.len(), inner.values.len());
        NestedRows { values, ends, valid, inner }
    }

    /// The lengths of a row's inner lists, as bytes.
    #[must_use]
    pub fn inner_bytes(&self, row: usize) -> &[u8] {
        let Some(inner) = self.inner.as_deref().filter(|inner| row < inner.ends.len()) else { return &[] };
        &inner.values.bytes()[inner.bytes_of(row)]
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
