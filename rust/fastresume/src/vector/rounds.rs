//! The rounds of a permutation, of many values at once. Their arithmetic is a part of the cursor's format.

/// What words are multiplied by to hash them.
pub const FIRST_FACTOR: u64 = 0xBF58_476D_1CE4_E5B9;
pub const SECOND_FACTOR: u64 = 0x94D0_49BB_1331_11EB;

/// How many rounds there are.
pub const ROUNDS: usize = 6;

/// A hash of a word, scaled to `[0, end)`; `end` is below 2^32.
#[inline(always)]
pub fn below(word: u64, end: u64) -> u64 {
    let hash = word.wrapping_mul(FIRST_FACTOR);
    let hash = (hash ^ (hash >> 32)).wrapping_mul(SECOND_FACTOR);
    // The high word of `hash * end`, of products that have one word.
    ((hash >> 32) * end + (((hash & 0xFFFF_FFFF) * end) >> 32)) >> 32
}

/// Takes the rounds back, last one first, for the value of a left and a right half, and for those of the right halves that
/// follow it; writes what each of them was before. Sides are below 2^32.
pub fn undo_rounds(keys: &[u64; ROUNDS], sides: [u64; 2], halves: [u64; 2], values: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq")]
        fn widest(keys: &[u64; ROUNDS], sides: [u64; 2], halves: [u64; 2], values: &mut [u64]) {
            undo_inline(keys, sides, halves, values);
        }
        // Those without the third feature run slower for a while once they have used registers of 64 bytes.
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vbmi2")
        {
            #[allow(unsafe_code, reason = "calls a safe function that needs features of the processor")]
            // SAFETY: the processor has the features that the function was compiled for.
            return unsafe { widest(keys, sides, halves, values) };
        }
    }
    undo_by_four(keys, sides, halves, values);
}

chosen! {
    /// As `undo_rounds`, where products of words take several steps.
    pub fn undo_by_four(keys: &[u64; ROUNDS], sides: [u64; 2], halves: [u64; 2], values: &mut [u64]) -> ()
        = undo_inline, for AVX2 undo_inline
}

#[inline(always)]
fn undo_inline(keys: &[u64; ROUNDS], sides: [u64; 2], halves: [u64; 2], values: &mut [u64]) {
    let ([left_side, right_side], [left, first_right]) = (sides, halves);
    let minus = |half: u64, added: u64, side: u64| {
        let rest = half.wrapping_sub(added);
        // Below zero, it is large. A branch would be taken at random.
        rest.min(rest.wrapping_add(side))
    };
    // One for all of the same left half.
    let added = below(left ^ keys[5], right_side);
    for (value, right) in values.iter_mut().zip(first_right..) {
        let right = minus(right, added, right_side);
        let left = minus(left, below(right ^ keys[4], left_side), left_side);
        let right = minus(right, below(left ^ keys[3], right_side), right_side);
        let left = minus(left, below(right ^ keys[2], left_side), left_side);
        let right = minus(right, below(left ^ keys[1], right_side), right_side);
        let left = minus(left, below(right ^ keys[0], left_side), left_side);
        *value = left * right_side + right;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_taken_back_alike_by_any_processor() {
        let keys = std::array::from_fn(|round| (round as u64 + 7).wrapping_mul(FIRST_FACTOR));
        for sides in [[16, 16], [17, 16], [1000, 999], [(1 << 31) + 5, (1 << 31) - 1]] {
            for halves in [[0, 0], [sides[0] - 1, 3], [sides[0] / 2, sides[1] / 2]] {
                for count in [0, 1, 7, 8, 9, 100, 256] {
                    let count = count.min(usize::try_from(sides[1] - halves[1]).unwrap());
                    let [mut found, mut by_four, mut plain] = [(); 3].map(|()| vec![7; count]);
                    undo_rounds(&keys, sides, halves, &mut found);
                    undo_by_four(&keys, sides, halves, &mut by_four);
                    undo_inline(&keys, sides, halves, &mut plain);
                    assert_eq!(found, plain);
                    assert_eq!(by_four, plain);
                    assert!(plain.iter().all(|value| value / sides[1] < sides[0]));
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
