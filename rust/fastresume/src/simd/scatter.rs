//! Moves rows to their places in batches.

use bytemuck::Pod;

use super::cache_lines::{fetch_bytes, fetch_near};
use super::dispatch::{chosen, is_newer_intel};

/// A move: a decoded row, and the row of a batch that it becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Move {
    /// The decoded row.
    pub from: u32,
    /// The row of the batch.
    pub to: u32,
}

/// Moves, with the row behind the last one that they lead to: it is compared with an output's length for all of them at once.
#[derive(Debug, Clone, Copy)]
pub struct BoundedMoves<'a> {
    moves: &'a [Move],
    end: usize,
}

impl<'a> BoundedMoves<'a> {
    /// These moves.
    #[must_use]
    pub fn new(moves: &'a [Move]) -> Self {
        let end = moves.iter().map(|of| (of.to as usize).saturating_add(1)).max().unwrap_or(0);
        Self { moves, end }
    }

    /// Each of them.
    #[must_use]
    pub fn each(self) -> &'a [Move] {
        self.moves
    }
}

/// The place of a row is prefetched this many rows before it is written, on processors that gain by it. Their
/// second cache holds one batch of some hundred KiB, but not the batch before it as well.
const ROWS_AHEAD: usize = 16;

/// On the same processors, source rows are prefetched this far behind the row that is moved. By themselves
/// they read ahead only to the end of a page.
const SOURCE_BYTES_AHEAD: usize = 4 << 10;

/// Runs a loop over rows of a fixed length. The loop is compiled for each number of whole units in a row and
/// each width of a unit; the rest of a row is no longer than a unit. Long rows count as 0 units.
macro_rules! by_length {
    ($row_bytes:expr, $call:ident($($rest:expr),*)) => {
        match $row_bytes {
            1 => $call::<1, 1>($($rest),*),
            2..=3 => $call::<2, 1>($($rest),*),
            4..=7 => $call::<4, 1>($($rest),*),
            8..=15 => $call::<8, 1>($($rest),*),
            16..=32 => $call::<16, 1>($($rest),*),
            33..=64 => $call::<32, 1>($($rest),*),
            65..=96 => $call::<32, 2>($($rest),*),
            97..=128 => $call::<32, 3>($($rest),*),
            129..=160 => $call::<32, 4>($($rest),*),
            161..=192 => $call::<32, 5>($($rest),*),
            193..=224 => $call::<32, 6>($($rest),*),
            225..=256 => $call::<32, 7>($($rest),*),
            _ => $call::<32, 0>($($rest),*),
        }
    };
}

chosen! {
    /// Copies rows of `row_bytes` bytes, which lie one behind another, each to its place.
    pub fn scatter(source: &[u8], row_bytes: usize, moves: &[Move], output: &mut [u8]) -> ()
        = scatter_inline, for AVX2 scatter_inline
}

chosen! {
    /// Copies rows of `row_bytes` bytes, which lie one behind another, to their places in `outputs`. Each
    /// output has room for `1 << shift` rows. Rows with a place beyond the outputs are discarded.
    pub fn deal(source: &[u8], row_bytes: usize, places: &[u32], outputs: &mut [&mut [u8]], shift: u32) -> ()
        = deal_inline, for AVX2 deal_inline
}

chosen! {
    /// Copies rows with one number for each floor, each to its place, and adds its floor to each number.
    pub fn scatter_raised(source: &[u32], floors: &[u64], moves: &[Move], output: &mut [u64]) -> ()
        = scatter_raised_inline, for AVX2 scatter_raised_inline
}

