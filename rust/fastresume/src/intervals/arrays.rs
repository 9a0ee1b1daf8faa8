//! The interval algebra over pairs of numbers, in arrays that callers hold.
//!
//! A million pairs take milliseconds. Pairs that are sorted and apart are used in place, and only the result
//! is copied. The result is pairs as well, one number after another, sorted and coalesced. If another thread
//! changes the numbers meanwhile, the result is any pairs, but there is no panic.

use std::cell::Cell;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::intervals::set::{Intervals, share_of};
use crate::memory::pool::Memory;
use crate::memory::vectors::collected_results;
use crate::simd;

/// `[start, end)`.
type Pair = [Cell<i64>; 2];

/// The number of positions before each block of this many numbers is noted.
const BLOCK_NUMBERS: usize = 2048;

/// Numbers are sorted by digits of this many bits, so that the places that are written stay in the nearest
/// caches.
const DIGIT_BITS: u32 = 11;

/// The positions of `[0, total)` that are in no pair.
///
/// # Errors
/// `Argument` if a pair is negative, or ends before it starts or after the total, or there is no memory.
pub fn remaining(pairs: &[Pair], total: u64) -> Result<Memory> {
    let mut left = Memory::lent();
    left.resize(8 * (2 * pairs.len() + 2))?;
    let words: &mut [u64] = bytemuck::cast_slice_mut(left.bytes_mut());
    let last = match gaps_of_rising(pairs.as_flattened(), words) {
        Some(last) => last,
        None => gaps(pairs, words)?,
    };
    let reached = words[last];
    if reached > total {
        return Err(Error::Argument(format!("an interval ends at {reached}, beyond the total {total}")));
    }
    words[last + 1] = total;
    left.truncate(8 * if reached == total { last } else { last + 2 });
    // Where pairs touch each other, few of many may be left.
    if left.len() < 8 * pairs.len() {
        let mut few = Memory::lent();
        few.extend(left.bytes())?;
        return Ok(few);
    }
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
        (*first, *last) = (start, end.wrapping_add(1));
    }
    Ok(part)
}

fn copy(numbers: &[Cell<i64>], words: &mut [u64]) {
    for (word, number) in words.iter_mut().zip(numbers) {
        *word = number.get().cast_unsigned();
    }
}

/// Ascending numbers, each above the one before: sorted pairs that don't touch each other.
struct Coalesced<'a> {
    numbers: &'a [Cell<i64>],
    /// The number of positions before each block of numbers, then the number of all.
    before: Vec<u64>,
}

