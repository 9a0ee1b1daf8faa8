//! An array whose memory somebody else owns.

use std::fmt;
use std::sync::Arc;

use crate::arrow::bits::Bits;
use crate::arrow::field::{ArrowField, ArrowForm};
use crate::error::{Error, Result};

/// Memory that a producer lends, and that stays as it is.
pub trait Lent: Send + Sync {
    /// Its bytes.
    fn bytes(&self) -> &[u8];
}

impl Lent for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// An array of one column, or of what is below one. Nothing in it is trusted: what does not fit is an error where it is read.
#[derive(Clone)]
pub struct Array {
    /// The number of its values.
    pub length: usize,
    /// How many values lie before them in its buffers.
    pub offset: usize,
    /// A bit for each value, 1 if it is not null; none if all are not.
    pub validity: Option<Arc<dyn Lent>>,
    /// Its other buffers.
    pub buffers: Vec<Arc<dyn Lent>>,
    /// Those below it.
    pub children: Vec<Array>,
    /// Of indices, their dictionary.
    pub dictionary: Option<Arc<Array>>,
}

impl fmt::Debug for Array {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Array")
            .field("length", &self.length)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// What is said where the parts of an array contradict each other.
pub fn contradicts(what: &str) -> Error {
    Error::data(format!("an Arrow array contradicts itself: {what}"))
}

/// A bit of some bytes.
#[inline]
pub fn bit(bytes: &[u8], place: usize) -> Option<bool> {
    bytes.get(place / 8).map(|byte| byte >> (place % 8) & 1 == 1)
}

/// A number of some bytes: of 4 bytes, or of 8 if they are wide.
#[inline]
pub fn offset_at(bytes: &[u8], place: usize, is_wide: bool) -> Option<usize> {
    if is_wide {
        let word = bytes.get(place.checked_mul(8)?..)?.first_chunk::<8>()?;
        return usize::try_from(i64::from_le_bytes(*word)).ok();
    }
    let word = bytes.get(place.checked_mul(4)?..)?.first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*word)).ok()
}

impl Array {
    /// Some of its values; their memory is the same.
    #[must_use]
    pub fn slice(&self, start: usize, length: usize) -> Self {
        Self { offset: self.offset + start, length, ..self.clone() }
    }

    /// A buffer behind that of the validity.
    ///
    /// # Errors
    /// `Data` if there is none.
    pub fn buffer(&self, number: usize) -> Result<&[u8]> {
        self.buffers
            .get(number)
            .map(|buffer| buffer.bytes())
            .ok_or_else(|| contradicts("a buffer is missing"))
    }

    /// An array below it.
    ///
    /// # Errors
    /// `Data` if there is none.
    pub fn child(&self, number: usize) -> Result<&Self> {
        self.children.get(number).ok_or_else(|| contradicts("a child is missing"))
    }

    /// Whether a value is not null.
    ///
    /// # Errors
    /// `Data` if the bits end before it.
    #[inline]
    pub fn is_valid(&self, place: usize) -> Result<bool> {
        let Some(validity) = &self.validity else { return Ok(true) };
        bit(validity.bytes(), self.offset + place)
            .ok_or_else(|| contradicts("the validity ends before its values"))
    }

    /// The bits of some values, 1 of each that is not null; all are 1 if there are none.
    ///
    /// # Errors
    /// `Data` if the bits end before them.
    pub fn validity_of(&self, start: usize, length: usize) -> Result<Bits> {
        let Some(validity) = &self.validity else { return Bits::of((0..length).map(|_| Ok(true))) };
        let found = Bits::sliced(validity.bytes(), self.offset + start, length)?;
        found.ok_or_else(|| contradicts("the validity ends before its values"))
    }

    /// Whether none of some values is null, as far as their bits show that.
    #[must_use]
    pub fn are_valid(&self, start: usize, length: usize) -> bool {
        let Some(validity) = &self.validity else { return true };
        let (start, end) = (self.offset + start, self.offset + start + length);
        let (first, last) = (start.div_ceil(8), end / 8);
        let bytes = validity.bytes();
        let each =
            |places: std::ops::Range<usize>| places.into_iter().all(|place| bit(bytes, place) == Some(true));
        if first > last {
            return each(start..end);
        }
        each(start..first * 8)
            && bytes.get(first..last).is_some_and(|whole| whole.iter().all(|&byte| byte == 0xff))
            && each(last * 8..end)
    }

