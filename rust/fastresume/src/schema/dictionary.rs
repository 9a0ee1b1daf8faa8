//! The vocabulary of a column: its distinct values over all files, each with a code.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Distinct values in the order of their bytes; the code of a value is its index.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
}

impl Vocabulary {
    /// The vocabulary of distinct values, given in any order.
    #[must_use]
    pub fn new(mut values: Vec<Box<[u8]>>) -> Self {
        values.sort_unstable();
        let mut made = Self::default();
        for value in values {
            made.bytes.extend_from_slice(&value);
            made.ends.push(made.bytes.len());
        }
        made
    }

    /// The vocabulary that [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// `State` if the bytes are damaged.
    pub fn from_bytes(data: &[u8]) -> Result<Self> {
        let damaged = |cause: &dyn std::fmt::Display| {
            Error::State(format!("the dictionary of a pickled dataset is damaged: {cause}"))
        };
        let found: Self = postcard::from_bytes(data).map_err(|cause| damaged(&cause))?;
        let is_whole = found.ends.last().copied().unwrap_or(0) == found.bytes.len();
        if !is_whole || !found.ends.is_sorted() {
            return Err(damaged(&"its values do not end where they should"));
        }
        Ok(found)
    }

    /// Its values as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The values, in the order of their codes.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|code| self.value(code))
    }

    fn value(&self, code: usize) -> &[u8] {
        let start = code.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[code]]
    }

    /// The code of a value.
    ///
    /// # Errors
    /// `Data` if the value is not in the vocabulary.
    pub fn code(&self, value: &[u8]) -> Result<u64> {
        let (mut first, mut end) = (0, self.len());
        while first < end {
            let middle = first + (end - first) / 2;
            match self.value(middle).cmp(value) {
                std::cmp::Ordering::Equal => return Ok(middle as u64),
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        let shown: String = String::from_utf8_lossy(value).chars().take(40).collect();
        let reason = format!(
            "the value {shown:?} is none of the {} of the column's dictionary: the file was changed since they were \
             gathered, or it is damaged",
            self.len()
        );
        Err(Error::data(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_the_place_of_a_value_in_the_order_of_bytes() {
        let values = ["b", "", "ab", "a", "é"].map(|text| text.as_bytes().into());
        let vocabulary = Vocabulary::new(values.to_vec());
        for (code, text) in (0..).zip(["", "a", "ab", "b", "é"]) {
            assert_eq!(vocabulary.code(text.as_bytes()).unwrap(), code);
        }
        for text in ["aa", "c", "\u{10ffff}"] {
            assert!(vocabulary.code(text.as_bytes()).unwrap_err().to_string().contains("none of the 5"));
        }
        assert_eq!(Vocabulary::from_bytes(&vocabulary.to_bytes()).unwrap(), vocabulary);
        assert!(Vocabulary::default().code(b"").is_err());
    }

    #[test]
    fn what_was_pickled_and_is_damaged_is_refused() {
        let good = Vocabulary::new(vec![b"ab"[..].into(), b"c"[..].into()]).to_bytes();
        for place in 0..good.len() {
            for value in [0, 1, 9, 255] {
                let mut bad = good.clone();
                bad[place] = value;
                if let Ok(found) = Vocabulary::from_bytes(&bad) {
                    assert!(found.values().count() <= 255);
                }
            }
        }
        assert!(Vocabulary::from_bytes(&good[..3]).is_err());
    }
}