impl<'a> Coalesced<'a> {
    /// The coalesced form of any pairs; `scratch` holds it if the pairs are not in that form.
    fn of(pairs: &'a [Pair], scratch: &'a mut Memory) -> Result<Self> {
        let numbers = pairs.as_flattened();
        if let Some(before) = counted(numbers) {
            return Ok(Self { numbers, before });
        }
        scratch.resize(8 * (2 * pairs.len() + 3))?;
        let words: &mut [u64] = bytemuck::cast_slice_mut(scratch.bytes_mut());
        // If the first position is in a pair, no gap comes before it, and this is its start. If not, the
        // first gap begins with a 0 that is no start.
        words[0] = 0;
        let last = 1 + gaps(pairs, &mut words[1..])?;
        let first = if words[1] == 0 { 2 } else { 0 };
        let numbers: &mut [i64] = bytemuck::cast_slice_mut(&mut words[first..=last]);
        let numbers = Cell::from_mut(numbers).as_slice_of_cells();
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

    /// The index of the pair that holds the position with `counted` positions before it, and that position.
    fn position(&self, mut counted: u64) -> (usize, u64) {
        let block = self.before.partition_point(|&before| before <= counted).saturating_sub(1);
        counted -= self.before[block];
        let mut place = block * BLOCK_NUMBERS;
        for pair in self.numbers.get(place..).unwrap_or_default().as_chunks().0 {
            let length = length(pair);
            if counted < length {
                return (place, pair[0].get().cast_unsigned().wrapping_add(counted));
            }
            counted -= length;
            place += 2;
        }
        (place, self.end())
    }
}

/// The number of positions before each block, and in all; `None` if a number is negative, or not above the
/// one before.
fn counted(numbers: &[Cell<i64>]) -> Option<Vec<u64>> {
    let mut before = Vec::with_capacity(numbers.len() / BLOCK_NUMBERS + 2);
    let (mut count, mut last) = (0, -1);
    for block in numbers.chunks(BLOCK_NUMBERS) {
        before.push(count);
        if !rises(block, last) {
            return None;
        }
        count = block.as_chunks().0.iter().map(length).fold(count, u64::wrapping_add);
        last = block.last()?.get();
    }
    before.push(count);
    Some(before)
}

/// Whether no number is negative, and each is above the one before it; the first must be above `last`.
fn rises(numbers: &[Cell<i64>], last: i64) -> bool {
    // Signs are combined without a branch, so that several numbers are compared at once. The signs of
    // differences are right if no number is negative.
    let Some(first) = numbers.first().map(Cell::get) else { return true };
    let mut signs = first | first.wrapping_sub(1).wrapping_sub(last);
    for (number, next) in numbers.iter().zip(&numbers[1..]) {
        signs |= next.get() | next.get().wrapping_sub(1).wrapping_sub(number.get());
    }
    signs >= 0
}

fn length([start, end]: &Pair) -> u64 {
    end.get().wrapping_sub(start.get()).cast_unsigned()
}

/// Writes the bounds of the gaps before and between pairs to `words`, and behind them the greatest end, or 0.
/// Returns the index of that number. A gap starts where a pair ends: so the bounds are the numbers of the
/// pairs, without the outermost ones.
///
/// # Errors
/// `Argument` if a pair is negative or ends before it starts, or there is no memory.
fn gaps(pairs: &[Pair], words: &mut [u64]) -> Result<usize> {
    let (mut starts, mut ends, mut lengths) = (0, 0, 0);
    for pair in pairs {
        starts |= pair[0].get();
        ends |= pair[1].get();
        lengths |= length(pair).cast_signed();
    }
    if (starts | ends | lengths) < 0 {
        pairs.iter().try_for_each(|pair| checked(pair.each_ref().map(Cell::get)).map(|_| ()))?;
    }
    let plain = |pair: &Pair| [pair[0].get().cast_unsigned(), length(pair)];
    if pairs.is_sorted_by_key(|[start, _]| start.get()) {
        return Ok(gaps_of_sorted(pairs.iter().map(plain), words));
    }
    let mut scratch = Memory::lent();
    let bits = |numbers: i64| i64::BITS - numbers.leading_zeros();
    let length_bits = bits(lengths);
    if bits(starts) + length_bits >= u64::BITS {
        scratch.resize(size_of_val(pairs))?;
        let sorted: &mut [[u64; 2]] = bytemuck::cast_slice_mut(scratch.bytes_mut());
        for (place, pair) in sorted.iter_mut().zip(pairs) {
            *place = plain(pair);
        }
        sorted.sort_unstable_by_key(|[start, _]| *start);
        return Ok(gaps_of_sorted(sorted.iter().copied(), words));
    }
    // Start and length of a pair are packed in one number: half as much is moved. Fresh memory costs as much
    // as a sorting pass. So the numbers move between two buffers, one of which is where the gaps will be
    // written. The sorted numbers end up in the other one.
    scratch.resize(size_of_val(pairs) / 2)?;
    let sorted: &mut [u64] = bytemuck::cast_slice_mut(scratch.bytes_mut());
    let passes = bits(starts).div_ceil(DIGIT_BITS);
    let (mut from, mut to) = (&mut *sorted, &mut words[..pairs.len()]);
    if !passes.is_multiple_of(2) {
        std::mem::swap(&mut from, &mut to);
    }
    for (number, pair) in from.iter_mut().zip(pairs) {
        *number = pair[0].get().cast_unsigned() << length_bits | length(pair);
    }
    for pass in 0..passes {
        sort_by_digit(from, to, length_bits + pass * DIGIT_BITS);
        std::mem::swap(&mut from, &mut to);
    }
    let pair = |number: &u64| [number >> length_bits, number & ((1 << length_bits) - 1)];
    Ok(gaps_of_sorted(sorted.iter().map(pair), words))
}

/// Like `gaps`, for pairs that don't touch the next; `None` for other pairs. The numbers of such pairs ascend,
/// except for an empty first pair at 0.
fn gaps_of_rising(numbers: &[Cell<i64>], words: &mut [u64]) -> Option<usize> {
    let start = usize::from(numbers.first().is_none_or(|first| first.get() != 0));
    words[..start].fill(0);
    let numbers = &numbers[1 - start..];
    let mut last = -1;
    for (block, words) in numbers.chunks(BLOCK_NUMBERS).zip(words[start..].chunks_mut(BLOCK_NUMBERS)) {
        if !rises(block, last) {
            return None;
        }
        last = block.last()?.get();
        copy(block, words);
    }
    (start + numbers.len()).checked_sub(1)
}

/// Like `gaps`, for starts and lengths that are sorted by their starts.
fn gaps_of_sorted(pairs: impl Iterator<Item = [u64; 2]>, words: &mut [u64]) -> usize {
    let (mut reached, mut place) = (0, 0);
    for [start, length] in pairs {
        if length == 0 {
            continue;
        }
        if start > reached {
            words[place] = reached;
            words[place + 1] = start;
            place += 2;
        }
        reached = reached.max(start.wrapping_add(length));
    }
    words[place] = reached;
    place
}

/// The bounds as positions.
fn checked([start, end]: [i64; 2]) -> Result<Range<u64>> {
    if start < 0 || end < 0 {
        return Err(Error::Argument(format!("an interval is negative: [{start}, {end})")));
    }
    if end < start {
        return Err(Error::Argument(format!("an interval ends before it starts: [{start}, {end})")));
    }
    Ok(start.cast_unsigned()..end.cast_unsigned())
}

/// Writes numbers sorted by the digit that begins at `first_bit`; equal digits keep their order. Sorting by
/// the lowest digit first, and by the highest last, sorts the numbers. For a million of them this is several
/// times as fast as comparing.
fn sort_by_digit(numbers: &[u64], sorted: &mut [u64], first_bit: u32) {
    let digit = |number: u64| usize::try_from((number >> first_bit) % (1 << DIGIT_BITS)).unwrap_or_default();
    let mut places = [0; 1 << DIGIT_BITS];
    for &number in numbers {
        places[digit(number)] += 1;
    }
    let mut place = 0;
    for count in &mut places {
        place += std::mem::replace(count, place);
    }
    for &number in numbers {
        let place = &mut places[digit(number)];
        sorted[*place] = number;
        *place += 1;
    }
}

/// The set of all positions in the pairs.
///
/// # Errors
/// `Argument` if a pair is negative, or ends before it starts.
pub fn to_set(pairs: &[Range<i64>]) -> Result<Intervals> {
    Intervals::new(collected_results(pairs.iter().map(|pair| checked([pair.start, pair.end])))?)
}

/// The elementwise maximum of all states, as signed 64-bit numbers. If another thread changes the numbers
/// meanwhile, it gets any of them.
///
/// # Errors
/// `Argument` if states differ in their length, or there is no memory.
pub fn greatest(states: &[&[Cell<i64>]]) -> Result<Memory> {
    let mut greatest = Memory::lent();
    let Some((first, others)) = states.split_first() else { return Ok(greatest) };
    if let Some(other) = others.iter().find(|other| other.len() != first.len()) {
        return Err(Error::Argument(format!(
            "states must have one length, found {} and {}",
            first.len(),
            other.len()
        )));
    }
    greatest.resize(size_of_val(*first))?;
    let numbers: &mut [i64] = bytemuck::cast_slice_mut(greatest.bytes_mut());
    for (number, of_first) in numbers.iter_mut().zip(*first) {
        *number = of_first.get();
    }
    simd::raise(numbers, others);
    Ok(greatest)
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
        assert_eq!(left(&[[0, 0], [5, 7]], 9).unwrap(), [0, 5, 7, 9]);
        assert_eq!(left(&[[0, 3], [3, 5], [5, 5], [5, 8]], 9).unwrap(), [8, 9]);
        assert!(left(&[], 0).unwrap().is_empty());
        assert!(shares(&[], 2, 1).concat().is_empty());
    }

