//! Unpacks bit-packed integers to 32-bit integers.

use super::dispatch::chosen;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

chosen! {
    /// Unpacks integers of `width` bits, in whole groups of eight, as far as eight bytes lie behind them.
    /// Returns the number of integers.
    pub fn unpack_groups(bytes: &[u8], width: usize, output: &mut [u32]) -> usize
        = unpack_plain, for AVX2 unpack_wide
}

/// Like `unpack_groups`, for any processor.
pub(super) fn unpack_plain(bytes: &[u8], width: usize, output: &mut [u32]) -> usize {
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn unpack_wide(bytes: &[u8], width: usize, output: &mut [u32]) -> usize {
    let Some(mut packed) = Groups::new(bytes, width) else { return unpack_plain(bytes, width, output) };
    let groups = packed.paired(output.as_chunks_mut::<8>().0);
    for values in &mut *groups {
        #[allow(unsafe_code, reason = "one comparison for all groups takes the place of one for each")]
        // SAFETY: there are as many groups.
        let unpacked = unsafe { packed.next() };
        *values = bytemuck::cast(unpacked);
    }
    let done = groups.len() * 8;
    done + unpack_plain(&bytes[done / 8 * width..], width, &mut output[done..])
}

/// Groups of eight integers, each unpacked at once: first the bytes that hold each integer, then its bits.
#[cfg(target_arch = "x86_64")]
pub(super) struct Groups<'b> {
    bytes: &'b [u8],
    /// Where the next group begins.
    next: *const u8,
    width: usize,
    places: x86::__m256i,
    shifts: x86::__m256i,
    mask: x86::__m256i,
}

#[cfg(target_arch = "x86_64")]
impl<'b> Groups<'b> {
    /// The groups that begin with these bytes; `None` if the integers are too wide.
    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn new(bytes: &'b [u8], width: usize) -> Option<Self> {
        let (places, shifts) = PLACES.get(width)?;
        let mask = x86::_mm256_set1_epi32(((1_u32 << width) - 1).cast_signed());
        let (places, shifts) = (bytemuck::cast(*places), bytemuck::cast(*shifts));
        Some(Self { bytes, next: bytes.as_ptr(), width, places, shifts, mask })
    }

    /// The part of the output for which there are groups with enough bytes behind them.
    #[inline]
    pub(super) fn paired<'o, P>(&self, output: &'o mut [P]) -> &'o mut [P] {
        let beyond = self.width / 2 + 16;
        let there = (self.bytes.len() + self.width).saturating_sub(beyond) / self.width.max(1);
        let count = output.len().min(there);
        &mut output[..count]
    }

    /// The next group.
    ///
    /// # Safety
    /// At most as many groups are read as `paired` finds.
    #[target_feature(enable = "avx2")]
    #[inline]
    #[allow(unsafe_code, reason = "its caller has compared the number of groups")]
    pub(super) unsafe fn next(&mut self) -> x86::__m256i {
        // The last four begin within the byte in the middle.
        let middle = self.next.wrapping_add(self.width / 2);
        // SAFETY: the caller's promise: `width / 2 + 16` bytes are readable there.
        let (first, last) =
            unsafe { (x86::_mm_loadu_si128(self.next.cast()), x86::_mm_loadu_si128(middle.cast())) };
        self.next = self.next.wrapping_add(self.width);
        let both = x86::_mm256_set_m128i(last, first);
        let words = x86::_mm256_srlv_epi32(x86::_mm256_shuffle_epi8(both, self.places), self.shifts);
        x86::_mm256_and_si256(words, self.mask)
    }
}

/// For each width whose integers lie within four bytes each: where those bytes are, and the bits before each
/// integer in its first byte. For the first four integers of a group, they are counted from its first byte.
/// For the last four, they are counted from the byte in which the fifth begins.
#[cfg(target_arch = "x86_64")]
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
}
