//! Columns of numbers to rows of them, in squares that fit the registers.

/// Rows and columns of what is turned in registers.
pub const SIDE: usize = 4;

chosen! {
    /// Writes four columns to rows of `count` numbers, from number `column` of each on, in whole squares; gives
    /// how many rows.
    pub fn turn_4_bytes(columns: [&[u32]; SIDE], count: usize, column: usize, rows: &mut [u32]) -> usize
        = turn_plain, for AVX2 turn_4_bytes_wide
}

chosen! {
    /// As `turn_4_bytes`, of numbers of 8 bytes.
    pub fn turn_8_bytes(columns: [&[u64]; SIDE], count: usize, column: usize, rows: &mut [u64]) -> usize
        = turn_plain, for AVX2 turn_8_bytes_wide
}

/// As `turn_4_bytes`, of so many columns of any numbers, for any processor.
pub fn turn_plain<W: Copy, const N: usize>(
    columns: [&[W]; N],
    count: usize,
    column: usize,
    rows: &mut [W],
) -> usize {
    turn_squares(columns, count, column, rows, |square| {
        std::array::from_fn(|row| std::array::from_fn(|side| square[side][row]))
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_4_bytes_wide(columns: [&[u32]; SIDE], count: usize, column: usize, rows: &mut [u32]) -> usize {
    use std::arch::x86_64::{
        __m128i, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    turn_squares(
        columns,
        count,
        column,
        rows,
        #[inline]
        |square| {
            let [a, b, c, d] = square.map(bytemuck::cast::<_, __m128i>);
            let (ab, cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (ab_end, cd_end) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(ab, cd),
                _mm_unpackhi_epi64(ab, cd),
                _mm_unpacklo_epi64(ab_end, cd_end),
                _mm_unpackhi_epi64(ab_end, cd_end),
            ]
            .map(bytemuck::cast)
        },
    )
}

chosen! {
    /// Writes eight columns to rows of `count` numbers, from number `column` of each on, in whole squares; gives how
    /// many rows.
    pub fn turn_8_of_4_bytes(columns: [&[u32]; 2 * SIDE], count: usize, column: usize, rows: &mut [u32]) -> usize
        = turn_plain, for AVX2 turn_8_of_4_bytes_wide
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_8_of_4_bytes_wide(
    columns: [&[u32]; 2 * SIDE],
    count: usize,
    column: usize,
    rows: &mut [u32],
) -> usize {
    use std::arch::x86_64::{
        __m256i, _mm256_permute2x128_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
        _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
    };
    turn_squares(
        columns,
        count,
        column,
        rows,
        #[inline]
        |square| {
            let lines = square.map(bytemuck::cast::<_, __m256i>);
            // Squares of four, in both halves: of the first four columns, and of the others.
            let [first, last] = [0, SIDE].map(|at| {
                let [a, b, c, d] = [lines[at], lines[at + 1], lines[at + 2], lines[at + 3]];
                let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
                let (ab_end, cd_end) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
                [
                    _mm256_unpacklo_epi64(ab, cd),
                    _mm256_unpackhi_epi64(ab, cd),
                    _mm256_unpacklo_epi64(ab_end, cd_end),
                    _mm256_unpackhi_epi64(ab_end, cd_end),
                ]
            });
            let low = |row: usize| _mm256_permute2x128_si256::<0x20>(first[row], last[row]);
            let high = |row: usize| _mm256_permute2x128_si256::<0x31>(first[row], last[row]);
            [low(0), low(1), low(2), low(3), high(0), high(1), high(2), high(3)].map(bytemuck::cast)
        },
    )
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_8_bytes_wide(columns: [&[u64]; SIDE], count: usize, column: usize, rows: &mut [u64]) -> usize {
    use std::arch::x86_64::{
        __m256i, _mm256_permute2x128_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    };
    turn_squares(
        columns,
        count,
        column,
        rows,
        #[inline]
        |square| {
            let [a, b, c, d] = square.map(bytemuck::cast::<_, __m256i>);
            let (ab, cd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpacklo_epi64(c, d));
            let (ab_odd, cd_odd) = (_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d));
            [
                _mm256_permute2x128_si256::<0x20>(ab, cd),
                _mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd),
                _mm256_permute2x128_si256::<0x31>(ab, cd),
                _mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd),
            ]
            .map(bytemuck::cast)
        },
    )
}

#[inline(always)]
fn turn_squares<W: Copy, const N: usize>(
    columns: [&[W]; N],
    count: usize,
    column: usize,
    rows: &mut [W],
    turned: impl Fn([[W; N]; N]) -> [[W; N]; N],
) -> usize {
    let squares = columns.map(|of| of.as_chunks::<N>().0);
    let there = squares.iter().map(|of| of.len()).min().unwrap_or(0);
    let mut done = 0;
    for (index, lines) in rows.chunks_exact_mut(N * count).take(there).enumerate() {
        for (line, row) in lines.chunks_exact_mut(count).zip(turned(squares.map(|of| of[index]))) {
            line[column..column + N].copy_from_slice(&row);
        }
        done += N;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_turned_as_rows_are_made_of_columns() {
        fn check<W: Copy + Default + PartialEq + std::fmt::Debug, const N: usize>(
            turn: impl Fn([&[W]; N], usize, usize, &mut [W]) -> usize,
            number: impl Fn(usize) -> W,
        ) {
            for rows in 0..20 {
                for (count, column) in [(N, 0), (N + 1, 1), (N + 5, 0), (N + 5, 5)] {
                    let columns: Vec<Vec<W>> =
                        (0..N).map(|side| (0..rows).map(|row| number(100 * side + row)).collect()).collect();
                    let mut found = vec![number(7777); rows * count];
                    let done =
                        turn(std::array::from_fn(|side| &columns[side][..]), count, column, &mut found);
                    assert_eq!(done, rows / N * N);
                    for (place, value) in found.iter().enumerate() {
                        let (row, at) = (place / count, place % count);
                        let is_turned = row < done && (column..column + N).contains(&at);
                        let expected =
                            if is_turned { number(100 * (at - column) + row) } else { number(7777) };
                        assert_eq!(*value, expected, "row {row}, number {at} of {count}");
                    }
                }
            }
        }
        let word = |number: usize| u32::try_from(number).unwrap();
        check(turn_4_bytes, word);
        check(turn_plain::<u32, SIDE>, word);
        check(turn_8_bytes, |number| number as u64 | 1 << 40);
        check(turn_plain::<u64, SIDE>, |number| number as u64);
        check(turn_8_of_4_bytes, word);
        check(turn_plain::<u64, { 2 * SIDE }>, |number| number as u64);
    }
}
