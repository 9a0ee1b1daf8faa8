//! Columns of text or bytes.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use parquet::basic::Encoding;

use crate::column::{JaggedDecoder, JaggedRows, Nulls};
use crate::error::{Error, Result};
use crate::hybrid::{CHUNK, Hybrid, Next};
use crate::levels::Levels;
use crate::page::{Opened, PageStart, Pages};
use crate::texts::{MAX_EXPANDED_BYTES, Texts, behind_lengths, behind_prefixes, ends, plain, too_long};

/// A column of text or bytes.
pub struct StringDecoder<'a> {
    pages: Pages<'a>,
    is_optional: bool,
    nulls: Nulls,
    levels: Levels,
    dictionary: Texts,
    form: Form,
    /// Rows of the present page, and how many of them were read or skipped.
    in_page: usize,
    at: usize,
    /// Rows of the row group that were read or skipped.
    row: usize,
}

/// How the values of the present page are held, as far as they were read.
#[derive(Debug)]
enum Form {
    /// Each behind its length, from this byte on.
    Plain(usize),
    /// Indices to the dictionary.
    Dictionary(Hybrid),
    /// Decoded all at once: how many were read.
    Decoded(Texts, usize),
}

impl<'a> StringDecoder<'a> {
    pub fn new(pages: Pages<'a>, is_optional: bool, nulls: Nulls) -> Self {
        Self {
            pages,
            is_optional,
            nulls,
            levels: Levels::default(),
            dictionary: Texts::default(),
            form: Form::Plain(0),
            in_page: 0,
            at: 0,
            row: 0,
        }
    }

    /// Opens pages until one has rows.
    fn open_page(&mut self) -> Result<()> {
        while self.at == self.in_page {
            match self.pages.open()? {
                Some(Opened::Dictionary(count)) => self.open_dictionary(count)?,
                Some(Opened::Data(page)) => self.open_data(&page)?,
                None => {
                    return Err(Error::data(format!("the column chunk ends after {} rows", self.row)));
                }
            }
        }
        Ok(())
    }

    fn open_dictionary(&mut self, count: usize) -> Result<()> {
        let bytes = self.pages.page();
        let mut texts = Texts::default();
        let mut position = 0;
        for _ in 0..count {
            texts.bytes.extend_from_slice(plain(bytes, &mut position)?);
            texts.ends.push(texts.bytes.len());
        }
        self.dictionary = texts;
        Ok(())
    }

    fn open_data(&mut self, page: &PageStart) -> Result<()> {
        let (bytes, count) = (self.pages.page(), page.num_values);
        page.check_rows(count)?;
        let (repetition, definition) = page.level_bytes.unzip();
        let mut start = repetition.unwrap_or(0);
        self.levels.set(1);
        if self.is_optional {
            let how = (page.definition_encoding, definition);
            start = self.levels.read(bytes, start, count, 1, how)?;
        } else {
            start += definition.unwrap_or(0);
        }
        let present = match self.levels.same() {
            Some(level) => count * usize::from(level),
            None => bytecount::count(self.levels.each(count), 1),
        };
        let from = bytes.get(start..).unwrap_or_default();
        self.form = match page.encoding {
            Encoding::PLAIN => Form::Plain(start),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                // A page of no values may leave out the width.
                let bits = bytes.get(start).copied().unwrap_or(0);
                Form::Dictionary(Hybrid::new(start + 1, usize::from(bits))?)
            }
            Encoding::DELTA_LENGTH_BYTE_ARRAY => Form::Decoded(behind_lengths(from, present)?, 0),
            Encoding::DELTA_BYTE_ARRAY => Form::Decoded(behind_prefixes(from, present)?, 0),
            other => {
                return Err(Error::data(format!("the encoding {other} is not one for the column's type")));
            }
        };
        (self.in_page, self.at) = (count, 0);
        Ok(())
    }

    /// Calls `take` for each of the next `count` values of the page.
    fn values(&mut self, count: usize, mut take: impl FnMut(&[u8])) -> Result<()> {
        let bytes = self.pages.page();
        match &mut self.form {
            Form::Plain(position) => {
                for _ in 0..count {
                    take(plain(bytes, position)?);
                }
            }
            Form::Dictionary(hybrid) => {
                let dictionary = &self.dictionary;
                let text = |index: u32| {
                    dictionary.get(index as usize).ok_or_else(|| {
                        Error::data(format!(
                            "a page names value {index} of a dictionary that has {}",
                            dictionary.ends.len()
                        ))
                    })
                };
                let mut indices = [0; CHUNK];
                let mut done = 0;
                while done < count {
                    match hybrid.next(bytes, count - done, &mut indices)? {
                        Next::Repeated(index, some) => {
                            let text = text(index)?;
                            (0..some).for_each(|_| take(text));
                            done += some;
                        }
                        Next::Unpacked(some) => {
                            for &index in &indices[..some] {
                                take(text(index)?);
                            }
                            done += some;
                        }
                    }
                }
            }
            Form::Decoded(texts, read) => {
                for index in *read..*read + count {
                    take(texts.get(index).ok_or_else(ends)?);
                }
                *read += count;
            }
        }
        Ok(())
    }
}

