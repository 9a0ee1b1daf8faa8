//! An interval set: positions as sorted, disjoint, coalesced ranges.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::memory::vectors::room_for;

/// A set of positions as half-open ranges: sorted, disjoint, coalesced, none of them empty.
///
/// The running count of positions is kept beside the ranges, so that "the k-th position of the set" is one
/// binary search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Intervals {
    ranges: Vec<Range<u64>>,
    /// `before[i]` positions lie in the ranges before range `i`.
    before: Vec<u64>,
}

impl Intervals {
    /// The set that holds the positions of all `ranges`, which may overlap and come in any order.
    ///
    /// # Errors
    /// `Argument` if a range ends before it starts, or the system does not give so much memory.
    pub fn new(mut ranges: Vec<Range<u64>>) -> Result<Self> {
        if let Some(range) = ranges.iter().find(|range| range.start > range.end) {
            return Err(Error::Argument(format!(
                "an interval ends before it starts: [{}, {})",
                range.start, range.end
            )));
        }
        ranges.sort_unstable_by_key(|range| range.start);
        Self::try_of_sorted(ranges.into_iter())
    }

    /// The set `[0, total)`.
    #[must_use]
    pub fn full(total: u64) -> Self {
        let mut set = Self::default();
        set.push(0..total);
        set
    }

    /// The indices of the marks that are not 0.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn marked(marks: &[u8]) -> Result<Self> {
        let mut next = 0;
        Self::try_of_sorted(std::iter::from_fn(|| {
            let start = next + marks[next..].iter().position(|&mark| mark != 0)?;
            next = marks[start..].iter().position(|&mark| mark == 0).map_or(marks.len(), |run| start + run);
            Some(start as u64..next as u64)
        }))
    }

    /// The set of ranges that are sorted by their starts.
    pub(crate) fn of_sorted(ranges: impl Iterator<Item = Range<u64>>) -> Self {
        let mut set = Self::default();
        for range in ranges {
            set.push(range);
        }
        set
    }

    /// The same of ranges that are as many as a selection or the rows of a batch have.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub(crate) fn try_of_sorted(ranges: impl Iterator<Item = Range<u64>>) -> Result<Self> {
        let mut set = Self::default();
        for range in ranges {
            room_for(&mut set.before, 1)?;
            room_for(&mut set.ranges, 1)?;
            set.push(range);
        }
        Ok(set)
    }

    /// Adds a range that starts at or after the start of the last one.
    fn push(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => {
                self.before.push(self.count());
                self.ranges.push(range);
            }
        }
    }

    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The number of positions in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        match (self.before.last(), self.ranges.last()) {
            (Some(before), Some(last)) => before + (last.end - last.start),
            _ => 0,
        }
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first position after the last one of the set, or 0.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// The positions that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut left = self.ranges.iter().peekable();
        let mut right = other.ranges.iter().peekable();
        let mut set = Self::default();
        loop {
            let take_left = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.start <= b.start,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return set,
            };
            let next = if take_left { left.next() } else { right.next() };
            set.push(next.cloned().unwrap_or_default());
        }
    }

    /// The positions that are in both sets.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn intersection(&self, other: &Self) -> Result<Self> {
        let (mut left, mut right) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        Self::try_of_sorted(std::iter::from_fn(|| {
            let (a, b) = (left.peek()?, right.peek()?);
            let common = a.start.max(b.start)..a.end.min(b.end);
            if a.end <= b.end {
                left.next();
            } else {
                right.next();
            }
            Some(common)
        }))
    }

    /// The positions of `[0, total)` that are not in the set.
    #[must_use]
    pub fn complement(&self, total: u64) -> Self {
        let mut set = Self::default();
        let mut start = 0;
        for range in &self.ranges {
            if range.start >= total {
                break;
            }
            set.push(start..range.start);
            start = range.end;
        }
        if start < total {
            set.push(start..total);
        }
        set
    }

    /// The ranges that hold the `[start, end)`-th positions of the set, in order.
    ///
    /// Counts beyond the set give nothing. The search is O(log n).
    pub fn slice(&self, counted: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.before.partition_point(|&before| before <= counted.start).saturating_sub(1);
        self.ranges[first.min(self.ranges.len())..]
            .iter()
            .zip(&self.before[first.min(self.before.len())..])
            .map_while(move |(range, &before)| {
                let start = counted.start.max(before);
                let end = counted.end.min(before + (range.end - range.start));
                (start < end).then(|| range.start + (start - before)..range.start + (end - before))
            })
    }

    /// The number of positions in the set that are below `position`. The search is O(log n).
    #[must_use]
    pub fn rank(&self, position: u64) -> u64 {
        let index = self.ranges.partition_point(|range| range.start < position);
        match index.checked_sub(1) {
            Some(last) => self.before[last] + (position.min(self.ranges[last].end) - self.ranges[last].start),
            None => 0,
        }
    }

    /// Slice `index` of `count`: contiguous, and together with the other slices the whole set.
    ///
    /// Cut points are multiples of `multiple_of` positions, counted along the set. Sizes differ by at most
    /// one such unit, and the last slice takes the rest as well.
    ///
    /// # Errors
    /// `Argument` if `index >= count` or `multiple_of` is 0.
    pub fn share(&self, index: u64, count: u64, multiple_of: u64) -> Result<Self> {
        Self::try_of_sorted(self.slice(share_of(self.count(), index, count, multiple_of)?))
    }

    /// The set of states of the form `start -> last consumed`: `[start, last]` for each.
    ///
    /// `last == start - 1` means that nothing of the slice was consumed.
    ///
    /// # Errors
    /// `Argument` if a start is negative, or a last is more than one below its start.
    pub fn from_last_offsets(offsets: &[(i64, i64)]) -> Result<Self> {
        let ranges = offsets.iter().map(|&(start, last)| {
            let end = last.checked_add(1).and_then(|end| u64::try_from(end).ok());
            match (u64::try_from(start), end) {
                (Ok(start), Some(end)) if end >= start => Ok(start..end),
                _ => Err(Error::Argument(format!(
                    "offset {last} is out of range for a slice that starts at {start}"
                ))),
            }
        });
        Self::new(ranges.collect::<Result<_>>()?)
    }
}

