//! The interval algebra over pairs of numbers, where callers hold them.
//!
//! A million pairs take milliseconds: those that are sorted and apart are taken as they lie there, and nothing is
//! copied but the result. That is pairs as well, one number after another, sorted and coalesced. Whoever changes
//! numbers meanwhile gets any pairs, but no panic.

use std::cell::Cell;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::intervals::{Intervals, share_of};
use crate::memory::Memory;

/// `[start, end)`.
type Pair = [Cell<i64>; 2];

/// How many positions lie before it is noted for every block of so many numbers.
const BLOCK_NUMBERS: usize = 2048;

/// The positions of `[0, total)` that are in none of the pairs.
///
/// # Errors
/// `Argument` if a pair is negative, or ends before it starts or after the total, or there is no memory.
pub fn remaining(pairs: &[Pair], total: u64) -> Result<Memory> {
    let mut scratch = Memory::lent();
    let consumed = Coalesced::of(pairs, &mut scratch)?;
    if consumed.end() > total {
        let reason = format!("an interval ends at {}, beyond the total {total}", consumed.end());
        return Err(Error::Argument(reason));
    }
    // Where one of them ends, one that is left starts: the numbers are the same, but for the outermost.
    let (first, numbers) = match consumed.numbers.split_first() {
        Some((first, numbers)) if first.get() == 0 => (0, numbers),
        _ => (1, consumed.numbers),
    };
    let mut left = Memory::lent();
    left.resize(8 * (numbers.len() + 2))?;
    let words: &mut [u64] = bytemuck::cast_slice_mut(left.bytes_mut());
    words[0] = 0;
    let last = first + numbers.len();
    copy(numbers, &mut words[first..last]);
    words[last] = total;
    let is_whole = last > 0 && words[last - 1] == total;
    left.truncate(8 * if is_whole { last - 1 } else { last + 1 });
    Ok(left)
}

/// Slice `index` of `count` of the positions in the pairs; see [`Intervals::share`].
///
/// # Errors
/// `Argument` if a pair is negative or ends before it starts, `index >= count`, `multiple_of` is 0, or there is no
/// memory.
pub fn share(pairs: &[Pair], index: u64, count: u64, multiple_of: u64) -> Result<Memory> {
    let mut scratch = Memory::lent();
    let whole = Coalesced::of(pairs, &mut scratch)?;
    let meant = share_of(whole.count(), index, count, multiple_of)?;
    let mut part = Memory::lent();
    if meant.is_empty() {
        return Ok(part);
    }
    let (first, start) = whole.position(meant.start);
    let (last, end) = whole.position(meant.end - 1);
    let numbers = whole.numbers.get(first..last + 2).unwrap_or_default();
    part.resize(size_of_val(numbers))?;
    let words: &mut [u64] = bytemuck::cast_slice_mut(part.bytes_mut());
    copy(numbers, words);
    if let [first, .., last] = words {
        (*first, *last) = (start, end + 1);
    }
    Ok(part)
}

fn copy(numbers: &[Cell<i64>], words: &mut [u64]) {
    for (word, number) in words.iter_mut().zip(numbers) {
        *word = number.get().cast_unsigned();
    }
}

/// Numbers that rise, each above the one before it: sorted pairs, none of which touches another.
struct Coalesced<'a> {
    numbers: &'a [Cell<i64>],
    /// How many positions lie before each block of the numbers, and at last how many there are.
    before: Vec<u64>,
}

impl<'a> Coalesced<'a> {
    /// Of any pairs; `scratch` gets those that are not as they should be.
    fn of(pairs: &'a [Pair], scratch: &'a mut Memory) -> Result<Self> {
        let numbers = pairs.as_flattened();
        if let Some(before) = counted(numbers) {
            return Ok(Self { numbers, before });
        }
        let numbers = Cell::from_mut(coalesced(pairs, scratch)?).as_slice_of_cells();
        Ok(Self { numbers, before: counted(numbers).unwrap_or_default() })
    }

    /// How many positions there are.
    fn count(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// The first position after the last one, or 0.
    fn end(&self) -> u64 {
        self.numbers.last().map_or(0, |last| last.get().cast_unsigned())
    }

    /// The place of the pair that holds the position that so many come before, and that position.
    fn position(&self, mut counted: u64) -> (usize, u64) {
        let block = self.before.partition_point(|&before| before <= counted).saturating_sub(1);
        counted -= self.before[block];
        let mut place = block * BLOCK_NUMBERS;
        for pair in self.numbers.get(place..).unwrap_or_default().as_chunks().0 {
            let length = length(pair);
            if counted < length {
                return (place, pair[0].get().cast_unsigned() + counted);
            }
            counted -= length;
            place += 2;
        }
        (place, self.end())
    }
}

/// How many positions lie before each block, and in all; none if a number is negative, or not above the last.
fn counted(numbers: &[Cell<i64>]) -> Option<Vec<u64>> {
    let mut before = Vec::with_capacity(numbers.len() / BLOCK_NUMBERS + 2);
    let (mut count, mut last) = (0, -1);
    for block in numbers.chunks(BLOCK_NUMBERS) {
        before.push(count);
        // Signs are gathered without a branch, so that several numbers are looked at at once. Where no number
        // is negative, those of differences are right.
        let first = block.first()?.get();
        let mut signs = first | first.wrapping_sub(1).wrapping_sub(last);
        for (number, next) in block.iter().zip(&block[1..]) {
            signs |= next.get() | next.get().wrapping_sub(1).wrapping_sub(number.get());
        }
        if signs < 0 {
            return None;
        }
        count = block.as_chunks().0.iter().map(length).fold(count, u64::wrapping_add);
        last = block.last()?.get();
    }
    before.push(count);
    Some(before)
}

fn length([start, end]: &Pair) -> u64 {
    end.get().wrapping_sub(start.get()).cast_unsigned()
}

/// The pairs without the empty ones, checked, sorted and joined where they touch.
fn coalesced<'s>(pairs: &[Pair], scratch: &'s mut Memory) -> Result<&'s mut [i64]> {
    scratch.resize(2 * size_of_val(pairs))?;
    let places: &mut [[u64; 2]] = bytemuck::cast_slice_mut(scratch.bytes_mut());
    let (mut sorted, other) = places.split_at_mut(pairs.len());
    for (place, pair) in sorted.iter_mut().zip(pairs) {
        let [start, end] = unsigned(pair.each_ref().map(Cell::get))?;
        if end < start {
            return Err(Error::Argument(format!("an interval ends before it starts: [{start}, {end})")));
        }
        *place = [start, end];
    }
    if !sorted.is_sorted_by_key(|&[start, _]| start) {
        sorted = sorted_by_start(sorted, other);
    }
    let mut count = 0;
    for index in 0..sorted.len() {
        let [start, end] = sorted[index];
        match sorted[..count].last_mut() {
            _ if start == end => {}
            Some([_, reached]) if start <= *reached => *reached = end.max(*reached),
            _ => {
                sorted[count] = [start, end];
                count += 1;
            }
        }
    }
    Ok(bytemuck::cast_slice_mut(&mut sorted[..count]))
}

