//! The interval algebra over pairs of numbers, as callers hold them: `len` of them, each told by `at`.
//!
//! A million pairs take milliseconds: sorted ones are walked where they lie, and nothing is copied but the
//! result. That is pairs as well, one number after another, sorted and coalesced.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::intervals::{Intervals, share_of};

/// The place where a slice begins is noted for every block of so many pairs.
const BLOCK_PAIRS: usize = 1024;

/// Pairs are sorted by so many bits of their starts at a time.
const DIGIT_BITS: usize = 11;
const DIGITS: usize = 1 << DIGIT_BITS;
const LAST_DIGIT: i64 = (1 << DIGIT_BITS) - 1;

/// The numbers of `[0, total)` that are in none of the pairs.
///
/// # Errors
/// `Argument` if a pair is negative, or ends before it starts or after the total.
pub fn remaining(len: usize, at: impl Fn(usize) -> [i64; 2], total: u64) -> Result<Vec<u64>> {
    if let Some(left) = remaining_of_sorted(len, &at, total)? {
        return Ok(left);
    }
    let pairs = sorted(len, at)?;
    Ok(remaining_of_sorted(len, |index| pairs[index], total)?.unwrap_or_default())
}

/// None if the pairs are not sorted, or one is no interval.
fn remaining_of_sorted(len: usize, at: impl Fn(usize) -> [i64; 2], total: u64) -> Result<Option<Vec<u64>>> {
    let mut left = Vec::with_capacity(2 * len.saturating_add(1));
    let mut walk = Walk::default();
    for index in 0..len {
        let reached = walk.reached;
        match walk.next(at(index)) {
            Some(new) if new.is_empty() => {}
            Some(new) if new.end <= total => {
                if reached < new.start {
                    left.extend_from_slice(&[reached, new.start]);
                }
            }
            Some(new) => {
                let reason = format!("an interval ends at {}, beyond the total {total}", new.end);
                return Err(Error::Argument(reason));
            }
            None => return Ok(None),
        }
    }
    if walk.reached < total {
        left.extend_from_slice(&[walk.reached, total]);
    }
    Ok(Some(left))
}

/// Slice `index` of `count` of the numbers in the pairs; see [`Intervals::share`].
///
/// # Errors
/// `Argument` if a pair is negative or ends before it starts, `index >= count`, or `multiple_of` is 0.
pub fn share(
    len: usize,
    at: impl Fn(usize) -> [i64; 2],
    index: u64,
    count: u64,
    multiple_of: u64,
) -> Result<Vec<u64>> {
    let share_of = |total| share_of(total, index, count, multiple_of);
    if let Some(part) = share_of_sorted(len, &at, share_of)? {
        return Ok(part);
    }
    let pairs = sorted(len, at)?;
    Ok(share_of_sorted(len, |index| pairs[index], share_of)?.unwrap_or_default())
}

/// What `meant` counts out of all numbers; none if the pairs are not sorted, or one is no interval.
fn share_of_sorted(
    len: usize,
    at: impl Fn(usize) -> [i64; 2],
    meant: impl Fn(u64) -> Result<Range<u64>>,
) -> Result<Option<Vec<u64>>> {
    // At the start of each block: how many numbers the pairs before it hold, and how far they reach.
    let mut blocks = Vec::with_capacity(len / BLOCK_PAIRS + 1);
    let mut walk = Walk::default();
    let mut total = 0;
    for pair in 0..len {
        if pair % BLOCK_PAIRS == 0 {
            blocks.push((total, walk.clone()));
        }
        match walk.next(at(pair)) {
            Some(new) => total += new.end - new.start,
            None => return Ok(None),
        }
    }
    let meant = meant(total)?;
    let mut numbers: Vec<u64> = Vec::new();
    let block = blocks.partition_point(|&(before, _)| before <= meant.start).saturating_sub(1);
    let (mut counted, mut walk) = blocks.get(block).cloned().unwrap_or_default();
    for pair in block * BLOCK_PAIRS..len {
        let Some(new) = walk.next(at(pair)).filter(|_| counted < meant.end) else { break };
        let end = counted + (new.end - new.start);
        let (from, to) = (meant.start.max(counted), meant.end.min(end));
        if from < to {
            let part = [new.start + (from - counted), new.start + (to - counted)];
            match numbers.last_mut() {
                Some(last) if *last == part[0] => *last = part[1],
                _ => numbers.extend_from_slice(&part),
            }
        }
        counted = end;
    }
    Ok(Some(numbers))
}

/// A walk over pairs that come sorted by their starts.
#[derive(Debug, Clone, Default)]
struct Walk {
    /// Where the last pair started.
    started: u64,
    /// The end of all pairs so far.
    reached: u64,
}

