//! Bits behind one another, one for each value.

use crate::error::Result;
use crate::memory::vectors::{filled, room_for};

/// So many bits, the lowest of a byte first. Those behind the last one are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bits {
    bytes: Vec<u8>,
    count: usize,
    ones: usize,
}

impl Bits {
    fn new(bytes: Vec<u8>, count: usize) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let of_words = words.iter().map(|word| u64::from_le_bytes(*word).count_ones() as usize);
        let of_rest = rest.iter().map(|byte| byte.count_ones() as usize);
        let ones = of_words.chain(of_rest).sum();
        Self { bytes, count, ones }
    }

    /// So many zeros.
    ///
    /// # Errors
    /// `Argument` if there is no memory for them.
    pub fn none(count: usize) -> Result<Self> {
        Ok(Self { bytes: filled(count.div_ceil(8), 0)?, count, ones: 0 })
    }

    /// Those of a range of bits in bytes; none if these end before it.
    ///
    /// # Errors
    /// `Argument` if there is no memory for them.
    pub fn sliced(bytes: &[u8], start: usize, count: usize) -> Result<Option<Self>> {
        let Some(end) = start.checked_add(count) else { return Ok(None) };
        let (first, shift) = (start / 8, start % 8);
        let Some(bytes) = bytes.get(first..end.div_ceil(8).max(first)) else { return Ok(None) };
        let length = count.div_ceil(8);
        let mut found = Vec::new();
        room_for(&mut found, length)?;
        if shift == 0 {
            found.extend_from_slice(&bytes[..length]);
        } else {
            let above = bytes.iter().skip(1).chain([&0]);
            let each = bytes.iter().zip(above).map(|(low, high)| low >> shift | high << (8 - shift));
            found.extend(each.take(length));
        }
        if let Some(last) = found.last_mut().filter(|_| !count.is_multiple_of(8)) {
            *last &= (1 << (count % 8)) - 1;
        }
        Ok(Some(Self::new(found, count)))
    }

    /// The bits of these, in their order.
    ///
    /// # Errors
    /// The first error.
    pub fn of(each: impl ExactSizeIterator<Item = Result<bool>>) -> Result<Self> {
        let count = each.len();
        let mut bytes = filled(count.div_ceil(8), 0_u8)?;
        for (place, bit) in each.enumerate() {
            if let Some(byte) = bytes.get_mut(place / 8) {
                *byte |= u8::from(bit?) << (place % 8);
            }
        }
        Ok(Self::new(bytes, count))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them are 1.
    #[must_use]
    pub fn ones(&self) -> usize {
        self.ones
    }

    /// Whether all are.
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.ones == self.count
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// One of them.
    #[inline]
    #[must_use]
    pub fn get(&self, place: usize) -> Option<bool> {
        (place < self.count).then(|| self.bytes[place / 8] >> (place % 8) & 1 == 1)
    }

    /// All of them.
    pub fn each(&self) -> impl ExactSizeIterator<Item = bool> {
        (0..self.count).map(|place| self.bytes[place / 8] >> (place % 8) & 1 == 1)
    }

    /// The places of those that are 1.
    #[must_use]
    pub fn places(&self) -> BitPlaces<'_> {
        BitPlaces { bits: self, byte: self.bytes.first().copied().unwrap_or(0), at: 0, left: self.ones }
    }
}

/// The places of bits that are 1, ascending.
pub struct BitPlaces<'a> {
    bits: &'a Bits,
    /// What is left of a byte, and its number.
    byte: u8,
    at: usize,
    left: usize,
}

impl Iterator for BitPlaces<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.byte == 0 {
            self.at += 1;
            self.byte = *self.bits.bytes.get(self.at)?;
        }
        let place = 8 * self.at + self.byte.trailing_zeros() as usize;
        self.byte &= self.byte - 1;
        self.left -= 1;
        Some(place)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for BitPlaces<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_a_range_wherever_it_begins_and_ends() {
        let bytes: Vec<u8> = (0..9_u8).map(|place| place.wrapping_mul(151).rotate_left(3)).collect();
        let bit = |place: usize| bytes[place / 8] >> (place % 8) & 1 == 1;
        for start in 0..30 {
            for count in 0..=72 - start {
                let expected: Vec<bool> = (start..start + count).map(bit).collect();
                let found = Bits::sliced(&bytes, start, count).unwrap().unwrap();
                assert_eq!(found.each().collect::<Vec<_>>(), expected, "{start} {count}");
                let ones: Vec<usize> = (0..count).filter(|&place| expected[place]).collect();
                assert_eq!(found.places().collect::<Vec<_>>(), ones);
                assert_eq!(
                    (found.places().len(), found.ones(), found.count()),
                    (ones.len(), ones.len(), count)
                );
                assert_eq!(Bits::of(expected.iter().map(|&bit| Ok(bit))).unwrap(), found);
                assert_eq!(found.are_all(), ones.len() == count);
                let spare = if count % 8 == 0 { 0 } else { found.bytes()[count / 8] >> (count % 8) };
                assert_eq!(spare, 0);
            }
        }
        assert_eq!(Bits::sliced(&bytes, 70, 3).unwrap(), None);
        assert_eq!(Bits::sliced(&bytes, usize::MAX, 3).unwrap(), None);
    }
}
