//! Rows of one row group, shared out among batches.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::SharedSlots;
use crate::error::{Result, locked};
use crate::memory::Memory;
use crate::segment::{Piece, to_usize};
use crate::sieve::Sieve;
use crate::transpose::{Columns, Rows, gather};

/// So many bytes of a matrix are put together at once before its rows go here and there.
const TILE_BYTES: usize = 1 << 20;

/// Or more, so that each batch gets so many bytes side by side.
const RUN_BYTES: usize = 4 << 10;

/// What of a row group goes where: the same for all fields.
pub struct Shares<'a> {
    /// Rows to decode, counted within the row group, ascending.
    pub spans: Vec<Range<usize>>,
    /// Of these, counted on, what goes to which batch.
    pub shares: Vec<Share<'a>>,
}

/// What of the rows of a row group goes to one batch. Where a batch has no slots, its rows go nowhere.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    pub slots: Option<&'a SharedSlots>,
    /// Counted over all rows that are decoded.
    pub rows: Rows<'a>,
}

/// How scalar fields are decoded, and where their rows go.
pub struct Parts<'a> {
    pub shares: Vec<Share<'a>>,
    /// The steps in which the rows of each share are decoded; none where they come scattered.
    pub steps: Vec<Range<usize>>,
    pub sieve: Sieve,
    /// Rows that are kept.
    pub rows: usize,
}

impl<'a> Shares<'a> {
    /// Pieces as runs of what is decoded.
    ///
    /// # Errors
    /// `Data` if their numbers do not fit this machine.
    pub fn of_pieces(pieces: &[Piece], slots: &[Option<&'a SharedSlots>]) -> Result<Self> {
        let mut shares = Self { spans: Vec::new(), shares: Vec::new() };
        let mut from = 0;
        for (piece, &slots) in pieces.iter().zip(slots) {
            let span = to_usize(piece.rows.start)?..to_usize(piece.rows.end)?;
            let count = span.len();
            let rows = Rows::Run { from, to: to_usize(piece.slot_row)?, count };
            shares.shares.push(Share { slots, rows });
            shares.spans.push(span);
            from += count;
        }
        Ok(shares)
    }

    /// The same for scalar fields: consecutive rows of a batch are decoded together.
    pub fn parts(&self) -> Parts<'a> {
        let mut sieve = Sieve::default();
        let rows = self.spans.iter().map(ExactSizeIterator::len).sum();
        if !self.are_runs() {
            sieve.add(&self.spans);
            return Parts { shares: self.shares.clone(), steps: Vec::new(), sieve, rows };
        }
        let shares: Vec<_> = self.shares.iter().zip(&self.spans).collect();
        let runs = shares.chunk_by(|(before, _), (next, _)| is_followed(before, next));
        let mut first = 0;
        let parts = runs.filter_map(|run| {
            let spans = &self.spans[first..first + run.len()];
            first += run.len();
            let (&Share { slots, rows: Rows::Run { from, to, .. } }, _) = *run.first()? else { return None };
            let count = spans.iter().map(ExactSizeIterator::len).sum();
            Some((Share { slots, rows: Rows::Run { from, to, count } }, sieve.add(spans)))
        });
        let (shares, steps) = parts.unzip();
        Parts { shares, steps, sieve, rows }
    }

    /// Whether all rows of a batch come as runs.
    pub fn are_runs(&self) -> bool {
        are_runs(&self.shares)
    }
}

fn are_runs(shares: &[Share<'_>]) -> bool {
    shares.iter().all(|share| matches!(share.rows, Rows::Run { .. }))
}

/// Whether rows of a batch go on behind others.
fn is_followed(share: &Share<'_>, next: &Share<'_>) -> bool {
    let is_same = match (share.slots, next.slots) {
        (Some(slots), Some(next)) => Arc::ptr_eq(slots, next),
        (None, None) => true,
        _ => false,
    };
    let goes_on = match (share.rows, next.rows) {
        (Rows::Run { to, count, .. }, Rows::Run { to: next, .. }) => {
            share.slots.is_none() || to + count == next
        }
        _ => false,
    };
    is_same && goes_on
}

/// Hands a field of decoded rows, or its mask, to the batches.
pub struct HandOut<'s, 'a> {
    pub shares: &'s [Share<'a>],
    /// The field, and whether it is its mask.
    pub field: (usize, bool),
}

impl HandOut<'_, '_> {
    /// Hands out rows of columns. Where they go here and there, some at a time are put together in `tile`: so few that
    /// they stay in the second cache.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn columns(&self, columns: Columns<'_>, tile: &mut Memory) -> Result<()> {
        let row_bytes = columns.count * columns.width;
        if are_runs(self.shares) {
            for share in self.shares {
                if let Share { slots: Some(slots), rows: Rows::Run { from, to, count } } = *share {
                    let mut slots = locked(slots);
                    let rows = to * row_bytes..(to + count) * row_bytes;
                    columns.interleave(from, &mut slots.scalar(self.field)[rows]);
                }
            }
            return Ok(());
        }
        if columns.count == 1 {
            self.rows(columns.bytes, row_bytes, columns.rows);
            return Ok(());
        }
        let mut done = vec![0; self.shares.len()];
        let tile_rows = self.tile_rows(row_bytes, columns.rows);
        for first in (0..columns.rows).step_by(tile_rows) {
            let rows = first..columns.rows.min(first + tile_rows);
            tile.resize(rows.len() * row_bytes)?;
            columns.interleave(first, tile.bytes_mut());
            self.scattered(tile.bytes(), row_bytes, rows, &mut done);
        }
        Ok(())
    }

    /// Hands out rows that go here and there, and lie one behind another.
    pub fn rows(&self, source: &[u8], row_bytes: usize, rows: usize) {
        self.scattered(source, row_bytes, 0..rows, &mut vec![0; self.shares.len()]);
    }

    /// Hands out `rows` of those that go here and there, which lie one behind another. `done` says how many of its own each
    /// share got, and is counted on.
    fn scattered(&self, source: &[u8], row_bytes: usize, rows: Range<usize>, done: &mut [usize]) {
        for (share, done) in self.shares.iter().zip(done) {
            let Share { slots: Some(slots), rows: Rows::Each(of) } = *share else { continue };
            let next = if of.from.last().is_none_or(|&last| (last as usize) < rows.end) {
                of.from.len()
            } else {
                *done + of.from[*done..].iter().take_while(|&&row| (row as usize) < rows.end).count()
            };
            if next > *done {
                let mut slots = locked(slots);
                let places = (of.before + *done) * row_bytes..(of.before + next) * row_bytes;
                let output = &mut slots.scalar(self.field)[places];
                gather(source, row_bytes, rows.start, &of.from[*done..next], output);
                *done = next;
            }
        }
    }

    /// So many rows are put together at once: what fits the second cache, and so many that each batch gets some side by
    /// side.
    fn tile_rows(&self, row_bytes: usize, rows: usize) -> usize {
        let row_bytes = row_bytes.max(1);
        let each = self.shares.iter().filter_map(|share| match share.rows {
            Rows::Each(of) => Some(of.from.len()),
            Rows::Run { .. } => None,
        });
        let (shares, given) = each.fold((0, 0), |(shares, given), rows| (shares + 1, given + rows));
        let side_by_side = RUN_BYTES.div_ceil(row_bytes) * shares;
        let for_runs = side_by_side as u128 * rows as u128 / (given as u128).max(1);
        let for_runs = usize::try_from(for_runs).unwrap_or(usize::MAX);
        for_runs.max(TILE_BYTES / row_bytes).clamp(1, rows.max(1))
    }
}
