//! Columns of text or bytes.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use parquet::basic::Encoding;

use crate::column::{JaggedDecoder, JaggedRows, Nulls};
use crate::error::{Error, Result};
use crate::hybrid::{CHUNK, Hybrid, Next};
use crate::levels::Levels;
use crate::page::{Opened, PageStart, Pages};
use crate::values::deltas;

/// What expands to more at once is taken for damaged: a dictionary lets few bytes state many.
const MAX_EXPANDED_BYTES: usize = 1 << 31;

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

/// Texts one after another, and where each ends.
#[derive(Debug, Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn get(&self, index: usize) -> Option<&[u8]> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(start..*self.ends.get(index)?)
    }
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
        if let Some(rows) = page.indexed_rows.filter(|&rows| rows != count as u64) {
            return Err(Error::data(format!("a page has {count} rows, the page index states {rows}")));
        }
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
            let mut is_too_long = false;
            let mut add = |text: &[u8]| {
                is_too_long |= values.len() + text.len() > MAX_EXPANDED_BYTES;
                values.extend(if is_too_long { &[] } else { text });
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
            if is_too_long {
                return Err(too_long());
            }
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

/// The text behind its length at `position`, which moves past it.
fn plain<'a>(bytes: &'a [u8], position: &mut usize) -> Result<&'a [u8]> {
    let rest = bytes.get(*position..).unwrap_or_default();
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(ends)?;
    let length = u32::from_le_bytes(*length) as usize;
    let text = rest.get(..length).ok_or_else(|| {
        Error::data(format!("a text claims {length} bytes, the page has {} left", rest.len()))
    })?;
    *position += 4 + length;
    Ok(text)
}

/// Texts behind all their lengths.
fn behind_lengths(bytes: &[u8], count: usize) -> Result<Texts> {
    let mut lengths = Vec::with_capacity(count);
    let start = deltas(bytes, count, |length| lengths.push(length))?;
    let mut texts = Texts { bytes: bytes.get(start..).unwrap_or_default().to_vec(), ends: Vec::new() };
    let mut end = 0_usize;
    for length in lengths {
        end = usize::try_from(length).ok().and_then(|length| end.checked_add(length)).ok_or_else(ends)?;
        if end > texts.bytes.len() {
            return Err(ends());
        }
        texts.ends.push(end);
    }
    Ok(texts)
}

/// Texts that begin with so many bytes of the one before; the other bytes are behind their lengths.
fn behind_prefixes(bytes: &[u8], count: usize) -> Result<Texts> {
    let mut prefixes = Vec::with_capacity(count);
    let start = deltas(bytes, count, |length| prefixes.push(length))?;
    let suffixes = behind_lengths(bytes.get(start..).unwrap_or_default(), count)?;
    let mut texts = Texts::default();
    let mut before = 0..0;
    for (index, prefix) in prefixes.into_iter().enumerate() {
        let length = usize::try_from(prefix).ok().filter(|length| *length <= before.len());
        let length = length.ok_or_else(|| {
            Error::data(format!("a text begins with {prefix} bytes of one that has {}", before.len()))
        })?;
        let begin = texts.bytes.len();
        texts.bytes.extend_from_within(before.start..before.start + length);
        texts.bytes.extend_from_slice(suffixes.get(index).ok_or_else(ends)?);
        if texts.bytes.len() > MAX_EXPANDED_BYTES {
            return Err(too_long());
        }
        before = begin..texts.bytes.len();
        texts.ends.push(before.end);
    }
    Ok(texts)
}

fn too_long() -> Error {
    Error::data(format!("texts expand to more than {MAX_EXPANDED_BYTES} bytes at once"))
}

fn ends() -> Error {
    Error::data("a page ends before its values do")
}
