//! The vocabulary of a column: its distinct values over all files, each with a code.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::memory::vectors::{filled, with_room};

/// The most bytes that a number takes.
const MOST_NUMBER_BYTES: usize = 11;

/// Distinct values in the order of their bytes; the code of a value is its index.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Where each value ends.
    ends: Vec<usize>,
    /// Of values that were named: the code of each, in the order of their bytes.
    codes: Option<Vec<u64>>,
    /// The code of all other values, if there is one.
    unknown: Option<u64>,
}

impl Vocabulary {
    /// The vocabulary of distinct values, given in any order.
    ///
    /// # Errors
    /// `Argument` if there is no memory for them.
    pub fn new(mut values: Vec<Box<[u8]>>) -> Result<Self> {
        values.sort_unstable();
        let bytes = with_room(values.iter().map(|value| value.len()).sum())?;
        let mut made = Self { bytes, ends: with_room(values.len())?, ..Self::default() };
        for value in values {
            made.bytes.extend_from_slice(&value);
            made.ends.push(made.bytes.len());
        }
        Ok(made)
    }

    /// The vocabulary of values that were named, whose codes are their places; `unknown` is the code of all others.
    ///
    /// # Errors
    /// `Argument` if one is named twice.
    pub fn of_named(values: &[Vec<u8>], unknown: Option<u64>) -> Result<Self> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by_key(|&place| &values[place]);
        if let Some(twice) = order.windows(2).find(|pair| values[pair[0]] == values[pair[1]]) {
            let shown = shown(&values[twice[0]]);
            return Err(Error::Argument(format!("the value {shown:?} has two codes: it is named twice")));
        }
        let mut made = Self::new(values.iter().map(|value| value.as_slice().into()).collect())?;
        made.codes = Some(order.into_iter().map(|place| place as u64).collect());
        made.unknown = unknown;
        Ok(made)
    }

    /// What [`Self::to_bytes`] gave.
    ///
    /// # Errors
    /// `State` if the bytes are damaged.
    pub fn from_bytes(data: &[u8]) -> Result<Self> {
        let damaged = |cause: &dyn std::fmt::Display| {
            Error::State(format!("the dictionary of a pickled dataset is damaged: {cause}"))
        };
        let found: Self = postcard::from_bytes(data).map_err(|cause| damaged(&cause))?;
        let is_whole = found.ends.last().copied().unwrap_or(0) == found.bytes.len();
        let count = found.ends.len();
        let are_codes = found
            .codes
            .as_ref()
            .is_none_or(|codes| codes.len() == count && codes.iter().all(|&code| code < count as u64));
        if !is_whole || !found.ends.is_sorted() || !are_codes {
            return Err(damaged(&"its values do not end where they should"));
        }
        Ok(found)
    }

    /// Its values as bytes.
    ///
    /// # Errors
    /// `Argument` if there is no memory for them.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let numbers = 4 + self.ends.len() + self.codes.as_ref().map_or(0, Vec::len);
        let mut bytes = filled(self.bytes.len() + numbers * MOST_NUMBER_BYTES, 0)?;
        let written = postcard::to_slice(self, &mut bytes).map_or(0, |written| written.len());
        bytes.truncate(written);
        Ok(bytes)
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

    /// The values, by their codes.
    #[must_use]
    pub fn values(&self) -> Vec<&[u8]> {
        let mut values: Vec<&[u8]> = (0..self.len()).map(|place| self.value(place)).collect();
        for (place, &code) in self.codes.iter().flatten().enumerate() {
            // Less than their number.
            values[usize::try_from(code).unwrap_or(0)] = self.value(place);
        }
        values
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
                std::cmp::Ordering::Equal => {
                    return Ok(self.codes.as_ref().map_or(middle as u64, |codes| codes[middle]));
                }
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        if let Some(unknown) = self.unknown {
            return Ok(unknown);
        }
        let shown = shown(value);
        if self.codes.is_some() {
            let reason = format!(
                "the value {shown:?} is none of the {} that .codes() names; its unknown= gives such values a code",
                self.len()
            );
            return Err(Error::refused(reason));
        }
        let reason = format!(
            "the value {shown:?} is none of the {} of the column's dictionary: the file was changed since they were \
             gathered, or it is damaged",
            self.len()
        );
        Err(Error::refused(reason))
    }
}

/// The beginning of a value, for people.
fn shown(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_named_value_is_its_place_and_others_have_one_or_none() {
        let values = ["b", "", "a"].map(|text| text.as_bytes().to_vec());
        let all = Vocabulary::of_named(&values, Some(9)).unwrap();
        for (code, text) in (0..).zip(["b", "", "a"]) {
            assert_eq!(all.code(text.as_bytes()).unwrap(), code);
        }
        assert_eq!(all.code(b"c").unwrap(), 9);
        assert_eq!(all.values(), [&b"b"[..], b"", b"a"]);
        assert_eq!(Vocabulary::from_bytes(&all.to_bytes().unwrap()).unwrap(), all);
        let some = Vocabulary::of_named(&values, None).unwrap();
        assert!(some.code(b"c").unwrap_err().to_string().contains("none of the 3"));
        let twice = [b"a".to_vec(), b"b".to_vec(), b"a".to_vec()];
        assert!(Vocabulary::of_named(&twice, None).unwrap_err().to_string().contains("named twice"));
    }

    #[test]
    fn a_code_is_the_place_of_a_value_in_the_order_of_bytes() {
        let values = ["b", "", "ab", "a", "é"].map(|text| text.as_bytes().into());
        let vocabulary = Vocabulary::new(values.to_vec()).unwrap();
        for (code, text) in (0..).zip(["", "a", "ab", "b", "é"]) {
            assert_eq!(vocabulary.code(text.as_bytes()).unwrap(), code);
        }
        for text in ["aa", "c", "\u{10ffff}"] {
            assert!(vocabulary.code(text.as_bytes()).unwrap_err().to_string().contains("none of the 5"));
        }
        assert_eq!(Vocabulary::from_bytes(&vocabulary.to_bytes().unwrap()).unwrap(), vocabulary);
        assert!(Vocabulary::default().code(b"").is_err());
    }

    #[test]
    fn what_was_pickled_and_is_damaged_is_refused() {
        let good = Vocabulary::new(vec![b"ab"[..].into(), b"c"[..].into()]).unwrap().to_bytes().unwrap();
        for place in 0..good.len() {
            for value in [0, 1, 9, 255] {
                let mut bad = good.clone();
                bad[place] = value;
                if let Ok(found) = Vocabulary::from_bytes(&bad) {
                    assert!(found.values().len() <= 255);
                }
            }
        }
        assert!(Vocabulary::from_bytes(&good[..3]).is_err());
    }
}