/// The bounds as positions.
fn unsigned([start, end]: [i64; 2]) -> Result<[u64; 2]> {
    if start < 0 || end < 0 {
        return Err(Error::Argument(format!("an interval is negative: [{start}, {end})")));
    }
    Ok([start, end].map(i64::cast_unsigned))
}

/// The pairs by their starts: byte by byte, the lowest first, each pass keeping the order of the one before. (For a
/// million pairs three times as fast as comparing them.)
fn sorted_by_start<'s>(mut pairs: &'s mut [[u64; 2]], mut other: &'s mut [[u64; 2]]) -> &'s mut [[u64; 2]] {
    let highest = pairs.iter().map(|&[start, _]| start).max().unwrap_or(0);
    let bytes = (u64::BITS - highest.leading_zeros()).div_ceil(8);
    let mut places_of: Vec<[usize; 256]> = (0..bytes).map(|_| [0; 256]).collect();
    for [start, _] in pairs.iter() {
        for (places, byte) in places_of.iter_mut().zip(start.to_le_bytes()) {
            places[usize::from(byte)] += 1;
        }
    }
    for (byte, places) in places_of.iter_mut().enumerate() {
        let mut place = 0;
        for count in places.iter_mut() {
            place += std::mem::replace(count, place);
        }
        for &pair in pairs.iter() {
            let place = &mut places[usize::from(pair[0].to_le_bytes()[byte])];
            other[*place] = pair;
            *place += 1;
        }
        std::mem::swap(&mut pairs, &mut other);
    }
    pairs
}

/// The set of all positions that pairs hold.
///
/// # Errors
/// `Argument` if a pair is negative, or ends before it starts.
pub fn to_set(pairs: &[Range<i64>]) -> Result<Intervals> {
    let range = |pair: &Range<i64>| unsigned([pair.start, pair.end]).map(|[start, end]| start..end);
    Intervals::new(pairs.iter().map(range).collect::<Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(pairs: &[[i64; 2]]) -> Vec<Pair> {
        pairs.iter().map(|pair| pair.map(Cell::new)).collect()
    }

    fn left(pairs: &[[i64; 2]], total: u64) -> Result<Vec<u64>> {
        remaining(&cells(pairs), total).map(|left| bytemuck::cast_slice(left.bytes()).to_vec())
    }

    fn shares(pairs: &[[i64; 2]], count: u64, multiple_of: u64) -> Vec<Vec<u64>> {
        let part = |index| share(&cells(pairs), index, count, multiple_of).unwrap();
        (0..count).map(|index| bytemuck::cast_slice(part(index).bytes()).to_vec()).collect()
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
    fn many_pairs_are_left_and_sliced_as_the_set_of_them_is() {
        let apart: Vec<[i64; 2]> = (0..5000).map(|n| [7 * n + n % 3, 7 * n + 4 + n % 2]).collect();
        let overlapping = apart.iter().map(|&[start, end]| [start, end + start % 11]).collect();
        let unsorted = (0..5000).map(|n| apart[n * 1777 % 5000]).collect();
        for pairs in [apart, overlapping, unsorted] {
            let ranges: Vec<Range<i64>> = pairs.iter().map(|&[start, end]| start..end).collect();
            let set = to_set(&ranges).unwrap();
            let words = |set: &Intervals| -> Vec<u64> {
                set.ranges().iter().flat_map(|range| [range.start, range.end]).collect()
            };
            assert_eq!(left(&pairs, 40_000).unwrap(), words(&set.complement(40_000)));
            for (count, multiple_of) in [(1, 1), (2, 1), (7, 4), (5, 4096), (30, 512)] {
                let expected = (0..count).map(|index| set.share(index, count, multiple_of).unwrap());
                let expected: Vec<_> = expected.map(|share| words(&share)).collect();
                assert_eq!(shares(&pairs, count, multiple_of), expected);
            }
        }
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        for (pair, reason) in [([-1, 3], "negative"), ([3, 1], "ends before it starts")] {
            let pairs = [[0, 1], pair];
            assert!(left(&pairs, 9).unwrap_err().to_string().contains(reason));
            let found = share(&cells(&pairs), 0, 1, 1);
            assert!(found.unwrap_err().to_string().contains(reason));
        }
    }
}
