//! Repetition and definition levels: which values of a page begin a row, and which are not null.
//!
//! They are kept as bitmaps, one for each bit of a level: so a page's levels are read word by word, never one
//! by one.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::format::encoding::bitmap::Bitmap;
use crate::format::encoding::level_runs::{from_the_top, read_hybrid, too_high};

/// The levels of one page; the memory is reused from page to page.
#[derive(Debug, Default)]
pub struct Levels {
    count: usize,
    /// The level of all values, if all are known to be the same: then `planes` are not used.
    same: Option<u8>,
    /// Bit k of each level.
    planes: Vec<Bitmap>,
}

impl Levels {
    /// Sets all of `count` levels to this one.
    pub fn set(&mut self, level: u8, count: usize) {
        (self.same, self.count) = (Some(level), count);
    }

    /// The level that all values have, if they are known to be the same.
    pub fn same(&self) -> Option<u8> {
        self.same
    }

    /// Sets the bits of the levels that are at least this one.
    pub fn at_least(&self, level: u8, found: &mut Bitmap) {
        if let Some(same) = self.same {
            found.clear(self.count);
            found.add_run(0..if same >= level { self.count } else { 0 });
            return;
        }
        if usize::from(level) >> self.planes.len() > 0 {
            // A level has no more bits than there are planes.
            return found.clear(self.count);
        }
        // Almost all columns need two bits or one.
        match (self.planes.as_slice(), level) {
            ([only], 1) => return found.combine(only, only, |word, _| word),
            ([low, high], 1) => return found.combine(low, high, |low, high| low | high),
            ([_, high], 2) => return found.combine(high, high, |word, _| word),
            ([low, high], 3) => return found.combine(low, high, |low, high| low & high),
            _ => {}
        }
        found.set(self.count, |index| {
            // Compared from the highest bit on: which levels are larger already, and which are equal so far.
            let (mut larger, mut equal) = (0, u64::MAX);
            for (bit, plane) in self.planes.iter().enumerate().rev() {
                let word = plane.words()[index];
                if level >> bit & 1 == 1 {
                    equal &= word;
                } else {
                    larger |= equal & word;
                    equal &= !word;
                }
            }
            larger | equal
        });
    }

