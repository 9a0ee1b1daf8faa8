//! The period of a mixture: which source stands at which place, so that each has its share at every prefix.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::ops::Range;

use crate::error::{Error, Result};

/// The most places of a period.
pub const MAX_PLACES: u64 = 1 << 16;

/// Weights as integers that sum to at most [`MAX_PLACES`], without a common divisor.
///
/// Decimals that are integers after a shift of the point (0.7 and 0.3) keep their exact shares. All others are rounded
/// by the largest remainder; of equal ones, that of the source named first.
///
/// # Errors
/// `Argument` if a weight is not a positive number, or too small a part of the sum to have a place.
pub fn whole_weights(weights: &[f64]) -> Result<Vec<u64>> {
    if weights.is_empty() || weights.len() as u64 > MAX_PLACES {
        return Err(Error::Argument(format!(
            "a mixture has from 1 to {MAX_PLACES} sources, found {}",
            weights.len()
        )));
    }
    if let Some(weight) = weights.iter().find(|weight| !weight.is_finite() || **weight <= 0.0) {
        return Err(Error::Argument(format!("a weight must be a number above 0, found {weight}")));
    }
    for scale in [1.0, 10.0, 100.0, 1000.0, 10_000.0] {
        let scaled: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let is_whole = |number: &f64| *number >= 0.5 && (number - number.round()).abs() <= number * 1e-12;
        if scaled.iter().all(is_whole) {
            let whole: Vec<u64> = scaled.iter().map(|number| rounded(*number)).collect();
            let whole = reduced(whole);
            let sum = whole.iter().try_fold(0_u64, |sum, &weight| sum.checked_add(weight));
            if sum.is_some_and(|sum| sum <= MAX_PLACES) {
                return Ok(whole);
            }
        }
    }
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let sum: f64 = weights.iter().map(|weight| weight / largest).sum();
    let quotas: Vec<f64> = weights.iter().map(|weight| weight / largest / sum * 65_536.0).collect();
    let mut whole: Vec<u64> = quotas.iter().map(|quota| rounded(quota.floor())).collect();
    let mut by_remainder: Vec<usize> = (0..quotas.len()).collect();
    by_remainder.sort_by(|&a, &b| {
        let remainder = |index: usize| quotas[index] - quotas[index].floor();
        remainder(b).total_cmp(&remainder(a)).then(a.cmp(&b))
    });
    let missing = MAX_PLACES.saturating_sub(whole.iter().sum());
    for &index in by_remainder.iter().cycle().take(usize::try_from(missing).unwrap_or(0)) {
        whole[index] += 1;
    }
    if let Some(index) = whole.iter().position(|&weight| weight == 0) {
        return Err(Error::Argument(format!(
            "weight {} is less than a {MAX_PLACES}th of the sum of all weights: name a larger one, or leave the source out",
            weights[index]
        )));
    }
    Ok(reduced(whole))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is not negative; what is too large becomes a sum that is refused"
)]
fn rounded(number: f64) -> u64 {
    number.round() as u64
}

fn reduced(weights: Vec<u64>) -> Vec<u64> {
    let divisor = weights.iter().copied().fold(0, divisor).max(1);
    weights.into_iter().map(|weight| weight / divisor).collect()
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
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
    /// named first.
    ///
    /// # Errors
    /// `State` if no weight is above 0, or they sum to more than [`MAX_PLACES`].
    pub fn new(weights: &[u64]) -> Result<Self> {
        let sum = weights.iter().try_fold(0_u64, |sum, &weight| sum.checked_add(weight));
        let Some(length) = sum.filter(|&sum| sum > 0 && sum <= MAX_PLACES) else {
            return Err(Error::State(format!("weights sum to at least 1 and at most {MAX_PLACES}")));
        };
        let mut places: Vec<Vec<u64>> = vec![Vec::new(); weights.len()];
        let active: Vec<usize> = (0..weights.len()).filter(|&source| weights[source] > 0).collect();
        let mut sources = Vec::new();
        for place in 0..length {
            let due = active.iter().filter_map(|&source| {
                let (weight, next) = (weights[source], places[source].len() as u64);
                let is_due = next < weight && next * length / weight <= place;
                is_due.then(|| (((next + 1) * length).div_ceil(weight), source))
            });
            let Some((_, source)) = due.min() else {
                return Err(Error::State(format!("no source is due at place {place} of {length}")));
            };
            places[source].push(place);
            sources.push(source);
        }
        Ok(Self { sources, places })
    }

    /// The number of places.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.sources.len() as u64
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
    fn weights_become_the_smallest_integers_of_their_shares() {
        assert_eq!(whole_weights(&[0.7, 0.3]).unwrap(), [7, 3]);
        assert_eq!(whole_weights(&[2.0, 4.0, 6.0]).unwrap(), [1, 2, 3]);
        assert_eq!(whole_weights(&[0.5]).unwrap(), [1]);
        let thirds = whole_weights(&[1.0 / 3.0, 2.0 / 3.0]).unwrap();
        assert_eq!(thirds.iter().sum::<u64>(), MAX_PLACES);
        assert_eq!(whole_weights(&[1e9, 1e9 + 1.0, 1.0 + 2e9]).unwrap().iter().sum::<u64>(), 4);
        for wrong in [vec![], vec![0.0, 1.0], vec![f64::NAN], vec![1.0, -1.0], vec![1.0, 1e-9]] {
            assert!(whole_weights(&wrong).is_err(), "{wrong:?}");
        }
    }

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
}
