//! Columns of numbers to rows of them, in squares that fit the registers.

use bytemuck::Pod;

chosen! {
    /// Makes rows of columns of numbers of 4 bytes: number `i` of each column, one after another, is row `i`. There are
    /// as many rows as `rows` holds, and so many numbers in each column.
    pub fn turn_4_bytes(columns: &[&[u32]], rows: &mut [u32]) -> () = turn_plain, for AVX2 turn_4_bytes_wide
}

chosen! {
    /// As `turn_4_bytes`, of numbers of 8 bytes.
    pub fn turn_8_bytes(columns: &[&[u64]], rows: &mut [u64]) -> () = turn_plain, for AVX2 turn_8_bytes_wide
}

/// As `turn_4_bytes`, of any numbers, for any processor.
pub fn turn_plain<W: Pod>(columns: &[&[W]], rows: &mut [W]) {
    turn_squares::<W, 4>(columns, rows, |square| {
        std::array::from_fn(|row| std::array::from_fn(|side| square[side][row]))
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_4_bytes_wide(columns: &[&[u32]], rows: &mut [u32]) {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_unpackhi_epi32, _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
        _mm256_permute2x128_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32,
        _mm256_unpacklo_epi64,
    };
    if columns.len() < 8 {
        return turn_squares::<u32, 4>(
            columns,
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
        );
    }
    turn_squares::<u32, 8>(
        columns,
        rows,
        #[inline]
        |square| {
            let lines = square.map(bytemuck::cast::<_, __m256i>);
            // Squares of four, in both halves: of the first four columns, and of the others.
            let [first, last] = [0, 4].map(|at| {
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
    );
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn turn_8_bytes_wide(columns: &[&[u64]], rows: &mut [u64]) {
    use std::arch::x86_64::{
        __m256i, _mm256_permute2x128_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    };
    turn_squares::<u64, 4>(
        columns,
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
    );
}

/// Goes over the rows a square at a time, through all columns: rows are written one after another, and the processor, which
/// reads ahead by itself, has more of the columns on their way than with any other order of the squares.
#[inline(always)]
fn turn_squares<W: Pod, const N: usize>(
    columns: &[&[W]],
    rows: &mut [W],
    turned: impl Fn([[W; N]; N]) -> [[W; N]; N],
) {
    let count = columns.len();
    let whole = (0..count / N).map(|square| square * N);
    // The last square overlaps with the one before it.
    let last = (count > N && !count.is_multiple_of(N)).then(|| count - N);
    let squares = whole.chain(last).map(|first| {
        let sides: [&[[W; N]]; N] = std::array::from_fn(|side| columns[first + side].as_chunks::<N>().0);
        (first, sides)
    });
    let squares: Vec<_> = squares.collect();
    let whole_lines = if count >= N { rows.len() / (N * count) } else { 0 };
    let (lines, left) = rows.split_at_mut(whole_lines * N * count);
    for (number, lines) in lines.chunks_exact_mut((N * count).max(1)).enumerate() {
        for (first, sides) in &squares {
            let square = turned(sides.map(|side| side[number]));
            for (line, numbers) in lines.chunks_exact_mut(count).zip(&square) {
                line[*first..first + N].copy_from_slice(numbers);
            }
        }
    }
    for (line, row) in left.chunks_exact_mut(count.max(1)).zip(N * whole_lines..) {
        for (place, column) in line.iter_mut().zip(columns) {
            *place = column[row];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_turned_as_rows_are_made_of_them_one_by_one() {
        fn check<W: Pod + PartialEq + std::fmt::Debug>(
            turn: impl Fn(&[&[W]], &mut [W]),
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
                }
            }
        }
        let word = |number: usize| u32::try_from(number).unwrap();
        check(turn_4_bytes, word);
        check(turn_plain::<u32>, word);
        check(turn_8_bytes, |number| number as u64 | 1 << 40);
        check(turn_plain::<u64>, |number| number as u64);
        check(turn_plain::<u8>, |number| u8::try_from(number % 251).unwrap());
    }
}
