//! Repetition and definition levels: which values of a page begin a row, and which are there.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use std::ops::Range;

use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::hybrid::{CHUNK, Hybrid, MAX_VALUES, Next};

/// The levels of one page; the memory is reused from page to page.
#[derive(Debug, Default)]
pub struct Levels {
    /// The level of all values, if they have the same one: then `each` says nothing.
    same: Option<u8>,
    each: Vec<u8>,
}

impl Levels {
    /// Makes all levels this one.
    pub fn set(&mut self, level: u8) {
        self.same = Some(level);
    }

    /// The level that all values have, if they do.
    pub fn same(&self) -> Option<u8> {
        self.same
    }

    /// The level of each value.
    pub fn each(&mut self, count: usize) -> &[u8] {
        if let Some(level) = self.same.take() {
            self.each.clear();
            self.each.resize(count, level);
        }
        &self.each
    }

    /// How many values of a part of the page have this level.
    pub fn count(&self, part: Range<usize>, level: u8) -> usize {
        match self.same {
            Some(same) => part.len() * usize::from(same == level),
            None => bytecount::count(&self.each[part], level),
        }
    }

    /// Reads `count` levels of at most `largest` (and not 0), which begin at byte `start` of a page; gives
    /// the byte after them. `stated` are their bytes, if the page's header says how many they are.
    ///
    /// # Errors
    /// `Data` if the page ends before them, or one is larger.
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
            None if encoding == Encoding::BIT_PACKED => (start, start + (count * width).div_ceil(8)),
            None => return Err(Error::data(format!("levels are encoded as {encoding}, expected RLE"))),
        };
        let levels = bytes.get(first..end).ok_or_else(|| {
            Error::data(format!("a page's levels end at byte {end}, the page has {}", bytes.len()))
        })?;
        self.same = None;
        self.each.clear();
        if is_hybrid {
            self.read_hybrid(levels, width, count)?;
        } else {
            // As many bytes lie behind them, so that their number is bounded.
            self.each.extend((0..count).map(|index| from_the_top(levels, width, index)));
        }
        let found = self.same.unwrap_or_else(|| self.each.iter().copied().fold(0, u8::max));
        if found > largest {
            return Err(Error::data(format!("a page holds the level {found}, {largest} is the largest")));
        }
        Ok(end)
    }

    fn read_hybrid(&mut self, levels: &[u8], width: usize, count: usize) -> Result<()> {
        let mut hybrid = Hybrid::new(0, width)?;
        let mut buffer = [0; CHUNK];
        while self.each.len() < count {
            match hybrid.next(levels, count - self.each.len(), &mut buffer)? {
                Next::Repeated(level, all) if all == count => self.same = Some(narrowed(level)),
                _ if count > MAX_VALUES => {
                    return Err(Error::data(format!(
                        "a page has {count} levels, at most {MAX_VALUES} are read"
                    )));
                }
                Next::Repeated(level, some) => {
                    self.each.resize(self.each.len() + some, narrowed(level));
                }
                Next::Unpacked(some) => self.each.extend(buffer[..some].iter().map(|&level| narrowed(level))),
            }
            if self.same.is_some() {
                break;
            }
        }
        Ok(())
    }
}

/// The level as a byte; one that does not fit becomes larger than any can be.
fn narrowed(level: u32) -> u8 {
    u8::try_from(level).unwrap_or(u8::MAX)
}

/// The old packing of levels: from the highest bit on.
fn from_the_top(bytes: &[u8], width: usize, index: usize) -> u8 {
    (index * width..(index + 1) * width).fold(0, |level, bit| {
        let byte = bytes.get(bit / 8).copied().unwrap_or(0);
        level << 1 | (byte >> (7 - bit % 8) & 1)
    })
}
