//! Pages that are made of arrays: whatever row comes next, one begins with it.

use std::sync::Arc;

use parquet::basic::Encoding;

use crate::arrow::array::contradicts;
use crate::arrow::field::ArrowField;
use crate::arrow::leaf::{ArrowLeaf, column_of, page_rows};
use crate::arrow::row_source::RowGroup;
use crate::error::{Error, Result};
use crate::format::encoding::page_values::Page;
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::page::reader::{Buffers, PageStart};

/// The most rows of a page, and the bytes that it has at most on average: they fit the caches.
const MOST_ROWS: usize = 8192;
const MOST_BYTES: usize = 256 << 10;

/// The rows of a leaf of a row group, as pages.
pub struct MadePages<'a> {
    group: Arc<RowGroup>,
    field: ArrowField,
    leaf: ArrowLeaf,
    made: &'a mut Vec<u8>,
    /// The row that comes next, and that behind the last one that is wanted.
    next_row: usize,
    end_row: usize,
}

impl<'a> MadePages<'a> {
    /// The pages of a leaf of a row group of these columns.
    ///
    /// # Errors
    /// `Data` if there is no such column.
    pub fn new(
        group: Arc<RowGroup>,
        fields: &[ArrowField],
        leaf: ArrowLeaf,
        buffers: &'a mut Buffers,
    ) -> Result<Self> {
        let field = fields.get(leaf.column()).ok_or_else(|| contradicts("a column is missing"))?.clone();
        let (made, end_row) = buffers.made();
        let end_row = usize::try_from(end_row).unwrap_or(usize::MAX).min(group.rows());
        Ok(Self { group, field, leaf, made, next_row: 0, end_row })
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
        let Some((batch, row)) = self.group.batch(self.next_row) else { return Ok(None) };
        let array = column_of(&batch.columns, self.leaf.column())?;
        let most = (batch.rows - row).min(end - self.next_row);
        let mut rows = most.min(page_rows(array, MOST_ROWS, MOST_BYTES));
        loop {
            let made = self.leaf.page(&self.field, array, (row, rows), MAX_VALUES, self.made)?;
            let Some(shape) = made else {
                if rows == 1 {
                    return Err(Error::data(format!("a row has more than {MAX_VALUES} values")));
                }
                rows /= 2;
                continue;
            };
            self.next_row += rows;
            return Ok(Some(PageStart {
                num_values: shape.values,
                encoding: Encoding::PLAIN,
                repetition_encoding: Encoding::RLE,
                definition_encoding: Encoding::RLE,
                level_bytes: Some(shape.level_bytes),
                rows: None,
                is_told: false,
                is_doubtful: false,
                is_padded: false,
            }));
        }
    }

    /// The page that was made last.
    pub fn page(&self) -> Page<'_> {
        Page { bytes: self.made, dictionary: &[] }
    }
}
