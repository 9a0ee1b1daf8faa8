//! Looks up values of a table by their indices.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

use bytemuck::Pod;

#[cfg(target_arch = "x86_64")]
use super::cache_lines::fetch_ahead;
use super::dispatch::{chosen, is_newer_intel};
#[cfg(target_arch = "x86_64")]
use super::unpack::Groups;
use super::unpack::unpack_plain;

chosen! {
    /// Writes `table[index]` for each index. Returns false, with undefined output, if an index is out of
    /// range.
    pub fn gather<P: Copy>(table: &[P], indices: &[u32], output: &mut [P]) -> bool
        = gather_inline, for AVX2 gather_inline
}

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

/// Writes `table[index]` for bit-packed indices of `width` bits, in whole groups of eight, as far as enough
/// bytes lie behind them. Returns how many, or an index that is out of range.
#[inline]
pub fn look_up_groups<P: Pod>(
    bytes: &[u8],
    width: usize,
    table: &[P],
    output: &mut [P],
) -> Result<usize, u32> {
    // Many older Intel processors leaked data through the gather instruction (CVE-2022-40982), and were made
    // slow at it. AMD's take as many steps for it as there are values, and some more.
    let look_up = if is_newer_intel() { gather_groups } else { load_groups };
    look_up(bytes, width, table, output)
}

chosen! {
    /// Like `look_up_groups`, one value at a time.
    pub fn load_groups<P: Pod>(bytes: &[u8], width: usize, table: &[P], output: &mut [P]) -> Result<usize, u32>
        = look_up_plain, for AVX2 load_wide
}

chosen! {
    /// Like `look_up_groups`, eight values at once.
    pub fn gather_groups<P: Pod>(bytes: &[u8], width: usize, table: &[P], output: &mut [P]) -> Result<usize, u32>
        = look_up_plain, for AVX2 gather_wide
}

