//! Transposes columns of numbers to rows, and back, in squares that fit the registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

use std::cell::Cell;

use bytemuck::Pod;

use super::cache_lines::{LINE_BYTES, fetch_line, fetch_near};
use super::dispatch::{chosen, is_newer_intel};
use super::tiles::transposed;
#[cfg(target_arch = "x86_64")]
use super::tiles::{
    transposed_4_of_4_bytes, transposed_4_of_8_bytes, transposed_8_of_1_byte, transposed_8_of_2_bytes,
    transposed_8_of_4_bytes,
};

/// How far ahead columns are prefetched: there are more of them than the processor reads ahead by itself. On
/// AMD's processors the data goes to the nearest cache, which holds no more than this of 40 columns.
const COLUMN_BYTES_AHEAD: usize = 256;

/// The same on Intel's newer processors, where the data goes to the second cache.
const INTEL_COLUMN_BYTES_AHEAD: usize = 768;

/// How far ahead of the written rows memory is prefetched, on processors that gain by it.
const ROW_BYTES_AHEAD: usize = 2048;

chosen! {
    /// Transposes columns of 4-byte numbers: number `i` of each column, one after another, is row `i`. There
    /// are as many rows as fit `rows`, and as many numbers in each column.
    pub fn turn_4_bytes(columns: &[&[u32]], rows: &mut [u32]) -> () = turn_plain, for AVX2 turn_4_bytes_wide
}

chosen! {
    /// Like `turn_4_bytes`, for 1-byte numbers.
    pub fn turn_1_byte(columns: &[&[u8]], rows: &mut [u8]) -> () = turn_plain, for AVX2 turn_1_byte_wide
}

chosen! {
    /// Like `turn_4_bytes`, for 2-byte numbers.
    pub fn turn_2_bytes(columns: &[&[u16]], rows: &mut [u16]) -> () = turn_plain, for AVX2 turn_2_bytes_wide
}

chosen! {
    /// Like `turn_4_bytes`, for 8-byte numbers.
    pub fn turn_8_bytes(columns: &[&[u64]], rows: &mut [u64]) -> () = turn_plain, for AVX2 turn_8_bytes_wide
}

/// Like `turn_4_bytes`, for any numbers and any processor.
fn turn_plain<W: Pod>(columns: &[&[W]], rows: &mut [W]) {
    turn_blocks::<W, W, 4, 4>(columns, rows, |_, square| transposed(square), same);
}

chosen! {
    /// Like `turn_4_bytes`, but writes 8-byte numbers: the sum of each number and the floor of its column.
    pub fn turn_raised(columns: &[&[u32]], floors: &[u64], rows: &mut [u64]) -> ()
        = turn_raised_plain, for AVX2 turn_raised_wide
}

/// Like `turn_raised`, for any processor.
fn turn_raised_plain(columns: &[&[u32]], floors: &[u64], rows: &mut [u64]) {
    let one = |column: usize, number: u32| floors[column].wrapping_add(number.into());
    let turned = |first, square: [[u32; 4]; 4]| {
        let square = transposed(square);
        square.map(|row| std::array::from_fn(|side| one(first + side, row[side])))
    };
    turn_blocks::<u32, u64, 4, 4>(columns, rows, turned, one);
}

chosen! {
    /// Like `turn_8_bytes`, but writes 4-byte numbers: the difference of each to the floor of its column.
    /// Returns false, with undefined output, if a difference is negative or too large.
    pub fn turn_lowered(columns: &[&[u64]], floors: &[u64], rows: &mut [u32]) -> bool
        = turn_lowered_plain, for AVX2 turn_lowered_wide
}

/// Like `turn_lowered`, for any processor.
fn turn_lowered_plain(columns: &[&[u64]], floors: &[u64], rows: &mut [u32]) -> bool {
    let all = Cell::new(0);
    let turned = |first, square: [[u64; 4]; 4]| {
        transposed(std::array::from_fn(|side| {
            square[side].map(|number| lowered(number, floors[first + side], &all))
        }))
    };
    let one = |column: usize, number| lowered(number, floors[column], &all);
    turn_blocks::<u64, u32, 4, 4>(columns, rows, turned, one);
    u32::try_from(all.get()).is_ok()
}

