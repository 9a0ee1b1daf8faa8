//! Which rows of a column chunk can be decoded, where some of its pages can't.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::decode::decoder::{JaggedRows, Target};
use crate::decode::open_file::OpenFile;
use crate::error::{Error, Result, caught, check};
use crate::format::metadata::page_index::PagePlace;
use crate::format::page::known_pages::KnownPages;
use crate::format::page::reader::Buffers;
use crate::schema::columns::Column;
use crate::schema::nulls::Nulls;

/// The most rows that are tried in one go, and the most bytes.
const STEP_ROWS: usize = 4096;
const STEP_BYTES: usize = 1 << 20;

/// Where rows are known by the pages before them alone, fewer and fewer are tried until the damaged one is found.
const FEWER: usize = 16;

/// What can be decoded of a column chunk, and what can't.
#[derive(Debug)]
pub struct Survey {
    pub good: Vec<GoodRows>,
    pub bad: Vec<BadRows>,
}

/// Rows that can be decoded, from the beginning of a page on.
#[derive(Debug)]
pub struct GoodRows {
    /// The rows, counted within the row group.
    pub rows: Range<usize>,
    /// Their first page, if that is not found by itself.
    start: Option<PagePlace>,
    /// Where their pages end, if damaged ones follow.
    end: Option<u64>,
}

/// Rows that can't be decoded.
#[derive(Debug, Clone)]
pub struct BadRows {
    /// The rows, counted within the row group.
    pub rows: Range<usize>,
    pub cause: Error,
}

/// How rows of a column are decoded.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    pub row_group: usize,
    pub column: &'a Column,
    pub is_jagged: bool,
}

impl GoodRows {
    /// The file, as that from which these rows are decoded.
    ///
    /// # Errors
    /// `Data` if the row group's metadata contradict each other.
    pub fn file(&self, file: &OpenFile, row_group: usize, column: &Column) -> Result<OpenFile> {
        file.part(row_group, column, (self.start, self.end))
    }
}

impl Survey {
    /// A column chunk of so many rows, none of which can be decoded.
    #[must_use]
    pub fn nothing(rows: usize, cause: Error) -> Self {
        Self { good: Vec::new(), bad: vec![BadRows { rows: 0..rows, cause }] }
    }

    /// Tries to decode all rows of a column chunk.
    ///
    /// # Errors
    /// What is no damage: `Unsettled`, `Argument`, or `Interrupted` once `stop` is set.
    pub fn of(trial: Trial<'_>, file: &OpenFile, buffers: &mut Buffers, stop: &AtomicBool) -> Result<Self> {
        let rows = usize::try_from(file.leaves().rows(trial.row_group)).unwrap_or(usize::MAX);
        let known = caught(|| file.known_pages(trial.row_group, trial.column));
        match known {
            Err(error) if error.is_damage() => Ok(Self::nothing(rows, error)),
            Err(error) => Err(error),
            Ok(KnownPages::Nothing(cause)) => Ok(Self::nothing(rows, cause)),
            Ok(KnownPages::All(pages)) => Self::of_pages(trial, file, &pages, rows, (buffers, stop)),
            Ok(KnownPages::OneByOne) => Self::up_to_damage(trial, file, rows, (buffers, stop)),
        }
    }

