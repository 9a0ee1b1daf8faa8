//! The decoders' traits: from row ranges of one row group to columns, in memory that the caller provides.
//!
//! [`ScalarDecoder`] and [`JaggedDecoder`] are the seam: the decoders behind them may change, the traits may
//! not.

use std::ops::Range;

use crate::error::Result;
use crate::format::encoding::bitmap::Marks;
use crate::memory::pool::Memory;
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
    /// bits, of which a null one has [`NULL_ROW`] set as well. Rows may be missing at the end: they have none of these.
    pub inner: Vec<JaggedRows>,
    /// Which elements of lists are null, if that is asked for.
    pub marks: ElementMarks,
}

/// Which numbers in lists are null: a byte for each, 0 for a null one. Those behind the last byte are not null, so that lists
/// without nulls have no bytes here.
#[derive(Debug, Default)]
pub struct ElementMarks {
    bytes: Memory,
    /// Bytes of a number.
    width: usize,
}

impl ElementMarks {
    /// Marks `count` numbers that come behind those in `values`, of `width` bytes each.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn add(&mut self, (there, count): (&Marks<'_>, usize), values: &Memory, width: usize) -> Result<()> {
        let before = values.len() / width.max(1);
        if self.bytes.is_empty() {
            *self = Self { bytes: values.another(), width };
        }
        let marked = self.bytes.len();
        self.bytes.resize(before + count)?;
        let (old, new) = self.bytes.bytes_mut().split_at_mut(before);
        old[marked..].fill(1);
        there.write(new);
        Ok(())
    }

    /// Marks of these, one behind another; each is as many bytes of another's values.
    ///
    /// # Errors
    /// As for `add`.
    pub fn gathered(from: &Self, spans: impl Iterator<Item = Range<usize>>) -> Result<Self> {
        if from.is_empty() {
            return Ok(Self::default());
        }
        let mut found = Self { bytes: Memory::lent(), width: from.width };
        for span in spans {
            let (begun, own) = (found.bytes.len(), from.of(&span));
            found.bytes.resize(begun + span.len() / from.width)?;
            let (copied, others) = found.bytes.bytes_mut()[begun..].split_at_mut(own.len());
            copied.copy_from_slice(own);
            others.fill(1);
        }
        Ok(found)
    }

    /// Those of the numbers in some bytes of the values, as far as there are any.
    #[must_use]
    pub fn of(&self, span: &Range<usize>) -> &[u8] {
        let at = |byte: usize| (byte / self.width.max(1)).min(self.bytes.len());
        &self.bytes.bytes()[at(span.start)..at(span.end)]
    }

    /// A byte for each number in so many bytes of values; none if none is marked.
    ///
    /// # Errors
    /// As for `add`.
    pub fn into_memory(self, value_bytes: usize) -> Result<Memory> {
        let marked = self.bytes.len();
        let mut bytes = self.bytes;
        if marked > 0 {
            bytes.resize(value_bytes / self.width.max(1))?;
            bytes.bytes_mut()[marked..].fill(1);
        }
        Ok(bytes)
    }

    /// Bytes of a number; at least one.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width.max(1)
    }

    /// Whether no number is marked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a number is null.
    #[must_use]
    pub fn has_nulls(&self) -> bool {
        self.bytes.bytes().contains(&0)
    }

    /// Leaves those of the numbers in the first bytes of the values.
    fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes / self.width.max(1));
    }
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
        self.marks.bytes.clear();
        self.marks.width = 0;
    }

    /// Removes all rows but the first `rows`.
    pub fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.valid.truncate(rows);
        let end = self.ends.last().copied().unwrap_or(0);
        self.values.truncate(end);
        self.marks.truncate(end);
        self.inner.iter_mut().for_each(|inner| inner.truncate(rows));
    }

    /// The bytes that they take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let inner: u64 = self.inner.iter().map(Self::bytes).sum();
        let own = self.values.len() + self.ends.len() * (size_of::<usize>() + 1) + self.marks.len();
        own as u64 + inner
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::encoding::bitmap::Bitmap;

    fn bits(of: &[bool]) -> Bitmap {
        let mut found = Bitmap::default();
        found.clear(of.len());
        of.iter().enumerate().for_each(|(place, &bit)| found.add(place, u64::from(bit)));
        found
    }

    #[test]
    fn elements_are_marked_from_the_first_null_one_on_and_all_others_are_valid() {
        let mut rows = JaggedRows::default();
        let add = |rows: &mut JaggedRows, there: &[bool]| {
            if there.contains(&false) {
                let JaggedRows { values, marks, .. } = rows;
                marks.add((&bits(there).all(), there.len()), values, 4).unwrap();
            }
            rows.values.extend(&vec![0; 4 * there.len()]).unwrap();
            rows.ends.push(rows.values.len());
            rows.valid.push(1);
        };
        add(&mut rows, &[true; 3]);
        assert!(rows.marks.is_empty());
        add(&mut rows, &[true, false]);
        add(&mut rows, &[true; 2]);
        assert_eq!((rows.marks.len(), rows.marks.has_nulls()), (5, true));
        assert_eq!(rows.marks.of(&rows.bytes_of(1)), [1, 0]);
        assert!(rows.marks.of(&rows.bytes_of(2)).is_empty());
        add(&mut rows, &[false]);
        let rest =
            ElementMarks::gathered(&rows.marks, [3, 1, 0].map(|row| rows.bytes_of(row)).into_iter()).unwrap();
        assert_eq!(rest.into_memory(4 * 7).unwrap().bytes(), [0, 1, 0, 1, 1, 1, 1]);
        rows.truncate(3);
        add(&mut rows, &[true, false]);
        assert_eq!(
            std::mem::take(&mut rows.marks).into_memory(4 * 9).unwrap().bytes(),
            [1, 1, 1, 1, 0, 1, 1, 1, 0]
        );
        add(&mut rows, &[true; 2]);
        assert!(rows.marks.into_memory(4 * 11).unwrap().is_empty(), "none is marked where none is null");
    }
}