/// The difference of a number to a floor, as 4 bytes; `all` collects the bits of all differences.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "it is seen in the end whether one did not fit")]
fn lowered(number: u64, floor: u64, all: &Cell<u64>) -> u32 {
    let above = number.wrapping_sub(floor);
    all.set(all.get() | above);
    above as u32
}

chosen! {
    /// Splits rows of 4-byte numbers into columns: the inverse of `turn_4_bytes`.
    pub fn split_4_bytes(rows: &[u32], columns: &mut [&mut [u32]]) -> () = split_plain, for AVX2 split_4_bytes_wide
}

chosen! {
    /// Like `split_4_bytes`, for 2-byte numbers.
    pub fn split_2_bytes(rows: &[u16], columns: &mut [&mut [u16]]) -> () = split_plain, for AVX2 split_2_bytes_wide
}

chosen! {
    /// Like `split_4_bytes`, for 8-byte numbers.
    pub fn split_8_bytes(rows: &[u64], columns: &mut [&mut [u64]]) -> () = split_plain, for AVX2 split_8_bytes_wide
}

/// Like `split_4_bytes`, for any numbers and any processor.
pub fn split_plain<W: Pod>(rows: &[W], columns: &mut [&mut [W]]) {
    split_squares::<W, 4>(rows, columns, transposed);
}

