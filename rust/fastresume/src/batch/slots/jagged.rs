//! A jagged field of a batch: rows of any length, which come in any order.

use std::ops::Range;
use std::{iter, mem};

use crate::batch::slots::interleave::Move;
use crate::batch::slots::jagged_piece::JaggedPiece;
use crate::batch::slots::pending::{repeat, waiting};
use crate::decode::decoder::{ElementMarks, JaggedRows, NULL_ROW};
use crate::error::Result;
use crate::memory::pool::Memory;
use crate::memory::vectors::{collected, filled, room_for};

/// The most bytes and rows for which memory is reserved before they are decoded.
const MAX_EXPECTED_BYTES: usize = 64 << 20;
const MAX_EXPECTED_ROWS: usize = 1 << 20;

/// The rows of one jagged field of one batch.
#[derive(Debug, Default)]
pub struct JaggedSlot {
    /// Bytes of an element.
    width: usize,
    is_masked: bool,
    /// Rows of the batch.
    rows: usize,
    parts: Vec<JaggedPart>,
    /// Values, offsets and mask, set once all parts are there.
    values: Memory,
    offsets: Memory,
    valid: Memory,
    /// The number of levels of lists or texts in the rows, and whether the elements of lists are marked.
    levels: usize,
    is_marked: bool,
    /// The marks, empty where no element is null, then offsets and mask of each level, from the innermost on, set once all parts are there.
    inner: Vec<Memory>,
}

/// Rows that were decoded together.
#[derive(Debug)]
enum JaggedPart {
    /// The rows of the batch from row `first` on.
    Run { first: usize, rows: Box<JaggedRows> },
    /// Some scattered rows of a piece. `before` is the number of rows of the batch that came in before.
    Sorted { piece: JaggedPiece, rows: Range<usize>, before: usize },
}

impl JaggedPart {
    /// Its rows, or the inner ones of a number; other rows are among them if it is a piece.
    fn rows(&self, inner: Option<usize>) -> &JaggedRows {
        let of = match self {
            Self::Run { rows, .. } => rows,
            Self::Sorted { piece, .. } => piece.as_ref(),
        };
        inner.and_then(|number| of.inner.get(number)).unwrap_or(of)
    }

    /// Whether an element of a row is null.
    fn has_null_elements(&self) -> bool {
        match self {
            Self::Run { rows, .. } => rows.marks.has_nulls(),
            Self::Sorted { piece, rows, .. } => piece.marks.of(&bytes_between(piece, rows)).contains(&0),
        }
    }

    /// Calls `take` for each row, with the row of the batch that it becomes. `scattered` has the moves of
    /// scattered rows.
    fn each(&self, scattered: &[Move], mut take: impl FnMut(usize, usize)) {
        match self {
            Self::Run { first, rows } => (0..rows.ends.len()).for_each(|row| take(row, first + row)),
            Self::Sorted { rows, before, .. } => {
                rows.clone().zip(&scattered[*before..]).for_each(|(row, of)| take(row, of.to as usize));
            }
        }
    }

    /// Bytes of values, offsets and mask. For scattered rows, the bytes that they take until the batch is
    /// finished.
    fn bytes(&self) -> u64 {
        let bytes_of = |of: &JaggedRows, rows: Range<usize>| {
            (bytes_between(of, &rows).len() + rows.len() * size_of::<usize>()) as u64
        };
        let whole = |of: &JaggedRows| bytes_of(of, 0..of.ends.len());
        match self {
            Self::Run { rows, .. } => {
                let marks = rows.marks.len() as u64;
                whole(rows) + rows.ends.len() as u64 + rows.inner.iter().map(whole).sum::<u64>() + marks
            }
            Self::Sorted { piece, rows, .. } => {
                let inner = piece.inner.iter().map(|inner| bytes_of(inner, rows.clone()));
                let marks = piece.marks.of(&bytes_between(piece, rows)).len() as u64;
                waiting(bytes_of(piece, rows.clone()) + rows.len() as u64 + inner.sum::<u64>() + marks)
            }
        }
    }
}

/// The bytes of the values that some rows have together.
fn bytes_between(of: &JaggedRows, rows: &Range<usize>) -> Range<usize> {
    of.start(rows.start)..of.start(rows.end)
}

impl JaggedSlot {
    /// An empty slot for `rows` rows. Its values will be in memory like the given one.
    pub fn new(width: usize, is_masked: bool, rows: usize, values: Memory) -> Self {
        Self { width, is_masked, rows, values, ..Self::default() }
    }

    /// The same slot for rows that are lists of lists or of texts, in so many levels, or whose elements are marked.
    pub fn nested(self, levels: usize, is_marked: bool) -> Self {
        Self { levels, is_marked, ..self }
    }

