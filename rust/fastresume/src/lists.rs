//! Columns of lists of numbers: rows out of levels, values as in a flat column.
//!
//! Source: <https://github.com/apache/parquet-format#nested-encoding>

use std::ops::Range;

use bytemuck::Pod;

use crate::column::{JaggedDecoder, JaggedRows, Nulls, PageValues};
use crate::error::{Error, Result};
use crate::hybrid::MAX_VALUES;
use crate::levels::Levels;
use crate::numbers::{Numbers, as_numbers, narrowed};
use crate::page::{PageStart, Pages};
use crate::values::Word;

/// Levels that are looked at together.
const BLOCK: usize = 64;

/// What the definition levels of a list column mean.
#[derive(Debug, Clone, Copy)]
pub struct ListLevels {
    /// The level of an empty list; below it is that of a list that is null, if there are such.
    pub empty: u8,
    /// The level of a value; between the two is that of an element that is null, if there are such.
    pub value: u8,
}

/// A list column whose pages hold `P`, delivered as `V`.
pub struct ListDecoder<'a, P, V, F> {
    pages: Pages<'a>,
    meaning: ListLevels,
    nulls: Nulls,
    numbers: Numbers<P, V, F>,
    repetition: Levels,
    definition: Levels,
    /// Levels of the present page, and how many of them were read.
    in_page: usize,
    at: usize,
    /// Rows of the row group that were read or skipped.
    row: usize,
    /// Which elements are there, where some are null.
    there: Vec<u8>,
}

impl<'a, P: Word, V: Pod, F: Fn(P) -> Option<V>> ListDecoder<'a, P, V, F> {
    pub fn new(pages: Pages<'a>, meaning: ListLevels, nulls: Nulls, numbers: Numbers<P, V, F>) -> Self {
        Self {
            pages,
            meaning,
            nulls,
            numbers,
            repetition: Levels::default(),
            definition: Levels::default(),
            in_page: 0,
            at: 0,
            row: 0,
            there: Vec::new(),
        }
    }

    /// Opens pages until one has levels; false at the end of the chunk.
    fn open_page(&mut self) -> Result<bool> {
        while self.at == self.in_page {
            let Some(page) = self.pages.open(&mut self.numbers.values)? else { return Ok(false) };
            self.open_data(&page)?;
        }
        Ok(true)
    }

    fn open_data(&mut self, page: &PageStart) -> Result<()> {
        let (bytes, count) = (self.pages.page().bytes, page.num_values);
        if count > MAX_VALUES {
            return Err(Error::data(format!("a page has {count} values, at most {MAX_VALUES} are read")));
        }
        let (repetition, definition) = page.level_bytes.unzip();
        let start = self.repetition.read(bytes, 0, count, 1, (page.repetition_encoding, repetition))?;
        let how = (page.definition_encoding, definition);
        let start = self.definition.read(bytes, start, count, self.meaning.value, how)?;
        let levels = self.repetition.each(count);
        let rows = starts(levels);
        if page.rows.is_some() && levels.first() == Some(&1) {
            return Err(Error::data("a page begins within a row"));
        }
        page.check_rows(rows)?;
        if (self.row + rows) as u64 > self.pages.group_rows() {
            return Err(Error::data(format!(
                "the pages hold more than the {} rows of the row group",
                self.pages.group_rows()
            )));
        }
        let present = self.definition.count(0..count, self.meaning.value);
        self.numbers.values.open(page.encoding, bytes, start, present)?;
        (self.in_page, self.at) = (count, 0);
        Ok(())
    }

    /// The levels of the present page that belong to the next `rows` rows, or to the row before them, and
    /// how many rows begin there.
    fn stretch(&mut self, rows: usize) -> (Range<usize>, usize) {
        let levels = &self.repetition.each(self.in_page)[self.at..];
        let mut begun = 0;
        for (block, levels) in levels.chunks(BLOCK).enumerate() {
            let some = starts(levels);
            if begun + some > rows {
                let next = levels.iter().enumerate().filter(|&(_, &level)| level == 0).nth(rows - begun);
                let end = self.at + block * BLOCK + next.map_or(0, |(place, _)| place);
                return (self.at..end, rows);
            }
            begun += some;
        }
        (self.at..self.in_page, begun)
    }