/// The number itself: what rows hold without a conversion.
fn same<W>(_: usize, number: W) -> W {
    number
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_1_byte_wide(columns: &[&[u8]], rows: &mut [u8]) {
    if columns.len() < 8 {
        return turn_plain(columns, rows);
    }
    turn_blocks::<u8, u8, 8, 16>(columns, rows, |_, lines| transposed_8_of_1_byte(lines), same);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_2_bytes_wide(columns: &[&[u16]], rows: &mut [u16]) {
    if columns.len() < 8 {
        return turn_plain(columns, rows);
    }
    turn_blocks::<u16, u16, 8, 8>(columns, rows, |_, square| transposed_8_of_2_bytes(square), same);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_4_bytes_wide(columns: &[&[u32]], rows: &mut [u32]) {
    if columns.len() < 8 {
        return turn_blocks::<u32, u32, 4, 4>(
            columns,
            rows,
            |_, square| transposed_4_of_4_bytes(square),
            same,
        );
    }
    turn_blocks::<u32, u32, 8, 8>(columns, rows, |_, square| transposed_8_of_4_bytes(square), same);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_8_bytes_wide(columns: &[&[u64]], rows: &mut [u64]) {
    turn_blocks::<u64, u64, 4, 4>(columns, rows, |_, square| transposed_4_of_8_bytes(square), same);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_raised_wide(columns: &[&[u32]], floors: &[u64], rows: &mut [u64]) {
    if columns.len() < 8 {
        return turn_raised_plain(columns, floors, rows);
    }
    let one = |column: usize, number: u32| floors[column].wrapping_add(number.into());
    let turned = |first: usize, square| {
        let floors: [u64; 8] = std::array::from_fn(|side| floors[first + side]);
        transposed_8_of_4_bytes(square)
            .map(|row: [u32; 8]| std::array::from_fn(|side| floors[side].wrapping_add(row[side].into())))
    };
    turn_blocks::<u32, u64, 8, 8>(columns, rows, turned, one);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_lowered_wide(columns: &[&[u64]], floors: &[u64], rows: &mut [u32]) -> bool {
    if columns.len() < 8 {
        return turn_lowered_plain(columns, floors, rows);
    }
    let all = Cell::new(x86::_mm256_setzero_si256());
    let turned = |first: usize, square: [[u64; 8]; 8]| {
        transposed_8_of_4_bytes(std::array::from_fn(|side| {
            let floor = x86::_mm256_set1_epi64x(floors[first + side].cast_signed());
            let [low, high]: [x86::__m256i; 2] = bytemuck::cast(square[side]);
            let (low, high) = (x86::_mm256_sub_epi64(low, floor), x86::_mm256_sub_epi64(high, floor));
            all.set(x86::_mm256_or_si256(all.get(), x86::_mm256_or_si256(low, high)));
            let (low, high) = (x86::_mm256_castsi256_ps(low), x86::_mm256_castsi256_ps(high));
            let halves = x86::_mm256_castps_si256(x86::_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
            bytemuck::cast(x86::_mm256_permute4x64_epi64::<0b11_01_10_00>(halves))
        }))
    };
    let of_rest = Cell::new(0);
    let one = |column: usize, number| lowered(number, floors[column], &of_rest);
    turn_blocks::<u64, u32, 8, 8>(columns, rows, turned, one);
    let all: [u64; 4] = bytemuck::cast(all.get());
    all.into_iter().chain([of_rest.get()]).all(|above| u32::try_from(above).is_ok())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn split_2_bytes_wide(rows: &[u16], columns: &mut [&mut [u16]]) {
    if columns.len() < 8 {
        return split_plain(rows, columns);
    }
    split_squares::<u16, 8>(rows, columns, |square| transposed_8_of_2_bytes(square));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn split_4_bytes_wide(rows: &[u32], columns: &mut [&mut [u32]]) {
    if columns.len() < 8 {
        return split_squares::<u32, 4>(rows, columns, |square| transposed_4_of_4_bytes(square));
    }
    split_squares::<u32, 8>(rows, columns, |square| transposed_8_of_4_bytes(square));
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn split_8_bytes_wide(rows: &[u64], columns: &mut [&mut [u64]]) {
    split_squares::<u64, 4>(rows, columns, |square| transposed_4_of_8_bytes(square));
}

/// The first columns of the squares that cover `count` columns. The last square may overlap with the one
/// before it.
fn squares<const N: usize>(count: usize) -> impl Iterator<Item = usize> {
    let last = (count > N && !count.is_multiple_of(N)).then(|| count - N);
    (0..count / N).map(|square| square * N).chain(last)
}

/// Goes over the rows in blocks, through all columns, and writes rows one after another. `turned` makes the
/// numbers of some rows from `N` columns, `one` from a single number; both get the first column's index.
#[inline(always)]
fn turn_blocks<S: Pod, W: Pod, const N: usize, const ROWS: usize>(
    columns: &[&[S]],
    rows: &mut [W],
    turned: impl Fn(usize, [[S; ROWS]; N]) -> [[W; N]; ROWS],
    one: impl Fn(usize, S) -> W,
) {
    let count = columns.len();
    let squares = squares::<N>(count).map(|first| {
        let sides: [&[[S; ROWS]]; N] =
            std::array::from_fn(|side| columns[first + side].as_chunks::<ROWS>().0);
        (first, sides)
    });
    let squares: Vec<_> = squares.collect();
    let whole_lines = if count >= N { rows.len() / (ROWS * count) } else { 0 };
    let (lines, left) = rows.split_at_mut(whole_lines * ROWS * count);
    let asks = is_newer_intel();
    let column_bytes_ahead = if asks { INTEL_COLUMN_BYTES_AHEAD } else { COLUMN_BYTES_AHEAD };
    for (number, lines) in lines.chunks_exact_mut((ROWS * count).max(1)).enumerate() {
        if asks {
            fetch_near(bytemuck::cast_slice(lines), ROW_BYTES_AHEAD, size_of_val(lines));
        }
        for (first, sides) in &squares {
            let at = number * ROWS * size_of::<S>();
            if at.is_multiple_of(LINE_BYTES) {
                for side in sides {
                    fetch_line::<false>(side.as_ptr().cast::<u8>().wrapping_add(at + column_bytes_ahead));
                }
            }
            let block = turned(*first, sides.map(|side| side[number]));
            for (line, numbers) in lines.chunks_exact_mut(count).zip(&block) {
                line[*first..first + N].copy_from_slice(numbers);
            }
        }
    }
    for (line, row) in left.chunks_exact_mut(count.max(1)).zip(ROWS * whole_lines..) {
        for (number, (place, column)) in line.iter_mut().zip(columns).enumerate() {
            *place = one(number, column[row]);
        }
    }
}

/// Goes over the rows a square at a time, as `turn_blocks` does.
#[inline(always)]
fn split_squares<W: Pod, const N: usize>(
    rows: &[W],
    columns: &mut [&mut [W]],
    turned: impl Fn([[W; N]; N]) -> [[W; N]; N],
) {
    let count = columns.len().max(1);
    let squares: Vec<usize> = squares::<N>(columns.len()).collect();
    let whole_lines = if count >= N { rows.len() / (N * count) } else { 0 };
    let (lines, left) = rows.split_at(whole_lines * N * count);
    for (number, lines) in lines.chunks_exact(N * count).enumerate() {
        for &first in &squares {
            let mut square = [[W::zeroed(); N]; N];
            for (numbers, line) in square.iter_mut().zip(lines.chunks_exact(count)) {
                numbers.copy_from_slice(&line[first..first + N]);
            }
            for (column, numbers) in columns[first..first + N].iter_mut().zip(&turned(square)) {
                column[number * N..][..N].copy_from_slice(numbers);
            }
        }
    }
    for (line, row) in left.chunks_exact(count).zip(N * whole_lines..) {
        for (number, column) in line.iter().zip(columns.iter_mut()) {
            column[row] = *number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_turned_as_rows_are_made_of_them_one_by_one_and_back() {
        fn check<W: Pod + PartialEq + std::fmt::Debug>(
            turn: impl Fn(&[&[W]], &mut [W]),
            split: impl Fn(&[W], &mut [&mut [W]]),
            number: impl Fn(usize) -> W,
        ) {
            for count in 1..20 {
                for rows in [0, 1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 47, 64, 100] {
                    let columns: Vec<Vec<W>> = (0..count)
                        .map(|column| (0..rows).map(|row| number(100 * column + row)).collect())
                        .collect();
                    let columns: Vec<&[W]> = columns.iter().map(Vec::as_slice).collect();
                    let mut found = vec![number(7777); rows * count];
                    turn(&columns, &mut found);
                    for (place, value) in found.iter().enumerate() {
                        let (row, column) = (place / count, place % count);
                        assert_eq!(*value, columns[column][row], "row {row}, number {column} of {count}");
                    }
                    let mut back = vec![vec![number(7777); rows]; count];
                    split(&found, &mut back.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
                    assert_eq!(back, columns, "{count} columns of {rows} rows");
                }
            }
        }
        let word = |number: usize| u32::try_from(number).unwrap();
        check(turn_4_bytes, split_4_bytes, word);
        check(turn_plain::<u32>, split_plain, word);
        check(turn_8_bytes, split_8_bytes, |number| number as u64 | 1 << 40);
        check(turn_plain::<u64>, split_plain, |number| number as u64);
        let short = |number: usize| u16::try_from(number).unwrap();
        check(turn_2_bytes, split_2_bytes, short);
        check(turn_plain::<u16>, split_plain, short);
        let byte = |number: usize| u8::try_from(number % 251).unwrap();
        check(turn_1_byte, split_plain, byte);
        check(turn_plain::<u8>, split_plain, byte);
    }

    #[test]
    fn numbers_are_lowered_and_raised_as_they_are_turned_unless_one_is_too_far_from_its_floor() {
        let far = |number: usize| (number as u64 | 1 << 40).wrapping_neg();
        for count in [1, 2, 3, 4, 7, 8, 9, 16, 17, 19] {
            for rows in [0, 1, 7, 8, 9, 100] {
                let floors: Vec<u64> = (0..count).map(|column| far(column).wrapping_sub(1 << 20)).collect();
                let number = |column: usize, row: usize| floors[column].wrapping_add((row as u64) << 25);
                let mut columns: Vec<Vec<u64>> =
                    (0..count).map(|column| (0..rows).map(|row| number(column, row)).collect()).collect();
                for turn in [turn_lowered, turn_lowered_plain] {
                    let columns: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
                    let mut found = vec![7777; rows * count];
                    assert!(turn(&columns, &floors, &mut found));
                    for (place, value) in found.iter().enumerate() {
                        assert_eq!(u64::from(*value), (place as u64 / count as u64) << 25);
                    }
                }
                let low: Vec<Vec<u32>> =
                    vec![(0..rows).map(|row| u32::try_from(row).unwrap() << 25).collect(); count];
                for turn in [turn_raised, turn_raised_plain] {
                    let low: Vec<&[u32]> = low.iter().map(Vec::as_slice).collect();
                    let mut found = vec![7777; rows * count];
                    turn(&low, &floors, &mut found);
                    for (place, value) in found.iter().enumerate() {
                        assert_eq!(*value, number(place % count, place / count));
                    }
                }
                for (column, row) in (0..count).flat_map(|column| (0..rows).map(move |row| (column, row))) {
                    for above in [1 << 32, u64::MAX] {
                        columns[column][row] = floors[column].wrapping_add(above);
                        let columns: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
                        let mut found = vec![0; rows * count];
                        for turn in [turn_lowered, turn_lowered_plain] {
                            assert!(!turn(&columns, &floors, &mut found), "row {row} of column {column}");
                        }
                    }
                    columns[column][row] = floors[column];
                }
            }
        }
    }
}
