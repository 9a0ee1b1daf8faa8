//! A window of a shuffled order: which of its rows one reader takes, and where they go.

use std::ops::Range;
use std::sync::OnceLock;

use crate::batch::slots::interleave::Move;
use crate::intervals::set::Intervals;
use crate::order::pass_order::Window;
use crate::order::permutation::Inverse;
use crate::resume::lanes::Stream;

/// Rows of one block of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The number of the block in its window.
    pub block: usize,
    /// The row numbers, all of them selected.
    pub rows: Range<u64>,
    /// The ordinal of the first row.
    pub ordinal: u64,
}

impl Stretch {
    /// The number of its rows.
    pub fn count(&self) -> u64 {
        self.rows.end - self.rows.start
    }
}

/// A window of a shuffled order, and the places that the streams of one reader take from it.
#[derive(Debug)]
pub struct WindowPart {
    window: Window,
    /// The inverse permutation, made when the first row is decoded.
    inverse: OnceLock<Inverse>,
    /// The places of the window whose rows go to a batch, ascending.
    spans: Vec<Span>,
    /// Usually all spans but the first and the last have equally many rows. Then place `p` is in span
    /// `(p + after_first) * part_of_span / 2^64`: a division by the rows of a span, by multiplication alone.
    part_of_span: u64,
    after_first: u64,
    /// The batches that get a row, in order.
    batches: Vec<u64>,
}

/// Consecutive places of a window whose rows follow one another in a batch.
#[derive(Debug)]
struct Span {
    places: Range<u64>,
    /// The batch, as an index among those of the window, and the row of it where the first one goes.
    batch: u32,
    row: u64,
}

/// The batch of a row, as an index among those of its window, and the row's place in it.
type BatchRow = (u32, u32);

/// The batch, or the number, of a row that is discarded.
const NOWHERE: u32 = u32::MAX;

/// Where the rows of a segment go, counted over its stretches. Its memory is reused from segment to segment.
#[derive(Debug, Default)]
pub struct Scatter {
    /// Each batch that gets a row, and its range of `moves`.
    batches: Vec<(u64, Range<usize>)>,
    /// Rows of the segment, ascending within each batch.
    moves: Vec<Move>,
    /// The number of each row of the segment among `moves`, or `u32::MAX` if it is discarded.
    numbers: Vec<u32>,
    /// Where each row of the segment goes, in the segment's order.
    slots: Vec<BatchRow>,
}

impl Scatter {
    /// Each batch that gets a row, and the range of its rows.
    pub fn batches(&self) -> &[(u64, Range<usize>)] {
        &self.batches
    }

    /// The rows of such a range, counted over the segment, ascending.
    pub fn moves(&self, of: Range<usize>) -> &[Move] {
        &self.moves[of]
    }

    /// The number of each row of the segment among those of all batches, batch after batch; `u32::MAX` if it
    /// is discarded.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

impl WindowPart {
    /// The part of a window that `streams` take: with each stream, which of its rows lie in the window.
    pub fn new(window: Window, remaining: &Intervals, streams: Vec<(Range<u64>, Stream)>) -> Self {
        let mut slices: Vec<(u64, u64, Range<u64>)> = Vec::new();
        for (given, stream) in streams {
            let mut next = given.start;
            while next < given.end {
                let counted = stream.counted(next);
                let rows = (stream.slice_rows - next % stream.slice_rows).min(given.end - next);
                let slot = stream.slot_of(counted);
                slices.extend(slot.map(|(batch, row)| (batch, row, counted..counted + rows)));
                next += rows;
            }
        }
        let mut batches: Vec<u64> = slices.iter().map(|(batch, ..)| *batch).collect();
        batches.sort_unstable();
        batches.dedup();
        let mut spans = Vec::with_capacity(slices.len());
        for (batch, mut row, counted) in slices {
            let index = batches.binary_search(&batch).ok().and_then(|index| u32::try_from(index).ok());
            let batch = index.unwrap_or(NOWHERE);
            for positions in remaining.slice(counted) {
                let places = positions.start - window.positions.start..positions.end - window.positions.start;
                let rows = places.end - places.start;
                spans.push(Span { places, batch, row });
                row += rows;
            }
        }
        spans.sort_unstable_by_key(|span| span.places.start);
        let rows_of = |span: &Span| span.places.end - span.places.start;
        let span_rows = spans.iter().map(rows_of).max().unwrap_or(1);
        let before_first =
            spans.first().map_or(0, |first| (span_rows - rows_of(first)).wrapping_sub(first.places.start));
        let (part_of_span, after_first) = (u64::MAX / span_rows.max(1), before_first.wrapping_add(1));
        Self { window, inverse: OnceLock::new(), spans, part_of_span, after_first, batches }
    }

    /// The batches that get a row, in order.
    pub fn batches(&self) -> &[u64] {
        &self.batches
    }

    /// The ordinals of each block, in the order of the files.
    pub fn blocks(&self) -> Vec<(usize, Range<u64>)> {
        let mut blocks: Vec<_> = self.window.blocks.iter().cloned().enumerate().collect();
        blocks.sort_unstable_by_key(|(_, ordinals)| ordinals.start);
        blocks
    }