    /// Calls `take` for the levels of the next `rows` rows, page by page, and for how many rows begin there.
    fn walk(
        &mut self,
        rows: usize,
        mut take: impl FnMut(&mut Self, Range<usize>, usize) -> Result<()>,
    ) -> Result<()> {
        let mut begun = 0;
        // The last row ends where the next one begins, or the chunk ends.
        while rows > 0 && self.open_page()? {
            if begun == 0 && self.repetition.each(self.in_page)[self.at] != 0 {
                return Err(Error::data(format!("row {} of the row group has no beginning", self.row)));
            }
            let (stretch, some) = self.stretch(rows - begun);
            let end = stretch.end;
            take(self, stretch, some)?;
            begun += some;
            self.at = end;
            self.row += some;
            if end < self.in_page {
                return Ok(());
            }
        }
        if begun < rows {
            return Err(Error::data(format!("the column chunk ends after {} rows", self.row)));
        }
        Ok(())
    }

    /// Adds the rows, or the rest of a row, of a stretch of levels.
    fn take(&mut self, stretch: Range<usize>, some: usize, output: &mut JaggedRows) -> Result<()> {
        let ListLevels { empty, value } = self.meaning;
        let repetition = &self.repetition.each(self.in_page)[stretch.clone()];
        let definition = &self.definition.each(self.in_page)[stretch];
        let (before, first) = (output.values.len(), output.ends.len());
        let end_of = |elements: usize| before + elements * size_of::<V>();
        output.ends.resize(first + some, 0);
        output.valid.resize(first + some, 1);
        let next_row =
            |from: usize| memchr::memchr(0, &repetition[from..]).map_or(repetition.len(), |at| from + at);
        // What comes before the first row is the rest of the row before it.
        let mut start = next_row(0);
        let mut elements = start;
        if let Some(end) = first.checked_sub(1).and_then(|row| output.ends.get_mut(row)) {
            *end = end_of(elements);
        }
        for row in first..first + some {
            let end = next_row(start + 1);
            elements += if definition[start] > empty { end - start } else { 0 };
            output.valid[row] = u8::from(definition[start] >= empty);
            output.ends[row] = end_of(elements);
            start = end;
        }
        let has_nulls = value - empty > 1 && memchr::memchr(value - 1, definition).is_some();
        if let Some(null) = output.valid[first..].iter().position(|&valid| valid == 0) {
            self.nulls.bits(self.row + null)?;
        }
        output.values.resize(end_of(elements))?;
        let places: &mut [V] = as_numbers(&mut output.values.bytes_mut()[before..])?;
        // Values before the first row that begins here are of the row before it.
        let (ends, reached) = (&output.ends[first..], self.row);
        let row_of = |element| {
            let row = ends.partition_point(|&end| end <= end_of(element));
            (reached + row).saturating_sub(usize::from(repetition.first() == Some(&1)))
        };
        let page = self.pages.page();
        if !has_nulls {
            if bytecount::count(definition, value) != elements {
                return Err(Error::data("the levels of a page contradict each other"));
            }
            return self.numbers.read(page, places, row_of);
        }
        self.there.clear();
        let of_elements = definition.iter().filter(|&&level| level > empty);
        self.there.extend(of_elements.map(|&level| u8::from(level == value)));
        if self.there.len() != elements {
            return Err(Error::data("the levels of a page contradict each other"));
        }
        let null = self.there.iter().position(|&there| there == 0).unwrap_or(0);
        let bits = match self.nulls {
            Nulls::Filled(bits) => bits,
            Nulls::Masked | Nulls::Refused => {
                return Err(Error::data(format!(
                    "an element of the list in row {} of the row group is null; a fill value for nulls says \
                     what becomes of it, a mask marks whole lists",
                    row_of(null)
                )));
            }
        };
        self.numbers.read_spread(page, &self.there, narrowed(bits), places, row_of)
    }
}

/// How many rows begin at levels, each 0 or 1.
fn starts(repetition: &[u8]) -> usize {
    // Sums of 255 fit a byte: vector instructions add them side by side.
    repetition.len() - repetition.chunks(255).map(|some| usize::from(some.iter().sum::<u8>())).sum::<usize>()
}

impl<P: Word, V: Pod, F: Fn(P) -> Option<V>> JaggedDecoder for ListDecoder<'_, P, V, F> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let mut left = rows;
        if self.at == self.in_page {
            let passed = self.pages.pass_rows(self.row, rows)?;
            self.row += passed;
            left -= passed;
        }
        self.walk(left, |decoder, stretch, _| {
            let present = decoder.definition.count(stretch, decoder.meaning.value);
            decoder.numbers.values.skip(decoder.pages.page().bytes, present)
        })
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        self.walk(rows, |decoder, stretch, some| decoder.take(stretch, some, output))
    }
}