    /// Takes out the rows that end where row `to` begins, so that more can be decoded behind them; starts
    /// with no rows if there are none. Returns the first row as well. `row_bytes` is what a row is expected
    /// to take.
    pub fn take(&mut self, to: usize, row_bytes: usize) -> (usize, JaggedRows) {
        let ends_here = |part: &JaggedPart| matches!(part, JaggedPart::Run { first, rows } if first + rows.ends.len() == to);
        if let Some(index) = self.parts.iter().position(ends_here)
            && let JaggedPart::Run { first, rows } = self.parts.swap_remove(index)
        {
            return (first, *rows);
        }
        let mut rows = JaggedRows { values: self.values.another(), ..JaggedRows::default() };
        let missing = self.rows.saturating_sub(to);
        // Rows differ in length, but few batches need a sixteenth more than the one before.
        let expected = missing.saturating_mul(row_bytes).min(MAX_EXPECTED_BYTES);
        // If the system refuses this reserve, what is really needed may still fit.
        // Rounded up, so that memory freed by one batch is enough for the next.
        let grain = (expected / 16 + 1).next_power_of_two();
        rows.values.reserve((expected + expected / 16).next_multiple_of(grain)).ok();
        let room = missing.min(MAX_EXPECTED_ROWS);
        room_for(&mut rows.ends, room).ok();
        room_for(&mut rows.valid, room).ok();
        (to, rows)
    }

    /// Puts rows in place; the first of them is row `first` of the batch.
    pub fn put(&mut self, first: usize, rows: JaggedRows) {
        if !rows.ends.is_empty() {
            self.parts.push(JaggedPart::Run { first, rows: Box::new(rows) });
        }
    }

    /// Keeps scattered rows of a piece. `before` is the number of rows of the batch that came in before.
    pub fn keep(&mut self, piece: &JaggedPiece, rows: Range<usize>, before: usize) {
        self.parts.push(JaggedPart::Sorted { piece: piece.clone(), rows, before });
    }

