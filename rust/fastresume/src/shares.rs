//! Rows of one row group, shared out among batches.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::SharedSlots;
use crate::error::Result;
use crate::segment::{Piece, to_usize};
use crate::sieve::Sieve;
use crate::transpose::Rows;

/// What of a row group goes where: the same for all fields.
pub struct Shares<'a> {
    /// Rows to decode, counted within the row group, ascending.
    pub spans: Vec<Range<usize>>,
    /// Of these, counted on, what goes to which batch. Where a batch has no slots, its rows go nowhere.
    pub shares: Vec<(Option<&'a SharedSlots>, Rows<'a>)>,
}

/// What of the rows that are kept of a row group goes to one batch.
pub struct Part<'a> {
    pub slots: Option<&'a SharedSlots>,
    /// Counted over all rows that are kept.
    pub rows: Rows<'a>,
    /// The steps in which they are decoded; none where they come scattered.
    pub steps: Range<usize>,
}

/// How scalar fields are decoded, and where their rows go.
pub struct Parts<'a> {
    pub each: Vec<Part<'a>>,
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
        for (piece, slots) in pieces.iter().zip(slots) {
            let span = to_usize(piece.rows.start)?..to_usize(piece.rows.end)?;
            let count = span.len();
            shares.shares.push((*slots, Rows::Run { from, to: to_usize(piece.slot_row)?, count }));
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
            let scattered = self.shares.iter().map(|&(slots, rows)| Part { slots, rows, steps: 0..0 });
            return Parts { each: scattered.collect(), sieve, rows };
        }
        let shares: Vec<_> = self.shares.iter().zip(&self.spans).collect();
        let runs = shares.chunk_by(|(before, _), (next, _)| is_followed(before, next));
        let mut first = 0;
        let parts = runs.filter_map(|run| {
            let spans = &self.spans[first..first + run.len()];
            first += run.len();
            let (&(slots, Rows::Run { from, to, .. }), _) = *run.first()? else { return None };
            let count = spans.iter().map(ExactSizeIterator::len).sum();
            Some(Part { slots, rows: Rows::Run { from, to, count }, steps: sieve.add(spans) })
        });
        Parts { each: parts.collect(), sieve, rows }
    }

    /// Whether all rows of a batch come as runs.
    pub fn are_runs(&self) -> bool {
        self.shares.iter().all(|(_, rows)| matches!(rows, Rows::Run { .. }))
    }
}

/// Whether rows of a batch go on behind others.
fn is_followed(
    (slots, rows): &(Option<&SharedSlots>, Rows<'_>),
    (next_slots, next): &(Option<&SharedSlots>, Rows<'_>),
) -> bool {
    let is_same = match (slots, next_slots) {
        (Some(slots), Some(next)) => Arc::ptr_eq(slots, next),
        (None, None) => true,
        _ => false,
    };
    let goes_on = match (rows, next) {
        (Rows::Run { to, count, .. }, Rows::Run { to: next, .. }) => slots.is_none() || to + count == *next,
        _ => false,
    };
    is_same && goes_on
}
