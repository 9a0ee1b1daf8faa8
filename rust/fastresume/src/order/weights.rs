//! The weights of a mixture's sources: numbers become integers, and these make a period.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::order::period::{MAX_PLACES, Period};

/// The weight of each source as an integer, and their period, which is made when somebody asks for it: once for all copies.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Weights(Arc<MadeWeights>);

#[derive(Debug)]
struct MadeWeights {
    whole: Vec<u64>,
    period: OnceLock<Arc<Period>>,
}

impl Weights {
    /// The period that they make.
    ///
    /// # Errors
    /// `State` if none is above 0, or they sum to more than [`MAX_PLACES`].
    pub fn period(&self) -> Result<Arc<Period>> {
        if let Some(period) = self.0.period.get() {
            return Ok(Arc::clone(period));
        }
        let made = Arc::new(Period::new(self)?);
        Ok(Arc::clone(self.0.period.get_or_init(|| made)))
    }
}

impl From<Vec<u64>> for Weights {
    fn from(whole: Vec<u64>) -> Self {
        Self(Arc::new(MadeWeights { whole, period: OnceLock::new() }))
    }
}

impl From<Weights> for Vec<u64> {
    fn from(weights: Weights) -> Self {
        weights.to_vec()
    }
}

impl Deref for Weights {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0.whole
    }
}

impl PartialEq for Weights {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Weights {}

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
    fn all_copies_of_weights_share_one_period() {
        let weights = Weights::from(vec![3, 0, 2]);
        let copy = weights.clone();
        assert!(Arc::ptr_eq(&weights.period().unwrap(), &copy.period().unwrap()));
        assert_eq!(serde_json::to_string(&weights).unwrap(), "[3,0,2]");
        assert!(Weights::from(vec![0]).period().is_err());
    }
}
