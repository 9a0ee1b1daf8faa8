//! Decodes flat columns of strings or binary values.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use parquet::basic::Encoding;

use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::decode::flat::pages::{FlatPages, Presence};
use crate::error::{Error, Result};
use crate::format::encoding::byte_array::{
    ByteArrays, MAX_EXPANDED_BYTES, PrefixedTexts, behind_lengths, plain, too_long,
};
use crate::format::encoding::page_values::PageValues;
use crate::format::encoding::rle::{CHUNK, DecodedRun, RleHybrid, not_in_dictionary};
use crate::format::encoding::varint::ends;
use crate::memory::vectors::{room_for, with_room};

/// A flat column of strings or binary values.
pub struct ByteArrayDecoder<'a> {
    pages: FlatPages<'a>,
    values: TextValues,
}

/// The byte arrays of pages.
#[derive(Debug)]
pub struct TextValues {
    dictionary: ByteArrays,
    form: ByteArrayForm,
}

/// The encoding of the current page's values, and how far they were read.
#[derive(Debug)]
enum ByteArrayForm {
    /// PLAIN: each value behind its length; the next one begins at this byte.
    Plain(usize),
    /// Dictionary indices.
    Dictionary(RleHybrid),
    /// All values decoded at once, and how many were read.
    Decoded(ByteArrays, usize),
    /// Each begins as the one before.
    Prefixed(PrefixedTexts),
    /// None in any page of the chunk, since all are null.
    Absent,
    /// This one for each, whatever the pages hold.
    Given(Vec<u8>),
}

impl Default for TextValues {
    fn default() -> Self {
        Self { dictionary: ByteArrays::default(), form: ByteArrayForm::Plain(0) }
    }
}

impl TextValues {
    /// Those of a chunk in which all are null: what its pages hold besides levels is not looked at.
    pub fn absent() -> Self {
        Self { dictionary: ByteArrays::default(), form: ByteArrayForm::Absent }
    }

    /// Those of a chunk whose every value is this one: what its pages hold besides levels is not looked at.
    pub fn given(value: Vec<u8>) -> Self {
        Self { dictionary: ByteArrays::default(), form: ByteArrayForm::Given(value) }
    }

    /// Whether a few bytes of a page can expand to many bytes of values.
    pub fn can_expand(&self) -> bool {
        matches!(
            self.form,
            ByteArrayForm::Dictionary(_) | ByteArrayForm::Prefixed(_) | ByteArrayForm::Given(_)
        )
    }

    /// Calls `take` for each of the next `count` values of the page.
    ///
    /// # Errors
    /// `Data` if there are fewer, or the dictionary is too small.
    pub fn each(&mut self, bytes: &[u8], count: usize, mut take: impl FnMut(&[u8])) -> Result<()> {
        match &mut self.form {
            ByteArrayForm::Plain(position) => {
                for _ in 0..count {
                    take(plain(bytes, position)?);
                }
            }
            ByteArrayForm::Dictionary(hybrid) => {
                let dictionary = &self.dictionary;
                let missing = |index| not_in_dictionary(index, dictionary.ends.len());
                let text = |index: u32| dictionary.get(index as usize).ok_or_else(|| missing(index));
                let mut indices = [0; CHUNK];
                let mut done = 0;
                while done < count {
                    match hybrid.next(bytes, count - done, &mut indices)? {
                        DecodedRun::Repeated(index, some) => {
                            let text = text(index)?;
                            (0..some).for_each(|_| take(text));
                            done += some;
                        }
                        DecodedRun::Unpacked(some) => {
                            for &index in some {
                                take(text(index)?);
                            }
                            done += some.len();
                        }
                    }
                }
            }
            ByteArrayForm::Decoded(texts, read) => {
                for index in *read..*read + count {
                    take(texts.get(index).ok_or_else(ends)?);
                }
                *read += count;
            }
            ByteArrayForm::Prefixed(texts) => {
                for _ in 0..count {
                    take(texts.next()?);
                }
            }
            ByteArrayForm::Absent => check_absent(count)?,
            ByteArrayForm::Given(value) => (0..count).for_each(|_| take(value)),
        }
        Ok(())
    }
}

impl PageValues for TextValues {
    fn wants_dictionary(&self) -> bool {
        !matches!(self.form, ByteArrayForm::Absent | ByteArrayForm::Given(_))
    }

    fn open_dictionary(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        let mut texts = ByteArrays { bytes: with_room(bytes.len())?, ends: with_room(count)? };
        let mut position = 0;
        for _ in 0..count {
            texts.bytes.extend_from_slice(plain(bytes, &mut position)?);
            texts.ends.push(texts.bytes.len());
        }
        self.dictionary = texts;
        Ok(())
    }

