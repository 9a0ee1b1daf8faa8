//! The pages of a column of a row group, wherever they come from.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::encoding::page_values::{Page, PageValues};
use crate::format::page::made_pages::MadePages;
use crate::format::page::reader::{PageReader, PageStart};

/// Opens the pages of one column of one row group.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
pub enum Pages<'a> {
    /// Those of a file.
    Stored(PageReader<'a>),
    /// Those that are made of arrays.
    Made(MadePages<'a>),
}

impl Pages<'_> {
    /// Passes over whole data pages; see `PageScanner::pass_rows`.
    ///
    /// # Errors
    /// As there.
    pub fn pass_rows(&mut self, row: usize, rows: usize) -> Result<usize> {
        match self {
            Self::Stored(pages) => pages.pass_rows(row, rows),
            Self::Made(pages) => Ok(pages.pass_rows(row, rows)),
        }
    }

    /// Notes which rows begin in the present page.
    pub fn note_rows(&mut self, rows: Range<usize>) {
        if let Self::Stored(pages) = self {
            pages.note_rows(rows);
        }
    }

    /// Notes that the present page of a flat column was decoded.
    ///
    /// # Errors
    /// As for `PageScanner::note_decoded`.
    pub fn note_decoded(&mut self, is_counted: bool) -> Result<()> {
        match self {
            Self::Stored(pages) => pages.note_decoded(is_counted),
            Self::Made(_) => Ok(()),
        }
    }

    /// Opens the dictionary alone, if all begins with one, and gives how many values it has.
    ///
    /// # Errors
    /// `Data` if it is damaged; `Source` if it can't be read.
    pub fn dictionary(&mut self) -> Result<Option<usize>> {
        match self {
            Self::Stored(pages) => pages.dictionary(),
            Self::Made(_) => Ok(None),
        }
    }

    /// Opens the next data page, none at the end; `values` takes over the dictionary that it needs.
    ///
    /// # Errors
    /// `Data` if it is damaged; `Source` if it can't be read.
    pub fn open(&mut self, values: &mut impl PageValues) -> Result<Option<PageStart>> {
        match self {
            Self::Stored(pages) => pages.open(values),
            Self::Made(pages) => pages.open(),
        }
    }

    /// Refuses pages that hold so many rows, if these are more than the row group has.
    ///
    /// # Errors
    /// `Data`, naming its number.
    pub fn check_group_rows(&self, rows: usize) -> Result<()> {
        match self {
            Self::Stored(pages) => pages.check_group_rows(rows),
            Self::Made(_) => Ok::<_, Error>(()),
        }
    }

    /// Whether each page ends with a row, so that no later one goes on with it.
    pub fn end_rows(&self) -> bool {
        matches!(self, Self::Made(_))
    }

    /// The page that was opened last.
    #[inline]
    pub fn page(&self) -> Page<'_> {
        match self {
            Self::Stored(pages) => pages.page(),
            Self::Made(pages) => pages.page(),
        }
    }
}
