//! A keyed permutation of `[0, n)` by index arithmetic: no table, no state.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::ops::Range;

use crate::simd::{FIRST_FACTOR, FeistelRounds, ROUNDS, SECOND_FACTOR, below};

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number of inverses that are computed at a time.
const CHUNK: usize = 256;

/// The smallest side of the Feistel network: a smaller one would have too few permutations to choose from.
const MIN_SIDE: u64 = 16;

/// The finalizer of `SplitMix64` (Steele, Lea and Flood 2014; Stafford's variant 13).
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(FIRST_FACTOR);
    let word = (word ^ (word >> 27)).wrapping_mul(SECOND_FACTOR);
    word ^ (word >> 31)
}

/// A hash of a list of words.
#[must_use]
pub fn key(words: &[u64]) -> u64 {
    words.iter().fold(0, |hash, word| mix((hash ^ word).wrapping_add(GAMMA)))
}

/// For each number, the hash of the words followed by that number.
#[must_use]
pub fn keys(words: &[u64], numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let hash = key(words);
    numbers.map(|number| mix((hash ^ number).wrapping_add(GAMMA))).collect()
}

/// A keyed permutation of `[0, n)`: the key alone chooses it.
///
/// It is a Feistel network over the domain `left * right >= n`, which is only a little larger than n. It
/// walks along the network's cycles until the value is below n (Black and Rogaway, "Ciphers with arbitrary
/// finite domains", 2002).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    left: u64,
    right: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `[0, n)` under `key`; n must be below 2^62.
    #[must_use]
    pub fn new(n: u64, key: u64) -> Self {
        let root = n.isqrt();
        let left = (if root * root < n { root + 1 } else { root }).max(MIN_SIDE);
        let right = n.div_ceil(left).max(MIN_SIDE);
        let mut round_key = key;
        let keys = std::array::from_fn(|_| {
            round_key = round_key.wrapping_add(GAMMA);
            mix(round_key)
        });
        Self { n, left, right, keys }
    }

    /// Where `index` goes. An index that is not below n gives 0.
    #[must_use]
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        self.walk(index, |value| self.forward(value))
    }

    /// What goes to `value`: the inverse of [`Permutation::at`].
    #[must_use]
    #[inline]
    pub fn inverse(&self, value: u64) -> u64 {
        self.walk(value, |value| self.backward(value))
    }

    #[inline]
    fn walk(&self, from: u64, step: impl Fn(u64) -> u64) -> u64 {
        if from >= self.n {
            return 0;
        }
        let mut value = step(from);
        while value >= self.n {
            value = step(value);
        }
        value
    }

    #[inline]
    fn split(&self, value: u64) -> (u64, u64) {
        match (u32::try_from(value), u32::try_from(self.right)) {
            // A 32-bit division is twice as fast.
            (Ok(value), Ok(right)) => (u64::from(value / right), u64::from(value % right)),
            _ => (value / self.right, value % self.right),
        }
    }

    #[inline]
    fn forward(&self, value: u64) -> u64 {
        let (mut left, mut right) = self.split(value);
        for keys in self.keys.chunks_exact(2) {
            left += below(right ^ keys[0], self.left);
            left -= if left >= self.left { self.left } else { 0 };
            right += below(left ^ keys[1], self.right);
            right -= if right >= self.right { self.right } else { 0 };
        }
        left * self.right + right
    }

    #[inline]
    fn backward(&self, value: u64) -> u64 {
        let (mut left, mut right) = self.split(value);
        for keys in self.keys.rchunks_exact(2) {
            let added = below(left ^ keys[1], self.right);
            right = if right < added { right + self.right } else { right } - added;
            let added = below(right ^ keys[0], self.left);
            left = if left < added { left + self.left } else { left } - added;
        }
        left * self.right + right
    }
}

/// The inverse of a permutation of `[0, n)`, for many values. What the rounds add is computed beforehand, for
/// about `6 * sqrt(n)` numbers.
#[derive(Debug)]
pub struct Inverse {
    permutation: Permutation,
    rounds: FeistelRounds,
}

impl Inverse {
    /// The inverse of a permutation.
    #[must_use]
    pub fn of(permutation: &Permutation) -> Self {
        let permutation = permutation.clone();
        let rounds = FeistelRounds::new(&permutation.keys, [permutation.left, permutation.right]);
        Self { permutation, rounds }
    }

    /// The inverses of consecutive values below n, some of them at a time.
    pub fn each(&self, values: Range<u64>, mut each: impl FnMut(&[u64])) {
        let of = &self.permutation;
        let mut found = [0; CHUNK];
        let mut first = values.start;
        while first < values.end {
            let (left, right) = of.split(first);
            let most = (values.end - first).min(of.right - right);
            let found = &mut found[..usize::try_from(most).map_or(CHUNK, |most| most.min(CHUNK))];
            self.rounds.undo([left, right], found);
            for (found, value) in found.iter_mut().zip(first..) {
                if *found >= of.n {
                    *found = of.inverse(value);
                }
            }
            each(found);
            first += found.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_bijection_and_has_an_inverse() {
        for n in [0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 97, 255, 256, 257, 1023, 1024, 1025, 65_537] {
            let permutation = Permutation::new(n, key(&[17, n]));
            let mut seen = vec![false; usize::try_from(n).unwrap()];
            for index in 0..n {
                let value = permutation.at(index);
                assert!(!std::mem::replace(&mut seen[usize::try_from(value).unwrap()], true));
                assert_eq!(permutation.inverse(value), index);
            }
        }
    }

    #[test]
    fn inverses_of_many_values_go_to_each() {
        for n in [17, 1000, 65_537, 300_000, 10_000_000] {
            let permutation = Permutation::new(n, key(&[n]));
            let inverse = Inverse::of(&permutation);
            for values in [0..n.min(20), n / 3..n, 0..n.min(50_000), n - 1..n, n..n] {
                let values = values.start.max(values.end.saturating_sub(60_000))..values.end;
                let mut found = Vec::new();
                inverse.each(values.clone(), |some| found.extend_from_slice(some));
                assert!(found.iter().map(|&index| permutation.at(index)).eq(values));
            }
        }
    }

    #[test]
    fn every_permutation_of_four_comes_equally_often() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..24_000 {
            let permutation = Permutation::new(4, key(&[seed]));
            *counts.entry([0, 1, 2, 3].map(|index| permutation.at(index))).or_insert(0_u32) += 1;
        }
        // 1000 each, standard deviation 31.
        assert!(counts.len() == 24 && counts.values().all(|&count| (800..1200).contains(&count)));
    }

    #[test]
    fn large_domains_are_walked_back() {
        for n in [(1 << 32) - 1, 1 << 32, (1 << 32) + 1, (1 << 53) - 111, 1_000_000_000_039] {
            let permutation = Permutation::new(n, key(&[n]));
            for index in [0, 1, n / 2, n - 1] {
                assert!(permutation.at(index) < n);
                assert_eq!(permutation.inverse(permutation.at(index)), index);
            }
        }
    }
}
