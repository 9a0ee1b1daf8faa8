//! From columns to rows, and back: the inner loops that write what is decoded to where it is delivered.

use std::sync::Arc;

use bytemuck::Pod;

use crate::simd;
pub use crate::simd::{Move, deal, scatter, scatter_raised};

/// Columns begin farther apart than they are long, an eighth of that, and so much at most: nine lines of a cache. Where their
/// length is a power of two, they would share a few lines of each cache.
pub const GAP_BYTES: usize = 576;

/// Which rows of what was decoded go to which rows of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// `count` rows from row `from` on, to row `to` and those behind it.
    Run {
        /// The first row of what was decoded.
        from: usize,
        /// The row of the batch that it becomes.
        to: usize,
        /// How many rows.
        count: usize,
    },
    /// Rows from here and there.
    Each(Scattered<'a>),
}

/// Rows that go here and there in a batch. As they come in, they lie one behind another; each is put in its place when
/// all rows of the batch are there.
#[derive(Debug, Clone, Copy)]
pub struct Scattered<'a> {
    /// Rows of what was decoded, ascending, and where each goes.
    pub moves: &'a [Move],
    /// How many rows of the batch came in before.
    pub before: usize,
}

/// Columns of numbers of one width, one behind another.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The numbers, aligned to them.
    pub bytes: &'a [u8],
    /// Bytes of a number: 1, 2, 4 or 8; of the only column any.
    pub width: usize,
    /// How many columns there are.
    pub count: usize,
    /// From the beginning of one to that of the next, in numbers.
    pub stride: usize,
    /// Where they are numbers of 4 bytes in place of 8: of each column, what is to be added to them.
    pub floors: Option<&'a Arc<[u64]>>,
}

/// From one of so many columns of so many rows to the next, in numbers of a width.
pub fn stride(rows: usize, width: usize, count: usize) -> usize {
    if count > 1 { rows + (rows * width / 8).min(GAP_BYTES) / width } else { rows }
}

impl Columns<'_> {
    /// Writes the rows from `first` on to `output`, row by row, until it is full; to each number of them is added what is to be.
    pub fn interleave_raised(&self, first: usize, output: &mut [u8]) {
        let Some(floors) = self.floors else { return self.interleave(first, output) };
        let output: &mut [u64] = bytemuck::cast_slice_mut(output);
        simd::turn_raised(&self.each(first, output.len() / self.count.max(1)), floors, output);
    }

    /// Writes the rows from `first` on to `output`, row by row, until it is full, as they are.
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

    /// As `interleave`, of numbers of 8 bytes, as numbers of 4 bytes: what each is above the floor of its column; false, and
    /// anything, if one of them is more than that, or less.
    pub fn interleave_lowered(&self, first: usize, floors: &[u64], output: &mut [u8]) -> bool {
        let output: &mut [u32] = bytemuck::cast_slice_mut(output);
        simd::turn_lowered(&self.each(first, output.len() / self.count.max(1)), floors, output)
    }

    /// Of each column, which has numbers of 8 bytes, a floor that some of its `rows` rows are less than 2^32 above, with as much
    /// room below these as above them; none if there is no such floor of one.
    pub fn floors(&self, samples: usize, rows: usize) -> Option<Vec<u64>> {
        let floor = |column: &[i64]| {
            let some = column.iter().step_by((rows / samples).max(1));
            let (least, most) = (some.clone().min()?, some.max()?);
            let room = u64::from(u32::MAX).checked_sub(most.abs_diff(*least))?;
            Some(least.cast_unsigned().wrapping_sub(room / 2))
        };
        self.each(0, rows).into_iter().map(floor).collect()
    }

    /// The numbers of each column in so many rows from `first` on.
    fn each<W: Pod>(&self, first: usize, rows: usize) -> Vec<&[W]> {
        let numbers: &[W] = bytemuck::cast_slice(self.bytes);
        (0..self.count).map(|column| &numbers[column * self.stride + first..][..rows]).collect()
    }
}

/// Writes rows of as many numbers of a width (1, 2, 4 or 8 bytes), which lie one behind another, to columns of them.
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

/// A number that is turned in registers where the processor can.
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
