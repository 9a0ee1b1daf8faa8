//! Undoes the rounds of the Feistel permutation for many values at once. Its arithmetic is a part of the
//! cursor's format.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

#[cfg(target_arch = "x86_64")]
use super::dispatch::is_newer_intel;

/// The factors of the hash of a word.
pub const FIRST_FACTOR: u64 = 0xBF58_476D_1CE4_E5B9;
pub const SECOND_FACTOR: u64 = 0x94D0_49BB_1331_11EB;

/// The number of rounds.
pub const ROUNDS: usize = 6;

/// A hash of a word, scaled to `[0, end)`; `end` is at most 2^32.
#[inline(always)]
pub fn below(word: u64, end: u64) -> u64 {
    let hash = word.wrapping_mul(FIRST_FACTOR);
    let hash = (hash ^ (hash >> 32)).wrapping_mul(SECOND_FACTOR);
    // The high word of `hash * end`, computed from products that fit one word.
    ((hash >> 32) * end + (((hash & 0xFFFF_FFFF) * end) >> 32)) >> 32
}

/// What the rounds add, computed for each value of each half: these are few compared with the pairs of both.
#[derive(Debug)]
pub struct FeistelRounds {
    /// The number of values of the left half, and of the right one: at most 2^31.
    sides: [u32; 2],
    /// For each round: what is added to one half, for each value of the other one. There are as many numbers
    /// as the latter has values, all below the former's number of values. The left half comes first.
    added: [Vec<u32>; ROUNDS],
}

impl FeistelRounds {
    /// Rounds with these keys, for halves with these numbers of values, at most 2^31.
    ///
    /// # Panics
    /// If a half has more values.
    #[must_use]
    pub fn new(keys: &[u64; ROUNDS], sides: [u64; 2]) -> Self {
        assert!(sides.iter().all(|&side| side <= 1 << 31), "halves of {sides:?} values");
        #[allow(clippy::cast_possible_truncation, reason = "sides are at most 2^31, hashes below them")]
        let added = std::array::from_fn(|round| {
            let (of, to) = if round % 2 == 0 { (sides[1], sides[0]) } else { (sides[0], sides[1]) };
            (0..of).map(|half| below(half ^ keys[round], to) as u32).collect()
        });
        #[allow(clippy::cast_possible_truncation, reason = "they are at most 2^31")]
        let sides = sides.map(|side| side as u32);
        Self { sides, added }
    }

    /// Undoes the rounds, the last one first, for a left and a right half, and for the right halves that
    /// follow it. Writes what each pair was before.
    ///
    /// # Panics
    /// If a half is not below its number of values.
    pub fn undo(&self, halves: [u64; 2], values: &mut [u64]) {
        let [left_side, right_side] = self.sides.map(u64::from);
        let end = halves[1].saturating_add(values.len() as u64);
        assert!(halves[0] < left_side && end <= right_side, "halves from {halves:?} on of {:?}", self.sides);
        #[allow(clippy::cast_possible_truncation, reason = "they are below the sides")]
        let [left, right] = halves.map(|half| half as u32);
        #[cfg(target_arch = "x86_64")]
        if is_newer_intel() && is_x86_feature_detected!("avx2") {
            #[allow(unsafe_code, reason = "calls a function that needs features of the processor")]
            // SAFETY: the processor has the features that the function was compiled for, and halves are below
            // their sides.
            return unsafe { self.undo_gathering([left, right], values) };
        }
        self.undo_each([left, right], values);
    }

    fn undo_each(&self, [left, first_right]: [u32; 2], values: &mut [u64]) {
        let [left_side, right_side] = self.sides;
        let minus = |half: u32, added: u32, side: u32| {
            let rest = half.wrapping_sub(added);
            // A negative difference wraps to a large number. A branch would be taken at random.
            rest.min(rest.wrapping_add(side))
        };
        // One test for all with the same left half.
        let last = self.added[5][left as usize];
        for (value, right) in values.iter_mut().zip(first_right..) {
            let right = minus(right, last, right_side);
            let left = minus(left, self.added[4][right as usize], left_side);
            let right = minus(right, self.added[3][left as usize], right_side);
            let left = minus(left, self.added[2][right as usize], left_side);
            let right = minus(right, self.added[1][left as usize], right_side);
            let left = minus(left, self.added[0][right as usize], left_side);
            *value = u64::from(left) * u64::from(right_side) + u64::from(right);
        }
    }