    /// Puts the rows of all parts, `distinct` in all, in order, and repeats them up to `rows` rows. `moves`
    /// says where the scattered rows of the batch go, in the order in which they came in.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn finish(&mut self, moves: &[Move], distinct: usize, rows: usize) -> Result<()> {
        let mut parts = mem::take(&mut self.parts);
        for part in &mut parts {
            if let JaggedPart::Run { rows, .. } = part {
                rows.with_inner(self.levels)?;
            }
        }
        let parts = &mut parts;
        let mut offsets = None;
        let mut levels = Vec::with_capacity(self.levels);
        for level in 0..self.levels {
            let mut lengths = Self { width: size_of::<u64>(), ..Self::default() };
            lengths.finish_parts(parts, Some(level), moves, (distinct, rows))?;
            levels.push(self.level(&lengths)?);
            offsets = offsets.or(Some(lengths.offsets));
        }
        self.finish_parts(parts, None, moves, (distinct, rows))?;
        if self.is_marked {
            let marks = self.marks(parts, moves, (distinct, rows))?;
            self.inner.push(marks);
        }
        self.inner.extend(levels.into_iter().rev().flatten());
        // Those of rows count what is directly in them; those just made count values.
        self.offsets = offsets.unwrap_or_else(|| mem::take(&mut self.offsets));
        Ok(())
    }

    /// The offsets of the lists or texts of a level, of their lengths, and their mask where one is asked for.
    fn level(&self, lengths: &Self) -> Result<Vec<Memory>> {
        let each: &[u64] = bytemuck::try_cast_slice(lengths.values.bytes()).unwrap_or_default();
        let mut end = 0;
        let ends = each.iter().map(|length| {
            end += length & !NULL_ROW;
            end
        });
        let mut made = vec![Memory::from(collected(iter::once(0).chain(ends))?)];
        if self.is_masked {
            let marks = collected(each.iter().map(|length| u8::from(length & NULL_ROW == 0)))?;
            let mut valid = Memory::default();
            valid.extend(&marks)?;
            made.push(valid);
        }
        Ok(made)
    }

    /// The marks of the elements of all parts, whose values and offsets are in order; empty where no element is null.
    fn marks(
        &self,
        parts: &mut [JaggedPart],
        moves: &[Move],
        (distinct, rows): (usize, usize),
    ) -> Result<Memory> {
        if !parts.iter().any(JaggedPart::has_null_elements) {
            return Ok(Memory::default());
        }
        if let [JaggedPart::Run { first: 0, rows: part }] = parts
            && distinct == rows
        {
            return mem::take(&mut part.marks).into_memory(self.values.len());
        }
        let mut each = parts.iter().map(|part| &part.rows(None).marks);
        let width = each.find(|marks| !marks.is_empty()).map_or(1, ElementMarks::width);
        let mut found = self.values.another();
        found.resize(self.values.len() / width)?;
        let output = found.bytes_mut();
        output.fill(1);
        let starts: &[u64] = bytemuck::try_cast_slice(self.offsets.bytes()).unwrap_or_default();
        let start = |row: usize| {
            starts.get(row).map_or(0, |&start| usize::try_from(start).unwrap_or(0) * self.width / width)
        };
        for part in &*parts {
            let of = part.rows(None);
            part.each(moves, |row, place| {
                let marks = of.marks.of(&of.bytes_of(row));
                output[start(place)..][..marks.len()].copy_from_slice(marks);
            });
        }
        repeat(output, start(distinct));
        Ok(found)
    }

    /// Puts the rows of all parts in order, or their inner rows of a number.
    fn finish_parts(
        &mut self,
        parts: &mut [JaggedPart],
        inner: Option<usize>,
        moves: &[Move],
        (distinct, rows): (usize, usize),
    ) -> Result<()> {
        let width = self.width.max(1);
        if let [JaggedPart::Run { first: 0, rows: part }] = parts
            && distinct == rows
        {
            let part = match inner {
                Some(number) => &mut part.inner[number],
                None => part.as_mut(),
            };
            // All rows are in order already.
            let offsets = iter::once(0).chain(part.ends.iter().map(|&end| (end / width) as u64));
            self.offsets = Memory::from(collected(offsets)?);
            if self.is_masked {
                self.valid.extend(&part.valid)?;
            }
            self.values = mem::take(&mut part.values);
            return Ok(());
        }
        let mut starts = filled(rows + 1, 0)?;
        self.valid.resize(if self.is_masked { rows } else { 0 })?;
        let valid = self.valid.bytes_mut();
        for part in &*parts {
            let of = part.rows(inner);
            part.each(moves, |row, place| {
                starts[place + 1] = of.bytes_of(row).len();
                if let Some(mark) = valid.get_mut(place) {
                    *mark = of.valid[row];
                }
            });
        }
        // These are lengths until they are summed.
        repeat(&mut starts[1..], distinct);
        repeat(valid, distinct);
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        self.values.resize(end)?;
        let output = self.values.bytes_mut();
        for part in &*parts {
            let of = part.rows(inner);
            let from = of.values.bytes();
            if let JaggedPart::Run { first, .. } = part {
                output[starts[*first]..][..from.len()].copy_from_slice(from);
                continue;
            }
            part.each(moves, |row, place| {
                let bytes = &from[of.bytes_of(row)];
                output[starts[place]..][..bytes.len()].copy_from_slice(bytes);
            });
        }
        repeat(output, starts[distinct]);
        let offsets = starts.into_iter().map(|start| (start / width) as u64);
        self.offsets = Memory::from(collected(offsets)?);
        Ok(())
    }

    /// Bytes of values, offsets and mask, as far as they exist.
    pub fn bytes(&self) -> u64 {
        let inner: usize = self.inner.iter().map(Memory::len).sum();
        let ended = self.values.len() + self.offsets.len() + self.valid.len() + inner;
        ended as u64 + self.parts.iter().map(JaggedPart::bytes).sum::<u64>()
    }

    /// Offsets of inner lists, and their mask where one is asked for; or the marks of elements, if they are marked.
    pub fn take_inner(&mut self) -> Vec<Memory> {
        mem::take(&mut self.inner)
    }

    /// Values, offsets and mask; the mask is empty where none is asked for.
    pub fn into_parts(self) -> (Memory, Memory, Memory) {
        (self.values, self.offsets, self.valid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::slots::jagged_piece::{Lot, sort};
    use crate::memory::pool::Pool;

    /// Adds rows of the given lengths; their bytes count upwards.
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
        // Two writers' rows, of which the second may come first.
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
        let mut source = JaggedRows::default();
        add(&mut source, &[1, 2, 0, 3], &mut 0);
        let moves = [(0, 4), (1, 0), (3, 2), (1, 3), (2, 1)].map(|(from, to)| Move { from, to });
        // Batches are filled up with copies of their own rows.
        for rows in [5, 7, 13] {
            let mut slot = JaggedSlot::new(1, true, rows, Pool::new(0).growing());
            for (moves, before) in [(&moves[..3], 0), (&moves[3..], 3)] {
                sort(&source, 0, &[moves], |piece, lots| {
                    for Lot { rows, before: in_share, .. } in lots {
                        slot.keep(piece, rows, before + in_share);
                    }
                })
                .unwrap();
            }
            slot.finish(&moves, 5, rows).unwrap();
            let (values, offsets, valid) = slot.into_parts();
            let expected: [&[u8]; 5] = [&[1, 2], &[], &[3, 4, 5], &[1, 2], &[0]];
            let expected = || expected.iter().cycle().take(rows);
            assert_eq!(values.bytes(), expected().copied().flatten().copied().collect::<Vec<u8>>());
            let lengths = offsets.bytes().as_chunks::<8>().0.windows(2).map(|of| {
                let [start, end] = [of[0], of[1]].map(u64::from_le_bytes);
                usize::try_from(end - start).unwrap()
            });
            assert!(lengths.eq(expected().map(|row| row.len())));
            assert!(valid.bytes().iter().eq([1, 0, 1, 1, 1].iter().cycle().take(rows)));
        }
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
