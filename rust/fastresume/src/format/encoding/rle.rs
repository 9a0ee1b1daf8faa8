//! The RLE/bit-packed hybrid, in which levels, booleans and dictionary indices are stored.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::format::encoding::bit_packing::{BitPacking, integer};
use crate::format::encoding::varint::{ends, goes_on, varint};

/// The number of integers that are unpacked at a time.
pub const CHUNK: usize = 512;

/// The most levels or values of a page that are decoded all at once: a few bytes of runs can state many.
pub const MAX_VALUES: usize = 1 << 26;

/// The integers of a hybrid, and how far they were read. The caller holds the bytes.
#[derive(Debug, Clone, Copy)]
pub struct RleHybrid {
    /// Bits of each integer, at most 32.
    width: usize,
    /// Where the next run begins.
    position: usize,
    run: HybridRun,
}

#[derive(Debug, Clone, Copy)]
enum HybridRun {
    Repeated {
        value: u32,
        left: usize,
    },
    /// The group of integers that begins at byte `start`; `index` of them were read.
    Packed {
        start: usize,
        index: usize,
        left: usize,
    },
}

/// The next run of a hybrid, still encoded.
pub enum EncodedRun<'p> {
    /// This value, so many times.
    Repeated(u32, usize),
    Packed(BitPacking<'p>),
}

/// The next run of a hybrid, unpacked.
pub enum DecodedRun<'b> {
    /// This value, so many times.
    Repeated(u32, usize),
    /// Integers, unpacked to the buffer.
    Unpacked(&'b [u32]),
}

impl RleHybrid {
    /// The integers of `width` bits that begin at byte `position`.
    ///
    /// # Errors
    /// `Data` if `width` is above 32.
    pub fn new(position: usize, width: usize) -> Result<Self> {
        if width > 32 {
            return Err(Error::data(format!("a page packs integers of {width} bits, 32 are the most")));
        }
        Ok(Self { width, position, run: HybridRun::Repeated { value: 0, left: 0 } })
    }

    /// Dictionary indices, behind the byte that states their width.
    ///
    /// # Errors
    /// As for `new`.
    pub fn indices(bytes: &[u8], start: usize) -> Result<Self> {
        // A page without values may leave out the width.
        let width = bytes.get(start).copied().unwrap_or(0);
        Self::new(start + 1, usize::from(width))
    }