    #[test]
    fn many_pairs_are_left_and_sliced_as_the_set_of_them_is() {
        let apart: Vec<[i64; 2]> = (0..5000).map(|n| [7 * n + n % 3, 7 * n + 4 + n % 2]).collect();
        let overlapping = apart.iter().map(|&[start, end]| [start, end + start % 11]).collect();
        let unsorted: Vec<[i64; 2]> = (0..5000).map(|n| apart[n * 1777 % 5000]).collect();
        let from_0 = unsorted.iter().map(|&[start, end]| [start - start % 2, end]).chain([[0, 1]]).collect();
        // Starts and lengths that together have almost as many bits as one number, and more.
        let far = unsorted.iter().map(|&[start, end]| [start << 40, (start << 40) + 5 + end % 2]).collect();
        let farther = unsorted.iter().map(|&[start, end]| [start << 47, end << 47]).chain([[0, 9]]).collect();
        for pairs in [apart, overlapping, unsorted, from_0, far, farther] {
            let ranges: Vec<Range<i64>> = pairs.iter().map(|&[start, end]| start..end).collect();
            let set = to_set(&ranges).unwrap();
            let words = |set: &Intervals| -> Vec<u64> {
                set.ranges().iter().flat_map(|range| [range.start, range.end]).collect()
            };
            for total in [set.end(), set.end() + 17] {
                assert_eq!(left(&pairs, total).unwrap(), words(&set.complement(total)));
            }
            for (count, multiple_of) in [(1, 1), (2, 1), (7, 4), (5, 4096), (30, 512)] {
                let expected = (0..count).map(|index| set.share(index, count, multiple_of).unwrap());
                let expected: Vec<_> = expected.map(|share| words(&share)).collect();
                assert_eq!(shares(&pairs, count, multiple_of), expected);
            }
        }
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        // The lengths of some of them are larger than the packed numbers hold.
        let far = [[1, i64::MIN], [i64::MAX, i64::MIN], [i64::MIN, i64::MAX]].map(|pair| (pair, "negative"));
        for (pair, reason) in
            [([-1, 3], "negative"), ([3, 1], "ends before it starts")].into_iter().chain(far)
        {
            let pairs = [[0, 1], pair];
            assert!(left(&pairs, 9).unwrap_err().to_string().contains(reason));
            let found = share(&cells(&pairs), 0, 1, 1);
            assert!(found.unwrap_err().to_string().contains(reason));
        }
    }

    #[test]
    fn the_greatest_of_any_number_of_states_is_found_at_each_place() {
        let number = |state: i64, place: i64| (state * 7919 + place * 104_729) % 1009 - 500;
        for places in [0, 1, 3, 64, 101] {
            let states: Vec<Vec<Cell<i64>>> = (0..20)
                .map(|state| (0..places).map(|place| Cell::new(number(state, place))).collect())
                .collect();
            for count in 1..=20 {
                let given: Vec<&[Cell<i64>]> = states[..count].iter().map(Vec::as_slice).collect();
                let found = greatest(&given).unwrap();
                let expected = |place| (0..).take(count).map(|state| number(state, place)).max();
                let expected: Option<Vec<i64>> = (0..places).map(expected).collect();
                assert_eq!(Some(bytemuck::cast_slice(found.bytes()).to_vec()), expected);
            }
        }
    }

    #[test]
    fn states_of_different_lengths_are_refused() {
        let state = [const { Cell::new(1) }; 4];
        let found = greatest(&[&state, &state, &state[..3]]).unwrap_err().to_string();
        assert!(found.contains("found 4 and 3"), "{found}");
        assert!(greatest(&[]).unwrap().is_empty());
    }
}
