//! Spreads values to their places among nulls.

use bytemuck::Pod;

#[cfg(target_arch = "x86_64")]
use super::cache_lines::fetch_ahead;
use super::dispatch::chosen;

/// The number of values that must be readable behind the last one that `expand` takes.
pub const EXPAND_SPARE: usize = 8;

chosen! {
    /// Writes the next value of `source` where a bit is 1, and `null` where it is 0. `source` has one value
    /// for each 1, and `EXPAND_SPARE` more, which may be anything.
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

chosen! {
    /// Writes each bit of words as a byte, from the lowest bit of the first word on.
    pub fn write_bits<W: Iterator<Item = u64> >(words: W, output: &mut [u8]) -> ()
        = write_bits_plain, for AVX2 write_bits_wide
}

/// As `write_bits`, for any processor.
fn write_bits_plain(words: impl Iterator<Item = u64>, output: &mut [u8]) {
    for (word, places) in words.zip(output.chunks_mut(64)) {
        for (bit, place) in places.iter_mut().enumerate() {
            *place = u8::from(word >> bit & 1 == 1);
        }
    }
}

/// 32 bits at once: each byte of them is copied to eight places, each of which keeps its own bit.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn write_bits_wide(mut words: impl Iterator<Item = u64>, output: &mut [u8]) {
    use std::arch::x86_64 as x86;

    let places: x86::__m256i = bytemuck::cast([0_u64, 1, 2, 3].map(|byte| byte * 0x0101_0101_0101_0101));
    let each: x86::__m256i = bytemuck::cast([0x8040_2010_0804_0201_u64; 4]);
    let one = x86::_mm256_set1_epi8(1);
    let as_bytes = |word: u64| -> [u8; 64] {
        let halves: [i32; 2] = bytemuck::cast(word);
        bytemuck::cast(halves.map(|half| {
            let alone = x86::_mm256_shuffle_epi8(x86::_mm256_set1_epi32(half), places);
            bytemuck::cast::<_, [u8; 32]>(x86::_mm256_min_epu8(x86::_mm256_and_si256(alone, each), one))
        }))
    };
    let (whole, rest) = output.as_chunks_mut();
    // Whole words first: `zip` asks for a place before it asks for a word.
    whole.iter_mut().zip(words.by_ref()).for_each(|(output, word)| *output = as_bytes(word));
    if let Some(word) = words.next() {
        rest.copy_from_slice(&as_bytes(word)[..rest.len()]);
    }
}

/// Eight 32-bit values at once. 64-bit values are two halves, with the same bit for both.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn expand_halves<P: Pod>(source: &[u32], bits: &[u64], null: P, output: &mut [u32]) {
    use std::arch::x86_64 as x86;

    let is_halved = size_of::<P>() == 8;
    let mut nulls = [0_u32; 8];
    bytemuck::cast_slice_mut(&mut nulls).fill(null);
    let nulls: x86::__m256 = bytemuck::cast(nulls);
    let bytes: &[u8] = bytemuck::cast_slice(bits);
    let mut next = 0;
    for (index, places) in output.chunks_mut(8).enumerate() {
        if index % 2 == 0 {
            fetch_ahead(places);
        }
        let (order, count) = if is_halved {
            let bits = bytes[index / 2] >> (index % 2 * 4) & 15;
            (HALVED_ORDERS[usize::from(bits)], 2 * bits.count_ones())
        } else {
            (ORDERS[usize::from(bytes[index])], bytes[index].count_ones())
        };
        let Some(values) = source.get(next..).and_then(|rest| rest.first_chunk::<8>()) else { return };
        let order = x86::_mm256_cvtepi8_epi32(x86::_mm_cvtsi64_si128(order));
        let placed = x86::_mm256_permutevar8x32_epi32(bytemuck::cast(*values), order);
        let found: [u32; 8] =
            bytemuck::cast(x86::_mm256_blendv_ps(bytemuck::cast(placed), nulls, bytemuck::cast(order)));
        match places.first_chunk_mut() {
            Some(eight) => *eight = found,
            None => places.copy_from_slice(&found[..places.len()]),
        }
        next += count as usize;
    }
}

/// For each byte, and each of its bits: the number of ones below it, or -1 where the bit is 0.
#[cfg(target_arch = "x86_64")]
const ORDERS: [i64; 256] = orders(1);

/// The same for four bits, each of which stands for two 32-bit halves.
#[cfg(target_arch = "x86_64")]
const HALVED_ORDERS: [i64; 16] = orders(2);

#[cfg(target_arch = "x86_64")]
const fn orders<const COUNT: usize>(values: usize) -> [i64; COUNT] {
    let mut orders = [-1; COUNT];
    let mut bits = 0;
    while bits < COUNT {
        let (mut value, mut ones) = (0, 0);
        while value < 8 {
            if bits >> (value / values) & 1 == 1 {
                orders[bits] ^= (ones ^ 0xff) << (8 * value);
                ones += 1;
            }
            value += 1;
        }
        bits += 1;
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_files::tried;

    fn assert_expanded<P: Pod + PartialEq + std::fmt::Debug>(value: impl Fn(u8) -> P) {
        for length in tried(0..=200, 67) {
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

    #[test]
    fn bits_are_written_as_bytes_alike_for_any_processor() {
        for length in tried(0..=200_usize, 67) {
            for seed in [0, 1, 0x9E37_79B9_7F4A_7C15, u64::MAX] {
                let words = (1..5).map(|index| seed.wrapping_mul(index)).take(length.div_ceil(64));
                let (mut output, mut twin) = (vec![99; length], vec![99; length]);
                write_bits(words.clone(), &mut output);
                write_bits_plain(words.clone(), &mut twin);
                let bits = words.flat_map(|word| (0..64).map(move |bit| u8::from(word >> bit & 1 == 1)));
                assert_eq!(output, bits.take(length).collect::<Vec<_>>());
                assert_eq!(twin, output);
            }
        }
    }
}
