//! Decodes flat columns of fixed-length values: `FIXED_LEN_BYTE_ARRAY`, INT96, decimals.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use std::slice::ChunksExactMut;

use parquet::basic::Encoding;

use crate::decode::converter::{Converter, RowShape};
use crate::decode::decoder::{ScalarDecoder, Target, mark_all};
use crate::decode::flat::pages::{FlatPages, Presence};
use crate::error::{Error, Result};
use crate::format::encoding::byte_array::of_one_length;
use crate::format::encoding::delta::deltas;
use crate::format::encoding::page_values::{Page, PageValues, check_dictionary, check_values};
use crate::format::encoding::rle::{CHUNK, DecodedRun, MAX_VALUES, RleHybrid, not_in_dictionary};
use crate::format::encoding::varint::{ends, goes_on};
use crate::memory::vectors::room_for;

/// A flat column of fixed-length values, delivered as rows of one length.
pub struct FixedLenDecoder<'a> {
    pages: FlatPages<'a>,
    values: FixedValues,
    converter: Converter,
    row: RowShape,
}

/// The values of pages.
pub struct FixedValues {
    /// Bytes of a value.
    length: usize,
    /// Whether they are integers, which may be delta-encoded.
    is_integer: bool,
    /// The number of values in the dictionary.
    dictionary: usize,
    /// The values of the current page, if they are decoded all at once.
    decoded: Vec<u8>,
    form: FixedLenForm,
}

/// The encoding of the current page's values.
#[derive(Debug)]
enum FixedLenForm {
    /// PLAIN: one after another, from byte `.0` on.
    Plain(usize),
    /// Dictionary indices.
    Dictionary(RleHybrid),
    /// `BYTE_STREAM_SPLIT`: where the values begin, how many there are, how many were read.
    Split(usize, usize, usize),
    /// All values decoded at once; byte `.0` is the next one.
    Decoded(usize),
}

impl FixedValues {
    /// Values of `length` bytes (not 0), with no page open.
    pub fn new(length: usize, is_integer: bool) -> Self {
        Self { length, is_integer, dictionary: 0, decoded: Vec::new(), form: FixedLenForm::Plain(0) }
    }

    /// The next `count` values, if the page holds them one after another.
    fn together<'p>(&mut self, page: Page<'p>, count: usize) -> Option<&'p [u8]> {
        let FixedLenForm::Plain(start) = &mut self.form else { return None };
        let wanted = count.saturating_mul(self.length);
        let values = page.bytes.get(*start..start.saturating_add(wanted))?;
        *start += wanted;
        Some(values)
    }

    /// Calls `take` for each of the next `count` values of the page.
    ///
    /// # Errors
    /// `Data` if there are fewer, and what `take` gives.
    pub fn each(
        &mut self,
        page: Page<'_>,
        count: usize,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Page { bytes, dictionary } = page;
        let length = self.length;
        let wanted = count.saturating_mul(length);
        match &mut self.form {
            FixedLenForm::Plain(start) => {
                let values = bytes.get(*start..start.saturating_add(wanted)).ok_or_else(ends)?;
                *start += wanted;
                values.chunks_exact(length).try_for_each(take)
            }
            FixedLenForm::Decoded(start) => {
                let values = self.decoded.get(*start..start.saturating_add(wanted)).ok_or_else(ends)?;
                *start += wanted;
                values.chunks_exact(length).try_for_each(take)
            }
            FixedLenForm::Split(start, stride, read) => {
                // With no values left, the page need not have the bytes of one.
                let mut value = vec![0; if count == 0 { 0 } else { length }];
                for index in *read..*read + count {
                    for (byte, place) in value.iter_mut().enumerate() {
                        *place = *bytes.get(*start + byte * *stride + index).ok_or_else(ends)?;
                    }
                    take(&value)?;
                }
                *read += count;
                Ok(())
            }
            FixedLenForm::Dictionary(hybrid) => {
                let entries = self.dictionary;
                let value = |index: u32| {
                    let start = (index as usize).saturating_mul(length);
                    let value = dictionary.get(start..start.saturating_add(length));
                    value
                        .filter(|_| (index as usize) < entries)
                        .ok_or_else(|| not_in_dictionary(index, entries))
                };
                let mut indices = [0; CHUNK];
                let mut left = count;
                while left > 0 {
                    left -= match hybrid.next(bytes, left, &mut indices)? {
                        DecodedRun::Repeated(index, some) => {
                            let value = value(index)?;
                            (0..some).try_for_each(|_| take(value))?;
                            some
                        }
                        DecodedRun::Unpacked(some) => {
                            some.iter().try_for_each(|&index| take(value(index)?))?;
                            some.len()
                        }
                    };
                }
                Ok(())
            }
        }
    }
}

impl PageValues for FixedValues {
    fn open_dictionary(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        check_dictionary(bytes, count, self.length)?;
        self.dictionary = count;
        Ok(())
    }

