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
    /// Rows from here and there.
    Each(Scattered<'a>),
}

/// Rows that go here and there in a batch. As they come in, they lie one behind another; each is put in its place when
/// all rows of the batch are there.
#[derive(Debug, Clone, Copy)]
pub struct Scattered<'a> {
    /// The rows of what was decoded, ascending.
    pub from: &'a [u32],
    /// The row of the batch that each becomes.
    pub places: &'a [u32],
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
    /// How many columns there are, and numbers in each.
    pub count: usize,
    pub rows: usize,
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
}

/// Copies rows of `row_bytes` bytes one behind another: of `source`, those of these numbers, of which the first row there
/// has `first`.
pub fn gather(source: &[u8], row_bytes: usize, first: usize, numbers: &[u32], output: &mut [u8]) {
    let rows = numbers.iter().enumerate().map(|(to, &number)| (number as usize - first, to));
    copy_rows(source, row_bytes, rows, output);
}

/// Copies rows of `row_bytes` bytes, which lie one behind another, each to its place.
pub fn scatter(source: &[u8], row_bytes: usize, places: &[u32], output: &mut [u8]) {
    let rows = places.iter().enumerate().map(|(from, &to)| (from, to as usize));
    copy_rows(source, row_bytes, rows, output);
}

/// Copies rows: row `.0` of `source` to row `.1` of `output`.
fn copy_rows(source: &[u8], row_bytes: usize, rows: impl Iterator<Item = (usize, usize)>, output: &mut [u8]) {
    match row_bytes {
        1 | 2 | 4 | 8 => by_width!(row_bytes, copy_numbers(source, rows, output)),
        9..=16 => copy_ends::<8>(source, row_bytes, rows, output),
        17..=32 => copy_ends::<16>(source, row_bytes, rows, output),
        33..=64 => copy_ends::<32>(source, row_bytes, rows, output),
        65..=128 => copy_ends::<64>(source, row_bytes, rows, output),
        129..=256 => copy_ends::<128>(source, row_bytes, rows, output),
        _ => {
            for (from, to) in rows {
                let from = &source[from * row_bytes..][..row_bytes];
                output[to * row_bytes..][..row_bytes].copy_from_slice(from);
            }
        }
    }
}

fn copy_numbers<W: Pod>(source: &[u8], rows: impl Iterator<Item = (usize, usize)>, output: &mut [u8]) {
    let source: &[W] = bytemuck::cast_slice(source);
    let output: &mut [W] = bytemuck::cast_slice_mut(output);
    for (from, to) in rows {
        output[to] = source[from];
    }
}

/// Copies rows of `N` to `2 * N` bytes: the first `N` of each and the last, without a call for each row.
fn copy_ends<const N: usize>(
    source: &[u8],
    row_bytes: usize,
    rows: impl Iterator<Item = (usize, usize)>,
    output: &mut [u8],
) {
    for (from, to) in rows {
        let from = &source[from * row_bytes..][..row_bytes];
        let to = &mut output[to * row_bytes..][..row_bytes];
        if let (Some(first), Some(place)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
            *place = *first;
        }
        if let (Some(last), Some(place)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
            *place = *last;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_are_gathered_and_put_in_their_places() {
        for row_bytes in (1..70).chain([104, 127, 128, 129, 200, 256, 257, 300]) {
            let rows = 8 * 13;
            let source: Vec<u8> = (0..=250).cycle().take(rows * row_bytes).collect();
            let first = 1000;
            let numbers: Vec<u32> = (1000..1104).step_by(8).collect();
            let mut gathered = vec![255; numbers.len() * row_bytes];
            gather(&source, row_bytes, first, &numbers, &mut gathered);
            let expected: Vec<u8> = numbers
                .iter()
                .flat_map(|&row| &source[(row as usize - first) * row_bytes..][..row_bytes])
                .copied()
                .collect();
            assert_eq!(gathered, expected);
            let places: Vec<u32> = (0..13).map(|row| row * 5 % 13).collect();
            let mut output = vec![255; gathered.len()];
            scatter(&gathered, row_bytes, &places, &mut output);
            for (row, &place) in gathered.chunks_exact(row_bytes).zip(&places) {
                assert_eq!(&output[place as usize * row_bytes..][..row_bytes], row);
            }
        }
    }
}
