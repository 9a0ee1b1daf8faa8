//! A jagged field of a batch: rows of any length, which come in any order.

use std::{iter, mem};

use crate::column::{JaggedRows, NULL_ROW};
use crate::error::Result;
use crate::memory::Memory;
use crate::transpose::{Move, Scattered};

/// Memory is reserved for at most so many bytes and rows before they are there.
const MAX_EXPECTED_BYTES: usize = 64 << 20;
const MAX_EXPECTED_ROWS: usize = 1 << 20;

/// The rows of one jagged field of one batch.
#[derive(Debug, Default)]
pub struct JaggedSlot {
    /// Bytes of an element, a power of two.
    width: usize,
    is_masked: bool,
    /// Rows of the batch.
    rows: usize,
    parts: Vec<Part>,
    /// Once all parts are there: values, offsets and mask.
    values: Memory,
    offsets: Memory,
    valid: Memory,
    /// Whether rows consist of rows; once all parts are there, offsets of these, and their mask.
    is_nested: bool,
    inner: Vec<Memory>,
}

/// Rows that came together.
#[derive(Debug)]
struct Part {
    rows: JaggedRows,
    /// The row of the batch that each becomes.
    places: Places,
}

#[derive(Debug, Clone, Copy)]
enum Places {
    /// This one, and those behind it.
    From(usize),
    /// Those of the rows of the batch that came scattered, behind so many.
    Scattered(usize),
}

impl Part {
    /// The row of the batch behind its last one, where its rows lie side by side.
    fn end(&self) -> Option<usize> {
        match self.places {
            Places::From(first) => Some(first + self.rows.ends.len()),
            Places::Scattered(_) => None,
        }
    }

    /// The row of the batch that a row becomes, where those that came scattered become these.
    fn place(&self, row: usize, scattered: &[Move]) -> usize {
        match self.places {
            Places::From(first) => first + row,
            Places::Scattered(before) => scattered[before + row].to as usize,
        }
    }
}

impl JaggedSlot {
    /// A slot without rows, for so many; its values will be in memory like the given one.
    pub fn new(width: usize, is_masked: bool, rows: usize, values: Memory) -> Self {
        Self { width, is_masked, rows, values, ..Self::default() }
    }

    /// The same for rows that consist of rows.
    pub fn nested(self) -> Self {
        Self { is_nested: true, ..self }
    }

    /// Takes out the rows that end where row `to` begins, to decode more behind them, or begins with none; gives
    /// the first row as well. `row_bytes` is what a row is expected to take.
    pub fn take(&mut self, to: usize, row_bytes: usize) -> (usize, JaggedRows) {
        if let Some(index) = self.parts.iter().position(|part| part.end() == Some(to)) {
            let rows = self.parts.swap_remove(index).rows;
            return (to - rows.ends.len(), rows);
        }
        let mut rows = JaggedRows { values: self.values.another(), ..JaggedRows::default() };
        let missing = self.rows.saturating_sub(to);
        // Rows differ in length: few batches need a sixteenth more than the one before.
        let expected = missing.saturating_mul(row_bytes).min(MAX_EXPECTED_BYTES);
        // Where the system refuses it, what is needed may still be had.
        // Rounded up, so that what one batch lets go of is enough for the next.
        let grain = (expected / 16 + 1).next_power_of_two();
        rows.values.reserve((expected + expected / 16).next_multiple_of(grain)).ok();
        let room = missing.min(MAX_EXPECTED_ROWS);
        rows.ends.reserve(room);
        rows.valid.reserve(room);
        (to, rows)
    }

    /// Puts rows, the first of which is row `first` of the batch.
    pub fn put(&mut self, first: usize, rows: JaggedRows) {
        if !rows.ends.is_empty() {
            self.parts.push(Part { rows, places: Places::From(first) });
        }
    }

