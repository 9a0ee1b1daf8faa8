//! Splits: a share of the rows by a hash of their numbers, so that a row stays in its split for ever.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::error::{Result, check};
use crate::intervals::set::Intervals;
use crate::order::permutation::key;

/// The letters `split 1`, so that the hash is its own; the 1 is its version.
const WORD: u64 = 0x73_70_6c_69_74_20_31;

/// The number of the hash's highest bits that are compared.
const BITS: u32 = 53;

/// Whether to stop is checked every this many rows.
const STRIDE: usize = 1 << 20;

/// Whether the hash of a row, in units of 2^-53, lies in `share`.
#[must_use]
pub fn is_in_split(row: u64, share: &Range<u64>, seed: u64) -> bool {
    share.contains(&(key(&[WORD, seed, row]) >> (u64::BITS - BITS)))
}

/// The rows of `[0, num_rows)` whose hash, in units of 2^-53, lies in `share`. Setting `stop` ends the work
/// early.
///
/// # Errors
/// `Interrupted` if stopped.
pub fn split(num_rows: u64, share: &Range<u64>, seed: u64, stop: &AtomicBool) -> Result<Intervals> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for first in (0..num_rows).step_by(STRIDE) {
        check(stop)?;
        for row in (first..num_rows.min(first + STRIDE as u64)).filter(|&row| is_in_split(row, share, seed)) {
            match ranges.last_mut() {
                Some(last) if last.end == row => last.end = row + 1,
                _ => ranges.push(row..row + 1),
            }
        }
    }
    Intervals::try_of_sorted(ranges.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn shares_that_lie_side_by_side_part_the_rows() {
        let go = AtomicBool::new(false);
        let (cut, all) = (9 << (BITS - 4), 1 << BITS);
        for num_rows in [0, 1, 1000, (STRIDE + 3) as u64] {
            let left = split(num_rows, &(0..cut), 7, &go).unwrap();
            let right = split(num_rows, &(cut..all), 7, &go).unwrap();
            assert_eq!(left.complement(num_rows), right);
            assert_eq!(split(num_rows, &(0..all), 7, &go).unwrap(), Intervals::full(num_rows));
            let expected = num_rows * 9 / 16;
            assert!(left.count().abs_diff(expected) <= num_rows / 20 + 1, "{} of {num_rows}", left.count());
        }
        assert_ne!(split(1000, &(0..cut), 7, &go).unwrap(), split(1000, &(0..cut), 8, &go).unwrap());
        assert_eq!(split(1, &(0..all), 7, &AtomicBool::new(true)), Err(Error::Interrupted));
    }
}
