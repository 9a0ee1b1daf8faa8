//! Transposes small squares of numbers in registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

use bytemuck::Pod;

/// A square, transposed.
pub fn transposed<W: Pod, const N: usize>(square: [[W; N]; N]) -> [[W; N]; N] {
    std::array::from_fn(|row| std::array::from_fn(|side| square[side][row]))
}

/// Like `transposed`, from lines twice as long as a square's. Lines of eight bytes would fill registers in two
/// steps from memory, which takes longer.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub fn transposed_8_of_1_byte(lines: [[u8; 16]; 8]) -> [[u8; 8]; 16] {
    let lines = lines.map(bytemuck::cast::<_, x86::__m128i>);
    let pairs = [0, 2, 4, 6].map(|at| (lines[at], lines[at + 1]));
    let low = pairs.map(|(one, other)| x86::_mm_unpacklo_epi8(one, other));
    let high = pairs.map(|(one, other)| x86::_mm_unpackhi_epi8(one, other));
    bytemuck::cast([low, high].map(|pairs| four_lines_of_2_bytes(pairs)))
}

/// Like `transposed`, in eight registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub fn transposed_8_of_2_bytes(square: [[u16; 8]; 8]) -> [[u16; 8]; 8] {
    let lines = square.map(bytemuck::cast::<_, x86::__m128i>);
    let [first, last] =
        [0, 4].map(|at| four_lines_of_2_bytes([lines[at], lines[at + 1], lines[at + 2], lines[at + 3]]));
    let two = |at: usize| {
        [x86::_mm_unpacklo_epi64(first[at], last[at]), x86::_mm_unpackhi_epi64(first[at], last[at])]
    };
    bytemuck::cast([two(0), two(1), two(2), two(3)])
}

/// Four lines of eight 2-byte numbers, interleaved: the first number of each, then the second one of each,
/// and so on.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn four_lines_of_2_bytes([a, b, c, d]: [x86::__m128i; 4]) -> [x86::__m128i; 4] {
    let (ab, cd) = (x86::_mm_unpacklo_epi16(a, b), x86::_mm_unpacklo_epi16(c, d));
    let (ab_end, cd_end) = (x86::_mm_unpackhi_epi16(a, b), x86::_mm_unpackhi_epi16(c, d));
    [
        x86::_mm_unpacklo_epi32(ab, cd),
        x86::_mm_unpackhi_epi32(ab, cd),
        x86::_mm_unpacklo_epi32(ab_end, cd_end),
        x86::_mm_unpackhi_epi32(ab_end, cd_end),
    ]
}

/// Like `transposed`, in four registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub fn transposed_4_of_4_bytes(square: [[u32; 4]; 4]) -> [[u32; 4]; 4] {
    let [a, b, c, d] = square.map(bytemuck::cast::<_, x86::__m128i>);
    let (ab, cd) = (x86::_mm_unpacklo_epi32(a, b), x86::_mm_unpacklo_epi32(c, d));
    let (ab_end, cd_end) = (x86::_mm_unpackhi_epi32(a, b), x86::_mm_unpackhi_epi32(c, d));
    [
        x86::_mm_unpacklo_epi64(ab, cd),
        x86::_mm_unpackhi_epi64(ab, cd),
        x86::_mm_unpacklo_epi64(ab_end, cd_end),
        x86::_mm_unpackhi_epi64(ab_end, cd_end),
    ]
    .map(bytemuck::cast)
}

/// Like `transposed`, in eight registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub fn transposed_8_of_4_bytes(square: [[u32; 8]; 8]) -> [[u32; 8]; 8] {
    let lines = square.map(bytemuck::cast::<_, x86::__m256i>);
    // Squares of four, in both halves: of the first four lines, and of the others.
    let [first, last] = [0, 4].map(|at| {
        let [a, b, c, d] = [lines[at], lines[at + 1], lines[at + 2], lines[at + 3]];
        let (ab, cd) = (x86::_mm256_unpacklo_epi32(a, b), x86::_mm256_unpacklo_epi32(c, d));
        let (ab_end, cd_end) = (x86::_mm256_unpackhi_epi32(a, b), x86::_mm256_unpackhi_epi32(c, d));
        [
            x86::_mm256_unpacklo_epi64(ab, cd),
            x86::_mm256_unpackhi_epi64(ab, cd),
            x86::_mm256_unpacklo_epi64(ab_end, cd_end),
            x86::_mm256_unpackhi_epi64(ab_end, cd_end),
        ]
    });
    let low = |row: usize| x86::_mm256_permute2x128_si256::<0x20>(first[row], last[row]);
    let high = |row: usize| x86::_mm256_permute2x128_si256::<0x31>(first[row], last[row]);
    [low(0), low(1), low(2), low(3), high(0), high(1), high(2), high(3)].map(bytemuck::cast)
}

/// Like `transposed`, in four registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
pub fn transposed_4_of_8_bytes(square: [[u64; 4]; 4]) -> [[u64; 4]; 4] {
    let [a, b, c, d] = square.map(bytemuck::cast::<_, x86::__m256i>);
    let (ab, cd) = (x86::_mm256_unpacklo_epi64(a, b), x86::_mm256_unpacklo_epi64(c, d));
    let (ab_odd, cd_odd) = (x86::_mm256_unpackhi_epi64(a, b), x86::_mm256_unpackhi_epi64(c, d));
    [
        x86::_mm256_permute2x128_si256::<0x20>(ab, cd),
        x86::_mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd),
        x86::_mm256_permute2x128_si256::<0x31>(ab, cd),
        x86::_mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd),
    ]
    .map(bytemuck::cast)
}
