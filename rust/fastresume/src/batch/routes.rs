//! Routes the decoded rows of one row group to their batches.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::segment::{Piece, to_usize};
use crate::batch::slots::fields::SharedSlots;
use crate::batch::slots::interleave::{Columns, Move, Rows, Scattered};
use crate::batch::slots::jagged_piece::{self, Lot};
use crate::batch::slots::pending::{PendingRows, STRIPS, Strip, strip_rows};
use crate::batch::slots::row_ids::Damage;
use crate::batch::slots::sorter::Sorter;
use crate::decode::decoder::JaggedRows;
use crate::decode::row_picker::RowPicker;
use crate::error::{Result, locked};
use crate::memory::vectors::{collected, push, with_room};

/// Which rows of a row group go to which batch: the same for all fields.
pub struct Routes<'a> {
    /// Rows to decode, counted within the row group, ascending.
    pub spans: Vec<Range<usize>>,
    /// Which of these rows go to which batch, counted over all decoded rows.
    pub each: Vec<Route<'a>>,
    /// Where rows are scattered: the number of each row among the rows of all batches, batch after batch. It
    /// is `u32::MAX` for a row that is discarded.
    pub numbers: &'a [u32],
}

/// The rows of a row group that go to one batch. Rows of a batch without slots are discarded.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    pub slots: Option<&'a SharedSlots>,
    /// The rows, counted over all rows that are decoded.
    pub rows: Rows<'a>,
}

/// How scalar fields are decoded, and where their rows go.
pub struct RouteParts<'a> {
    pub shares: Vec<Route<'a>>,
    /// The steps in which the rows of each batch are decoded; empty where rows are scattered.
    pub steps: Vec<Range<usize>>,
    pub sieve: RowPicker,
    /// The number of rows that are kept.
    pub rows: usize,
    /// The number of rows in one strip.
    strip_rows: usize,
    /// As in `Routes`.
    pub numbers: &'a [u32],
}

impl<'a> Routes<'a> {
    /// The routes of pieces, which are runs of decoded rows.
    ///
    /// # Errors
    /// `Data` if their numbers do not fit this machine.
    pub fn of_pieces(pieces: &[Piece], slots: &[Option<&'a SharedSlots>]) -> Result<Self> {
        let (spans, each) = (with_room(pieces.len())?, with_room(pieces.len())?);
        let mut shares = Self { spans, each, numbers: &[] };
        let mut from = 0;
        for (piece, &slots) in pieces.iter().zip(slots) {
            let span = to_usize(piece.rows.start)?..to_usize(piece.rows.end)?;
            let count = span.len();
            let rows = Rows::Run { from, to: to_usize(piece.slot_row)?, count };
            shares.each.push(Route { slots, rows });
            shares.spans.push(span);
            from += count;
        }
        Ok(shares)
    }

    /// The routes of rows that go to no batch yet.
    pub fn of_spans(spans: &[Range<usize>]) -> Result<Self> {
        let (mut own, mut each, mut from) = (with_room(spans.len())?, with_room(spans.len())?, 0);
        for span in spans {
            own.push(span.clone());
            each.push(Route { slots: None, rows: Rows::Run { from, to: from, count: span.len() } });
            from += span.len();
        }
        Ok(Self { spans: own, each, numbers: &[] })
    }

    /// The same for scalar fields with rows of `row_bytes`. Consecutive rows of a batch are decoded together,
    /// up to the end of their strip.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn parts(&self, row_bytes: usize) -> Result<RouteParts<'a>> {
        self.parts_of(strip_rows(self.rows(), row_bytes))
    }

    fn rows(&self) -> usize {
        self.spans.iter().map(ExactSizeIterator::len).sum()
    }

