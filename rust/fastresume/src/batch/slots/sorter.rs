//! Partitions the scattered rows of a segment by batch. Each batch puts its own rows in order later.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::slots::interleave::{Columns, deal};
use crate::batch::slots::pending::{LEAST_LOWERED, LOWERED_BYTES, PendingRows};
use crate::error::Result;
use crate::memory::pool::Memory;

/// Sorted rows of a whole segment lie in at least this many pieces of memory, which are freed one by one as
/// batches are finished.
pub const PIECES: usize = 16;

/// The largest piece. Segments of a window differ in their rows, and the memory of one freed piece should fit
/// another.
pub const PIECE_BYTES: usize = 512 << 10;

/// The number of rows that are interleaved from columns at once: unless they are wide, they stay in the
/// nearest cache.
const TILE_ROWS: usize = 128;

/// The number of rows that are sampled to find out whether 8-byte numbers lie near each other.
const SAMPLES: usize = 16;

/// Sorts the rows of one segment after another, and reuses its memory.
pub struct Sorter {
    /// Memory for a few interleaved rows.
    tile: Memory,
    /// Whether the numbers of an earlier segment lay too far apart to be stored in 4 bytes. Those of others
    /// will as well.
    is_wide: bool,
}

/// The rows of a segment in one field, or its mask, grouped by batch.
#[derive(Debug)]
pub struct Sorted {
    /// The pieces, each with equally many rows.
    pieces: VecDeque<Arc<Memory>>,
    /// How many pieces before them were let go.
    gone: usize,
    piece_rows: usize,
    row_bytes: usize,
    /// For each column, what was subtracted from its numbers, which take half the memory until they are put
    /// in order.
    floors: Option<Arc<[u64]>>,
}

impl Sorter {
    /// A sorter with memory from the pool.
    pub fn lent() -> Self {
        Self { tile: Memory::lent(), is_wide: false }
    }

    /// Sorts rows: row `r` becomes number `numbers[r]` of `count`, and rows without a number are discarded.
    /// 8-byte numbers that lie near each other are stored in 4 bytes: the moves mostly wait for memory, and
    /// this halves the bytes.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn sort(&mut self, columns: Columns<'_>, numbers: &[u32], count: usize) -> Result<Sorted> {
        if columns.width == 2 * LOWERED_BYTES && columns.count >= LEAST_LOWERED && !self.is_wide {
            if let Some(floors) = columns.floors(SAMPLES, numbers.len())
                && let (in_order, true) = self.deal(columns, numbers, count, Some(&floors.into()))?
            {
                return Ok(in_order);
            }
            self.is_wide = true;
        }
        Ok(self.deal(columns, numbers, count, None)?.0)
    }

    /// Sorts numbers as they are, or their differences to floors. Returns false, with rows left out, if a
    /// difference is too large. Numbers that were decoded as differences stay as they are.
    fn deal(
        &mut self,
        columns: Columns<'_>,
        numbers: &[u32],
        count: usize,
        floors: Option<&Arc<[u64]>>,
    ) -> Result<(Sorted, bool)> {
        let row_bytes = columns.count * if floors.is_some() { LOWERED_BYTES } else { columns.width };
        let floors_of_rows = floors.cloned().or_else(|| columns.floors.map(Arc::from));
        // Pieces are equally large however many rows are discarded: so a resume reuses what the pass before
        // it freed.
        let shift = (numbers.len() / PIECES).min(PIECE_BYTES / row_bytes.max(1)).max(1).ilog2();
        let piece_rows = 1 << shift;
        let mut pieces = Vec::with_capacity(count.div_ceil(piece_rows));
        for _ in 0..count.div_ceil(piece_rows) {
            let mut piece = self.tile.another();
            piece.resize(row_bytes * piece_rows)?;
            pieces.push(piece);
        }
        let mut outputs: Vec<&mut [u8]> = pieces.iter_mut().map(Memory::bytes_mut).collect();
        let mut fits = true;
        for (tile_number, numbers) in numbers.chunks(TILE_ROWS).enumerate() {
            let first = tile_number * TILE_ROWS;
            let rows = if columns.count == 1 {
                &columns.bytes[first * row_bytes..]
            } else {
                self.tile.resize(numbers.len() * row_bytes)?;
                match floors {
                    Some(floors) => fits = columns.interleave_lowered(first, floors, self.tile.bytes_mut()),
                    None => columns.interleave(first, self.tile.bytes_mut()),
                }
                self.tile.bytes()
            };
            if !fits {
                break;
            }
            deal(rows, row_bytes, numbers, &mut outputs, shift);
        }
        let pieces = pieces.into_iter().map(Arc::new).collect();
        Ok((Sorted { pieces, gone: 0, piece_rows, row_bytes, floors: floors_of_rows }, fits))
    }
}