/// Which of `total` positions are slice `index` of `count`; see [`Intervals::share`].
pub(crate) fn share_of(total: u64, index: u64, count: u64, multiple_of: u64) -> Result<Range<u64>> {
    if index >= count {
        return Err(Error::Argument(format!("slice index {index} is not below the count {count}")));
    }
    if multiple_of == 0 {
        return Err(Error::Argument("multiple_of must be at least 1, found 0".into()));
    }
    let units = u128::from(total / multiple_of);
    let cut = |index: u64| {
        // Below `total`, since index < count.
        let unit = units * u128::from(index) / u128::from(count);
        u64::try_from(unit).map_or(total, |unit| unit * multiple_of)
    };
    let end = if index + 1 == count { total } else { cut(index + 1) };
    Ok(cut(index)..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u64, u64)]) -> Intervals {
        Intervals::new(ranges.iter().map(|&(start, end)| start..end).collect()).unwrap()
    }

    #[test]
    fn ranges_are_sorted_and_coalesced() {
        let found = set(&[(5, 7), (0, 2), (2, 3), (6, 9), (9, 9)]);
        assert_eq!(found.ranges(), &[0..3, 5..9]);
        assert_eq!(found.count(), 7);
    }

    #[test]
    fn complement_and_union_make_the_whole() {
        let found = set(&[(2, 4), (6, 7)]);
        assert_eq!(found.complement(10).ranges(), &[0..2, 4..6, 7..10]);
        assert_eq!(found.complement(3).ranges(), std::slice::from_ref(&(0..2)));
        assert_eq!(found.union(&found.complement(10)), Intervals::full(10));
        assert!(Intervals::full(0).is_empty());
    }

    #[test]
    fn slice_counts_along_the_set() {
        let found = set(&[(2, 4), (6, 9)]);
        assert_eq!(found.slice(1..4).collect::<Vec<_>>(), vec![3..4, 6..8]);
        assert_eq!(found.slice(4..99).collect::<Vec<_>>(), std::slice::from_ref(&(8..9)));
        assert_eq!(found.slice(5..6).count(), 0);
        assert_eq!(Intervals::default().slice(0..6).count(), 0);
        assert_eq!(
            [0, 2, 3, 4, 5, 6, 8, 9, 99].map(|position| found.rank(position)),
            [0, 0, 1, 2, 2, 2, 4, 5, 5]
        );
    }

    #[test]
    fn shares_cut_at_multiples_and_the_last_takes_the_rest() {
        let found = set(&[(0, 5), (10, 16)]);
        let shares: Vec<_> = (0..2).map(|index| found.share(index, 2, 4).unwrap()).collect();
        assert_eq!(shares[0].ranges(), std::slice::from_ref(&(0..4)));
        assert_eq!(shares[1].ranges(), &[4..5, 10..16]);
        assert!(found.share(2, 2, 1).is_err());
        assert!(found.share(0, 1, 0).is_err());
    }

    #[test]
    fn last_offsets_keep_what_lies_before_the_smallest_start() {
        let consumed = Intervals::from_last_offsets(&[(500, 799), (900, 899)]).unwrap();
        assert_eq!(consumed.complement(1000).ranges(), &[0..500, 800..1000]);
        assert!(Intervals::from_last_offsets(&[(5, 3)]).is_err());
        assert!(Intervals::from_last_offsets(&[(-1, 3)]).is_err());
        assert!(Intervals::from_last_offsets(&[(0, i64::MAX)]).is_err());
    }
}