    /// Like `undo_each`, for eight values at once.
    ///
    /// # Safety
    /// The processor has AVX2; the left half, and all right ones, are below their sides.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    #[allow(unsafe_code, reason = "what is looked up is not compared with the table's length each time")]
    unsafe fn undo_gathering(&self, [left, first_right]: [u32; 2], values: &mut [u64]) {
        let [all, left_all] = [first_right, left].map(|half| x86::_mm256_set1_epi32(half.cast_signed()));
        let [left_side, right_side] = self.sides.map(|side| x86::_mm256_set1_epi32(side.cast_signed()));
        let minus = |half, added, side| {
            let rest = x86::_mm256_sub_epi32(half, added);
            x86::_mm256_min_epu32(rest, x86::_mm256_add_epi32(rest, side))
        };
        let added = |round: usize, half| {
            // SAFETY: a half is below its side, before and after a smaller number was subtracted, and there
            // are as many numbers as the side.
            unsafe { x86::_mm256_i32gather_epi32::<4>(self.added[round].as_ptr().cast(), half) }
        };
        let last = x86::_mm256_set1_epi32(self.added[5][left as usize].cast_signed());
        let mut rights = x86::_mm256_add_epi32(all, x86::_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        let (eights, rest) = values.as_chunks_mut::<8>();
        let mut next = first_right;
        for eight in eights {
            let right = minus(rights, last, right_side);
            let left = minus(left_all, added(4, right), left_side);
            let right = minus(right, added(3, left), right_side);
            let left = minus(left, added(2, right), left_side);
            let right = minus(right, added(1, left), right_side);
            let left = minus(left, added(0, right), left_side);
            let [lefts, of_right]: [[u32; 8]; 2] = [left, right].map(bytemuck::cast);
            for (value, (left, right)) in eight.iter_mut().zip(lefts.iter().zip(&of_right)) {
                *value = u64::from(*left) * u64::from(self.sides[1]) + u64::from(*right);
            }
            rights = x86::_mm256_add_epi32(rights, x86::_mm256_set1_epi32(8));
            next += 8;
        }
        self.undo_each([left, next], rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_taken_back_alike_by_any_processor_and_as_they_were_made() {
        let keys = std::array::from_fn(|round| (round as u64 + 7).wrapping_mul(FIRST_FACTOR));
        for sides in [[16, 16], [17, 16], [1000, 999], [(1 << 17) + 5, (1 << 16) - 1]] {
            let rounds = FeistelRounds::new(&keys, sides);
            for halves in [[0, 0], [sides[0] - 1, 3], [sides[0] / 2, sides[1] / 2]] {
                for count in [0, 1, 7, 8, 9, 100, 256] {
                    let count = count.min(usize::try_from(sides[1] - halves[1]).unwrap());
                    let [mut found, mut plain] = [(); 2].map(|()| vec![7; count]);
                    rounds.undo(halves, &mut found);
                    rounds.undo_each(halves.map(|half| u32::try_from(half).unwrap()), &mut plain);
                    assert_eq!(found, plain);
                    for (value, right) in found.into_iter().zip(halves[1]..) {
                        let (mut left, mut to) = (value / sides[1], value % sides[1]);
                        for keys in keys.chunks_exact(2) {
                            left = (left + below(to ^ keys[0], sides[0])) % sides[0];
                            to = (to + below(left ^ keys[1], sides[1])) % sides[1];
                        }
                        assert_eq!([left, to], [halves[0], right]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_hash_is_scaled_as_the_high_word_of_the_product() {
        for word in (0..1000_u64).map(|word| word.wrapping_mul(FIRST_FACTOR)) {
            for end in [1, 16, 1023, (1 << 31) + 1, u64::from(u32::MAX)] {
                let hash = word.wrapping_mul(FIRST_FACTOR);
                let hash = (hash ^ (hash >> 32)).wrapping_mul(SECOND_FACTOR);
                assert_eq!(u128::from(below(word, end)), (u128::from(hash) * u128::from(end)) >> 64);
            }
        }
    }
}