    /// At most `most` (not 0) of the next integers.
    ///
    /// # Errors
    /// `Data` if the bytes end before.
    pub fn stretch<'p>(&mut self, bytes: &'p [u8], most: usize) -> Result<EncodedRun<'p>> {
        self.enter_run(bytes)?;
        Ok(match &mut self.run {
            HybridRun::Repeated { value, left } => {
                let count = most.min(*left);
                *left -= count;
                EncodedRun::Repeated(*value, count)
            }
            HybridRun::Packed { start, index, left } => {
                let count = most.min(*left);
                let packed = BitPacking { bytes: &bytes[*start..], width: self.width, index: *index, count };
                *index += count;
                *left -= count;
                EncodedRun::Packed(packed)
            }
        })
    }

    /// At most `most` (not 0) of the next integers; `buffer` is for unpacked ones.
    ///
    /// # Errors
    /// `Data` if the bytes end before.
    pub fn next<'b>(
        &mut self,
        bytes: &[u8],
        most: usize,
        buffer: &'b mut [u32; CHUNK],
    ) -> Result<DecodedRun<'b>> {
        self.enter_run(bytes)?;
        let room = match self.run {
            HybridRun::Repeated { .. } => most,
            HybridRun::Packed { index, .. } => CHUNK - index % 8,
        };
        Ok(match self.stretch(bytes, most.min(room))? {
            EncodedRun::Repeated(value, count) => DecodedRun::Repeated(value, count),
            EncodedRun::Packed(packed) => DecodedRun::Unpacked(packed.unpack(buffer)),
        })
    }

    /// Writes some of the next integers to `found`. `places` ascend, counted from the next integer on. All up
    /// to the last of them are passed.
    ///
    /// # Errors
    /// `Data` if the bytes end before.
    pub fn pick(&mut self, bytes: &[u8], places: &[u32], found: &mut [u32]) -> Result<()> {
        let (mut passed, mut done) = (0, 0);
        while let Some(&place) = places.get(done) {
            self.skip(bytes, place as usize - passed)?;
            self.enter_run(bytes)?;
            let (HybridRun::Repeated { left, .. } | HybridRun::Packed { left, .. }) = self.run;
            let first = place as usize;
            // One by one: runs are short, and each of them is looked at anyway.
            let inside = places[done..].iter().take_while(|&&place| (place as usize) - first < left).count();
            let (places, found) = (&places[done..done + inside], &mut found[done..done + inside]);
            let count = places[inside - 1] as usize - first + 1;
            match &mut self.run {
                HybridRun::Repeated { value, left } => {
                    found.fill(*value);
                    *left -= count;
                }
                HybridRun::Packed { start, index, left } => {
                    let packed = &bytes[*start..];
                    for (found, &place) in found.iter_mut().zip(places) {
                        *found = integer(packed, self.width, *index + place as usize - first);
                    }
                    *index += count;
                    *left -= count;
                }
            }
            passed = first + count;
            done += inside;
        }
        Ok(())
    }

    /// The dictionary values that the next indices name.
    ///
    /// # Errors
    /// `Data` if there are fewer, or the dictionary is too small.
    pub fn look_up<P: Pod>(&mut self, bytes: &[u8], dictionary: &[P], output: &mut [P]) -> Result<()> {
        let mut done = 0;
        let missing = |index| not_in_dictionary(index, dictionary.len());
        while done < output.len() {
            let places = &mut output[done..];
            match self.stretch(bytes, places.len())? {
                EncodedRun::Repeated(index, count) => {
                    let value = dictionary.get(index as usize).ok_or_else(|| missing(index))?;
                    places[..count].fill(*value);
                    done += count;
                }
                EncodedRun::Packed(packed) => {
                    packed.look_up(dictionary, &mut places[..packed.count]).map_err(missing)?;
                    done += packed.count;
                }
            }
        }
        Ok(())
    }

    /// The dictionary values that some of the next `count` indices name, which are all passed; `indices` is for these.
    ///
    /// # Errors
    /// As for `look_up`.
    pub fn pick_from<P: Copy>(
        &mut self,
        dictionary: &[P],
        bytes: &[u8],
        (places, count): (&[u32], usize),
        indices: &mut Vec<u32>,
        output: &mut [P],
    ) -> Result<()> {
        indices.resize(places.len(), 0);
        self.pick(bytes, places, indices)?;
        self.skip(bytes, count - places.last().map_or(0, |&last| last as usize + 1))?;
        for (output, &index) in output.iter_mut().zip(indices.iter()) {
            let value = dictionary.get(index as usize);
            *output = *value.ok_or_else(|| not_in_dictionary(index, dictionary.len()))?;
        }
        Ok(())
    }

    /// Skips `count` integers.
    ///
    /// # Errors
    /// `Data` if the bytes end before.
    pub fn skip(&mut self, bytes: &[u8], mut count: usize) -> Result<()> {
        while count > 0 {
            self.enter_run(bytes)?;
            let passed = match &mut self.run {
                HybridRun::Repeated { left, .. } => {
                    let passed = count.min(*left);
                    *left -= passed;
                    passed
                }
                HybridRun::Packed { index, left, .. } => {
                    let passed = count.min(*left);
                    *index += passed;
                    *left -= passed;
                    passed
                }
            };
            count -= passed;
        }
        Ok(())
    }

    /// Refuses bytes that do not end with the run, or the groups, of the next `count` integers.
    ///
    /// # Errors
    /// `Data` if there are fewer, or bytes behind them.
    pub fn check_end(&self, bytes: &[u8], count: usize) -> Result<()> {
        let mut end = *self;
        end.skip(bytes, count)?;
        if end.position < bytes.len() {
            return Err(goes_on(bytes.len() - end.position));
        }
        Ok(())
    }

    /// Reads the header of the next run that holds anything, if the present one is used up.
    fn enter_run(&mut self, bytes: &[u8]) -> Result<()> {
        loop {
            if let HybridRun::Repeated { left: 1.., .. } | HybridRun::Packed { left: 1.., .. } = self.run {
                return Ok(());
            }
            let header = self.varint(bytes)?;
            let count = usize::try_from(header >> 1).unwrap_or(usize::MAX);
            if header & 1 == 0 {
                let value_bytes = self.width.div_ceil(8);
                let value = bytes.get(self.position..self.position + value_bytes).ok_or_else(ends)?;
                let value = value.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
                self.position += value_bytes;
                self.run = HybridRun::Repeated { value, left: count };
            } else {
                let start = self.position;
                let there = bytes.len() - start;
                let stated = count.saturating_mul(self.width);
                self.position += stated.min(there);
                // Some writers leave out the padding of the last group.
                let is_whole = stated <= there;
                let left = if is_whole { count.saturating_mul(8) } else { there * 8 / self.width };
                self.run = HybridRun::Packed { start, index: 0, left };
            }
        }
    }

    fn varint(&mut self, bytes: &[u8]) -> Result<u64> {
        varint(bytes, &mut self.position)
    }
}