impl JaggedDecoder for StringDecoder<'_> {
    fn skip(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 {
            if self.at == self.in_page {
                let passed = self.pages.pass_rows(self.row, rows)?;
                self.row += passed;
                rows -= passed;
                if rows == 0 {
                    break;
                }
                self.open_page()?;
            }
            let some = rows.min(self.in_page - self.at);
            let present = match self.levels.same() {
                Some(level) => some * usize::from(level),
                None => bytecount::count(&self.levels.each(self.in_page)[self.at..self.at + some], 1),
            };
            match &mut self.form {
                Form::Dictionary(hybrid) => hybrid.skip(self.pages.page(), present)?,
                Form::Decoded(_, read) => *read += present,
                Form::Plain(_) => self.values(present, |_| ())?,
            }
            self.at += some;
            self.row += some;
            rows -= some;
        }
        Ok(())
    }

    fn read(&mut self, mut rows: usize, output: &mut JaggedRows) -> Result<()> {
        while rows > 0 {
            self.open_page()?;
            let some = rows.min(self.in_page - self.at);
            let first = output.ends.len();
            let (values, ends) = (&mut output.values, &mut output.ends);
            let before = values.len();
            let can_expand = matches!(self.form, Form::Dictionary(_));
            let mut added = Ok(());
            let mut add = |text: &[u8]| {
                if can_expand && values.len() + text.len() - before > MAX_EXPANDED_BYTES {
                    added = Err(too_long());
                }
                if added.is_ok() {
                    added = values.extend(text);
                }
                ends.push(values.len());
            };
            match self.levels.same() {
                Some(1) => {
                    self.values(some, &mut add)?;
                    output.valid.resize(first + some, 1);
                }
                Some(_) => {
                    self.nulls.bits(self.row)?;
                    (0..some).for_each(|_| add(&[]));
                    output.valid.resize(first + some, 0);
                }
                None => {
                    let levels = &self.levels.each(self.in_page)[self.at..self.at + some];
                    if let Some(null) = levels.iter().position(|&level| level == 0) {
                        self.nulls.bits(self.row + null)?;
                    }
                    output.valid.extend_from_slice(levels);
                    let present = bytecount::count(levels, 1);
                    self.values(present, &mut add)?;
                    spread(&output.valid[first..], output.values.len(), &mut output.ends, first);
                }
            }
            added?;
            self.at += some;
            self.row += some;
            rows -= some;
        }
        Ok(())
    }
}

/// Makes of the ends of values those of rows: where `valid` is 0, a row has no value and ends where it
/// begins. The first value's is number `first`.
fn spread(valid: &[u8], last: usize, ends: &mut Vec<usize>, first: usize) {
    let mut value = ends.len();
    ends.resize(first + valid.len(), last);
    // From the last row on, so that no end is overwritten before it is read.
    for (row, &valid) in valid.iter().enumerate().rev() {
        value -= usize::from(valid);
        // A row ends where its value does, or the last value before it.
        let of = if valid == 1 { Some(value) } else { value.checked_sub(1) };
        ends[first + row] = of.map_or(0, |value| ends[value]);
    }
}