/// As `look_up_groups`, for any processor.
fn look_up_plain<P: Pod>(bytes: &[u8], width: usize, table: &[P], output: &mut [P]) -> Result<usize, u32> {
    let (mut indices, mut done) = ([0; 256], 0);
    for places in output.chunks_mut(indices.len()) {
        let count = unpack_plain(&bytes[done / 8 * width..], width, &mut indices[..places.len()]);
        if !gather_inline(table, &indices[..count], places) {
            return Err(indices[..count].iter().copied().fold(0, u32::max));
        }
        done += count;
        if count < places.len() {
            break;
        }
    }
    Ok(done)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn load_wide<P: Pod>(bytes: &[u8], width: usize, table: &[P], output: &mut [P]) -> Result<usize, u32> {
    look_up_wide::<P, false>(bytes, width, table, output)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn gather_wide<P: Pod>(bytes: &[u8], width: usize, table: &[P], output: &mut [P]) -> Result<usize, u32> {
    look_up_wide::<P, true>(bytes, width, table, output)
}

/// Unpacks eight indices at once, in registers only.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn look_up_wide<P: Pod, const GATHERS: bool>(
    bytes: &[u8],
    width: usize,
    table: &[P],
    output: &mut [P],
) -> Result<usize, u32> {
    let (Some(mut packed), Some(last)) = (Groups::new(bytes, width), table.len().checked_sub(1)) else {
        return look_up_plain(bytes, width, table, output);
    };
    let last = x86::_mm256_set1_epi32(u32::try_from(last).unwrap_or(u32::MAX).cast_signed());
    let mut largest = x86::_mm256_setzero_si256();
    let groups = packed.paired(output.as_chunks_mut::<8>().0);
    for places in &mut *groups {
        fetch_ahead(places);
        #[allow(unsafe_code, reason = "one comparison for all takes the place of one for each")]
        // SAFETY: there are as many groups. No index is larger than the last one of the table, and none has
        // more than the 25 bits that `Groups` unpacks.
        unsafe {
            let indices = packed.next();
            largest = x86::_mm256_max_epu32(largest, indices);
            let inside = x86::_mm256_min_epu32(indices, last);
            *places = if GATHERS { gather_eight(table, inside) } else { load_eight(table, inside) };
        }
    }
    let largest = bytemuck::cast::<_, [u32; 8]>(largest).into_iter().fold(0, u32::max);
    if !groups.is_empty() && largest as usize >= table.len() {
        return Err(largest);
    }
    Ok(groups.len() * 8)
}

/// The values of eight indices, loaded one by one and combined in registers: writing each of them takes
/// longer.
///
/// # Safety
/// All indices are below the table's length.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code, reason = "its caller has compared the indices")]
unsafe fn load_eight<P: Pod>(table: &[P], indices: x86::__m256i) -> [P; 8] {
    let pairs: [u64; 4] = bytemuck::cast(indices);
    #[allow(clippy::cast_possible_truncation, reason = "each is a half of a word")]
    let pairs = pairs.map(|pair| [pair & 0xffff_ffff, pair >> 32].map(|index| index as usize));
    // SAFETY: the caller's promise, for this and for what follows; the values have this width.
    unsafe {
        let place = |index: usize| table.as_ptr().add(index);
        match size_of::<P>() {
            4 => {
                let value = |index| x86::_mm_load_ss(place(index).cast());
                bytemuck::cast([[pairs[0], pairs[1]], [pairs[2], pairs[3]]].map(|[[a, b], [c, d]]| {
                    let two = x86::_mm_insert_ps::<0x10>(value(a), value(b));
                    let three = x86::_mm_insert_ps::<0x20>(two, value(c));
                    x86::_mm_castps_si128(x86::_mm_insert_ps::<0x30>(three, value(d)))
                }))
            }
            8 => bytemuck::cast(pairs.map(|[a, b]| {
                let two = x86::_mm_loadh_pd(x86::_mm_load_sd(place(a).cast()), place(b).cast());
                x86::_mm_castpd_si128(two)
            })),
            _ => {
                let mut values = [P::zeroed(); 8];
                for (value, &index) in values.iter_mut().zip(pairs.as_flattened()) {
                    *value = *place(index);
                }
                values
            }
        }
    }
}

/// Like `load_eight`, all at once if the values have the width that this takes.
///
/// # Safety
/// All indices are below the table's length, and below 2^31.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
#[allow(unsafe_code, reason = "its caller has compared the indices")]
unsafe fn gather_eight<P: Pod>(table: &[P], indices: x86::__m256i) -> [P; 8] {
    let start = table.as_ptr();
    // SAFETY: the caller's promise; the values have this width.
    unsafe {
        match size_of::<P>() {
            4 => bytemuck::cast(x86::_mm256_i32gather_epi32::<4>(start.cast(), indices)),
            8 => {
                let (low, high) =
                    (x86::_mm256_castsi256_si128(indices), x86::_mm256_extracti128_si256::<1>(indices));
                bytemuck::cast([low, high].map(|four| x86::_mm256_i32gather_epi64::<8>(start.cast(), four)))
            }
            _ => load_eight(table, indices),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_files::tried;

    #[test]
    fn a_lookup_gives_what_indexing_does_and_refuses_what_that_would() {
        let table: Vec<u32> = (0..300).map(|index| index * 7).collect();
        for length in tried(0..300_u32, 40) {
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

    #[test]
    fn packed_indices_are_looked_up_alike_for_any_processor() {
        const MOST_VALUES: usize = 1 << 17;
        fn assert_alike<P: Pod + PartialEq + std::fmt::Debug>(value: impl Fn(u32) -> P) {
            assert_as_plain(&value, look_up_groups);
            assert_as_plain(&value, load_groups);
            assert_as_plain(&value, gather_groups);
        }
        fn assert_as_plain<P: Pod + PartialEq + std::fmt::Debug>(
            value: impl Fn(u32) -> P,
            look_up: impl Fn(&[u8], usize, &[P], &mut [P]) -> Result<usize, u32>,
        ) {
            let bytes: Vec<u8> =
                (0..2000_u32).map(|index| (index.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
            for width in 1..=32 {
                let mut indices = vec![0; 400];
                let unpacked = unpack_plain(&bytes, width, &mut indices);
                let largest = indices[..unpacked].iter().copied().fold(0, u32::max) as usize;
                for length in [0, 1, 2, 100, largest, largest.saturating_add(1), MOST_VALUES] {
                    let table: Vec<P> =
                        (0..u32::try_from(length.min(MOST_VALUES)).unwrap()).map(&value).collect();
                    for length in [bytes.len(), 900, 300, width, 0] {
                        // Memory of its own, so that a sanitizer notices reads behind it.
                        let bytes = bytes[..length].to_vec();
                        for count in [0, 7, 8, 17, 255, 264, 400] {
                            let (mut found, mut twin) = (vec![value(7); count], vec![value(7); count]);
                            let wide = look_up(&bytes, width, &table, &mut found);
                            let plain = look_up_plain(&bytes, width, &table, &mut twin);
                            let Ok(done) = wide else {
                                assert!(wide.unwrap_err() as usize >= table.len() && plain.is_err());
                                continue;
                            };
                            let expected = indices[..done].iter().map(|&index| table[index as usize]);
                            assert_eq!(found[..done], expected.collect::<Vec<_>>());
                            assert!(done % 8 == 0 && done <= count);
                            // One of the two may look up the last groups, and the other not.
                            let Ok(others) = plain else { continue };
                            let both = done.min(others);
                            assert!(done.max(others) - both <= 16 * 8 / width + 8, "{done} and {others}");
                            assert_eq!(found[..both], twin[..both]);
                        }
                    }
                }
            }
        }
        #[allow(clippy::cast_possible_truncation, reason = "values that differ as far as they can")]
        assert_alike(|index| index as u8);
        #[allow(clippy::cast_possible_truncation, reason = "values that differ as far as they can")]
        assert_alike(|index| index as u16);
        assert_alike(|index| index * 3);
        assert_alike(|index| u64::from(index) << 20 | 5);
    }
}
