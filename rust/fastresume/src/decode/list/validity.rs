//! The validity of a column in lists: only levels are decoded, never a value.

use crate::decode::decoder::{ScalarDecoder, Target, mark_all};
use crate::decode::flat::validity::Unread;
use crate::decode::list::leaf::{Elements, Leaf, LeafPlaces};
use crate::error::{Error, Result};
use crate::format::encoding::bitmap::Bitmap;
use crate::format::encoding::levels::Levels;
use crate::format::encoding::page_values::PageValues;
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::page::pages::Pages;
use crate::format::page::reader::PageStart;

/// Whether each element of lists is there: a byte for each.
#[derive(Debug, Default)]
pub struct MarkLeaf(Unread);

impl Leaf for MarkLeaf {
    fn width(&self) -> usize {
        1
    }

    fn values(&mut self) -> &mut impl PageValues {
        &mut self.0
    }

    fn read(
        &mut self,
        elements: &Elements<'_>,
        places: LeafPlaces<'_>,
        _row_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let before = places.values.len();
        places.values.resize(before + elements.count)?;
        let places = &mut places.values.bytes_mut()[before..];
        match &elements.there {
            Some(there) => there.write(places),
            None => places.fill(1),
        }
        Ok(())
    }
}

/// What the levels of a column in lists mean.
#[derive(Debug, Clone, Copy)]
pub struct RowLevels {
    /// The largest repetition level; 0 begins a row.
    pub repetition: u8,
    /// The largest definition level.
    pub largest: u8,
    /// The lowest definition level at which a row is not null.
    pub there: u8,
}

/// The validity of lists, or of the structs around them: one boolean per row.
pub struct ListValidityDecoder<'a> {
    pages: Pages<'a>,
    meaning: RowLevels,
    levels: Levels,
    /// Where a row of the current page begins, and whether what begins there is not null.
    starts: Bitmap,
    there: Bitmap,
    /// The number of levels of the current page, and how many of them were read.
    in_page: usize,
    at: usize,
    /// The number of rows of the row group that were passed.
    row: usize,
}

impl<'a> ListValidityDecoder<'a> {
    /// The rows of these pages.
    pub fn new(pages: Pages<'a>, meaning: RowLevels) -> Self {
        let (levels, starts, there) = (Levels::default(), Bitmap::default(), Bitmap::default());
        Self { pages, meaning, levels, starts, there, in_page: 0, at: 0, row: 0 }
    }

    fn open_data(&mut self, page: &PageStart) -> Result<()> {
        let (bytes, count) = (self.pages.page().bytes, page.num_values);
        if count > MAX_VALUES {
            return Err(Error::data(format!("a page has {count} values, at most {MAX_VALUES} are read")));
        }
        let RowLevels { repetition, largest, there } = self.meaning;
        let (repetition_bytes, definition_bytes) = page.levels.bytes().unzip();
        let how = (page.repetition_encoding, repetition_bytes);
        let start = self.levels.read(bytes, 0, count, repetition, how)?;
        self.levels.at_least(1, &mut self.there);
        self.starts.set(count, |index| !self.there.words()[index]);
        self.levels.read(bytes, start, count, largest, (page.definition_encoding, definition_bytes))?;
        self.levels.at_least(there, &mut self.there);
        let starts = self.starts.part(0..count);
        if page.is_indexed && count > 0 && starts.nth_one(0) != Ok(0) {
            return Err(Error::data("a page begins within a row, the page index says with one"));
        }
        let rows = starts.ones();
        page.check_rows(rows)?;
        self.pages.check_group_rows(self.row + rows)?;
        self.pages.note_rows(self.row..self.row + rows);
        (self.in_page, self.at) = (count, 0);
        Ok(())
    }

    /// Moves to where the next row begins; the levels before that belong to the row before.
    fn begin_row(&mut self) -> Result<()> {
        loop {
            if self.at < self.in_page
                && let Ok(passed) = self.starts.part(self.at..self.in_page).nth_one(0)
            {
                if passed > 0 && self.row == 0 {
                    return Err(Error::data("row 0 of the row group has no beginning"));
                }
                self.at += passed;
                return Ok(());
            }
            self.at = self.in_page;
            let Some(page) = self.pages.open(&mut Unread)? else {
                return Err(Error::data(format!("the column chunk ends after {} rows", self.row)));
            };
            self.open_data(&page)?;
        }
    }
}

impl ScalarDecoder for ListValidityDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        let mut left = rows;
        while left > 0 {
            if self.at == self.in_page {
                let passed = self.pages.pass_rows(self.row, left)?;
                self.row += passed;
                left -= passed;
                if left == 0 {
                    break;
                }
            }
            self.begin_row()?;
            let marks = self.starts.part(self.at..self.in_page);
            let (passed, some) = match marks.nth_one(left) {
                Ok(next) => (next, left),
                Err(begun) => (marks.len(), begun),
            };
            (self.at, self.row) = (self.at + passed, self.row + some);
            left -= some;
        }
        Ok(())
    }

    fn page_rows(&mut self) -> Result<usize> {
        self.begin_row()?;
        Ok(self.starts.part(self.at..self.in_page).ones())
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let mut places = target.values.iter_mut();
        while places.len() > 0 {
            self.begin_row()?;
            // The first level of a row says whether the row is not null.
            let (starts, there) =
                (self.starts.part(self.at..self.in_page), self.there.part(self.at..self.in_page));
            let mut passed = 0;
            for (starts, there) in starts.each().zip(there.each()) {
                if starts {
                    let Some(place) = places.next() else { break };
                    *place = u8::from(there);
                    self.row += 1;
                }
                passed += 1;
            }
            self.at += passed;
        }
        mark_all(target.valid, 1);
        Ok(())
    }
}
