//! Row spans of one row group to columns, written into memory that the caller gives.
//!
//! [`ScalarDecoder`] and [`JaggedDecoder`] are the seam: what decodes behind them may change, what they are
//! asked may not.

use std::ops::Range;

use crate::error::Result;
use crate::memory::buffer::Memory;

/// Where values of a scalar column go.
#[derive(Debug)]
pub struct Target<'a> {
    /// A whole number of elements, aligned to them.
    pub values: &'a mut [u8],
    /// A byte for each value, 1 if it is valid; empty where nobody asks.
    pub valid: &'a mut [u8],
}

/// Marks values all alike, where marks are asked for: an empty slice has no address, at which a processor takes its time even to
/// write nothing.
#[inline]
pub fn mark_all(marks: &mut [u8], mark: u8) {
    if !marks.is_empty() {
        marks.fill(mark);
    }
}

/// Rows that are wanted among those that are decoded.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Their numbers, ascending.
    pub rows: &'a [u32],
    /// The number of the first row that is decoded.
    pub first: usize,
}

impl Wanted<'_> {
    /// Whether the row that lies `index` rows behind the first one is wanted.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.rows.binary_search_by_key(&(self.first + index), |&row| row as usize).is_ok()
    }
}

/// Decodes one scalar column of one row group from its start to its end.
pub trait ScalarDecoder {
    /// Passes over `rows` values without delivering them.
    ///
    /// # Errors
    /// `Data` if there are fewer, or their pages are damaged; `Source` if they can't be read.
    fn skip(&mut self, rows: usize) -> Result<()>;

    /// How many of the next rows lie in one page, which is decompressed; at least one.
    ///
    /// # Errors
    /// As for `skip`.
    fn page_rows(&mut self) -> Result<usize>;

    /// Fills the target with the next values.
    ///
    /// # Errors
    /// As for `skip`; and `Data` for a null that is refused, or a value that does not fit its type.
    fn read(&mut self, target: Target<'_>) -> Result<()>;

    /// Fills the target with the next values, at most those of one page, of which only some are wanted: what does
    /// not fit its type in another row is no error.
    ///
    /// # Errors
    /// As for `read`.
    fn read_among(&mut self, target: Target<'_>, _wanted: Wanted<'_>) -> Result<()> {
        self.read(target)
    }

    /// Fills the target with some of the next values: ascending ones, counted from the next one on. All up to the
    /// last of them are passed.
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

/// Rows of a jagged column, one after another.
#[derive(Debug, Default)]
pub struct JaggedRows {
    /// The values of all rows.
    pub values: Memory,
    /// Of each row, the byte of `values` after its last one.
    pub ends: Vec<usize>,
    /// Of each row, 1 if it is not null.
    pub valid: Vec<u8>,
    /// Of rows that consist of rows, the lengths of these as values: of each its elements as 64 bits, and
    /// [`NULL_ROW`] besides if it is null. Rows at the end may lack: they have none.
    pub inner: Option<Box<JaggedRows>>,
}

/// The bit of a length that marks an inner row as null.
pub const NULL_ROW: u64 = 1 << 63;

/// The parts of rows that consist of rows.
pub struct NestedRows<'r> {
    /// The values of all rows.
    pub values: &'r mut Memory,
    /// Of each row, the byte of `values` after its last one.
    pub ends: &'r mut Vec<usize>,
    /// Of each row, 1 if it is not null.
    pub valid: &'r mut Vec<u8>,
    /// The lengths of the inner rows, of as many rows.
    pub inner: &'r mut JaggedRows,
}

impl JaggedRows {
    /// Forgets the rows, and keeps their memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.ends.clear();
        self.valid.clear();
        self.inner.iter_mut().for_each(|inner| inner.clear());
    }

    /// Forgets all rows but the first so many.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.valid.truncate(rows);
        self.values.truncate(self.ends.last().copied().unwrap_or(0));
        self.inner.iter_mut().for_each(|inner| inner.truncate(rows));
    }

    /// The same as rows that consist of rows.
    pub fn nested(&mut self) -> NestedRows<'_> {
        let Self { values, ends, valid, inner } = self;
        let inner =
            inner.get_or_insert_with(|| Box::new(Self { values: values.another(), ..Self::default() }));
        inner.ends.resize(ends.len(), inner.values.len());
        NestedRows { values, ends, valid, inner }
    }

    /// The lengths of a row's inner rows, as bytes.
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
    /// Passes over rows, as `ScalarDecoder` does.
    ///
    /// # Errors
    /// As there.
    fn skip(&mut self, rows: usize) -> Result<()>;

    /// Adds the next rows to those of `output`.
    ///
    /// # Errors
    /// As for `skip`; and `Data` for a null that is refused, or a value that does not fit its type.
    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()>;
}
