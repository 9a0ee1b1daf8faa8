//! Bit-packed integers: a few bits each, from the lowest bit on.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use bytemuck::Pod;

use crate::simd;

/// Some bit-packed integers, which lie in groups of eight.
#[derive(Debug, Clone, Copy)]
pub struct BitPacking<'p> {
    /// The bytes from the first group on; they may go on beyond the last one.
    pub bytes: &'p [u8],
    /// Bits of each integer, at most 32.
    pub width: usize,
    /// How many integers lie before these.
    pub index: usize,
    pub count: usize,
}

impl BitPacking<'_> {
    /// The integers, unpacked to a buffer with room for all groups that they lie in.
    pub fn unpack<'b>(&self, buffer: &'b mut [u32]) -> &'b [u32] {
        // Whole groups are unpacked at once; some integers of the first and the last are not asked for.
        let passed = self.index % 8;
        let groups = &mut buffer[..(passed + self.count).next_multiple_of(8)];
        unpack(self.bytes, self.width, self.index - passed, groups);
        &groups[passed..passed + self.count]
    }

    /// Writes `table[index]` for each of these indices to its place in the output.
    ///
    /// # Errors
    /// An index that is out of the table's range.
    pub fn look_up<P: Pod>(&self, table: &[P], output: &mut [P]) -> Result<(), u32> {
        let before = self.index.next_multiple_of(8) - self.index;
        let (first, groups) = output.split_at_mut(before.min(output.len()));
        self.look_up_each(0, table, first)?;
        let packed = self.bytes.get((self.index + before) / 8 * self.width..).unwrap_or_default();
        let done = simd::look_up_groups(packed, self.width, table, groups)?;
        self.look_up_each(before + done, table, &mut groups[done..])
    }

    /// Like `look_up`, but one by one, from integer number `from` on.
    fn look_up_each<P: Pod>(&self, from: usize, table: &[P], output: &mut [P]) -> Result<(), u32> {
        for (past, place) in output.iter_mut().enumerate() {
            let index = integer(self.bytes, self.width, self.index + from + past);
            *place = *table.get(index as usize).ok_or(index)?;
        }
        Ok(())
    }
}

/// The integers `[index, index + output.len())` of `width` bits (at most 32) each, packed from the lowest bit
/// on; `index` is a multiple of eight. Bits outside of `bytes` are read as zeros.
pub fn unpack(bytes: &[u8], width: usize, index: usize, output: &mut [u32]) {
    let packed = bytes.get(index / 8 * width..).unwrap_or_default();
    let fast = simd::unpack_groups(packed, width, output);
    for (past, value) in output[fast..].iter_mut().enumerate() {
        *value = low(single(packed, width, fast + past));
    }
}

/// One integer of up to 32 bits.
#[inline]
pub fn integer(bytes: &[u8], width: usize, index: usize) -> u32 {
    let bit = index * width;
    low(match bytes.get(bit / 8..).and_then(|from| from.first_chunk()) {
        Some(word) => u64::from_le_bytes(*word) >> (bit % 8) & ((1 << width) - 1),
        None => single(bytes, width, index),
    })
}

/// One integer of up to 64 bits.
pub fn single(bytes: &[u8], width: usize, index: usize) -> u64 {
    let bit = index * width;
    let from = bytes.get(bit / 8..).unwrap_or_default();
    let mut word = [0; 16];
    let length = from.len().min(16);
    word[..length].copy_from_slice(&from[..length]);
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let [low, high] = [0, 8].map(|at| u64::from_le_bytes(word[at..at + 8].try_into().unwrap_or_default()));
    let shift = bit % 8;
    let spilled = if shift == 0 { 0 } else { high << (64 - shift) };
    (low >> shift | spilled) & mask
}

/// The lower half of a word.
#[allow(clippy::cast_possible_truncation, reason = "it was masked to at most 32 bits, or is to be")]
fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The lowest bits of values, packed.
    pub fn pack(values: &[u64], width: usize) -> Vec<u8> {
        let mut bytes = vec![0; (values.len() * width).div_ceil(8)];
        for (index, value) in values.iter().enumerate() {
            for bit in 0..width {
                let at = index * width + bit;
                bytes[at / 8] |= (u8::from(value >> bit & 1 == 1)) << (at % 8);
            }
        }
        bytes
    }

    #[test]
    fn integers_of_every_width_are_unpacked_from_any_group() {
        for width in 1..=64 {
            let mask = u64::MAX >> (64 - width);
            let values: Vec<u64> =
                (0..100_u64).map(|index| index.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask).collect();
            let bytes = pack(&values, width);
            for (index, &value) in values.iter().enumerate() {
                assert_eq!(single(&bytes, width, index), value, "width {width}");
                if width <= 32 && index % 8 == 0 {
                    let mut output = vec![0; values.len() - index];
                    unpack(&bytes, width, index, &mut output);
                    assert!(
                        output.iter().zip(&values[index..]).all(|(&found, &value)| u64::from(found) == value)
                    );
                }
            }
        }
    }

    #[test]
    fn values_are_looked_up_alike_from_any_place_and_no_wrong_index_is_missed() {
        for width in [0, 1, 2, 5, 8, 13, 25, 26, 32] {
            let most = (1_u64 << width).min(300);
            let table: Vec<u64> = (0..most).map(|value| value * 0x0101_0101_0101).collect();
            let mut values: Vec<u64> = (0..200_u64).map(|index| index * 31 % most).collect();
            let bytes = pack(&values, width);
            for index in [0, 1, 7, 8, 9, 100, 191, 199, 200] {
                for count in [0, 1, 7, 8, 9, 60, 200] {
                    let count = count.min(200 - index);
                    let packed = BitPacking { bytes: &bytes, width, index, count };
                    let mut output = vec![1; count];
                    packed.look_up(&table, &mut output).unwrap();
                    let expected = values[index..index + count].iter();
                    assert!(expected.zip(&output).all(|(value, found)| *found == value * 0x0101_0101_0101));
                    assert_eq!(packed.look_up::<u64>(&[], &mut output).is_ok(), count == 0);
                }
            }
            if width < 9 {
                continue;
            }
            for (at, wrong) in [(0, 300), (3, 301), (100, 511), (199, 300)] {
                let right = std::mem::replace(&mut values[at], wrong);
                let bytes = pack(&values, width);
                for index in [0, 2, 8, 96, 101, 193] {
                    let packed = BitPacking { bytes: &bytes, width, index, count: 200 - index };
                    let found = packed.look_up(&table, &mut vec![0; 200 - index]);
                    let is_named = found == Err(u32::try_from(wrong).unwrap());
                    assert_eq!((found.is_err(), is_named), (at >= index, at >= index), "{width} bits, {at}");
                }
                values[at] = right;
            }
        }
    }
}
