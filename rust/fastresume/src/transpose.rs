//! From columns to rows: the inner loops that write what is decoded to where it is delivered.

use bytemuck::Pod;

use crate::vector;

/// Columns begin so much farther apart than they are long. Where that is a power of two, they would share a few lines of
/// each cache.
const GAP_BYTES: usize = 4160;

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
    /// Row `.0` of what was decoded becomes row `.1` of the batch.
    Each(&'a [(u32, u32)]),
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
}

/// From one of several columns of so many rows to the next, in numbers of a width.
pub fn stride(rows: usize, width: usize) -> usize {
    rows + GAP_BYTES / width
}

/// Runs a loop over numbers of a width.
macro_rules! by_width {
    ($width:expr, $call:ident($first:expr, $($rest:expr),*)) => {
        match $width {
            1 => $call::<u8>($first, $($rest),*),
            2 => $call::<u16>($first, $($rest),*),
            4 => $call::<u32>($first, $($rest),*),
            _ => $call::<u64>($first, $($rest),*),
        }
    };
}

impl Columns<'_> {
    /// Writes the rows from `first` on to `output`, row by row, until it is full.
    pub fn interleave(&self, first: usize, output: &mut [u8]) {
        if self.count == 1 {
            let start = first * self.width;
            output.copy_from_slice(&self.bytes[start..start + output.len()]);
        } else {
            by_width!(self.width, interleave(self, first, output));
        }
    }

    /// Copies numbers of the only column: from row `.0` to row `.1` of `output`.
    pub fn scatter(&self, places: &[(u32, u32)], output: &mut [u8]) {
        match self.width {
            1 | 2 | 4 | 8 => by_width!(self.width, scatter(self.bytes, places, output)),
            width => vector::scatter_rows(self.bytes, width, places, output),
        }
    }
}

/// A number that is turned in registers where the processor can.
trait Number: Pod {
    const TURN: fn(&[&[Self]], &mut [Self]);
}

macro_rules! numbers {
    ($($number:ty: $turn:path;)*) => {
        $(impl Number for $number {
            const TURN: fn(&[&[Self]], &mut [Self]) = $turn;
        })*
    };
}

numbers! {
    u8: vector::turn_plain;
    u16: vector::turn_plain;
    u32: vector::turn_4_bytes;
    u64: vector::turn_8_bytes;
}

fn interleave<W: Number>(columns: &Columns<'_>, first: usize, output: &mut [u8]) {
    let source: &[W] = bytemuck::cast_slice(columns.bytes);
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    let rows = output.len() / columns.count.max(1);
    let of = |column: usize| &source[column * columns.stride + first..][..rows];
    let columns: Vec<&[W]> = (0..columns.count).map(of).collect();
    W::TURN(&columns, output);
}

fn scatter<W: Pod>(source: &[u8], places: &[(u32, u32)], output: &mut [u8]) {
    let source: &[W] = bytemuck::cast_slice(source);
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    for &(from, to) in places {
        output[to as usize] = source[from as usize];
    }
}
