//! Decodes rows of a jagged field behind the rows that their batch has already.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::slots::fields::SharedSlots;
use crate::decode::decoder::JaggedRows;
use crate::error::{Result, locked};

/// The most, as a multiple of what footers state, that a row is expected to take.
const MAX_EXPANSION: usize = 16;

/// The expected bytes of a row, after `bytes` and `rows` were decoded: their mean, limited by what footers
/// state.
pub fn expected_bytes(stated: usize, (bytes, rows): (usize, usize)) -> usize {
    if rows == 0 { stated } else { bytes.div_ceil(rows).min(stated.saturating_mul(MAX_EXPANSION)) }
}

/// Consecutive rows of one batch, taken out of its slots while more are decoded.
///
/// They come in shares, numbered over what is decoded in one go.
pub struct JaggedRun<'a> {
    slots: &'a SharedSlots,
    /// The row of the batch that its first row is.
    first: usize,
    rows: JaggedRows,
    /// The number of rows there were before, and the shares that were added to them.
    before: usize,
    shares: Range<usize>,
}

impl<'a> JaggedRun<'a> {
    /// The rows of jagged field `index` that end where row `to` of the batch begins. Share number `share`
    /// comes next. `row_bytes` is what a row is expected to take.
    pub fn new(slots: &'a SharedSlots, index: usize, to: usize, share: usize, row_bytes: usize) -> Self {
        let taken = locked(slots).jagged(index).map(|slot| slot.take(to, row_bytes));
        let (first, rows) = taken.unwrap_or_default();
        Self { slots, first, before: rows.ends.len(), shares: share..share, rows }
    }

    /// Whether share number `share`, from row `to` of a batch on, continues these rows.
    pub fn goes_on(&self, slots: &SharedSlots, to: usize, share: usize) -> bool {
        Arc::ptr_eq(self.slots, slots) && self.first + self.rows.ends.len() == to && self.shares.end == share
    }

    /// Lets `decode` add the next share; returns its bytes.
    ///
    /// # Errors
    /// Those of `decode`.
    pub fn add(&mut self, decode: impl FnOnce(&mut JaggedRows) -> Result<()>) -> Result<usize> {
        let before = self.rows.values.len();
        decode(&mut self.rows)?;
        self.shares.end += 1;
        Ok(self.rows.values.len() - before)
    }

    /// Gives the rows to the batch, without the shares that are not served. `served` are the rows of those
    /// that are.
    pub fn put(mut self, index: usize, served: &[Range<usize>]) {
        let added = served.iter().take(self.shares.end).skip(self.shares.start);
        self.rows.truncate(self.before + added.map(ExactSizeIterator::len).sum::<usize>());
        if let Some(slot) = locked(self.slots).jagged(index) {
            slot.put(self.first, self.rows);
        }
    }
}
