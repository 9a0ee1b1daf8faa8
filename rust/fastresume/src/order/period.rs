//! The period of a mixture: which source stands at which place, so that each has its share at every prefix.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::order::comb::Comb;

/// The most places of a period.
pub const MAX_PLACES: u64 = 1 << 16;

/// The length of the period of these weights: their sum.
///
/// # Errors
/// `State` if no weight is above 0, or they sum to more than [`MAX_PLACES`].
pub fn length_of(weights: &[u64]) -> Result<u64> {
    let sum = weights.iter().try_fold(0_u64, |sum, &weight| sum.checked_add(weight));
    sum.filter(|&sum| sum > 0 && sum <= MAX_PLACES)
        .ok_or_else(|| Error::State(format!("weights sum to at least 1 and at most {MAX_PLACES}")))
}

/// The places of one period, which repeats for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    /// The source at each place.
    sources: Vec<usize>,
    /// The places of each source, ascending; those without weight have none.
    places: Vec<Vec<u64>>,
}

impl Period {
    /// The period of these weights. A weight of 0 is that of a source which is not read.
    ///
    /// Occurrence j of a source with weight a of M lies in the places from `floor(j * M / a)` to
    /// `ceil((j + 1) * M / a) - 1`: at each place stands the one whose last place comes first, of equal ones the source
    /// named first. The time is that of M steps in a heap of the sources.
    ///
    /// # Errors
    /// `State` if no weight is above 0, or they sum to more than [`MAX_PLACES`].
    pub fn new(weights: &[u64]) -> Result<Self> {
        let length = length_of(weights)?;
        let mut places: Vec<Vec<u64>> = weights.iter().map(|_| Vec::new()).collect();
        let mut sources = Vec::new();
        // The next occurrence of each source: those that may come, by their last places, and the others, by their first.
        let mut due = BinaryHeap::new();
        let active = (0..weights.len()).filter(|&source| weights[source] > 0);
        let mut later: BinaryHeap<_> = active.map(|source| Reverse((0, source))).collect();
        for place in 0..length {
            while let Some(&Reverse((first, source))) = later.peek()
                && first <= place
            {
                later.pop();
                let next = places[source].len() as u64 + 1;
                due.push(Reverse(((next * length).div_ceil(weights[source]), source)));
            }
            let Some(Reverse((_, source))) = due.pop() else {
                return Err(Error::State(format!("no source is due at place {place} of {length}")));
            };
            places[source].push(place);
            sources.push(source);
            let next = places[source].len() as u64;
            if next < weights[source] {
                later.push(Reverse((next * length / weights[source], source)));
            }
        }
        Ok(Self { sources, places })
    }

    /// The number of places.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.sources.len() as u64
    }

    /// Where a source stands; `None` for one without weight.
    #[must_use]
    pub fn comb(&self, source: usize) -> Option<Comb> {
        Comb::new(self.length(), self.places.get(source)?)
    }

    /// The number of sources.
    #[must_use]
    pub fn num_sources(&self) -> usize {
        self.places.len()
    }

    /// The places of a source in each period: its weight.
    #[must_use]
    pub fn weight(&self, source: usize) -> u64 {
        self.places[source].len() as u64
    }

    /// The source at a position.
    #[must_use]
    pub fn source_at(&self, position: u64) -> usize {
        usize::try_from(position % self.length()).map_or(0, |place| self.sources[place])
    }

    /// The sources at consecutive positions, in their order.
    pub fn sources_at(&self, positions: Range<u64>) -> impl Iterator<Item = usize> + '_ {
        let count = usize::try_from(positions.end.saturating_sub(positions.start)).unwrap_or(usize::MAX);
        let first = usize::try_from(positions.start % self.length()).unwrap_or_default();
        self.sources[first..].iter().chain(self.sources.iter().cycle()).copied().take(count)
    }

    /// How many positions before this one are of a source.
    #[must_use]
    pub fn count_before(&self, source: usize, position: u64) -> u64 {
        let places = &self.places[source];
        let place = position % self.length();
        let in_period = places.partition_point(|&of_source| of_source < place) as u64;
        (position / self.length()).saturating_mul(places.len() as u64).saturating_add(in_period)
    }

    /// How many rows a source gives to whole batches of `of_batch` places: as many batches as `most` rows of it allow.
    #[must_use]
    pub fn rows_in_batches(&self, source: usize, most: u64, of_batch: u64) -> u64 {
        let places = self.position_of(source, most).unwrap_or(0);
        self.count_before(source, places - places.checked_rem(of_batch).unwrap_or(places))
    }

    /// The position of an occurrence of a source, counted from 0; `None` for a source without weight.
    #[must_use]
    pub fn position_of(&self, source: usize, occurrence: u64) -> Option<u64> {
        let places = &self.places[source];
        let weight = places.len() as u64;
        let periods = occurrence.checked_div(weight)?;
        let place = places[usize::try_from(occurrence % weight).ok()?];
        Some(periods.saturating_mul(self.length()).saturating_add(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_named_first_comes_first_where_ends_are_equal() {
        let period = Period::new(&[7, 0, 3]).unwrap();
        let found: Vec<usize> = (0..10).map(|position| period.source_at(position)).collect();
        assert_eq!(found, [0, 0, 2, 0, 0, 2, 0, 0, 0, 2]);
        for (start, end) in [(0, 0), (0, 10), (3, 48), (29, 31)] {
            let each: Vec<usize> = (start..end).map(|position| period.source_at(position)).collect();
            assert_eq!(period.sources_at(start..end).collect::<Vec<_>>(), each);
        }
        assert_eq!((period.position_of(2, 4), period.position_of(1, 0)), (Some(15), None));
        assert!(Period::new(&[0, 0]).is_err() && Period::new(&[MAX_PLACES, 1]).is_err());
    }

    #[test]
    fn the_rows_of_whole_batches_are_those_before_their_end() {
        let alone = Period::new(&[1]).unwrap();
        assert!((0..40).all(|most| alone.rows_in_batches(0, most, 7) == most / 7 * 7));
        for (weights, of_batch) in [([7, 0, 3], 8), ([9, 1, 1], 4), ([1, 1, 1], 1)] {
            let period = Period::new(&weights).unwrap();
            for most in 0..50 {
                let ends = (0..200).map(|batches| period.count_before(2, batches * of_batch));
                let expected = ends.take_while(|&rows| rows <= most).last().unwrap();
                assert_eq!(period.rows_in_batches(2, most, of_batch), expected);
            }
        }
    }
}