    /// The values of the child that a list has.
    ///
    /// # Errors
    /// `Data` if its offsets go back, or beyond the child.
    #[inline]
    pub fn list(&self, form: ArrowForm, place: usize) -> Result<std::ops::Range<usize>> {
        let wrong = || contradicts("a list is outside of its values");
        let at = self.offset + place;
        let range = match form {
            ArrowForm::List { is_wide } | ArrowForm::ListViews { is_wide } => {
                let start = offset_at(self.buffer(0)?, at, is_wide).ok_or_else(wrong)?;
                if matches!(form, ArrowForm::List { .. }) {
                    start..offset_at(self.buffer(0)?, at + 1, is_wide).ok_or_else(wrong)?
                } else {
                    let length = offset_at(self.buffer(1)?, at, is_wide).ok_or_else(wrong)?;
                    start..start.checked_add(length).ok_or_else(wrong)?
                }
            }
            ArrowForm::Map => {
                let end = offset_at(self.buffer(0)?, at + 1, false).ok_or_else(wrong)?;
                offset_at(self.buffer(0)?, at, false).ok_or_else(wrong)?..end
            }
            ArrowForm::FixedList(size) => {
                let start = at.checked_mul(size).ok_or_else(wrong)?;
                start..start.checked_add(size).ok_or_else(wrong)?
            }
            _ => return Err(wrong()),
        };
        if range.start > range.end || range.end > self.child(0)?.length {
            return Err(wrong());
        }
        Ok(range)
    }

    /// The index to a dictionary that a value is.
    ///
    /// # Errors
    /// `Data` if it lies outside of it.
    #[inline]
    pub fn index(&self, field: &ArrowField, place: usize) -> Result<usize> {
        let wrong = || contradicts("an index is outside of the dictionary");
        let ArrowForm::Fixed(width, _) = field.form else { return Err(wrong()) };
        let start = (self.offset + place).checked_mul(width).ok_or_else(wrong)?;
        let bytes = self.buffer(0)?.get(start..start + width).ok_or_else(wrong)?;
        let mut word = [0; 8];
        word.get_mut(..width).ok_or_else(wrong)?.copy_from_slice(bytes);
        // A negative one is too large.
        let index = usize::try_from(u64::from_le_bytes(word)).ok();
        let count = self.dictionary.as_ref().map_or(0, |values| values.length);
        index.filter(|&index| index < count).ok_or_else(wrong)
    }

    /// The run that a value is in; `hint` is one at or before it.
    ///
    /// # Errors
    /// `Data` if there is none.
    pub fn run(&self, field: &ArrowField, place: usize, hint: usize) -> Result<usize> {
        let wrong = || contradicts("a value is after the last run");
        let (ends, at) = (self.child(0)?, self.offset + place);
        let Some(ArrowForm::Fixed(width, _)) = field.children.first().map(|child| child.form) else {
            return Err(wrong());
        };
        let bytes = ends.buffer(0)?;
        let end_of = |run: usize| {
            let start = (ends.offset + run).checked_mul(width)?;
            let mut word = [0; 8];
            word.get_mut(..width)?.copy_from_slice(bytes.get(start..start + width)?);
            usize::try_from(u64::from_le_bytes(word)).ok()
        };
        let mut run = hint;
        if run > 0 && end_of(run - 1).is_none_or(|end| end > at) {
            run = 0;
        }
        // From run to run as long as they are near; then by halves.
        for _ in 0..4 {
            if run >= ends.length {
                return Err(wrong());
            }
            if end_of(run).ok_or_else(wrong)? > at {
                return Ok(run);
            }
            run += 1;
        }
        let (mut low, mut high) = (run, ends.length);
        while low < high {
            let middle = usize::midpoint(low, high);
            if end_of(middle).ok_or_else(wrong)? > at { high = middle } else { low = middle + 1 }
        }
        if low < ends.length { Ok(low) } else { Err(wrong()) }
    }

    /// The bytes of a value of bytes.
    ///
    /// # Errors
    /// `Data` if it lies outside of its buffers.
    #[inline]
    pub fn text(&self, form: ArrowForm, place: usize) -> Result<&[u8]> {
        let wrong = || contradicts("a value is outside of its bytes");
        let at = self.offset + place;
        if let ArrowForm::Bytes { is_wide } = form {
            let offsets = self.buffer(0)?;
            let start = offset_at(offsets, at, is_wide).ok_or_else(wrong)?;
            let end = offset_at(offsets, at + 1, is_wide).ok_or_else(wrong)?;
            return self.buffer(1)?.get(start..end).ok_or_else(wrong);
        }
        let view = self.buffer(0)?.get(at * 16..at * 16 + 16).ok_or_else(wrong)?;
        let length = offset_at(view, 0, false).ok_or_else(wrong)?;
        if length <= 12 {
            return view.get(4..4 + length).ok_or_else(wrong);
        }
        let number = offset_at(view, 2, false).ok_or_else(wrong)?;
        let start = offset_at(view, 3, false).ok_or_else(wrong)?;
        self.buffer(1 + number)?.get(start..start + length).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(of: &[u8]) -> Array {
        let validity: Arc<dyn Lent> = Arc::new(of.to_vec());
        Array {
            length: 0,
            offset: 3,
            validity: Some(validity),
            buffers: vec![],
            children: vec![],
            dictionary: None,
        }
    }

    #[test]
    fn bits_are_counted_from_any_offset() {
        let array = bits(&[0b1111_0000, 0xff, 0b0000_1111]);
        let each =
            |start: usize, length: usize| (start..start + length).all(|place| array.is_valid(place).unwrap());
        for start in 0..17 {
            for length in 0..=17 - start {
                assert_eq!(array.are_valid(start, length), each(start, length), "{start} {length}");
            }
        }
        assert!(array.is_valid(21).is_err() && !array.are_valid(15, 20));
    }
}
