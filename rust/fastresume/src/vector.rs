//! The inner loops of decoding, each compiled twice: for any processor, and for one with AVX2. The choice is
//! made at run time.
//!
//! This is the one module with unsafe code: the call of what was compiled for AVX2, and a lookup whose indices
//! were compared with the table's length all at once. What is compiled for any processor is the same source,
//! but for squares of numbers and values that nulls lie between: the compiler does not turn and spread these in
//! registers by itself.
#![allow(clippy::inline_always, reason = "what is not inlined is not compiled for AVX2")]

use bytemuck::Pod;

/// Rows and columns of what is turned in registers.
pub const SIDE: usize = 4;

/// Bytes that a cache holds together.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// So many values must be there behind the last one that `expand` takes.
pub const EXPAND_SPARE: usize = 8;

/// Makes of a loop that is always inlined a function that chooses between its two compilations.
macro_rules! chosen {
    ($(#[$note:meta])* pub fn $name:ident $(<$kind:ident: $bound:ident>)? ($($argument:ident: $type:ty),*) -> $result:ty
        = $inner:ident, for AVX2 $wide:ident) => {
        $(#[$note])*
        #[inline]
        pub fn $name $(<$kind: $bound>)? ($($argument: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
                fn wide $(<$kind: $bound>)? ($($argument: $type),*) -> $result {
                    $wide($($argument),*)
                }
                if is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("popcnt")
                {
                    #[allow(unsafe_code, reason = "calls a safe function that needs features of the processor")]
                    // SAFETY: the processor has the features that the function was compiled for.
                    return unsafe { wide($($argument),*) };
                }
            }
            $inner($($argument),*)
        }
    };
}

chosen! {
    /// Unpacks integers of `width` bits, whole groups of eight as far as eight bytes lie behind them; gives how
    /// many integers.
    pub fn unpack_groups(bytes: &[u8], width: usize, output: &mut [u32]) -> usize
        = unpack_plain, for AVX2 unpack_wide
}

chosen! {
    /// Writes `table[index]` for each index; false, and anything, if one is not below the table's length.
    pub fn gather<P: Copy>(table: &[P], indices: &[u32], output: &mut [P]) -> bool
        = gather_inline, for AVX2 gather_inline
}

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

/// As `turn_4_bytes`, of any numbers, for any processor.
pub fn turn_plain<W: Copy>(columns: [&[W]; SIDE], count: usize, column: usize, rows: &mut [W]) -> usize {
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
        = turn_8_plain, for AVX2 turn_8_of_4_bytes_wide
}

/// As `turn_8_of_4_bytes`, of any numbers, for any processor.
fn turn_8_plain<W: Copy>(columns: [&[W]; 2 * SIDE], count: usize, column: usize, rows: &mut [W]) -> usize {
    turn_squares(columns, count, column, rows, |square| {
        std::array::from_fn(|row| std::array::from_fn(|side| square[side][row]))
    })
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

/// So many rows before its turn, what a row is copied from and to is asked for.
const ROWS_AHEAD: usize = 64;

/// Copies rows of `bytes` bytes: from row `.0` of `source` to row `.1` of `output`, both of which lie in memory rather
/// than in the caches.
pub fn scatter_rows(source: &[u8], bytes: usize, places: &[(u32, u32)], output: &mut [u8]) {
    for (index, &(from, to)) in places.iter().enumerate() {
        if let Some(&(from, to)) = places.get(index + ROWS_AHEAD) {
            fetch::<false>(source, from as usize * bytes, bytes);
            fetch::<true>(output, to as usize * bytes, bytes);
        }
        let (from, to) = (from as usize * bytes, to as usize * bytes);
        output[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
    }
}

/// Asks for memory that will soon be written.
#[inline]
pub fn fetch_places<P: Pod>(places: &mut [P]) {
    fetch::<true>(bytemuck::cast_slice(places), 0, size_of_val(places));
}

/// Asks for bytes that will soon be read, or written.
#[inline(always)]
fn fetch<const IS_WRITTEN: bool>(bytes: &[u8], start: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (start..start + length).step_by(LINE_BYTES).chain((start + length).checked_sub(1)) {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        let place = bytes.as_ptr().wrapping_add(at).cast();
        #[allow(unsafe_code, reason = "the compiler has no safe way to say it")]
        // SAFETY: it reads and writes nothing, and may name any address.
        unsafe {
            if IS_WRITTEN { _mm_prefetch::<_MM_HINT_ET0>(place) } else { _mm_prefetch::<_MM_HINT_T0>(place) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, start, length);
}

chosen! {
    /// Writes the next value of `source` where a bit is 1, and `null` where it is 0. `source` has as many values as
    /// there are ones, and `EXPAND_SPARE` more, which may be anything.
    pub fn expand<P: Pod>(source: &[P], bits: &[u64], null: P, output: &mut [P]) -> ()
        = expand_plain, for AVX2 expand_wide
}

/// As `expand`, for any processor.
fn expand_plain<P: Pod>(source: &[P], bits: &[u64], null: P, output: &mut [P]) {
    let mut values = source.iter();
    for (&word, places) in bits.iter().zip(output.chunks_mut(64)) {
        for (bit, place) in places.iter_mut().enumerate() {
            *place = if word >> bit & 1 == 1 { values.next().copied().unwrap_or(null) } else { null };
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn expand_wide<P: Pod>(source: &[P], bits: &[u64], null: P, output: &mut [P]) {
    if size_of::<P>() < 4 {
        return expand_plain(source, bits, null, output);
    }
    expand_halves::<P>(bytemuck::cast_slice(source), bits, null, bytemuck::cast_slice_mut(output));
}

/// Eight values of 32 bits at once. Those of 64 bits are two halves, whose bits are the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn expand_halves<P: Pod>(source: &[u32], bits: &[u64], null: P, output: &mut [u32]) {
    use std::arch::x86_64 as x86;

    let is_halved = size_of::<P>() == 8;
    let mut nulls = [0_u32; 8];
    bytemuck::cast_slice_mut(&mut nulls).fill(null);
    let nulls: x86::__m256i = bytemuck::cast(nulls);
    let each: x86::__m256i = bytemuck::cast([1_u32, 2, 4, 8, 16, 32, 64, 128]);
    let mut next = 0;
    for (index, places) in output.chunks_mut(8).enumerate() {
        let byte = if is_halved {
            DOUBLED[usize::from(bytemuck::cast_slice::<u64, u8>(bits)[index / 2] >> (index % 2 * 4) & 15)]
        } else {
            bytemuck::cast_slice::<u64, u8>(bits)[index]
        };
        let Some(values) = source.get(next..).and_then(|rest| rest.first_chunk::<8>()) else { return };
        let order = x86::_mm_cvtsi64_si128(ORDERS[usize::from(byte)]);
        let placed =
            x86::_mm256_permutevar8x32_epi32(bytemuck::cast(*values), x86::_mm256_cvtepu8_epi32(order));
        let is_there = x86::_mm256_and_si256(x86::_mm256_set1_epi32(i32::from(byte)), each);
        let is_there = x86::_mm256_cmpeq_epi32(is_there, each);
        let found: [u32; 8] = bytemuck::cast(x86::_mm256_blendv_epi8(nulls, placed, is_there));
        match places.first_chunk_mut() {
            Some(eight) => *eight = found,
            None => places.copy_from_slice(&found[..places.len()]),
        }
        next += byte.count_ones() as usize;
    }
}

/// Of each byte, and each of its bits, how many ones are below it: a byte for each.
const ORDERS: [i64; 256] = {
    let mut orders = [0; 256];
    let mut byte = 0_usize;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            let below = (byte & ((1 << bit) - 1)).count_ones();
            orders[byte] |= (below as i64) << (8 * bit);
            bit += 1;
        }
        byte += 1;
    }
    orders
};

/// Four bits, each of them twice.
const DOUBLED: [u8; 16] = {
    let mut doubled = [0; 16];
    let mut bits = 0_usize;
    while bits < 16 {
        let mut bit = 0;
        while bit < 4 {
            if bits >> bit & 1 == 1 {
                doubled[bits] |= 3 << (2 * bit);
            }
            bit += 1;
        }
        bits += 1;
    }
    doubled
};

#[inline(always)]
fn gather_inline<P: Copy>(table: &[P], indices: &[u32], output: &mut [P]) -> bool {
    let largest = indices.iter().copied().fold(0, u32::max);
    if largest as usize >= table.len() {
        return indices.is_empty();
    }
    for (place, &index) in output.iter_mut().zip(indices) {
        #[allow(unsafe_code, reason = "one comparison for all indices takes the place of one for each")]
        // SAFETY: no index is larger than the largest, which is below the table's length.
        let value = unsafe { *table.get_unchecked(index as usize) };
        *place = value;
    }
    true
}

/// As `unpack_groups`, for any processor.
fn unpack_plain(bytes: &[u8], width: usize, output: &mut [u32]) -> usize {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => groups_of::<$width>(bytes, output),)*
                _ => 0,
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
}

#[inline(always)]
fn groups_of<const WIDTH: usize>(bytes: &[u8], output: &mut [u32]) -> usize {
    let mask = u64::MAX >> (64 - WIDTH);
    let mut done = 0;
    for (group, values) in output.chunks_exact_mut(8).enumerate() {
        let start = group * WIDTH;
        let Some(packed) = bytes.get(start..start + WIDTH + 8) else { break };
        for (index, value) in values.iter_mut().enumerate() {
            let at = index * WIDTH / 8;
            let mut word = [0; 8];
            word.copy_from_slice(&packed[at..at + 8]);
            let bits = (u64::from_le_bytes(word) >> (index * WIDTH % 8)) & mask;
            #[allow(clippy::cast_possible_truncation, reason = "it was masked to at most 32 bits")]
            let bits = bits as u32;
            *value = bits;
        }
        done += 8;
    }
    done
}

/// Eight at once: the bytes that hold each of them, then its bits.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn unpack_wide(bytes: &[u8], width: usize, output: &mut [u32]) -> usize {
    use std::arch::x86_64 as x86;

    let Some((places, shifts)) = PLACES.get(width) else { return unpack_plain(bytes, width, output) };
    let (places, shifts): (x86::__m256i, x86::__m256i) = (bytemuck::cast(*places), bytemuck::cast(*shifts));
    #[allow(clippy::cast_possible_wrap, reason = "bits, whatever they mean")]
    let mask = x86::_mm256_set1_epi32(((1_u32 << width) - 1) as i32);
    // The last four begin within this byte.
    let half = width / 2;
    let mut done = 0;
    let (groups, _) = output.as_chunks_mut::<8>();
    for (group, values) in groups.iter_mut().enumerate() {
        let start = group * width;
        let Some(packed) = bytes.get(start..start + half + 16) else { break };
        let (Some(first), Some(last)) = (packed.first_chunk::<16>(), packed.last_chunk::<16>()) else {
            break;
        };
        let both = x86::_mm256_set_m128i(bytemuck::cast(*last), bytemuck::cast(*first));
        let words = x86::_mm256_srlv_epi32(x86::_mm256_shuffle_epi8(both, places), shifts);
        *values = bytemuck::cast(x86::_mm256_and_si256(words, mask));
        done += 8;
    }
    done + unpack_plain(&bytes[done / 8 * width..], width, &mut output[done..])
}

/// Of each width whose integers lie within four bytes each: where these lie, counted for the first four integers of
/// a group from its first byte on, and for the last four from the byte that the fifth begins in; and the bits before
/// each integer in its first byte.
#[allow(clippy::cast_possible_truncation, reason = "bytes of 16, and bits of a byte")]
const PLACES: [([u8; 32], [u32; 8]); 26] = {
    let mut places = [([0; 32], [0; 8]); 26];
    let mut width = 0;
    while width < places.len() {
        let mut index = 0;
        while index < 8 {
            let bit = index * width - index / 4 * (width / 2 * 8);
            let mut byte = 0;
            while byte < 4 {
                places[width].0[index * 4 + byte] = (bit / 8 + byte) as u8;
                byte += 1;
            }
            places[width].1[index] = (bit % 8) as u32;
            index += 1;
        }
        width += 1;
    }
    places
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_unpacked_alike_for_any_processor() {
        let bytes: Vec<u8> =
            (0..2000_u32).map(|index| (index.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
        for width in 1..=33 {
            for length in [0, 1, 7, 8, width, 2 * width + 15, 2 * width + 16, 700, bytes.len()] {
                let (mut found, mut twin) = (vec![u32::MAX; 200], vec![u32::MAX; 200]);
                let done = unpack_groups(&bytes[..length], width, &mut found);
                assert_eq!(
                    done,
                    unpack_plain(&bytes[..length], width, &mut twin),
                    "{width} bits of {length}"
                );
                assert_eq!(found[..done], twin[..done]);
            }
        }
    }

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
        check(turn_plain, word);
        check(turn_8_bytes, |number| number as u64 | 1 << 40);
        check(turn_plain, |number| number as u64);
        check(turn_8_of_4_bytes, word);
        check(turn_8_plain, |number| number as u64);
    }

    #[test]
    fn rows_are_scattered_as_they_are_copied_one_by_one() {
        for bytes in [1, 3, 8, 64, 104, 112, 200] {
            for count in [0, 1, 63, 64, 65, 300_usize] {
                let source: Vec<u8> = (0..=250).cycle().take(count * bytes).collect();
                let row = |row: usize| u32::try_from(row % count).unwrap();
                let places: Vec<(u32, u32)> = (0..count).map(|at| (row(at * 7), row(at * 11))).collect();
                let mut output = vec![255; count * bytes];
                let mut expected = output.clone();
                scatter_rows(&source, bytes, &places, &mut output);
                for &(from, to) in &places {
                    for byte in 0..bytes {
                        expected[to as usize * bytes + byte] = source[from as usize * bytes + byte];
                    }
                }
                assert_eq!(output, expected);
            }
        }
    }

    #[test]
    fn a_lookup_gives_what_indexing_does_and_refuses_what_that_would() {
        let table: Vec<u32> = (0..300).map(|index| index * 7).collect();
        for length in 0..300_u32 {
            let indices: Vec<u32> = (0..length).map(|index| (index * 31 + length) % 300).collect();
            let mut output = vec![0; indices.len()];
            assert!(gather(&table, &indices, &mut output));
            assert!(output.iter().zip(&indices).all(|(found, &index)| *found == table[index as usize]));
            assert!(gather_inline(&table, &indices, &mut output));
            for (place, wrong) in [(0, 300), (indices.len() / 2, u32::MAX), (indices.len().max(1) - 1, 301)] {
                let mut indices = indices.clone();
                if let Some(index) = indices.get_mut(place) {
                    *index = wrong;
                    assert!(!gather(&table, &indices, &mut output));
                    assert!(!gather(&table[..0], &indices, &mut output));
                }
            }
        }
        assert!(gather::<u32>(&[], &[], &mut []));
    }

    fn assert_expanded<P: Pod + PartialEq + std::fmt::Debug>(value: impl Fn(u8) -> P) {
        for length in [0, 1, 3, 4, 5, 8, 9, 63, 64, 65, 200] {
            for seed in [0, 1, 0x9E37_79B9_7F4A_7C15, u64::MAX] {
                let bits: Vec<u64> = (1..5).map(|index| seed | seed.wrapping_mul(index)).collect();
                let made = |index: usize| value(u8::try_from(index).unwrap());
                let is_there = |index: usize| bits[index / 64] >> (index % 64) & 1 == 1;
                let ones = (0..length).filter(|&index| is_there(index)).count();
                let source: Vec<P> = (0..ones + EXPAND_SPARE).map(|index| made(index + 1)).collect();
                let mut output = vec![made(99); length];
                let mut twin = output.clone();
                expand(&source, &bits, made(0), &mut output);
                expand_plain(&source, &bits, made(0), &mut twin);
                let mut values = source.iter();
                let expected: Vec<P> = (0..length)
                    .map(|index| if is_there(index) { *values.next().unwrap() } else { made(0) })
                    .collect();
                assert_eq!(output, expected);
                assert_eq!(twin, expected);
            }
        }
    }

    #[test]
    fn values_are_expanded_to_the_places_of_ones() {
        assert_expanded(|byte| byte);
        assert_expanded(|byte| u16::from(byte) * 0x0101);
        assert_expanded(|byte| u32::from(byte) * 0x0101_0101);
        assert_expanded(|byte| u64::from(byte) * 0x0101_0101_0101_0101);
    }
}