impl Sorted {
    /// Lets go of the pieces that have no row from this one on.
    pub fn let_go(&mut self, first: usize) {
        let gone = (first / self.piece_rows).saturating_sub(self.gone).min(self.pieces.len());
        self.pieces.drain(..gone);
        self.gone += gone;
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// The parts in which the sorted rows of one batch lie. `before` is the number of rows that came in
    /// before them.
    pub fn parts(&self, mut rows: Range<usize>, mut before: usize) -> impl Iterator<Item = PendingRows> {
        std::iter::from_fn(move || {
            let number = (rows.start / self.piece_rows).checked_sub(self.gone)?;
            let piece = self.pieces.get(number).filter(|_| !rows.is_empty())?;
            let first = rows.start % self.piece_rows;
            let count = rows.len().min(self.piece_rows - first);
            let part = PendingRows::Sorted {
                memory: Arc::clone(piece),
                bytes: first * self.row_bytes..(first + count) * self.row_bytes,
                before,
                floors: self.floors.clone(),
            };
            rows.start += count;
            before += count;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::slots::interleave::Move;

    #[test]
    fn pieces_of_a_large_segment_and_of_a_small_one_are_as_large() {
        let sizes = [20_000, 1 << 15, 50_000, 1 << 16].map(|rows: u32| {
            let numbers: Vec<u32> = (0..rows).collect();
            let values: Vec<u64> = (0..52 * u64::from(rows)).map(|number| number << 32).collect();
            let columns = Columns {
                bytes: bytemuck::cast_slice(&values),
                width: 8,
                count: 52,
                stride: numbers.len(),
                floors: None,
            };
            let sorted = Sorter::lent().sort(columns, &numbers, numbers.len()).unwrap();
            let sizes: Vec<usize> = sorted.pieces.iter().map(|piece| piece.len()).collect();
            assert!(sizes.len() >= PIECES && sizes.iter().all(|bytes| *bytes == sizes[0]));
            sizes[0]
        });
        assert_eq!(sizes, [sizes[0]; 4]);
        assert!(sizes[0] > PIECE_BYTES / 2 && sizes[0] <= PIECE_BYTES);
    }

    /// Sorts columns of equal length with `sorter`, and puts them in order again. Returns the numbers of each
    /// row.
    fn put_in_order(sorter: &mut Sorter, values: &[u64], count: usize) -> (Vec<u64>, usize) {
        let rows = values.len() / count;
        let columns =
            Columns { bytes: bytemuck::cast_slice(values), width: 8, count, stride: rows, floors: None };
        let moves: Vec<Move> = (0..).take(rows).map(|to| Move { from: to, to }).collect();
        let numbers: Vec<u32> = (0..).take(rows).collect();
        let in_order = sorter.sort(columns, &numbers, rows).unwrap();
        let mut output = vec![0_u64; values.len()];
        for part in in_order.parts(0..rows, 0) {
            part.put(count * 8, &moves, bytemuck::cast_slice_mut(&mut output));
        }
        (output, in_order.row_bytes)
    }

    #[test]
    fn numbers_that_lie_near_each_other_take_half_the_memory_and_stay_what_they_are() {
        let (rows, count) = (1000, 7);
        // Small and large numbers, some about 0, the least with a sign, timestamps.
        let starts = [0, 1 << 60, u64::MAX - 500, 1 << 63, u64::MAX, 1_700_000_000_000, 1 << 31];
        let near = |column: usize, row: u64| starts[column].wrapping_add(row * 4_000_000);
        let values: Vec<u64> =
            (0..count).flat_map(|column| (0..rows).map(move |row| near(column, row))).collect();
        let expected: Vec<u64> =
            (0..rows).flat_map(|row| (0..count).map(move |column| near(column, row))).collect();
        let (found, row_bytes) = put_in_order(&mut Sorter::lent(), &values, count);
        assert!(found == expected);
        assert_eq!(row_bytes, 4 * count);
        // Fewer columns stay as they are.
        let (found, row_bytes) = put_in_order(&mut Sorter::lent(), &values[..2000], 2);
        assert!(found.chunks(2).zip(expected.chunks(count)).all(|(found, row)| found == &row[..2]));
        assert_eq!(row_bytes, 16);
    }

    #[test]
    fn a_number_far_from_the_others_keeps_all_as_they_are_from_then_on() {
        let (rows, count) = (1000_usize, 9);
        for place in [0, 1, 500, 998, 999] {
            for far in [1 << 40, 1 << 63, u64::MAX, u64::MAX << 33] {
                for column in [0, 3, 7, 8] {
                    let mut values = vec![5_u64; rows * count];
                    let mut sorter = Sorter::lent();
                    assert_eq!(put_in_order(&mut sorter, &values, count).1, 4 * count);
                    values[column * rows + place] = far;
                    let (found, row_bytes) = put_in_order(&mut sorter, &values, count);
                    let is_near = far.wrapping_sub(5).min(5_u64.wrapping_sub(far)) < 1 << 31;
                    assert_eq!(row_bytes == 4 * count, is_near, "{far} in row {place} of column {column}");
                    let mut expected = vec![5; rows * count];
                    expected[place * count + column] = far;
                    assert!(found == expected);
                    values[column * rows + place] = 5;
                    assert_eq!(put_in_order(&mut sorter, &values, count).1 == 4 * count, is_near);
                }
            }
        }
    }

    #[test]
    fn sorted_rows_lie_one_behind_another_in_pieces() {
        for (rows, kept) in [(1_u32, 1_u32), (50, 50), (1000, 640), (1000, 7), (300, 0)] {
            for count in [1, 3] {
                let values: Vec<u32> = (0..3 * rows).collect();
                let (bytes, stride) = (bytemuck::cast_slice(&values), rows as usize);
                let columns = Columns { bytes, width: 4, count, stride, floors: None };
                // A permutation; some of its rows are discarded.
                let numbers = (0..rows).map(|row| row * 7 % rows);
                let numbers: Vec<u32> = numbers.map(|row| if row < kept { row } else { u32::MAX }).collect();
                let kept = kept as usize;
                let sorted = Sorter::lent().sort(columns, &numbers, kept).unwrap();
                let mut output = vec![0_u32; kept * count];
                let places: Vec<u32> = (0..).take(kept).collect();
                let moves: Vec<Move> = places.into_iter().rev().map(|to| Move { from: 0, to }).collect();
                for batch in [0..kept / 3, kept / 3..kept] {
                    for part in sorted.parts(batch.clone(), batch.start) {
                        part.put(columns.count * 4, &moves, bytemuck::cast_slice_mut(&mut output));
                    }
                }
                for (row, &number) in numbers.iter().enumerate().filter(|(_, number)| **number != u32::MAX) {
                    let place = kept - 1 - number as usize;
                    let expected = (0..count).map(|column| values[column * stride + row]);
                    assert!(output[place * count..][..count].iter().copied().eq(expected));
                }
            }
        }
    }
}