    /// The same, with so many rows in a strip.
    ///
    /// # Errors
    /// As for `parts`.
    pub fn parts_of(&self, strip_rows: usize) -> Result<RouteParts<'a>> {
        let mut sieve = RowPicker::default();
        let rows = self.rows();
        if !self.are_runs() {
            sieve.add(&self.spans)?;
            let (shares, numbers) = (collected(self.each.iter().copied())?, self.numbers);
            return Ok(RouteParts { shares, steps: Vec::new(), sieve, rows, strip_rows, numbers });
        }
        let (cut, spans) = self.cut(strip_rows)?;
        let goes_on = |before: &Route<'_>, next: &Route<'_>| {
            is_followed(before, next) && !next.begins_strip(strip_rows)
        };
        let (mut first, mut shares, mut steps) = (0, Vec::new(), Vec::new());
        for run in cut.chunk_by(goes_on) {
            let spans = &spans[first..first + run.len()];
            first += run.len();
            if let [Route { slots, rows: Rows::Run { from, to, .. } }, ..] = *run {
                let count = spans.iter().map(ExactSizeIterator::len).sum();
                push(&mut shares, Route { slots, rows: Rows::Run { from, to, count } })?;
                push(&mut steps, sieve.add(spans)?)?;
            }
        }
        Ok(RouteParts { shares, steps, sieve, rows, strip_rows, numbers: self.numbers })
    }

    /// The runs, and the rows of each, cut where strips of `strip_rows` rows end.
    fn cut(&self, strip_rows: usize) -> Result<(Vec<Route<'a>>, Vec<Range<usize>>)> {
        let room = self.each.len() + STRIPS;
        let (mut shares, mut spans) = (with_room(room)?, with_room(room)?);
        for (share, span) in self.each.iter().zip(&self.spans) {
            let Rows::Run { mut from, mut to, .. } = share.rows else { continue };
            let mut start = span.start;
            while start < span.end {
                let count = (strip_rows - from % strip_rows).min(span.end - start);
                push(&mut shares, Route { slots: share.slots, rows: Rows::Run { from, to, count } })?;
                push(&mut spans, start..start + count)?;
                (start, from, to) = (start + count, from + count, to + count);
            }
        }
        Ok((shares, spans))
    }

    /// Tells the batches which rows of the row group are damaged.
    pub fn note_damage(&self, damage: &[Damage]) {
        for slots in self.each.iter().filter_map(|route| route.slots.filter(|_| !damage.is_empty())) {
            locked(slots).written().note_damage(damage);
        }
    }

    /// Whether the rows of all batches come as runs.
    pub fn are_runs(&self) -> bool {
        are_runs(&self.each)
    }
}

impl Route<'_> {
    /// Whether its first row is the first of a strip of `strip_rows`.
    fn begins_strip(&self, strip_rows: usize) -> bool {
        matches!(self.rows, Rows::Run { from, .. } if from % strip_rows == 0)
    }
}

fn are_runs(shares: &[Route<'_>]) -> bool {
    shares.iter().all(|share| matches!(share.rows, Rows::Run { .. }))
}

/// Rows that are decoded to one strip of memory.
pub struct StripSplit {
    /// Which routes they belong to.
    shares: Range<usize>,
    /// The steps in which they are decoded.
    pub steps: Range<usize>,
    /// The rows, counted over all rows that are decoded.
    pub rows: Range<usize>,
}

impl RouteParts<'_> {
    /// All rows in one strip.
    pub fn whole(&self) -> StripSplit {
        StripSplit { shares: 0..self.shares.len(), steps: self.sieve.steps(), rows: 0..self.rows }
    }

    /// All rows, which come as runs, divided into strips.
    pub fn cuts(&self) -> Vec<StripSplit> {
        let mut cuts: Vec<StripSplit> = Vec::new();
        for (number, (share, steps)) in self.shares.iter().zip(&self.steps).enumerate() {
            let Rows::Run { from, count, .. } = share.rows else { continue };
            let end = from + count;
            match cuts.last_mut() {
                Some(last) if !share.begins_strip(self.strip_rows) => {
                    (last.shares.end, last.steps.end, last.rows.end) = (number + 1, steps.end, end);
                }
                _ => cuts.push(StripSplit {
                    shares: number..number + 1,
                    steps: steps.clone(),
                    rows: from..end,
                }),
            }
        }
        cuts
    }

    /// Gives the rows of columns that were decoded to a strip to a field of their batches, and to its mask if
    /// it has one.
    pub fn hand_out_runs(&self, cut: &StripSplit, strip: &Arc<Strip>, (index, is_masked): (usize, bool)) {
        for share in &self.shares[cut.shares.clone()] {
            let Route { slots: Some(slots), rows: Rows::Run { from, to, count } } = *share else { continue };
            let first = from - cut.rows.start;
            let mut slots = locked(slots);
            for is_mask in [false, true].into_iter().take(1 + usize::from(is_masked)) {
                let (strip, rows) = (Arc::clone(strip), first..first + count);
                let part = PendingRows::Columns { strip, is_mask, rows, to };
                slots.keep((index, is_mask), std::iter::once(part));
            }
        }
    }
}

