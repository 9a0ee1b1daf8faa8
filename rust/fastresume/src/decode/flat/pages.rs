//! The pages of a flat column, row by row: which rows have a value.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Bitmap, Marks};
use crate::format::encoding::levels::Levels;
use crate::format::encoding::page_values::{Page, PageValues};
use crate::format::encoding::rle::RleHybrid;
use crate::format::page::pages::Pages;
use crate::format::page::reader::{PageLevels, PageStart};
use crate::schema::nulls::Nulls;

/// Iterates over the rows of a column chunk, page by page.
pub struct FlatPages<'a> {
    pages: Pages<'a>,
    meaning: FlatLevels,
    nulls: Nulls,
    levels: Levels,
    /// Which rows of the current page have a value, if only some do.
    there: Bitmap,
    /// The number of rows of the current page, and how many of them were passed.
    in_page: usize,
    at: usize,
    /// The number of rows of the row group that were passed.
    row: usize,
}

/// What the definition levels of a column mean.
#[derive(Debug, Clone, Copy)]
pub struct FlatLevels {
    /// The largest level.
    pub largest: u8,
    /// The lowest level at which a row is not null. (For the mask of a struct, this is below the level of its
    /// values.)
    pub there: u8,
}

/// Rows of one page that are decoded together.
pub struct PageSlice<'p> {
    pub page: Page<'p>,
    /// The rows, counted within the row group.
    pub rows: Range<usize>,
    /// Which of them have a value.
    pub presence: Presence<'p>,
    /// The bits of the fill value for the other rows.
    pub null_bits: u64,
}

/// Which rows have a value.
pub enum Presence<'p> {
    All,
    None,
    /// The rows whose bit is 1: some, but not all.
    Marked(Marks<'p>),
}

impl<'a> FlatPages<'a> {
    pub fn new(pages: Pages<'a>, meaning: FlatLevels, nulls: Nulls) -> Self {
        Self {
            pages,
            meaning,
            nulls,
            levels: Levels::default(),
            there: Bitmap::default(),
            in_page: 0,
            at: 0,
            row: 0,
        }
    }

    /// The next rows of one page, at most `most` (not 0), which count as passed. `values` is moved to their
    /// values.
    ///
    /// # Errors
    /// `Data` if there is none, a page is damaged, or a null is refused; `Source` if it can't be read.
    pub fn next(&mut self, values: &mut impl PageValues, most: usize) -> Result<PageSlice<'_>> {
        self.open_page(values)?;
        let count = most.min(self.in_page - self.at);
        let (place, rows) = (self.at..self.at + count, self.row..self.row + count);
        (self.at, self.row) = (place.end, rows.end);
        let (presence, null) = match self.same() {
            Some(true) => (Presence::All, None),
            Some(false) => (Presence::None, Some(0)),
            None => {
                let marks = self.there.part(place);
                match marks.first_zero() {
                    Some(null) => (Presence::Marked(marks), Some(null)),
                    None => (Presence::All, None),
                }
            }
        };
        let null_bits = null.map_or(Ok(0), |null| self.nulls.bits(rows.start + null))?;
        Ok(PageSlice { page: self.pages.page(), rows, presence, null_bits })
    }

    /// The number of rows that are left in the current page; at least one.
    ///
    /// # Errors
    /// As for `next`, but nulls are no error.
    pub fn left_in_page(&mut self, values: &mut impl PageValues) -> Result<usize> {
        self.open_page(values)?;
        Ok(self.in_page - self.at)
    }

    /// Skips `rows` rows; whole pages are skipped by their headers.
    ///
    /// # Errors
    /// As for `next`, but nulls are no error.
    pub fn skip(&mut self, values: &mut impl PageValues, mut rows: usize) -> Result<()> {
        while rows > 0 {
            if self.at == self.in_page {
                let passed = self.pages.pass_rows(self.row, rows)?;
                self.row += passed;
                rows -= passed;
                if rows == 0 {
                    break;
                }
                self.open_page(values)?;
            }
            let some = rows.min(self.in_page - self.at);
            values.skip(self.pages.page().bytes, self.present(self.at..self.at + some))?;
            self.at += some;
            self.row += some;
            rows -= some;
        }
        Ok(())
    }

    /// Opens pages until one has rows.
    fn open_page(&mut self, values: &mut impl PageValues) -> Result<()> {
        while self.at == self.in_page {
            let Some(page) = self.pages.open(values)? else {
                return Err(Error::data(format!("the column chunk ends after {} rows", self.row)));
            };
            self.open_data(&page, values)?;
        }
        Ok(())
    }

    fn open_data(&mut self, page: &PageStart, values: &mut impl PageValues) -> Result<()> {
        let (bytes, count) = (self.pages.page().bytes, page.num_values);
        page.check_rows(count)?;
        let (repetition, definition) = page.levels.bytes().unzip();
        let mut start = repetition.unwrap_or(0);
        check_no_levels(bytes, 0..start, count)?;
        let FlatLevels { largest, there } = self.meaning;
        if page.levels == PageLevels::AllThere {
            self.levels.set(largest, count);
        } else if largest > 0 {
            let how = (page.definition_encoding, definition);
            start = self.levels.read(bytes, start, count, largest, how)?;
        } else {
            self.levels.set(there, count);
            let end = start + definition.unwrap_or(0);
            check_no_levels(bytes, start..end, count)?;
            start = end;
        }
        if self.levels.same().is_none() {
            self.levels.at_least(there, &mut self.there);
        }
        let present = self.present(0..count);
        page.open_values(values, bytes, start, present)?;
        // A page of another count, all of whose rows have a value, would have other bytes.
        let is_counted = self.same() == Some(true) && page.is_counted(values);
        self.pages.note_decoded(is_counted)?;
        (self.in_page, self.at) = (count, 0);
        Ok(())
    }

    /// `true` if all rows of the current page have a value, `false` if none has, `None` if some have.
    fn same(&self) -> Option<bool> {
        self.levels.same().map(|level| level >= self.meaning.there)
    }

    /// The number of rows with a value among some rows of the current page.
    fn present(&self, rows: Range<usize>) -> usize {
        match self.same() {
            Some(is_there) => rows.len() * usize::from(is_there),
            None => self.there.part(rows).ones(),
        }
    }
}

/// Refuses levels that the type of a column has not, but for a run of `count` of no bits, which some writers put there.
fn check_no_levels(bytes: &[u8], place: Range<usize>, count: usize) -> Result<()> {
    let is_run = || {
        let run = RleHybrid::new(place.start, 0).ok()?;
        run.check_end(bytes.get(..place.end)?, count).ok()
    };
    if place.is_empty() || is_run().is_some() {
        return Ok(());
    }
    Err(Error::data(format!("a page states {} bytes of levels, and the column's type has none", place.len())))
}
