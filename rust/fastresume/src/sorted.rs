//! Rows of a segment that go here and there in many batches, until each batch puts its own in order.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::memory::Memory;
use crate::part::Part;
use crate::transpose::{Columns, deal};

/// What is sorted of a whole segment lies in at least so many pieces of memory, which go one by one as batches are ended.
pub const PIECES: usize = 16;

/// No piece is larger: segments of a window differ in their rows, and what one piece let go of fits another.
pub const PIECE_BYTES: usize = 512 << 10;

/// So many rows are put together from columns at once: unless they are wide, they stay in the nearest cache.
const TILE_ROWS: usize = 128;

/// The rows of a segment in one field, or its mask: those of each batch one behind another.
pub struct Sorted {
    /// Each has so many rows.
    pieces: Vec<Arc<Memory>>,
    piece_rows: usize,
    row_bytes: usize,
}

impl Sorted {
    /// Sorts rows: each becomes number `numbers[row]` of `count`; others go nowhere. `tile` is memory for a few rows.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(columns: Columns<'_>, numbers: &[u32], count: usize, tile: &mut Memory) -> Result<Self> {
        let row_bytes = columns.count * columns.width;
        // Pieces are as large however many rows go nowhere: a resume takes what the pass before it let go of.
        let shift = (numbers.len() / PIECES).min(PIECE_BYTES / row_bytes.max(1)).max(1).ilog2();
        let piece_rows = 1 << shift;
        let mut pieces = Vec::with_capacity(count.div_ceil(piece_rows));
        for _ in 0..count.div_ceil(piece_rows) {
            let mut piece = tile.another();
            piece.resize(row_bytes * piece_rows)?;
            pieces.push(piece);
        }
        let mut outputs: Vec<&mut [u8]> = pieces.iter_mut().map(Memory::bytes_mut).collect();
        for (tile_number, numbers) in numbers.chunks(TILE_ROWS).enumerate() {
            let first = tile_number * TILE_ROWS;
            let rows = if columns.count == 1 {
                &columns.bytes[first * row_bytes..]
            } else {
                tile.resize(numbers.len() * row_bytes)?;
                columns.interleave(first, tile.bytes_mut());
                tile.bytes()
            };
            deal(rows, row_bytes, numbers, &mut outputs, shift);
        }
        Ok(Self { pieces: pieces.into_iter().map(Arc::new).collect(), piece_rows, row_bytes })
    }

    /// The parts that sorted rows of one batch lie in, before which so many rows came in.
    pub fn parts(&self, mut rows: Range<usize>, mut before: usize) -> impl Iterator<Item = Part> {
        std::iter::from_fn(move || {
            let piece = self.pieces.get(rows.start / self.piece_rows).filter(|_| !rows.is_empty())?;
            let first = rows.start % self.piece_rows;
            let count = rows.len().min(self.piece_rows - first);
            let part = Part::Sorted {
                memory: Arc::clone(piece),
                bytes: first * self.row_bytes..(first + count) * self.row_bytes,
                before,
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
    use crate::transpose::Move;

    #[test]
    fn pieces_of_a_large_segment_and_of_a_small_one_are_as_large() {
        let sizes = [20_000, 1 << 15, 50_000, 1 << 16].map(|rows: u32| {
            let numbers: Vec<u32> = (0..rows).collect();
            let values = vec![0_u64; 52 * numbers.len()];
            let columns =
                Columns { bytes: bytemuck::cast_slice(&values), width: 8, count: 52, stride: numbers.len() };
            let sorted = Sorted::new(columns, &numbers, numbers.len(), &mut Memory::default()).unwrap();
            let sizes: Vec<usize> = sorted.pieces.iter().map(|piece| piece.len()).collect();
            assert!(sizes.len() >= PIECES && sizes.iter().all(|bytes| *bytes == sizes[0]));
            sizes[0]
        });
        assert_eq!(sizes, [sizes[0]; 4]);
        assert!(sizes[0] > PIECE_BYTES / 2 && sizes[0] <= PIECE_BYTES);
    }

    #[test]
    fn sorted_rows_lie_one_behind_another_in_pieces() {
        for (rows, kept) in [(1_u32, 1_u32), (50, 50), (1000, 640), (1000, 7), (300, 0)] {
            for count in [1, 3] {
                let values: Vec<u32> = (0..3 * rows).collect();
                let (bytes, stride) = (bytemuck::cast_slice(&values), rows as usize);
                let columns = Columns { bytes, width: 4, count, stride };
                // A permutation, of which some rows go nowhere.
                let numbers = (0..rows).map(|row| row * 7 % rows);
                let numbers: Vec<u32> = numbers.map(|row| if row < kept { row } else { u32::MAX }).collect();
                let kept = kept as usize;
                let sorted = Sorted::new(columns, &numbers, kept, &mut Memory::default()).unwrap();
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