/// The error for an index beyond a dictionary of `count` values.
pub fn not_in_dictionary(index: u32, count: usize) -> Error {
    Error::data(format!("a page names value {index} of a dictionary that has {count}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::encoding::bit_packing::tests::pack;

    #[test]
    fn integers_at_any_places_are_those_that_are_read_one_by_one() {
        // 40 times 5, four groups of eight, once 2, five groups of eight.
        let mut bytes = vec![80, 5, 9];
        let some: Vec<u64> = (0..32).map(|value| value * 7 % 31).collect();
        let more: Vec<u64> = (0..40).map(|value| value * 11 % 29).collect();
        bytes.extend(pack(&some, 5));
        bytes.extend([2, 2, 11]);
        bytes.extend(pack(&more, 5));
        let all: Vec<u32> = std::iter::repeat_n(5, 40)
            .chain(some)
            .chain([2])
            .chain(more)
            .map(|value| u32::try_from(value).unwrap())
            .collect();
        let every =
            |step: usize, from: usize| -> Vec<u32> { (0..).take(all.len() - from).step_by(step).collect() };
        for skipped in [0, 1, 39, 40, 71, 72, 73, 100] {
            for step in [1, 2, 3, 7, 31, 50, 200] {
                let places = every(step, skipped);
                let mut hybrid = RleHybrid::new(0, 5).unwrap();
                hybrid.skip(&bytes, skipped).unwrap();
                let mut found = vec![99; places.len()];
                hybrid.pick(&bytes, &places, &mut found).unwrap();
                let expected: Vec<u32> = places.iter().map(|&place| all[skipped + place as usize]).collect();
                assert_eq!(found, expected);
                let passed = skipped + places.last().map_or(0, |&last| last as usize + 1);
                if let Some(&next) = all.get(passed) {
                    hybrid.pick(&bytes, &[0], &mut found[..1]).unwrap();
                    assert_eq!(found[0], next);
                }
            }
        }
        let mut hybrid = RleHybrid::new(0, 5).unwrap();
        assert!(hybrid.pick(&bytes, &[113], &mut [0]).is_err());
        assert!(RleHybrid::new(0, 5).unwrap().pick(&bytes, &[], &mut []).is_ok());
    }

    #[test]
    fn groups_that_fill_the_buffer_more_than_once_are_read_from_any_place() {
        for width in 1..=32 {
            let mask = u64::MAX >> (64 - width);
            let values: Vec<u64> =
                (0_u64..1200).map(|value| value.wrapping_mul(0x9E37_79B9) & mask).collect();
            let mut bytes = vec![0xad, 0x02];
            bytes.extend(pack(&values, width));
            for skipped in 0..20 {
                for most in [1, 13, 500, CHUNK - 1, CHUNK, 2000] {
                    let mut hybrid = RleHybrid::new(0, width).unwrap();
                    hybrid.skip(&bytes, skipped).unwrap();
                    let (mut found, mut buffer) = (Vec::new(), [0; CHUNK]);
                    while found.len() < values.len() - skipped {
                        let DecodedRun::Unpacked(some) = hybrid.next(&bytes, most, &mut buffer).unwrap()
                        else {
                            panic!("there is no run");
                        };
                        assert!((1..=most).contains(&some.len()));
                        found.extend(some.iter().map(|&value| u64::from(value)));
                    }
                    assert_eq!(found, values[skipped..], "width {width}");
                }
            }
        }
    }

    #[test]
    fn runs_and_groups_follow_each_other() {
        // 5 times 3, then a group of eight of 3 bits, then 2 times 1.
        let mut bytes = vec![10, 3, 3];
        bytes.extend(pack(&[0, 1, 2, 3, 4, 5, 6, 7], 3));
        bytes.extend([4, 1]);
        let expected = [3, 3, 3, 3, 3, 0, 1, 2, 3, 4, 5, 6, 7, 1, 1];
        for skipped in 0..expected.len() {
            for most in 1..9 {
                let mut hybrid = RleHybrid::new(0, 3).unwrap();
                hybrid.skip(&bytes, skipped).unwrap();
                let (mut found, mut buffer) = (Vec::new(), [0; CHUNK]);
                while found.len() + skipped < expected.len() {
                    let left = expected.len() - skipped - found.len();
                    match hybrid.next(&bytes, most.min(left), &mut buffer).unwrap() {
                        DecodedRun::Repeated(value, count) => found.extend(std::iter::repeat_n(value, count)),
                        DecodedRun::Unpacked(some) => found.extend(some),
                    }
                }
                assert_eq!(found, expected[skipped..]);
                assert!(hybrid.next(&bytes, 1, &mut buffer).is_err());
            }
        }
    }
}