    /// Copies rows of the source that go here and there.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn scatter(&mut self, of: &Scattered<'_>, source: &JaggedRows) -> Result<()> {
        let from = || of.moves.iter().map(|of| of.from as usize);
        let bytes = |row: usize| source.start(row)..source.ends[row];
        let mut rows = JaggedRows::default();
        rows.values.reserve(from().map(|row| bytes(row).len()).sum())?;
        for row in from() {
            rows.values.extend(&source.values.bytes()[bytes(row)])?;
            rows.ends.push(rows.values.len());
            rows.valid.push(source.valid[row]);
        }
        if self.is_nested {
            let lengths = rows.nested().inner;
            for (end, row) in lengths.ends.iter_mut().zip(from()) {
                lengths.values.extend(source.inner_bytes(row))?;
                *end = lengths.values.len();
            }
        }
        self.parts.push(Part { rows, places: Places::Scattered(of.before) });
        Ok(())
    }

    /// Puts the rows of all parts, `distinct` in all, in their order, and repeats them up to `rows` rows. `moves` are those
    /// of the rows of the batch that came scattered, in the order in which they came.
    ///
    /// # Errors
    /// As for `scatter`.
    pub fn finish(&mut self, moves: &[Move], distinct: usize, rows: usize) -> Result<()> {
        let mut parts = mem::take(&mut self.parts);
        if self.is_nested {
            let lengths = self.finish_inner(&mut parts, moves, distinct, rows)?;
            self.finish_parts(parts, moves, distinct, rows)?;
            // The rows' own are those of their values.
            self.offsets = lengths.offsets;
            return Ok(());
        }
        self.finish_parts(parts, moves, distinct, rows)
    }

    /// Puts the lengths of the inner rows of all parts in their order, and makes offsets of them.
    fn finish_inner(
        &mut self,
        parts: &mut [Part],
        moves: &[Move],
        distinct: usize,
        rows: usize,
    ) -> Result<Self> {
        let of_parts = parts.iter_mut().map(|part| {
            let lengths = part.rows.nested().inner;
            Part { rows: mem::take(lengths), places: part.places }
        });
        let mut lengths = Self { width: size_of::<u64>(), parts: of_parts.collect(), ..Self::default() };
        lengths.finish(moves, distinct, rows)?;
        let each: &[u64] = bytemuck::try_cast_slice(lengths.values.bytes()).unwrap_or_default();
        let mut end = 0;
        let ends = each.iter().map(|length| {
            end += length & !NULL_ROW;
            end
        });
        self.inner.push(Memory::from(iter::once(0).chain(ends).collect::<Vec<u64>>()));
        if self.is_masked {
            let marks: Vec<u8> = each.iter().map(|length| u8::from(length & NULL_ROW == 0)).collect();
            let mut valid = Memory::default();
            valid.extend(&marks)?;
            self.inner.push(valid);
        }
        Ok(lengths)
    }

    fn finish_parts(
        &mut self,
        mut parts: Vec<Part>,
        moves: &[Move],
        distinct: usize,
        rows: usize,
    ) -> Result<()> {
        let shift = self.width.trailing_zeros();
        if let [Part { rows: part, places: Places::From(0) }] = parts.as_mut_slice()
            && distinct == rows
        {
            // All is where it belongs.
            let offsets = iter::once(0).chain(part.ends.iter().map(|&end| (end >> shift) as u64));
            self.offsets = Memory::from(offsets.collect::<Vec<u64>>());
            if self.is_masked {
                self.valid.extend(&part.valid)?;
            }
            self.values = mem::take(&mut part.values);
            return Ok(());
        }
        // The part and its row that each row of the batch is.
        let mut origin = vec![(0_u32, 0_u32); distinct];
        for (number, part) in (0..).zip(&parts) {
            for (row, index) in (0..).zip(0..part.rows.ends.len()) {
                origin[part.place(index, moves)] = (number, row);
            }
        }
        let length = |&(part, row): &(u32, u32)| {
            let rows = &parts[part as usize].rows;
            rows.ends[row as usize] - rows.start(row as usize)
        };
        let mut offsets = Vec::with_capacity(rows + 1);
        let mut end = 0;
        offsets.push(0);
        let turns = origin.iter().cycle().take(rows);
        for origin in turns.clone() {
            end += length(origin);
            offsets.push((end >> shift) as u64);
        }
        if self.is_masked {
            let valid = turns.clone().map(|&(part, row)| parts[part as usize].rows.valid[row as usize]);
            self.valid.extend(&valid.collect::<Vec<u8>>())?;
        }
        self.offsets = Memory::from(offsets);
        self.values.reserve(end)?;
        let mut turns = turns.copied().peekable();
        while let Some((part, first)) = turns.next() {
            // Rows that lay side by side are copied together.
            let mut last = first;
            while turns.next_if_eq(&(part, last + 1)).is_some() {
                last += 1;
            }
            let rows = &parts[part as usize].rows;
            self.values.extend(&rows.values.bytes()[rows.start(first as usize)..rows.ends[last as usize]])?;
        }
        Ok(())
    }

    /// Bytes of values, offsets and mask, as far as they are there.
    pub fn bytes(&self) -> usize {
        let of_parts = self.parts.iter().map(|part| {
            let JaggedRows { values, ends, valid, inner } = &part.rows;
            let inner =
                inner.as_ref().map_or(0, |inner| inner.values.len() + size_of_val(inner.ends.as_slice()));
            values.len() + size_of_val(ends.as_slice()) + valid.len() + inner
        });
        let inner: usize = self.inner.iter().map(Memory::len).sum();
        self.values.len() + self.offsets.len() + self.valid.len() + inner + of_parts.sum::<usize>()
    }

    /// Offsets of inner rows, and their mask where one is asked for; nothing where there are none.
    pub fn take_inner(&mut self) -> Vec<Memory> {
        mem::take(&mut self.inner)
    }

    /// Values, offsets and mask; this is empty where none is asked for.
    pub fn into_parts(self) -> (Memory, Memory, Memory) {
        (self.values, self.offsets, self.valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Pool;

    /// Adds rows of the lengths given, whose bytes count on.
    fn add(rows: &mut JaggedRows, lengths: &[u8], next: &mut u8) {
        for &length in lengths {
            let bytes: Vec<u8> = (*next..*next + length).collect();
            rows.values.extend(&bytes).unwrap();
            rows.ends.push(rows.values.len());
            rows.valid.push(u8::from(length > 0));
            *next += length;
        }
    }

    fn finished(mut slot: JaggedSlot, rows: usize) -> (Vec<u8>, Vec<u64>, Vec<u8>) {
        slot.finish(&[], rows, rows).unwrap();
        let (values, offsets, valid) = slot.into_parts();
        (values.bytes().to_vec(), bytemuck::cast_slice(offsets.bytes()).to_vec(), valid.bytes().to_vec())
    }

    #[test]
    fn rows_are_gone_on_with_where_they_end_in_whatever_order_they_come() {
        let lengths = [3, 0, 5, 2, 4, 0];
        let expected = ((0..14).collect(), vec![0, 3, 3, 8, 10, 14, 14], vec![1, 0, 1, 1, 1, 0]);
        let starts = |row: usize| lengths[..row].iter().sum::<u8>();
        // The shares of two writers, of which the second one may come first.
        for cut in 1..lengths.len() {
            for order in [[0..cut, cut..6], [cut..6, 0..cut]] {
                let mut slot = JaggedSlot::new(1, true, 6, Pool::new(0).growing());
                for share in order {
                    let (first, mut rows) = slot.take(share.start, 2);
                    assert!(first == share.start || first == 0 && rows.ends.len() == cut);
                    add(&mut rows, &lengths[share.clone()], &mut starts(share.start));
                    slot.put(first, rows);
                }
                assert_eq!(finished(slot, 6), expected);
            }
        }
    }

    #[test]
    fn scattered_rows_of_several_segments_come_to_their_places() {
        let mut slot = JaggedSlot::new(1, true, 5, Pool::new(0).growing());
        let mut source = JaggedRows::default();
        add(&mut source, &[1, 2, 0, 3], &mut 0);
        let moves = [(0, 4), (1, 0), (3, 2), (1, 3), (2, 1)].map(|(from, to)| Move { from, to });
        slot.scatter(&Scattered { moves: &moves[..3], before: 0 }, &source).unwrap();
        slot.scatter(&Scattered { moves: &moves[3..], before: 3 }, &source).unwrap();
        slot.finish(&moves, 5, 5).unwrap();
        let (values, offsets, valid) = slot.into_parts();
        assert_eq!(values.bytes(), [1, 2, 3, 4, 5, 1, 2, 0]);
        assert_eq!(bytemuck::cast_slice::<_, u64>(offsets.bytes()), [0, 2, 2, 5, 7, 8]);
        assert_eq!(valid.bytes(), [1, 0, 1, 1, 1]);
    }

    #[test]
    fn rows_that_are_taken_back_leave_those_before() {
        let mut slot = JaggedSlot::new(1, true, 4, Pool::new(0).growing());
        let (first, mut rows) = slot.take(0, 0);
        add(&mut rows, &[3, 2, 4], &mut 0);
        rows.truncate(1);
        slot.put(first, rows);
        let (first, mut rows) = slot.take(1, usize::MAX);
        assert_eq!((first, rows.ends.len(), rows.values.len()), (0, 1, 3));
        add(&mut rows, &[2, 4, 1], &mut 3);
        slot.put(first, rows);
        assert_eq!(finished(slot, 4), ((0..10).collect(), vec![0, 3, 5, 9, 10], vec![1; 4]));
    }
}
