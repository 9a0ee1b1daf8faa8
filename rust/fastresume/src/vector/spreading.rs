//! Values to their places among nulls.

use bytemuck::Pod;

/// So many values must be there behind the last one that `expand` takes.
pub const EXPAND_SPARE: usize = 8;

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

#[cfg(test)]
mod tests {
    use super::*;

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
