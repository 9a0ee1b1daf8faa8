//! Rows of a jagged field, decoded behind the rows that their batch has of it.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::slots::fields::SharedSlots;
use crate::decode::decoder::JaggedRows;
use crate::error::{Result, locked};

/// Rows are expected to take at most so many times what footers state.
const MAX_EXPANSION: usize = 16;

/// What a row is expected to take, after so many bytes and rows were decoded: their mean, but not much more than the
/// footers state.
pub fn expected_bytes(stated: usize, (bytes, rows): (usize, usize)) -> usize {
    if rows == 0 { stated } else { bytes.div_ceil(rows).min(stated.saturating_mul(MAX_EXPANSION)) }
}

/// Rows of one batch that lie side by side, taken out of its slots while more are decoded.
///
/// They come in shares, which are counted over what is decoded in one go.
pub struct JaggedRun<'a> {
    slots: &'a SharedSlots,
    /// The row of the batch that the first one is.
    first: usize,
    rows: JaggedRows,
    /// How many there were before, and which shares were added to them.
    before: usize,
    shares: Range<usize>,
}

impl<'a> JaggedRun<'a> {
    /// The rows of a jagged field, number `index`, that end where row `to` of the batch begins: share number
    /// `share` is the next one. `row_bytes` is what a row is expected to take.
    pub fn new(slots: &'a SharedSlots, index: usize, to: usize, share: usize, row_bytes: usize) -> Self {
        let taken = locked(slots).jagged(index).map(|slot| slot.take(to, row_bytes));
        let (first, rows) = taken.unwrap_or_default();
        Self { slots, first, before: rows.ends.len(), shares: share..share, rows }
    }

    /// Whether share number `share`, from row `to` of a batch on, follows what is here.
    pub fn goes_on(&self, slots: &SharedSlots, to: usize, share: usize) -> bool {
        Arc::ptr_eq(self.slots, slots) && self.first + self.rows.ends.len() == to && self.shares.end == share
    }

    /// Lets the next share be added; gives its bytes.
    ///
    /// # Errors
    /// Those of `decode`.
    pub fn add(&mut self, decode: impl FnOnce(&mut JaggedRows) -> Result<()>) -> Result<usize> {
        let before = self.rows.values.len();
        decode(&mut self.rows)?;
        self.shares.end += 1;
        Ok(self.rows.values.len() - before)
    }

    /// Gives the rows to the batch, but for those of shares that are not served; `served` are the rows of those
    /// that are.
    pub fn put(mut self, index: usize, served: &[Range<usize>]) {
        let added = served.iter().take(self.shares.end).skip(self.shares.start);
        self.rows.truncate(self.before + added.map(ExactSizeIterator::len).sum::<usize>());
        if let Some(slot) = locked(self.slots).jagged(index) {
            slot.put(self.first, self.rows);
        }
    }
}
