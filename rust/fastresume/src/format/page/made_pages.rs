//! Pages that are made of arrays: whatever row comes next, one begins with it.

use std::sync::Arc;

use parquet::basic::Encoding;

use crate::arrow::array::Array;
use crate::arrow::field::ArrowField;
use crate::arrow::leaf::{ArrowLeaf, LentBytes, PageShape, column_of, page_rows};
use crate::arrow::row_source::RowGroup;
use crate::error::{Error, Result};
use crate::format::encoding::page_values::Page;
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::page::reader::{Buffers, PageLevels, PageStart};

/// The most rows of a page, and the bytes that it has at most on average: they fit the caches.
const MOST_ROWS: usize = 8192;
const MOST_BYTES: usize = 256 << 10;

/// The rows of a leaf of a row group, as pages.
pub struct MadePages<'a> {
    group: Arc<RowGroup>,
    /// The field of its column, and the leaf.
    of: Arc<(ArrowField, ArrowLeaf)>,
    made: &'a mut Vec<u8>,
    /// The bytes of the last page, if they are an array's own.
    lent: Option<LentBytes>,
    /// The row that comes next, and that behind the last one that is wanted.
    next_row: usize,
    end_row: usize,
}

impl<'a> MadePages<'a> {
    /// The pages of a leaf of a row group, and the field of its column.
    #[must_use]
    pub fn new(group: Arc<RowGroup>, of: Arc<(ArrowField, ArrowLeaf)>, buffers: &'a mut Buffers) -> Self {
        let (made, end_row) = buffers.made();
        let end_row = usize::try_from(end_row).unwrap_or(usize::MAX).min(group.rows());
        Self { group, of, made, lent: None, next_row: 0, end_row }
    }

    /// Passes over rows from row `row` of the row group on: all of them.
    pub fn pass_rows(&mut self, row: usize, rows: usize) -> usize {
        let passed = rows.min(self.group.rows().saturating_sub(row));
        self.next_row = row + passed;
        passed
    }

    /// Makes the next page; none at the end.
    ///
    /// # Errors
    /// `Data` if parts of the arrays contradict each other, or a value does not fit.
    pub fn open(&mut self) -> Result<Option<PageStart>> {
        // Rows behind those that are wanted are read where somebody looks at how the last one ends.
        let end = if self.next_row < self.end_row { self.end_row } else { self.group.rows() };
        let group = Arc::clone(&self.group);
        let Some((batch, row)) = group.batch(self.next_row) else { return Ok(None) };
        let (field, leaf) = self.of.as_ref();
        let array = column_of(&batch.columns, leaf.column())?;
        let most = (batch.rows - row).min(end - self.next_row);
        // What is lent takes no memory, and so has any size.
        let whole = if array.validity.is_none() { most.min(MAX_VALUES) } else { most.min(MOST_ROWS) };
        self.lent = leaf.lent(field, array, (row, whole))?;
        let (num_values, levels, rows) = if self.lent.is_some() {
            (whole, PageLevels::AllThere, whole)
        } else {
            let (shape, rows) = self.make(array, row, most.min(page_rows(array, MOST_ROWS, MOST_BYTES)))?;
            let (repetition, definition) = shape.level_bytes;
            (shape.values, PageLevels::Apart(repetition, definition), rows)
        };
        self.next_row += rows;
        Ok(Some(PageStart {
            num_values,
            encoding: Encoding::PLAIN,
            repetition_encoding: Encoding::RLE,
            definition_encoding: Encoding::RLE,
            levels,
            rows: None,
            is_indexed: false,
            is_doubtful: false,
            is_padded: false,
        }))
    }

    /// Makes a page of rows from `row` on, at most so many; and how many it has.
    fn make(&mut self, array: &Array, row: usize, mut rows: usize) -> Result<(PageShape, usize)> {
        loop {
            let (field, leaf) = self.of.as_ref();
            let made = leaf.page(field, array, (row, rows), MAX_VALUES, self.made)?;
            match made {
                Some(shape) => return Ok((shape, rows)),
                None if rows == 1 => {
                    return Err(Error::data(format!("a row has more than {MAX_VALUES} values")));
                }
                None => rows /= 2,
            }
        }
    }

    /// The page that was opened last.
    pub fn page(&self) -> Page<'_> {
        Page { bytes: self.lent.as_ref().map_or(self.made, LentBytes::bytes), dictionary: &[] }
    }
}
