//! Copies between columns and rows: the inner loops that write decoded values to where they are delivered.

use std::ops::Range;

use bytemuck::Pod;

use crate::simd;
pub use crate::simd::{BoundedMoves, Move, deal, place, place_raised, scatter, scatter_raised};

/// The largest gap between columns: nine cache lines. Columns lie an eighth farther apart than they are long,
/// up to this gap. Where their length is a power of two, they would otherwise share a few lines of each
/// cache.
pub const GAP_BYTES: usize = 576;

/// Which decoded rows become which rows of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// `count` rows from row `from` on become row `to` and those behind it.
    Run {
        /// The first decoded row.
        from: usize,
        /// The row of the batch that it becomes.
        to: usize,
        /// How many rows.
        count: usize,
    },
    /// Scattered rows.
    Each(Scattered<'a>),
}

/// Scattered rows of a batch. They are kept one behind another as they come in. Each is put in its place when
/// all rows of the batch are there.
#[derive(Debug, Clone, Copy)]
pub struct Scattered<'a> {
    /// The decoded rows, ascending, and where each goes.
    pub moves: &'a [Move],
    /// How many rows of the batch came in before.
    pub before: usize,
}

/// Columns of numbers of one width, one behind another in memory.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The bytes of the numbers, aligned to their width.
    pub bytes: &'a [u8],
    /// Bytes of a number: 1, 2, 4 or 8; any width if there is only one column.
    pub width: usize,
    /// How many columns there are.
    pub count: usize,
    /// From the beginning of one column to that of the next, counted in numbers.
    pub stride: usize,
    /// Set where 4-byte numbers stand for 8-byte ones: for each column, what must be added to them.
    pub floors: Option<&'a [u64]>,
}

/// The distance between columns of `rows` rows, counted in numbers of a width.
pub fn stride(rows: usize, width: usize, count: usize) -> usize {
    if count > 1 { rows + (rows * width / 8).min(GAP_BYTES) / width } else { rows }
}

impl Columns<'_> {
    /// Some of these columns.
    pub fn of(mut self, columns: &Range<usize>) -> Self {
        self.bytes = self.bytes.get(columns.start * self.stride * self.width..).unwrap_or_default();
        self.floors = self.floors.and_then(|floors| floors.get(columns.clone()));
        self.count = columns.len();
        self
    }

    /// Prefetches rows from `first` on, which are read soon.
    pub fn fetch(&self, first: usize, rows: usize) {
        for column in 0..self.count {
            let start = (column * self.stride + first) * self.width;
            simd::fetch_bytes(self.bytes, start, rows * self.width);
        }
    }

    /// Writes the rows from `first` on to `output`, row by row, until it is full. Adds its column's floor to
    /// each number.
    pub fn interleave_raised(&self, first: usize, output: &mut [u8]) {
        let Some(floors) = self.floors else { return self.interleave(first, output) };
        let output: &mut [u64] = bytemuck::cast_slice_mut(output);
        simd::turn_raised(&self.each(first, output.len() / self.count.max(1)), floors, output);
    }

    /// Writes the rows from `first` on to `output`, row by row, until it is full, without change.
    pub fn interleave(&self, first: usize, output: &mut [u8]) {
        if self.count == 1 {
            let start = first * self.width;
            output.copy_from_slice(&self.bytes[start..start + output.len()]);
        } else {
            match self.width {
                1 => interleave::<u8>(self, first, output),
                2 => interleave::<u16>(self, first, output),
                4 => interleave::<u32>(self, first, output),
                _ => interleave::<u64>(self, first, output),
            }
        }
    }

    /// Like `interleave`, but writes 8-byte numbers as 4 bytes each: the difference to the floor of its
    /// column. Returns false, with undefined output, if a difference is negative or does not fit.
    pub fn interleave_lowered(&self, first: usize, floors: &[u64], output: &mut [u8]) -> bool {
        let output: &mut [u32] = bytemuck::cast_slice_mut(output);
        simd::turn_lowered(&self.each(first, output.len() / self.count.max(1)), floors, output)
    }

    /// A floor for each column of 8-byte numbers. About `samples` of its `rows` rows were seen to lie less than 2^32
    /// above it, with equal room above and below them. `None` if a column has no such floor.
    pub fn floors(&self, samples: usize, rows: usize) -> Option<Vec<u64>> {
        let floor = |column: &[i64]| {
            let some = column.iter().step_by((rows / samples).max(1));
            let (least, most) = (some.clone().min()?, some.max()?);
            let room = u64::from(u32::MAX).checked_sub(most.abs_diff(*least))?;
            Some(least.cast_unsigned().wrapping_sub(room / 2))
        };
        self.each(0, rows).into_iter().map(floor).collect()
    }

    /// The numbers of each column in `rows` rows from `first` on.
    fn each<W: Pod>(&self, first: usize, rows: usize) -> Vec<&[W]> {
        let numbers: &[W] = bytemuck::cast_slice(self.bytes);
        (0..self.count).map(|column| &numbers[column * self.stride + first..][..rows]).collect()
    }
}

/// Splits rows of numbers of a width (1, 2, 4 or 8 bytes), one behind another, into columns.
pub fn split(rows: &[u8], width: usize, columns: &mut [&mut [u8]]) {
    match width {
        1 => split_numbers::<u8>(rows, columns),
        2 => split_numbers::<u16>(rows, columns),
        4 => split_numbers::<u32>(rows, columns),
        _ => split_numbers::<u64>(rows, columns),
    }
}

fn split_numbers<W: Number>(rows: &[u8], columns: &mut [&mut [u8]]) {
    let columns = columns.iter_mut().map(|column| bytemuck::cast_slice_mut(column));
    W::SPLIT(bytemuck::cast_slice(rows), &mut columns.collect::<Vec<&mut [W]>>());
}

/// A number that is transposed in registers where the processor can do that.
trait Number: Pod {
    const TURN: fn(&[&[Self]], &mut [Self]);
    const SPLIT: fn(&[Self], &mut [&mut [Self]]);
}

macro_rules! numbers {
    ($($number:ty: $turn:path, $split:path;)*) => {
        $(impl Number for $number {
            const TURN: fn(&[&[Self]], &mut [Self]) = $turn;
            const SPLIT: fn(&[Self], &mut [&mut [Self]]) = $split;
        })*
    };
}

numbers! {
    u8: simd::turn_1_byte, simd::split_plain;
    u16: simd::turn_2_bytes, simd::split_2_bytes;
    u32: simd::turn_4_bytes, simd::split_4_bytes;
    u64: simd::turn_8_bytes, simd::split_8_bytes;
}

fn interleave<W: Number>(columns: &Columns<'_>, first: usize, output: &mut [u8]) {
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    W::TURN(&columns.each(first, output.len() / columns.count.max(1)), output);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_lie_no_more_than_an_eighth_and_the_bytes_of_a_gap_apart() {
        for width in [1, 2, 4, 8] {
            for rows in (0..70).chain([100, 4096, 1 << 20]) {
                let gap = (stride(rows, width, 2) - rows) * width;
                assert!(gap <= rows * width / 8 && gap <= GAP_BYTES, "{rows} rows of {width} bytes");
                assert_eq!(stride(rows, width, 1), rows);
            }
            let apart = stride(4096, width, 2) * width % 4096;
            assert!([512, 576].contains(&apart), "columns of {width} bytes share lines of a cache");
        }
    }
}