chosen! {
    /// Puts numbers, which lie one behind another, in their places; those with a place beyond the output are discarded.
    pub fn place<P: Pod>(source: &[P], moves: BoundedMoves<'_>, output: &mut [P]) -> ()
        = place_inline, for AVX2 place_inline
}

chosen! {
    /// The same of numbers to which a floor is added.
    pub fn place_raised(source: &[u32], floor: u64, moves: BoundedMoves<'_>, output: &mut [u64]) -> ()
        = place_raised_inline, for AVX2 place_raised_inline
}

#[inline(always)]
fn place_inline<P: Pod>(source: &[P], moves: BoundedMoves<'_>, output: &mut [P]) {
    place_each(source, moves, output, |number| number);
}

#[inline(always)]
fn place_raised_inline(source: &[u32], floor: u64, moves: BoundedMoves<'_>, output: &mut [u64]) {
    place_each(source, moves, output, |number| u64::from(number).wrapping_add(floor));
}

/// Puts what is made of each number in its place. A comparison for each place would not only cost itself: the compiler makes
/// vectors of masks of it, which cost several times what the numbers do.
#[inline(always)]
fn place_each<S: Pod, P: Pod>(
    source: &[S],
    BoundedMoves { moves, end }: BoundedMoves<'_>,
    output: &mut [P],
    made: impl Fn(S) -> P,
) {
    let each = source.iter().zip(moves);
    if end > output.len() {
        for (&number, of) in each {
            if let Some(place) = output.get_mut(of.to as usize) {
                *place = made(number);
            }
        }
        return;
    }
    for (&number, of) in each {
        #[allow(unsafe_code, reason = "all places are compared with the output's length at once")]
        // SAFETY: every move leads to a row before `end`, up to which the output reaches.
        let place = unsafe { output.get_unchecked_mut(of.to as usize) };
        *place = made(number);
    }
}

#[inline(always)]
fn scatter_inline(source: &[u8], row_bytes: usize, moves: &[Move], output: &mut [u8]) {
    // Of a width that is known when it is compiled, a row is one load and one store.
    match row_bytes {
        4 => scatter_rows::<4, 1>(source, 4, moves, output),
        8 => scatter_rows::<8, 1>(source, 8, moves, output),
        _ => by_length!(row_bytes, scatter_rows(source, row_bytes, moves, output)),
    }
}

#[inline(always)]
fn deal_inline(source: &[u8], row_bytes: usize, places: &[u32], outputs: &mut [&mut [u8]], shift: u32) {
    by_length!(row_bytes, deal_rows(source, row_bytes, places, outputs, shift));
}

/// Prefetches the place of a later row of `row_bytes` bytes, and the source a page behind this row.
#[inline(always)]
fn ask_ahead(row: &[u8], later: Move, output: &[u8], place_bytes: usize) {
    fetch_near(output, later.to as usize * place_bytes, place_bytes);
    fetch_bytes(row, SOURCE_BYTES_AHEAD, row.len());
}

#[inline(always)]
fn scatter_raised_inline(source: &[u32], floors: &[u64], moves: &[Move], output: &mut [u64]) {
    let count = floors.len();
    let each = source.chunks_exact(count.max(1)).zip(moves);
    let asks = is_newer_intel();
    let last = moves.len().saturating_sub(1);
    for (number, (row, of)) in each.enumerate() {
        if asks {
            let later = moves[(number + ROWS_AHEAD).min(last)];
            ask_ahead(bytemuck::cast_slice(row), later, bytemuck::cast_slice(output), 8 * count);
        }
        let start = of.to as usize * count;
        let places = &mut output[start..start + count];
        let raised = |numbers: &[u32; 4], floors: &[u64; 4]| -> [u64; 4] {
            std::array::from_fn(|side| u64::from(numbers[side]).wrapping_add(floors[side]))
        };
        let fours = row.as_chunks::<4>().0.iter().zip(floors.as_chunks::<4>().0);
        for (place, (numbers, floors)) in places.as_chunks_mut::<4>().0.iter_mut().zip(fours) {
            *place = raised(numbers, floors);
        }
        // The last four, some of which were written before.
        if let (Some(place), Some(numbers), Some(floors)) =
            (places.last_chunk_mut::<4>(), row.last_chunk::<4>(), floors.last_chunk::<4>())
        {
            *place = raised(numbers, floors);
        } else {
            for (place, (number, floor)) in places.iter_mut().zip(row.iter().zip(floors)) {
                *place = u64::from(*number).wrapping_add(*floor);
            }
        }
    }
}

#[inline(always)]
fn scatter_rows<const UNIT: usize, const UNITS: usize>(
    source: &[u8],
    row_bytes: usize,
    moves: &[Move],
    output: &mut [u8],
) {
    let asks = UNIT >= 32 && is_newer_intel();
    let last = moves.len().saturating_sub(1);
    for (number, (row, of)) in source.chunks_exact(row_bytes.max(1)).zip(moves).enumerate() {
        if asks {
            ask_ahead(row, moves[(number + ROWS_AHEAD).min(last)], output, row_bytes);
        }
        let start = of.to as usize * row_bytes;
        copy_row::<UNIT, UNITS>(row, &mut output[start..start + row_bytes]);
    }
}

#[inline(always)]
fn deal_rows<const UNIT: usize, const UNITS: usize>(
    source: &[u8],
    row_bytes: usize,
    places: &[u32],
    outputs: &mut [&mut [u8]],
    shift: u32,
) {
    for (row, &place) in source.chunks_exact(row_bytes.max(1)).zip(places) {
        let Some(output) = outputs.get_mut((place >> shift) as usize) else { continue };
        let start = (place & ((1 << shift) - 1)) as usize * row_bytes;
        if UNIT >= 32 {
            // Where the next row of its batch goes. The processor does not predict so many write positions by
            // itself.
            fetch_bytes(output, start + 2 * row_bytes, row_bytes);
        }
        copy_row::<UNIT, UNITS>(row, &mut output[start..start + row_bytes]);
    }
}

/// Copies a row of `UNITS` whole units and a rest without a call; a row of 0 units with one.
#[inline(always)]
fn copy_row<const UNIT: usize, const UNITS: usize>(from: &[u8], to: &mut [u8]) {
    if UNITS == 0 {
        return to.copy_from_slice(from);
    }
    let units = from.as_chunks::<UNIT>().0.iter().zip(to.as_chunks_mut::<UNIT>().0);
    units.take(UNITS).for_each(|(unit, place)| *place = *unit);
    if let (Some(end), Some(place)) = (from.last_chunk::<UNIT>(), to.last_chunk_mut::<UNIT>()) {
        *place = *end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            // Three of these rows are discarded.
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

    #[test]
    fn numbers_are_put_in_their_places_and_those_beyond_are_left_out() {
        let numbers: Vec<u32> = (0..37).map(|number| number << 20).collect();
        let moves: Vec<Move> = (0..37).map(|from| Move { from, to: from * 5 % 37 }).collect();
        for rows in [37_u32, 20, 1, 0] {
            let at = |to: u32| numbers[moves.iter().position(|of| of.to == to).unwrap()];
            let expected: Vec<u32> = (0..rows).map(at).collect();
            let mut output = vec![7; rows as usize];
            place(&numbers, BoundedMoves::new(&moves), &mut output);
            assert_eq!(output, expected);
            let mut output = vec![7; rows as usize];
            place_raised(&numbers, u64::MAX, BoundedMoves::new(&moves), &mut output);
            let raised = expected.into_iter().map(|number| u64::MAX.wrapping_add(number.into()));
            assert!(output.into_iter().eq(raised));
        }
    }

    #[test]
    fn lowered_rows_are_raised_where_they_are_put() {
        for count in (0..20).chain([64, 101]) {
            let floors: Vec<u64> =
                (0..count).map(|column| (u64::MAX - 50).wrapping_add(column << 40)).collect();
            let count = floors.len();
            let rows: Vec<u32> = (0..37 * u32::try_from(count).unwrap()).map(|number| number << 20).collect();
            let moves: Vec<Move> = (0..37).map(|from| Move { from, to: from * 5 % 37 }).collect();
            let mut output = vec![7; rows.len()];
            scatter_raised(&rows, &floors, &moves, &mut output);
            let mut plain = vec![7; rows.len()];
            scatter_raised_inline(&rows, &floors, &moves, &mut plain);
            assert_eq!(output, plain);
            for (number, value) in output.iter().enumerate() {
                let (to, column) = (number / count, number % count);
                let from = moves.iter().position(|of| of.to as usize == to).unwrap();
                assert_eq!(*value, floors[column].wrapping_add(rows[from * count + column].into()));
            }
        }
    }
}
