//! Feature hashing: the hash that puts strings and integers into buckets. Version 1, for ever.

use twox_hash::XxHash64;

/// The number of buckets, and the seed of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buckets {
    /// The number of buckets: at least 1, and at most 2^63.
    pub count: u64,
    /// XXH64's seed.
    pub seed: u64,
}

const PRIMES: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];

impl Buckets {
    /// The bucket of bytes.
    #[must_use]
    pub fn of_bytes(self, bytes: &[u8]) -> u64 {
        self.of_hash(XxHash64::oneshot(self.seed, bytes))
    }

    /// The bucket of an integer: that of its 8 bytes in two's complement, little-endian.
    #[must_use]
    pub fn of_integer(self, bits: u64) -> u64 {
        let [one, two, three, four, five] = PRIMES;
        let word = bits.wrapping_mul(two).rotate_left(31).wrapping_mul(one);
        let mut hash = self.seed.wrapping_add(five).wrapping_add(8) ^ word;
        hash = hash.rotate_left(27).wrapping_mul(one).wrapping_add(four);
        hash = (hash ^ hash >> 33).wrapping_mul(two);
        hash = (hash ^ hash >> 29).wrapping_mul(three);
        self.of_hash(hash ^ hash >> 32)
    }

    /// The hash as a fraction of 2^64, times the number of buckets.
    fn of_hash(self, hash: u64) -> u64 {
        let product = u128::from(hash) * u128::from(self.count);
        // Less than the number of buckets.
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A description of the bucket numbers, for people.
    #[must_use]
    pub fn unit(self) -> String {
        match self {
            Self { count, seed: 0 } => format!("hash1[{count}]"),
            Self { count, seed } => format!("hash1[{count}, seed {seed}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest number of buckets, all of which an int64 can hold.
    const MAX_BUCKETS: u64 = 1 << 63;

    #[test]
    fn an_integer_is_in_the_bucket_of_its_bytes() {
        for count in [1, 2, 1_000_003, MAX_BUCKETS] {
            for seed in [0, 7, u64::MAX] {
                let buckets = Buckets { count, seed };
                for bits in [0, 1, 42, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef] {
                    let bucket = buckets.of_integer(bits);
                    assert_eq!(bucket, buckets.of_bytes(&bits.to_le_bytes()));
                    assert!(bucket < count);
                }
            }
        }
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // From the reference implementation's own tables: no bytes, and "a".
        let all = Buckets { count: MAX_BUCKETS, seed: 0 };
        assert_eq!(all.of_bytes(b""), 0xEF46_DB37_51D8_E999 >> 1);
        assert_eq!(all.of_bytes(b"a"), 0xD24E_C4F1_A98C_6E5B >> 1);
    }
}