impl Walk {
    /// What a pair holds more than those before it; none if the pair is out of order, or no interval.
    fn next(&mut self, [start, end]: [i64; 2]) -> Option<Range<u64>> {
        if end < start || start < self.started.cast_signed() {
            return None;
        }
        let (start, end) = (start.cast_unsigned(), end.cast_unsigned());
        self.started = start;
        let new = start.max(self.reached).min(end)..end;
        if start < end {
            self.reached = self.reached.max(end);
        }
        Some(new)
    }
}

/// The pairs, checked and sorted by their starts.
fn sorted(len: usize, at: impl Fn(usize) -> [i64; 2]) -> Result<Vec<[i64; 2]>> {
    let mut pairs = Vec::with_capacity(len);
    for index in 0..len {
        let [start, end] = at(index);
        if start < 0 || end < 0 {
            return Err(Error::Argument(format!("an interval is negative: [{start}, {end})")));
        }
        if end < start {
            return Err(Error::Argument(format!("an interval ends before it starts: [{start}, {end})")));
        }
        pairs.push([start, end]);
    }
    Ok(sorted_by_start(pairs))
}

/// By the starts, none of which is negative: digit by digit, the lowest first, each pass keeping the order of
/// the one before. (For a million pairs twice as fast as comparing them.)
fn sorted_by_start(mut pairs: Vec<[i64; 2]>) -> Vec<[i64; 2]> {
    let digit = |[start, _]: [i64; 2], shift: u32| usize::try_from(start >> shift & LAST_DIGIT).unwrap_or(0);
    let highest = pairs.iter().map(|&[start, _]| start).max().unwrap_or(0);
    let mut other = vec![[0; 2]; pairs.len()];
    for shift in (0..64 - highest.leading_zeros()).step_by(DIGIT_BITS) {
        let mut places = [0; DIGITS];
        for &pair in &pairs {
            places[digit(pair, shift)] += 1;
        }
        let mut place = 0;
        for count in &mut places {
            place += std::mem::replace(count, place);
        }
        for &pair in &pairs {
            let place = &mut places[digit(pair, shift)];
            other[*place] = pair;
            *place += 1;
        }
        std::mem::swap(&mut pairs, &mut other);
    }
    pairs
}

/// The set of all numbers that pairs hold.
///
/// # Errors
/// `Argument` if a pair is negative, or ends before it starts.
pub fn to_set(len: usize, at: impl Fn(usize) -> [i64; 2]) -> Result<Intervals> {
    let range = |index| {
        let [start, end] = at(index);
        match (u64::try_from(start), u64::try_from(end)) {
            (Ok(start), Ok(end)) => Ok(start..end),
            _ => Err(Error::Argument(format!("an interval is negative: [{start}, {end})"))),
        }
    };
    Intervals::new((0..len).map(range).collect::<Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(pairs: &[[i64; 2]], total: u64) -> Result<Vec<u64>> {
        remaining(pairs.len(), |index| pairs[index], total)
    }

    fn shares(pairs: &[[i64; 2]], count: u64, multiple_of: u64) -> Vec<Vec<u64>> {
        let part = |index| share(pairs.len(), |index| pairs[index], index, count, multiple_of).unwrap();
        (0..count).map(part).collect()
    }

    #[test]
    fn sorted_and_unsorted_pairs_leave_the_same() {
        for pairs in [[[0, 2], [2, 2], [2, 3], [5, 7], [6, 9]], [[5, 7], [0, 2], [6, 9], [2, 2], [2, 3]]] {
            assert_eq!(left(&pairs, 12).unwrap(), [3, 5, 9, 12]);
            assert_eq!(left(&pairs, 9).unwrap(), [3, 5]);
            assert!(left(&pairs, 8).unwrap_err().to_string().contains("ends at 9, beyond the total 8"));
            assert_eq!(shares(&pairs, 2, 3), [[0, 3], [5, 9]]);
            assert_eq!(shares(&pairs, 2, 4), [vec![], vec![0, 3, 5, 9]]);
        }
        assert_eq!(left(&[[7, 7], [20, 20]], 9).unwrap(), [0, 9]);
        assert!(left(&[], 0).unwrap().is_empty());
        assert!(shares(&[], 2, 1).concat().is_empty());
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        for (pair, reason) in [([-1, 3], "negative"), ([3, 1], "ends before it starts")] {
            let pairs = [[0, 1], pair];
            assert!(left(&pairs, 9).unwrap_err().to_string().contains(reason));
            let found = share(2, |index| pairs[index], 0, 1, 1);
            assert!(found.unwrap_err().to_string().contains(reason));
        }
    }
}
