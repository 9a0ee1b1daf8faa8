//! Decodes flat columns of strings or binary values to numbers: hash buckets or dictionary codes.

use std::sync::Arc;

use parquet::basic::Encoding;

use crate::decode::decoder::{ScalarDecoder, Target, Wanted};
use crate::decode::flat::byte_array::TextValues;
use crate::decode::flat::number::fill;
use crate::decode::flat::pages::FlatPages;
use crate::decode::numbers::{NumberElements, STEP, steps};
use crate::error::Result;
use crate::format::encoding::bitmap::Marks;
use crate::format::encoding::byte_array::plain;
use crate::format::encoding::page_values::{Page, PageValues};
use crate::format::encoding::rle::RleHybrid;
use crate::memory::vectors::{push, room_for};
use crate::schema::buckets::Buckets;
use crate::schema::vocabulary::Vocabulary;
use crate::simd;

/// How strings become numbers.
#[derive(Debug, Clone)]
pub enum Numbering {
    Buckets(Buckets),
    Codes(Arc<Vocabulary>),
}

impl Numbering {
    /// The number of a text.
    ///
    /// # Errors
    /// `Data` if it has no code.
    pub fn of(&self, text: &[u8]) -> Result<u64> {
        match self {
            Self::Buckets(buckets) => Ok(buckets.of_bytes(text)),
            Self::Codes(vocabulary) => vocabulary.code(text),
        }
    }
}

/// A flat column of strings or binary values, delivered as 64-bit numbers. No string is copied.
pub struct HashDecoder<'a> {
    pages: FlatPages<'a>,
    values: HashedValues,
}

/// The numbers of the byte arrays of pages.
pub struct HashedValues {
    numbering: Numbering,
    /// The numbers of the dictionary's entries. One that has none gets one from [`NO_NUMBER`] on: it may belong to no wanted
    /// row.
    dictionary: Vec<u64>,
    /// The entries that have no number.
    numberless: Vec<Box<[u8]>>,
    /// The indices, if the page has dictionary indices.
    indices: Option<RleHybrid>,
    /// The byte arrays of other pages.
    texts: TextValues,
}

/// No number is as large, since all are int64.
const NO_NUMBER: u64 = 1 << 63;

impl HashedValues {
    pub fn new(numbering: Numbering) -> Self {
        let (dictionary, numberless) = (Vec::new(), Vec::new());
        Self { numbering, dictionary, numberless, indices: None, texts: TextValues::default() }
    }

    /// Refuses numbers of a wanted row that were looked up in the dictionary, if they are none.
    fn check(&self, numbers: &[u64], row_of: impl Fn(usize) -> Option<usize>) -> Result<()> {
        if self.numberless.is_empty() {
            return Ok(());
        }
        for (place, number) in numbers.iter().enumerate() {
            let entry = number.checked_sub(NO_NUMBER).and_then(|entry| usize::try_from(entry).ok());
            let text = entry.and_then(|entry| self.numberless.get(entry));
            if let Some(text) = text.filter(|_| row_of(place).is_some()) {
                self.numbering.of(text)?;
            }
        }
        Ok(())
    }
}

impl NumberElements<u64> for HashedValues {
    fn values(&mut self) -> &mut impl PageValues {
        self
    }

    fn read(
        &mut self,
        page: Page<'_>,
        output: &mut [u64],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        if let Some(indices) = &mut self.indices {
            indices.look_up(page.bytes, &self.dictionary, output)?;
            return self.check(output, row_of);
        }
        let (numbering, count) = (&self.numbering, output.len());
        let mut places = output.iter_mut().enumerate();
        let mut numbered = Ok(());
        self.texts.each(page.bytes, count, |text| {
            if let (Some((index, place)), Ok(())) = (places.next(), &numbered) {
                match numbering.of(text) {
                    Ok(number) => *place = number,
                    Err(why) if row_of(index).is_some() => numbered = Err(why),
                    Err(_) => {}
                }
            }
        })?;
        numbered
    }

    fn read_spread(
        &mut self,
        page: Page<'_>,
        there: &Marks<'_>,
        null: u64,
        output: &mut [u64],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        let mut scratch = [0; STEP + simd::EXPAND_SPARE];
        for (step, (marks, words, places)) in steps(there, output).enumerate() {
            let row_of = |index| row_of(step * STEP + marks.nth_one(index).unwrap_or(0));
            self.read(page, &mut scratch[..marks.ones()], row_of)?;
            simd::expand(&scratch, &words, null, places);
        }
        Ok(())
    }
}

impl PageValues for HashedValues {
    fn open_dictionary(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        self.dictionary.clear();
        self.numberless.clear();
        room_for(&mut self.dictionary, count)?;
        let mut position = 0;
        for _ in 0..count {
            let text = plain(bytes, &mut position)?;
            let number = self.numbering.of(text).ok();
            self.dictionary.push(number.unwrap_or(NO_NUMBER + self.numberless.len() as u64));
            if number.is_none() {
                push(&mut self.numberless, text.into())?;
            }
        }
        Ok(())
    }

    fn open(&mut self, encoding: Encoding, bytes: &[u8], start: usize, count: usize) -> Result<()> {
        self.indices = match encoding {
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => Some(RleHybrid::indices(bytes, start)?),
            _ => {
                self.texts.open(encoding, bytes, start, count)?;
                None
            }
        };
        Ok(())
    }

    fn check_end(&self, bytes: &[u8], count: usize) -> Result<()> {
        match &self.indices {
            Some(indices) => indices.check_end(bytes, count),
            None => self.texts.check_end(bytes, count),
        }
    }

    fn skip(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        match &mut self.indices {
            Some(indices) => indices.skip(bytes, count),
            None => self.texts.skip(bytes, count),
        }
    }
}

impl<'a> HashDecoder<'a> {
    pub fn new(pages: FlatPages<'a>, numbering: Numbering) -> Self {
        Self { pages, values: HashedValues::new(numbering) }
    }
}

impl ScalarDecoder for HashDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut self.values, rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        self.pages.left_in_page(&mut self.values)
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        fill(&mut self.pages, &mut self.values, target, |_| true)
    }

    fn read_among(&mut self, target: Target<'_>, wanted: Wanted<'_>) -> Result<()> {
        fill(&mut self.pages, &mut self.values, target, |index| wanted.has(index))
    }
}
