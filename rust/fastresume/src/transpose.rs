//! From columns to rows: the inner loops that write what is decoded to where it is delivered.

use bytemuck::Pod;

use crate::vector::{self, SIDE};

/// Rows that are written together, so that they stay in the nearest cache.
const TILE: usize = 64;

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

/// Columns of numbers of one width, one behind another, of `rows` rows each.
#[derive(Debug, Clone, Copy)]
pub struct Columns<'a> {
    /// The numbers, aligned to them.
    pub bytes: &'a [u8],
    /// Bytes of a number: 1, 2, 4 or 8; of the only column any.
    pub width: usize,
    /// How many columns there are.
    pub count: usize,
    /// How many rows.
    pub rows: usize,
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
    /// As `vector::turn_plain`.
    fn turn(columns: [&[Self]; SIDE], count: usize, column: usize, rows: &mut [Self]) -> usize;

    /// The same of twice as many columns, if that is better than one half after the other.
    const TURN_TWICE: Option<TurnTwice<Self>>;
}

/// As `vector::turn_8_of_4_bytes`.
type TurnTwice<W> = fn([&[W]; 2 * SIDE], usize, usize, &mut [W]) -> usize;

macro_rules! numbers {
    ($($number:ty: $turn:path, $twice:expr;)*) => {
        $(impl Number for $number {
            fn turn(columns: [&[Self]; SIDE], count: usize, column: usize, rows: &mut [Self]) -> usize {
                $turn(columns, count, column, rows)
            }

            const TURN_TWICE: Option<TurnTwice<Self>> = $twice;
        })*
    };
}

numbers! {
    u8: vector::turn_plain, None;
    u16: vector::turn_plain, None;
    u32: vector::turn_4_bytes, Some(vector::turn_8_of_4_bytes);
    u64: vector::turn_8_bytes, None;
}

fn interleave<W: Number>(columns: &Columns<'_>, first: usize, output: &mut [u8]) {
    let source: &[W] = bytemuck::cast_slice(columns.bytes);
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    let count = columns.count;
    let mut row = first;
    for tile in output.chunks_mut(TILE * count) {
        let rows = tile.len() / count;
        let of = |column: usize| &source[column * columns.rows + row..][..rows];
        let mut column = 0;
        while column < count {
            if count < SIDE {
                place_column(of(column), count, column, 0, tile);
                column += 1;
                continue;
            }
            // The last ones overlap with those before them.
            if let Some(turn) = W::TURN_TWICE.filter(|_| count >= 2 * SIDE && column + SIDE < count) {
                let from = column.min(count - 2 * SIDE);
                let done = turn(std::array::from_fn(|side| of(from + side)), count, from, tile);
                for side in from..from + 2 * SIDE {
                    place_column(of(side), count, side, done, tile);
                }
                column += 2 * SIDE;
                continue;
            }
            let from = column.min(count - SIDE);
            let done = W::turn(std::array::from_fn(|side| of(from + side)), count, from, tile);
            for side in from..from + SIDE {
                place_column(of(side), count, side, done, tile);
            }
            column += SIDE;
        }
        row += rows;
    }
}

/// Writes a column to number `column` of rows of `count` numbers, from row `first` on.
fn place_column<W: Pod>(source: &[W], count: usize, column: usize, first: usize, rows: &mut [W]) {
    for (line, &value) in rows.chunks_exact_mut(count).zip(source).skip(first) {
        line[column] = value;
    }
}

fn scatter<W: Pod>(source: &[u8], places: &[(u32, u32)], output: &mut [u8]) {
    let source: &[W] = bytemuck::cast_slice(source);
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    for &(from, to) in places {
        output[to as usize] = source[from as usize];
    }
}