    fn open(&mut self, encoding: Encoding, bytes: &[u8], start: usize, count: usize) -> Result<()> {
        let (length, from) = (self.length, bytes.get(start..).unwrap_or_default());
        let (there, needed) = (from.len(), count.saturating_mul(length));
        if matches!(encoding, Encoding::PLAIN | Encoding::BYTE_STREAM_SPLIT) {
            check_values(count, there, needed)?;
        }
        self.form = match encoding {
            Encoding::PLAIN => FixedLenForm::Plain(start),
            Encoding::BYTE_STREAM_SPLIT => FixedLenForm::Split(start, there / length, 0),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                FixedLenForm::Dictionary(RleHybrid::indices(bytes, start)?)
            }
            Encoding::DELTA_BINARY_PACKED if self.is_integer => {
                self.decoded.clear();
                room_for(&mut self.decoded, needed.min(MAX_VALUES * size_of::<u64>()))?;
                let end = deltas(from, count, |value| {
                    self.decoded.extend_from_slice(&value.to_le_bytes()[..length]);
                })?;
                if end < there && count > 0 {
                    return Err(goes_on(there - end));
                }
                FixedLenForm::Decoded(0)
            }
            Encoding::DELTA_BYTE_ARRAY if !self.is_integer => {
                self.decoded = of_one_length(from, count, length)?;
                FixedLenForm::Decoded(0)
            }
            _ => {
                return Err(Error::data(format!("the encoding {encoding} is not one for the column's type")));
            }
        };
        Ok(())
    }

    fn check_end(&self, bytes: &[u8], count: usize) -> Result<()> {
        match &self.form {
            FixedLenForm::Dictionary(hybrid) => hybrid.check_end(bytes, count),
            _ => Ok(()),
        }
    }

    fn is_counted(&self) -> bool {
        matches!(self.form, FixedLenForm::Plain(_) | FixedLenForm::Split(..))
    }

    fn skip(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        match &mut self.form {
            FixedLenForm::Plain(start) | FixedLenForm::Decoded(start) => {
                *start = start.saturating_add(count.saturating_mul(self.length));
            }
            FixedLenForm::Split(_, _, read) => *read += count,
            FixedLenForm::Dictionary(hybrid) => hybrid.skip(bytes, count)?,
        }
        Ok(())
    }
}

impl<'a> FixedLenDecoder<'a> {
    /// Values of `length` bytes (not 0), which may be integers, delivered as `converter` makes them.
    pub fn new(
        pages: FlatPages<'a>,
        (length, is_integer): (usize, bool),
        converter: Converter,
        row: RowShape,
    ) -> Self {
        Self { pages, values: FixedValues::new(length, is_integer), converter, row }
    }
}

impl ScalarDecoder for FixedLenDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut self.values, rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        // A value of an unwanted row may fail to fit.
        if self.converter.may_misfit() { Ok(1) } else { self.pages.left_in_page(&mut self.values) }
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let row_bytes = self.row.bytes();
        let (mut output, mut valid) = (target.values, target.valid);
        while !output.is_empty() {
            let part = self.pages.next(&mut self.values, output.len() / row_bytes)?;
            let count = part.rows.len();
            let (places, rest) = output.split_at_mut(count * row_bytes);
            let (marks, unmarked) = valid.split_at_mut(count.min(valid.len()));
            let (converter, null) = (self.converter, part.null_bits);
            let mut row = part.rows.start;
            let is_copied = converter.is_copied() && matches!(part.presence, Presence::All);
            if let Some(values) = is_copied.then(|| self.values.together(part.page, count)).flatten() {
                mark_all(marks, 1);
                places.copy_from_slice(values);
                (output, valid) = (rest, unmarked);
                continue;
            }
            let mut places = places.chunks_exact_mut(row_bytes);
            match part.presence {
                Presence::All => {
                    mark_all(marks, 1);
                    self.values.each(part.page, count, |value| {
                        let place = places.next().unwrap_or_default();
                        row += 1;
                        converter.convert(value, place, row - 1)
                    })?;
                }
                Presence::None => {
                    mark_all(marks, 0);
                    places.for_each(|place| self.row.fill(place, null));
                }
                Presence::Marked(there) => {
                    there.write(marks);
                    let present = there.ones();
                    let mut there = there.each();
                    // The nulls before the next value; its own mark is passed with them.
                    let mut fill = |places: &mut ChunksExactMut<'_, u8>| {
                        let nulls = there.by_ref().take_while(|there| !there).count();
                        places.by_ref().take(nulls).for_each(|place| self.row.fill(place, null));
                        nulls
                    };
                    self.values.each(part.page, present, |value| {
                        row += fill(&mut places) + 1;
                        converter.convert(value, places.next().unwrap_or_default(), row - 1)
                    })?;
                    fill(&mut places);
                }
            }
            (output, valid) = (rest, unmarked);
        }
        Ok(())
    }
}