    /// The first batch that gets a row of these stretches.
    pub fn first_batch_of(&self, stretches: &[Stretch]) -> Option<u64> {
        let mut scatter = Scatter::default();
        self.scatter(stretches, &mut scatter);
        scatter.batches.first().map(|(batch, _)| *batch)
    }

    /// Notes where the rows of stretches go. What was noted before is forgotten.
    pub fn scatter(&self, stretches: &[Stretch], scatter: &mut Scatter) {
        let Scatter { batches, moves, numbers, slots } = scatter;
        slots.clear();
        // A counting sort: the rows of a batch begin where those of the batch before end.
        // A segment has fewer than 2^32 rows: their numbers are in memory.
        let mut ends = vec![0_u32; self.batches.len()];
        let inverse = self.inverse.get_or_init(|| self.window.inverse());
        for of in stretches {
            self.window.places(inverse, of.block, of.ordinal..of.ordinal + of.count(), |places| {
                slots.extend(places.iter().map(|&place| {
                    let slot = self.slot(place);
                    if let Some(count) = ends.get_mut(slot.0 as usize) {
                        *count += 1;
                    }
                    slot
                }));
            });
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        moves.resize(sum as usize, Move::default());
        numbers.clear();
        numbers.extend((0..).zip(slots.iter()).map(|(from, &(batch, to))| {
            if batch == NOWHERE {
                return NOWHERE;
            }
            let number = ends[batch as usize];
            ends[batch as usize] += 1;
            moves[number as usize] = Move { from, to };
            number
        }));
        let mut start = 0;
        batches.clear();
        batches.extend(self.batches.iter().zip(ends).filter_map(|(&batch, end)| {
            let of_batch = start..end as usize;
            start = end as usize;
            (!of_batch.is_empty()).then_some((batch, of_batch))
        }));
    }

    /// Where the row at a place goes.
    #[inline]
    fn slot(&self, place: u64) -> BatchRow {
        let likely = u128::from(place.wrapping_add(self.after_first)) * u128::from(self.part_of_span);
        let likely = usize::try_from(likely >> 64).ok().and_then(|likely| self.spans.get(likely));
        let span = likely.filter(|span| span.places.contains(&place)).or_else(|| self.span_of(place));
        // A batch has fewer than 2^32 rows: memory for it was allocated.
        let row = span.map(|span| u32::try_from(span.row + (place - span.places.start)));
        match (span, row) {
            (Some(span), Some(Ok(row))) => (span.batch, row),
            _ => (NOWHERE, 0),
        }
    }

    #[cold]
    fn span_of(&self, place: u64) -> Option<&Span> {
        let next = self.spans.partition_point(|span| span.places.start <= place);
        self.spans[..next].last().filter(|span| place < span.places.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::blocks::tests::starts;
    use crate::order::pass_order::{Order, OrderKind};
    use crate::order::selection::Selection;

    /// Two streams that take turns at a window of 30 rows, with batches of 4 and of 3 rows; the last rows go
    /// to nobody.
    fn part(order: &Order) -> WindowPart {
        let remaining = Intervals::new(vec![0..5, 7..30]).unwrap();
        let stream = |start, slice_rows, first_batch| Stream {
            start,
            slices: 3,
            slice_rows,
            slice_stride: slice_rows,
            first_batch,
            batch_stride: 2,
            slot_row: 1,
        };
        let streams = vec![(0..12, stream(0, 4, 10)), (0..9, stream(12, 3, 11))];
        WindowPart::new(order.window_at(0).unwrap(), &remaining, streams)
    }

    #[test]
    fn rows_go_where_their_positions_say_whatever_was_scattered_before() {
        let kind = OrderKind::Shuffled { seed: 5, block_rows: 10, window_rows: 30 };
        let order = Order::new(&kind, 0, Selection::everything(&starts(&[30]))).unwrap();
        let part = part(&order);
        let stretches: Vec<Stretch> = part
            .blocks()
            .into_iter()
            .map(|(block, rows)| Stretch { block, ordinal: rows.start, rows })
            .collect();
        // Where each row goes, counted along what remains: the first 12 to one stream, the next 9 to the
        // other.
        let positions = (0..5).chain(7..30);
        let rows_at = positions.map(|position| order.rows(position..position + 1).next().unwrap().start);
        let expected = |counted: u64| match counted {
            0..12 => Some((10 + counted / 4 * 2, counted % 4 + 1)),
            12..21 => Some((11 + (counted - 12) / 3 * 2, (counted - 12) % 3 + 1)),
            _ => None,
        };
        let expected: Vec<_> =
            rows_at.zip(0..).filter_map(|(row, counted)| Some((row, expected(counted)?))).collect();
        let mut scatter = Scatter::default();
        for some in [&stretches[..], &stretches[1..2], &stretches[..2], &[], &stretches[2..]] {
            part.scatter(some, &mut scatter);
            let numbers: Vec<u64> = some.iter().flat_map(|of| of.rows.clone()).collect();
            let mut found = Vec::new();
            for (batch, of) in scatter.batches() {
                for &Move { from, to } in scatter.moves(of.clone()) {
                    found.push((numbers[from as usize], (*batch, u64::from(to))));
                }
            }
            found.sort_unstable();
            let mut expected = expected.clone();
            expected.retain(|(row, _)| numbers.contains(row));
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