    fn open(&mut self, encoding: Encoding, bytes: &[u8], start: usize, count: usize) -> Result<()> {
        match self.form {
            ByteArrayForm::Absent => return check_absent(count),
            ByteArrayForm::Given(_) => return Ok(()),
            _ => {}
        }
        let from = bytes.get(start..).unwrap_or_default();
        self.form = match encoding {
            Encoding::PLAIN => ByteArrayForm::Plain(start),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                ByteArrayForm::Dictionary(RleHybrid::indices(bytes, start)?)
            }
            Encoding::DELTA_LENGTH_BYTE_ARRAY => ByteArrayForm::Decoded(behind_lengths(from, count)?, 0),
            Encoding::DELTA_BYTE_ARRAY => ByteArrayForm::Prefixed(PrefixedTexts::new(from, count)?),
            other => {
                return Err(Error::data(format!("the encoding {other} is not one for the column's type")));
            }
        };
        Ok(())
    }

    fn check_end(&self, bytes: &[u8], count: usize) -> Result<()> {
        match &self.form {
            ByteArrayForm::Dictionary(hybrid) => hybrid.check_end(bytes, count),
            // The lengths of other texts tell where they end, and indices are hardly ever such lengths.
            ByteArrayForm::Plain(_)
            | ByteArrayForm::Decoded(..)
            | ByteArrayForm::Prefixed(_)
            | ByteArrayForm::Absent
            | ByteArrayForm::Given(_) => Ok(()),
        }
    }

    fn skip(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        match &mut self.form {
            ByteArrayForm::Dictionary(hybrid) => hybrid.skip(bytes, count),
            ByteArrayForm::Decoded(_, read) => {
                *read += count;
                Ok(())
            }
            ByteArrayForm::Given(_) => Ok(()),
            ByteArrayForm::Plain(_) | ByteArrayForm::Prefixed(_) | ByteArrayForm::Absent => {
                self.each(bytes, count, |_| ())
            }
        }
    }
}

/// Refuses a value where all are null.
///
/// # Errors
/// `Data` if there is one.
fn check_absent(count: usize) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    Err(Error::data(format!("the column's type is null, and a page has {count} values that are not")))
}

impl<'a> ByteArrayDecoder<'a> {
    pub fn new(pages: FlatPages<'a>) -> Self {
        Self { pages, values: TextValues::default() }
    }
}

impl JaggedDecoder for ByteArrayDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut self.values, rows)
    }

    fn read(&mut self, mut rows: usize, output: &mut JaggedRows) -> Result<()> {
        while rows > 0 {
            let part = self.pages.next(&mut self.values, rows)?;
            let some = part.rows.len();
            let first = output.ends.len();
            room_for(&mut output.ends, some)?;
            room_for(&mut output.valid, some)?;
            let (values, ends) = (&mut output.values, &mut output.ends);
            let before = values.len();
            let can_expand = self.values.can_expand();
            let mut added = Ok(());
            let mut add = |text: &[u8]| {
                // A single row is never too long.
                let so_far = values.len() - before;
                if can_expand && so_far > 0 && so_far + text.len() > MAX_EXPANDED_BYTES {
                    added = Err(too_long(some));
                }
                if added.is_ok() {
                    added = values.extend(text);
                }
                ends.push(values.len());
            };
            match part.presence {
                Presence::All => {
                    self.values.each(part.page.bytes, some, &mut add)?;
                    output.valid.resize(first + some, 1);
                }
                Presence::None => {
                    (0..some).for_each(|_| add(&[]));
                    output.valid.resize(first + some, 0);
                }
                Presence::Marked(there) => {
                    self.values.each(part.page.bytes, there.ones(), &mut add)?;
                    output.valid.resize(first + some, 0);
                    there.write(&mut output.valid[first..]);
                    spread(&output.valid[first..], output.values.len(), &mut output.ends, first);
                }
            }
            added?;
            rows -= some;
        }
        Ok(())
    }
}

/// Turns the ends of values, from value `first` on, into ends of rows. Where `valid` is 0, a row has no
/// value, and ends where it begins.
fn spread(valid: &[u8], last: usize, ends: &mut Vec<usize>, first: usize) {
    let mut value = ends.len();
    ends.resize(first + valid.len(), last);
    // From the last row backwards, so that no end is overwritten before it is read.
    for (row, &valid) in valid.iter().enumerate().rev() {
        value -= usize::from(valid);
        // A row ends where its value does, or else where the value before it ended.
        let of = if valid == 1 { Some(value) } else { value.checked_sub(1) };
        ends[first + row] = of.map_or(0, |value| ends[value]);
    }
}