/// Whether the rows of a batch continue those of a route before.
fn is_followed(share: &Route<'_>, next: &Route<'_>) -> bool {
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

/// Hands scattered rows of columns to a field of their batches, or to its mask.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
pub fn hand_out(
    shares: &[Route<'_>],
    numbers: &[u32],
    field: (usize, bool),
    columns: Columns<'_>,
    sorter: &mut Sorter,
) -> Result<()> {
    let each = shares.iter().filter_map(|share| match share.rows {
        Rows::Each(of) => Some((share.slots, of)),
        Rows::Run { .. } => None,
    });
    let in_order = sorter.sort(columns, numbers, each.clone().map(|(_, of)| of.moves.len()).sum())?;
    let mut first = 0;
    for (slots, of) in each {
        let rows = first..first + of.moves.len();
        first = rows.end;
        if let Some(slots) = slots {
            locked(slots).keep(field, in_order.parts(rows, of.before));
        }
    }
    Ok(())
}

/// Hands scattered rows to a jagged field of their batches.
///
/// # Errors
/// As for `hand_out`.
pub fn hand_out_jagged(
    shares: &[Route<'_>],
    index: usize,
    inner_rows: usize,
    source: &JaggedRows,
) -> Result<()> {
    let each = shares.iter().filter_map(|share| match *share {
        Route { slots: Some(slots), rows: Rows::Each(of) } => Some((slots, of)),
        _ => None,
    });
    let each: Vec<(&SharedSlots, Scattered<'_>)> = collected(each)?;
    let moves: Vec<&[Move]> = collected(each.iter().map(|(_, of)| of.moves))?;
    jagged_piece::sort(source, inner_rows, &moves, |piece, lots| {
        for Lot { share, rows, before } in lots {
            let (slots, of) = each[share];
            if let Some(slot) = locked(slots).jagged(index) {
                slot.keep(piece, rows, of.before + before);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The routes of a row group's rows from `first` on: runs of these lengths, one for each batch.
    fn shares(first: usize, runs: &[usize]) -> Routes<'static> {
        let (mut spans, mut each, mut from) = (Vec::new(), Vec::new(), 0);
        for &count in runs {
            spans.push(first + from..first + from + count);
            each.push(Route { slots: None, rows: Rows::Run { from, to: 7, count } });
            from += count;
        }
        Routes { spans, each, numbers: &[] }
    }

    #[test]
    fn strips_are_as_long_however_batches_divide_their_rows() {
        for runs in [vec![20_000], vec![4_000; 5], vec![3, 7_000, 12_997], vec![1; 20_000]] {
            let parts = shares(100, &runs).parts(200).unwrap();
            let cuts = parts.cuts();
            let lengths: Vec<usize> = cuts.iter().map(|cut| cut.rows.len()).collect();
            assert_eq!(lengths, [2_500; STRIPS]);
            let (mut row, mut from) = (0, 0);
            for cut in cuts {
                assert_eq!(cut.rows.start, row);
                row = cut.rows.end;
                for share in &parts.shares[cut.shares] {
                    let Rows::Run { from: first, count, .. } = share.rows else { panic!("not a run") };
                    assert_eq!(first, from);
                    from += count;
                }
                assert_eq!(from, row, "a strip has the rows of its shares");
            }
        }
    }

    #[test]
    fn strips_are_not_small_and_an_eighth_of_wide_rows() {
        let cuts = |rows: usize, row_bytes| shares(0, &[rows]).parts(row_bytes).unwrap().cuts().len();
        assert_eq!([1, 500, 640].map(|rows| cuts(rows, 100)), [1; 3]);
        assert_eq!(cuts(700, 100), 2);
        assert_eq!([1000, 8000].map(|rows| cuts(rows, 32 << 10)), [STRIPS; 2]);
        assert_eq!(cuts(3, 1 << 20), 3);
    }
}