    /// Page by page, each by itself.
    fn of_pages(
        trial: Trial<'_>,
        file: &OpenFile,
        pages: &[PagePlace],
        rows: usize,
        (buffers, stop): (&mut Buffers, &AtomicBool),
    ) -> Result<Self> {
        let mut found = Self { good: Vec::new(), bad: Vec::new() };
        for (index, page) in pages.iter().enumerate() {
            let behind = pages.get(index + 1);
            let first = |page: &PagePlace| usize::try_from(page.first_row).unwrap_or(usize::MAX);
            let of_page = first(page)..behind.map_or(rows, first);
            if of_page.is_empty() {
                continue;
            }
            let end = behind.map(|behind| behind.offset);
            let good = GoodRows { rows: of_page.clone(), start: Some(*page), end };
            let mut reached = of_page.start;
            match trial.rows(&good, file, (STEP_ROWS, &mut reached), buffers, stop) {
                Err(cause) if cause.is_damage() => match found.bad.last_mut() {
                    Some(last) if last.rows.end == of_page.start => last.rows.end = of_page.end,
                    _ => found.bad.push(BadRows { rows: of_page, cause }),
                },
                Err(error @ Error::Data { .. }) if !error.is_damage() => found.keep(good),
                Err(error) => return Err(error),
                Ok(()) => found.keep(good),
            }
        }
        Ok(found)
    }

    /// Adds rows behind others, which they may continue.
    fn keep(&mut self, more: GoodRows) {
        match self.good.last_mut() {
            Some(last) if last.rows.end == more.rows.start => {
                (last.rows.end, last.end) = (more.rows.end, more.end);
            }
            _ => self.good.push(more),
        }
    }

    /// All rows before the first one that can't be decoded.
    fn up_to_damage(
        trial: Trial<'_>,
        file: &OpenFile,
        rows: usize,
        (buffers, stop): (&mut Buffers, &AtomicBool),
    ) -> Result<Self> {
        let (mut reached, mut pace) = (0, STEP_ROWS);
        let cause = loop {
            let left = GoodRows { rows: reached..rows, start: None, end: None };
            let before = reached;
            match trial.rows(&left, file, (pace, &mut reached), buffers, stop) {
                Err(cause) if cause.is_damage() && pace == 1 => break Some(cause),
                Err(cause) if cause.is_damage() => pace = (pace / FEWER).max(1),
                // What a rule refuses is an error of whoever wants the row.
                Err(Error::Data { .. }) => reached = (reached + pace).min(rows).max(before + 1),
                Err(error) => return Err(error),
                Ok(()) => break None,
            }
        };
        let end = if cause.is_some() { reached } else { rows };
        let good = GoodRows { rows: 0..end, start: None, end: None };
        let bad = cause.map(|cause| BadRows { rows: end..rows, cause });
        Ok(Self { good: vec![good], bad: bad.into_iter().collect() })
    }
}

impl Trial<'_> {
    /// Decodes rows by steps; `reached` is the row behind the last pace that went well.
    fn rows(
        self,
        good: &GoodRows,
        file: &OpenFile,
        (pace, reached): (usize, &mut usize),
        buffers: &mut Buffers,
        stop: &AtomicBool,
    ) -> Result<()> {
        let Self { row_group, column, is_jagged } = self;
        // A null is no damage, whatever becomes of it.
        let nulls = Nulls::Filled(0);
        let end = good.rows.end;
        caught(|| {
            let file = good.file(file, row_group, column)?;
            let mut passed = *reached;
            if is_jagged {
                let mut decoder = file.jagged(row_group, column, nulls, false, buffers)?;
                decoder.skip(passed)?;
                let mut rows = JaggedRows::default();
                while passed < end {
                    check(stop)?;
                    let some = pace.min(end - passed);
                    rows.clear();
                    decoder.read(some, &mut rows)?;
                    passed += some;
                    *reached = passed;
                }
                return Ok(());
            }
            let width = column.row_bytes().max(1);
            let pace = pace.min((STEP_BYTES / width).max(1));
            let mut values = vec![0_u64; (pace * width).div_ceil(size_of::<u64>())];
            let mut decoder = file.scalars(row_group, column, nulls, buffers)?;
            decoder.skip(passed)?;
            while passed < end {
                check(stop)?;
                let some = pace.min(end - passed);
                let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
                decoder.read(Target { values: &mut bytes[..some * width], valid: &mut [] })?;
                passed += some;
                *reached = passed;
            }
            Ok(())
        })
    }
}