    /// Reads `count` levels of at most `largest` (not 0) from byte `start` of a page; returns the byte after
    /// them. `stated` is their size in bytes, if the page's header has it.
    ///
    /// # Errors
    /// `Data` if the page ends before them, or one is too large.
    pub fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        count: usize,
        largest: u8,
        (encoding, stated): (Encoding, Option<usize>),
    ) -> Result<usize> {
        let width = (u8::BITS - largest.leading_zeros()) as usize;
        let is_hybrid = stated.is_some() || encoding == Encoding::RLE;
        let (first, end) = match stated {
            Some(length) => (start, start.saturating_add(length)),
            None if is_hybrid => {
                let length = bytes.get(start..).and_then(|rest| rest.first_chunk::<4>());
                let length = length.map_or(usize::MAX, |length| u32::from_le_bytes(*length) as usize);
                (start + 4, (start + 4).saturating_add(length))
            }
            #[expect(deprecated, reason = "old files have it")]
            None if encoding == Encoding::BIT_PACKED => {
                if self.are_runs(bytes, start, count, largest) {
                    return Err(Error::data("a page's levels are stated to be packed, and are runs"));
                }
                (start, start + (count * width).div_ceil(8))
            }
            None => return Err(Error::data(format!("levels are encoded as {encoding}, expected RLE"))),
        };
        let levels = bytes.get(first..end).ok_or_else(|| {
            Error::data(format!("a page's levels end at byte {end}, the page has {}", bytes.len()))
        })?;
        self.count = count;
        self.planes.resize_with(width, Bitmap::default);
        if is_hybrid {
            macro_rules! by_width {
                ($($width:literal)*) => {
                    match width {
                        $($width => {
                            read_hybrid::<$width>(&mut self.planes, levels, count, largest, stated.is_none())?
                        })*
                        _ => None,
                    }
                };
            }
            self.same = by_width!(1 2 3 4 5 6 7 8);
        } else {
            self.same = None;
            // As many bytes lie behind them, which bounds their number.
            self.planes.iter_mut().for_each(|plane| plane.clear(count));
            for index in 0..count {
                let level = from_the_top(levels, width, index);
                for (bit, plane) in self.planes.iter_mut().enumerate() {
                    plane.add(index, u64::from(level >> bit & 1));
                }
            }
        }
        self.check(largest)?;
        Ok(end)
    }

    /// Whether there are levels in runs, as those of almost all writers are.
    fn are_runs(&mut self, bytes: &[u8], start: usize, count: usize, largest: u8) -> bool {
        let how = (Encoding::RLE, None);
        count > 0 && self.read(bytes, start, count, largest, how).is_ok()
    }

    /// Refuses levels above the largest, which their width allows.
    fn check(&self, largest: u8) -> Result<()> {
        if self.same.is_some() || (usize::from(largest) + 1) >> self.planes.len() > 0 {
            return Ok(());
        }
        let mut above = Bitmap::default();
        self.at_least(largest + 1, &mut above);
        if above.words().iter().any(|&word| word != 0) {
            return Err(too_high(largest + 1, largest));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of `(level, count, is_packed)` as bytes, and each level.
    fn hybrid(runs: &[(u8, usize, bool)], width: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut bytes, mut levels) = (Vec::new(), Vec::new());
        for &(level, count, is_packed) in runs {
            if !is_packed {
                if count < 64 {
                    bytes.push(u8::try_from(count * 2).unwrap());
                } else {
                    let header = [(count * 2 % 128) | 128, count / 64];
                    bytes.extend(header.map(|byte| u8::try_from(byte).unwrap()));
                }
                bytes.push(level);
                levels.extend(vec![level; count]);
                continue;
            }
            let groups = count.div_ceil(8);
            bytes.push(u8::try_from(groups * 2 + 1).unwrap());
            let some: Vec<u8> = (0..groups * 8)
                .map(|index| u8::try_from(index * index / 3 % (usize::from(level) + 1)).unwrap())
                .collect();
            let mut packed = vec![0; groups * width];
            for (index, level) in some.iter().enumerate() {
                for bit in 0..width {
                    packed[(index * width + bit) / 8] |= (level >> bit & 1) << ((index * width + bit) % 8);
                }
            }
            bytes.extend(packed);
            levels.extend(some);
        }
        (bytes, levels)
    }

    /// As many of some runs as it takes to have so many levels.
    fn as_far_as(runs: &[(u8, usize, bool)], width: usize, count: usize) -> Vec<u8> {
        let parts = (1..=runs.len()).map(|some| hybrid(&runs[..some], width));
        parts.into_iter().find(|(_, levels)| levels.len() >= count).unwrap().0
    }

    fn read(bytes: &[u8], count: usize, largest: u8) -> Result<Levels> {
        let mut levels = Levels::default();
        let end = levels.read(bytes, 0, count, largest, (Encoding::RLE, Some(bytes.len())))?;
        assert_eq!(end, bytes.len());
        Ok(levels)
    }

    #[test]
    fn levels_of_every_width_are_found_in_runs_and_packed_groups_at_any_place() {
        for largest in [1, 2, 3, 4, 7, 9, 31, 255] {
            let width = (u8::BITS - u8::leading_zeros(largest)) as usize;
            for first in [1, 7, 63, 64, 65, 200, 1000] {
                let runs = [
                    (largest, first, false),
                    (largest, 48, true),
                    (0, 3, false),
                    (largest / 2, 130, false),
                    (largest, 8, true),
                    (largest, 300, true),
                ];
                let (bytes, expected) = hybrid(&runs, width);
                for count in [first + 1, first + 50, expected.len() - 9, expected.len()] {
                    let levels = read(&as_far_as(&runs, width, count), count, largest).unwrap();
                    for least in [0, 1, largest / 2, largest] {
                        let mut found = Bitmap::default();
                        levels.at_least(least, &mut found);
                        let mut marks = vec![0; count];
                        found.all().write(&mut marks);
                        let expected = expected[..count].iter().map(|&level| u8::from(level >= least));
                        assert_eq!(marks, expected.collect::<Vec<_>>(), "{count} levels up to {largest}");
                    }
                }
                assert!(read(&bytes, expected.len() + 1, largest).is_err());
                assert!(read(&bytes, expected.len() - 304, largest).is_err(), "a run is left");
            }
        }
    }

    #[test]
    fn runs_and_groups_that_take_turns_are_levels_as_any_others() {
        for largest in [1, 2] {
            for groups in 1..11 {
                let runs: Vec<_> = (1..68)
                    .flat_map(|same| {
                        [(u8::try_from(same % 2).unwrap(), same, false), (largest, 8 * groups, true)]
                    })
                    .collect();
                let (bytes, expected) = hybrid(&runs, usize::from(largest));
                for count in (1..200).step_by(3).chain([expected.len() - 3, expected.len()]) {
                    let bytes = as_far_as(&runs, usize::from(largest), count);
                    let mut found = Bitmap::default();
                    read(&bytes, count, largest).unwrap().at_least(1, &mut found);
                    let found: Vec<u8> = found.all().each().map(u8::from).collect();
                    let expected = expected[..count].iter().map(|&level| level.min(1));
                    assert_eq!(found, expected.collect::<Vec<_>>(), "{count} levels up to {largest}");
                }
                assert!(read(&bytes, expected.len() + 1, largest).is_err());
            }
        }
        let runs = [(1, 9, false), (1, 16, true), (2, 20, false), (1, 16, true), (1, 300, true)];
        let (high, expected) = hybrid(&runs, 1);
        assert!(read(&high, expected.len(), 1).is_err());
    }

    #[test]
    fn no_level_is_as_high_as_one_that_has_more_bits_than_the_largest() {
        for largest in [1, 3, 7, 31] {
            let (bytes, expected) =
                hybrid(&[(largest, 8, false), (largest, 64, true)], largest.count_ones() as usize);
            let levels = read(&bytes, expected.len(), largest).unwrap();
            for least in [largest + 1, largest + 2, 2 * largest + 2, 255] {
                let mut found = Bitmap::default();
                levels.at_least(least, &mut found);
                let expected = (expected.len(), 0);
                assert_eq!(
                    (found.len(), found.all().ones()),
                    expected,
                    "{least} among levels up to {largest}"
                );
            }
        }
    }

    #[test]
    fn one_run_says_that_all_are_the_same() {
        let (bytes, _) = hybrid(&[(2, 500, false)], 2);
        let levels = read(&bytes, 400, 3).unwrap();
        assert_eq!(levels.same(), Some(2));
        let mut found = Bitmap::default();
        levels.at_least(2, &mut found);
        assert_eq!((found.all().ones(), found.len()), (400, 400));
        levels.at_least(3, &mut found);
        assert_eq!((found.all().ones(), found.len()), (0, 400));
    }

    #[test]
    fn a_page_of_no_levels_holds_none_of_the_page_before() {
        let (bytes, _) = hybrid(&[(1, 100, false), (3, 80, true)], 2);
        let mut levels = read(&bytes, 150, 3).unwrap();
        for how in [(Encoding::RLE, Some(0)), (Encoding::RLE, None)] {
            levels.read(&[0; 4], 0, 0, 3, how).unwrap();
            for least in 0..4 {
                let mut found = Bitmap::default();
                levels.at_least(least, &mut found);
                assert_eq!((found.len(), found.all().ones(), found.all().first_zero()), (0, 0, None));
            }
        }
    }

    #[test]
    fn a_level_above_the_largest_is_refused() {
        let (packed, _) = hybrid(&[(2, 100, false), (3, 100, true)], 2);
        assert!(read(&packed, 200, 3).is_ok());
        assert!(read(&packed, 200, 2).is_err());
        let (run, _) = hybrid(&[(2, 100, false), (4, 100, false)], 2);
        assert!(read(&run, 200, 3).is_err());
    }

    #[test]
    fn levels_end_where_their_bytes_do() {
        let (bytes, _) = hybrid(&[(2, 100, false), (3, 6, true)], 2);
        assert!(read(&bytes, 103, 3).is_ok() && read(&bytes, 100, 3).is_err());
        let (cut, stated) =
            (&bytes[..bytes.len() - 1], |length: u8| [&[length, 0, 0, 0], &bytes[..]].concat());
        assert!(read(cut, 103, 3).is_err(), "a header may state what it likes");
        let length = u8::try_from(bytes.len()).unwrap();
        let of_page = |length| Levels::default().read(&stated(length), 0, 103, 3, (Encoding::RLE, None));
        assert!(
            of_page(length).is_ok() && of_page(length - 1).is_ok(),
            "the last group need not be filled up"
        );
        #[expect(deprecated, reason = "old files have it")]
        let how = (Encoding::BIT_PACKED, None);
        let error = Levels::default().read(&stated(length), 0, 103, 3, how).unwrap_err().to_string();
        assert_eq!(error, "a page's levels are stated to be packed, and are runs");
    }

    #[test]
    fn the_old_packing_begins_with_the_highest_bit() {
        let mut levels = Levels::default();
        #[expect(deprecated, reason = "old files have it")]
        let how = (Encoding::BIT_PACKED, None);
        // 3, 0, 1, 2, 3 in two bits each.
        assert_eq!(levels.read(&[0, 0b1100_0110, 0b1100_0000], 1, 5, 3, how).unwrap(), 3);
        let mut found = Bitmap::default();
        for (least, expected) in [(1, [1, 0, 1, 1, 1]), (2, [1, 0, 0, 1, 1]), (3, [1, 0, 0, 0, 1])] {
            levels.at_least(least, &mut found);
            let mut marks = [9; 5];
            found.all().write(&mut marks);
            assert_eq!(marks, expected);
        }
    }
}
