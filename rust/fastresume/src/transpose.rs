//! From columns to rows, and back: the inner loops that write what is decoded to where it is delivered.

use bytemuck::Pod;

use crate::vector;

/// Columns begin farther apart than they are long, an eighth of that, and so much at most: nine lines of a cache. Where their
/// length is a power of two, they would share a few lines of each cache.
const GAP_BYTES: usize = 576;

/// So many rows before one is put in its place, that is asked for, where the processor gains by it: the second cache holds
/// one batch of some hundred KiB, and not the one before it as well.
const ROWS_AHEAD: usize = 16;

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

/// A row of what was decoded, and the row of a batch that it becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Move {
    /// The row of what was decoded.
    pub from: u32,
    /// The row of the batch.
    pub to: u32,
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

/// From one of so many columns of so many rows to the next, in numbers of a width.
pub fn stride(rows: usize, width: usize, count: usize) -> usize {
    if count > 1 { rows + (rows * width / 8).min(GAP_BYTES) / width } else { rows }
}

impl Columns<'_> {
    /// Writes the rows from `first` on to `output`, row by row, until it is full.
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

/// Runs a loop over rows of a length: for `N` up to `2 * N` bytes, or any if it is 0.
macro_rules! by_length {
    ($row_bytes:expr, $call:ident($($rest:expr),*)) => {
        match $row_bytes {
            1 => $call::<1>($($rest),*),
            2..4 => $call::<2>($($rest),*),
            4..8 => $call::<4>($($rest),*),
            8..16 => $call::<8>($($rest),*),
            16..32 => $call::<16>($($rest),*),
            32..64 => $call::<32>($($rest),*),
            64..128 => $call::<64>($($rest),*),
            128..256 => $call::<128>($($rest),*),
            _ => $call::<0>($($rest),*),
        }
    };
}

/// Copies rows of `row_bytes` bytes, which lie one behind another, each to its place.
pub fn scatter(source: &[u8], row_bytes: usize, moves: &[Move], output: &mut [u8]) {
    by_length!(row_bytes, scatter_rows(source, row_bytes, moves, output));
}

fn scatter_rows<const N: usize>(source: &[u8], row_bytes: usize, moves: &[Move], output: &mut [u8]) {
    let asks = N >= 32 && vector::is_newer_intel();
    for (number, (row, of)) in source.chunks_exact(row_bytes.max(1)).zip(moves).enumerate() {
        if asks && let Some(later) = moves.get(number + ROWS_AHEAD) {
            vector::fetch_near(output, later.to as usize * row_bytes, row_bytes);
        }
        copy_row::<N>(row, &mut output[of.to as usize * row_bytes..][..row_bytes]);
    }
}

/// Copies rows of `row_bytes` bytes, which lie one behind another, to their places in `outputs`, each of which has room for
/// `1 << shift` rows. Places beyond these are nowhere.
pub fn deal(source: &[u8], row_bytes: usize, places: &[u32], outputs: &mut [&mut [u8]], shift: u32) {
    by_length!(row_bytes, deal_rows(source, row_bytes, places, outputs, shift));
}

fn deal_rows<const N: usize>(
    source: &[u8],
    row_bytes: usize,
    places: &[u32],
    outputs: &mut [&mut [u8]],
    shift: u32,
) {
    for (row, &place) in source.chunks_exact(row_bytes.max(1)).zip(places) {
        let Some(output) = outputs.get_mut((place >> shift) as usize) else { continue };
        let start = (place & ((1 << shift) - 1)) as usize * row_bytes;
        if N >= 32 {
            // Where what comes behind it in its batch goes. The processor does not see by itself how so many places go on.
            vector::fetch_bytes(output, start + 2 * row_bytes, row_bytes);
        }
        copy_row::<N>(row, &mut output[start..][..row_bytes]);
    }
}

/// Copies a row of `N` to `2 * N` bytes: the first `N`, and the last, without a call.
#[inline]
fn copy_row<const N: usize>(from: &[u8], to: &mut [u8]) {
    if N == 0 {
        return to.copy_from_slice(from);
    }
    if let (Some(first), Some(place)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
        *place = *first;
    }
    if let (Some(last), Some(place)) = (from.last_chunk::<N>(), to.last_chunk_mut::<N>()) {
        *place = *last;
    }
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
    u8: vector::turn_plain, vector::split_plain;
    u16: vector::turn_plain, vector::split_plain;
    u32: vector::turn_4_bytes, vector::split_4_bytes;
    u64: vector::turn_8_bytes, vector::split_8_bytes;
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

    #[test]
    fn rows_of_any_length_are_put_in_their_places() {
        for row_bytes in (1..70).chain([104, 127, 128, 129, 200, 255, 256, 257, 300]) {
            let rows: Vec<u8> = (0..=250).cycle().take(37 * row_bytes).collect();
            let row = |row: usize| &rows[row * row_bytes..][..row_bytes];
            let places: Vec<u32> = (0..37).map(|row| row * 5 % 37).collect();
            let mut output = vec![255; rows.len()];
            let moves: Vec<Move> = (0..).zip(&places).map(|(from, &to)| Move { from, to }).collect();
            scatter(&rows, row_bytes, &moves, &mut output);
            for (number, &place) in places.iter().enumerate() {
                assert_eq!(&output[place as usize * row_bytes..][..row_bytes], row(number));
            }
            // Where three rows go nowhere.
            let places: Vec<u32> =
                places.iter().map(|&place| if place < 34 { place } else { u32::MAX }).collect();
            let mut outputs = vec![vec![255; 4 * row_bytes]; 9];
            let mut dealt: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            deal(&rows, row_bytes, &places, &mut dealt, 2);
            for (number, &place) in places.iter().enumerate().filter(|(_, place)| **place != u32::MAX) {
                let (output, at) = (place as usize / 4, place as usize % 4);
                assert_eq!(&outputs[output][at * row_bytes..][..row_bytes], row(number));
            }
        }
    }
}
