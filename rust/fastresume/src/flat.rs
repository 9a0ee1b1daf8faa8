//! Columns of one number per row: levels and values straight out of the pages.

use bytemuck::Pod;

use crate::column::{Nulls, ScalarDecoder, Target};
use crate::error::{Error, Result};
use crate::levels::Levels;
use crate::numbers::{Numbers, narrowed};
use crate::page::{Opened, PageStart, Pages};
use crate::values::Word;

/// A column whose pages hold `P`, delivered as `V`.
pub struct FlatDecoder<'a, P, V, F> {
    pages: Pages<'a>,
    is_optional: bool,
    nulls: Nulls,
    numbers: Numbers<P, V, F>,
    levels: Levels,
    /// Values of the present page, and how many of them were read or skipped.
    in_page: usize,
    at: usize,
    /// Rows of the row group that were read or skipped.
    row: usize,
}

impl<'a, P: Word, V: Pod, F: Fn(P) -> Option<V>> FlatDecoder<'a, P, V, F> {
    pub fn new(pages: Pages<'a>, is_optional: bool, nulls: Nulls, numbers: Numbers<P, V, F>) -> Self {
        Self { pages, is_optional, nulls, numbers, levels: Levels::default(), in_page: 0, at: 0, row: 0 }
    }

    /// Opens pages until one has rows.
    fn open_page(&mut self) -> Result<()> {
        while self.at == self.in_page {
            match self.pages.open()? {
                Some(Opened::Dictionary(count)) => {
                    self.numbers.values.open_dictionary(self.pages.page(), count)?;
                }
                Some(Opened::Data(page)) => self.open_data(&page)?,
                None => {
                    return Err(Error::data(format!("the column chunk ends after {} rows", self.row)));
                }
            }
        }
        Ok(())
    }

    fn open_data(&mut self, page: &PageStart) -> Result<()> {
        let bytes = self.pages.page();
        let count = page.num_values;
        page.check_rows(count)?;
        let (mut start, stated) = match page.level_bytes {
            Some((repetition, definition)) => (repetition, Some(definition)),
            None => (0, None),
        };
        self.levels.set(1);
        if self.is_optional {
            let how = (page.definition_encoding, stated);
            start = self.levels.read(bytes, start, count, 1, how)?;
        } else {
            start += stated.unwrap_or(0);
        }
        let present = match self.levels.same() {
            Some(level) => count * usize::from(level),
            None => bytecount::count(self.levels.each(count), 1),
        };
        self.numbers.values.open(page.encoding, bytes, start, present)?;
        (self.in_page, self.at) = (count, 0);
        Ok(())
    }
}

impl<P: Word, V: Pod, F: Fn(P) -> Option<V>> ScalarDecoder for FlatDecoder<'_, P, V, F> {
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
            self.numbers.values.skip(self.pages.page(), present)?;
            self.at += some;
            self.row += some;
            rows -= some;
        }
        Ok(())
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let mut output: &mut [V] = bytemuck::try_cast_slice_mut(target.values)
            .map_err(|cause| Error::Argument(format!("a slot does not fit its type: {cause}")))?;
        let mut valid = target.valid;
        while !output.is_empty() {
            self.open_page()?;
            let rows = output.len().min(self.in_page - self.at);
            let (places, rest) = output.split_at_mut(rows);
            let (marks, unmarked) = valid.split_at_mut(rows.min(valid.len()));
            let bytes = self.pages.page();
            let first = self.row;
            let row_of = |index| first + index;
            match self.levels.same() {
                Some(1) => {
                    marks.fill(1);
                    self.numbers.read(bytes, places, row_of)?;
                }
                Some(_) => {
                    marks.fill(0);
                    places.fill(narrowed(self.nulls.bits(first)?));
                }
                None => {
                    let levels = &self.levels.each(self.in_page)[self.at..self.at + rows];
                    if !marks.is_empty() {
                        marks.copy_from_slice(levels);
                    }
                    let null = match levels.iter().position(|&level| level == 0) {
                        Some(null) => self.nulls.bits(first + null)?,
                        None => 0,
                    };
                    self.numbers.read_spread(bytes, levels, narrowed(null), places, row_of)?;
                }
            }
            (output, valid) = (rest, unmarked);
            self.at += rows;
            self.row += rows;
        }
        Ok(())
    }
}
