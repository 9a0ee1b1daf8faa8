//! A window of a shuffled order: which of its rows one reader takes, and where they go.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::batch::bin_rows::{BinPlaces, BinRows};
use crate::batch::bunch::Bunches;
use crate::batch::slots::interleave::Move;
use crate::error::Result;
use crate::intervals::set::Intervals;
use crate::memory::vectors::{filled, resize, room_for};
use crate::order::comb::Comb;
use crate::order::permutation::Inverse;
use crate::order::shuffle::Window;
use crate::resume::lanes::Stream;
use crate::resume::source_places::Spread;

/// Rows of one block of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowStretch {
    /// The number of the block in its window.
    pub block: usize,
    /// The row numbers, all of them selected.
    pub rows: Range<u64>,
    /// The ordinal of the first row.
    pub ordinal: u64,
}

impl WindowStretch {
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
    bunches: Bunches,
    /// The first batch that gets a row.
    first_batch: u64,
    is_waiting: bool,
    /// Where its places are those of bins: which rows each has, and where they go.
    bins: Option<BinPlaces>,
    /// Places of the window whose rows go to batches, ascending.
    spans: Vec<WindowSpan>,
    /// The bunches that get a row, in order.
    found: Vec<u64>,
    /// The number of the first of them among all, and of each from it on, its index among those found, or `NOWHERE`.
    first_number: u64,
    indices: Vec<u32>,
}

/// Places of a window whose rows follow one another in a stream, in slices.
#[derive(Debug)]
struct WindowSpan {
    places: Range<u64>,
    /// The first of them, counted from where a slice begins.
    past: u64,
    /// Of a source of a mixture, where it stands, and where that is among its places of a period.
    comb: Option<(Arc<Comb>, u64)>,
    slice_rows: u64,
    slice_stride: u64,
    /// Row `p` is in slice `(p + 1) * part_of_slice / 2^64`: a division by the stride, without one.
    part_of_slice: u64,
    /// Of that slice, the place of its batch among those of the reader, and how far the batch of the next slice is.
    batch_place: u64,
    batch_step: u64,
    /// The row of the batch that a slice fills first.
    slot_row: u64,
}

/// Of a row, its bunch, as an index among those of its window, and its row there.
type BunchRow = (u32, u32);

/// In place of the bunch, or the number, of a row that goes nowhere.
const NOWHERE: u32 = u32::MAX;

/// Where the rows of a segment go, counted over its stretches. Its memory is reused from segment to segment.
#[derive(Debug, Default)]
pub struct Scatter {
    /// Each bunch that gets a row, and which of `moves` are its own.
    bunches: Vec<(u64, Range<usize>)>,
    /// Rows of the segment, ascending within each bunch.
    moves: Vec<Move>,
    /// The number of each row of the segment among `moves`, or `u32::MAX` if it is discarded.
    numbers: Vec<u32>,
    /// Where each row of the segment goes, in its order.
    slots: Vec<BunchRow>,
}

impl Scatter {
    /// Each bunch that gets a row, and the range of its rows.
    pub fn bunches(&self) -> &[(u64, Range<usize>)] {
        &self.bunches
    }

    /// All rows, bunch by bunch.
    pub fn all_moves(&self) -> &[Move] {
        &self.moves
    }

    /// The rows of such a range, counted over the segment, ascending.
    pub fn moves(&self, of: Range<usize>) -> &[Move] {
        &self.moves[of]
    }

    /// Of each row of the segment, its number among those of all bunches, these in their order; `u32::MAX` where it goes
    /// nowhere.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

impl WindowSpan {
    /// Where the rows of a stream from a slice on are, which stand at these positions.
    fn new(stream: &Stream, slice: u64, bunches: &Bunches, places: Range<u64>, counted: u64) -> Self {
        Self {
            places,
            past: counted - (stream.start + slice * stream.slice_stride),
            comb: None,
            slice_rows: stream.slice_rows,
            slice_stride: stream.slice_stride,
            part_of_slice: u64::MAX / stream.slice_stride,
            batch_place: bunches.place(stream.first_batch + slice * stream.batch_stride),
            batch_step: bunches.places(stream.batch_stride),
            slot_row: stream.slot_row,
        }
    }

    /// The place of the batch of a row, and its row there, if it is one of the stream's.
    #[inline]
    fn slot(&self, place: u64) -> Option<(u64, u64)> {
        let behind = place - self.places.start;
        let past = self.past
            + match &self.comb {
                None => behind,
                Some((comb, phase)) => comb.distance(*phase, behind),
            };
        let likely = ((u128::from(past) + 1) * u128::from(self.part_of_slice)) >> 64;
        let mut slice = u64::try_from(likely).unwrap_or(u64::MAX);
        let mut row = past.wrapping_sub(slice.wrapping_mul(self.slice_stride));
        if row >= self.slice_stride {
            (slice, row) = (past / self.slice_stride, past % self.slice_stride);
        }
        let slot = (self.batch_place + slice * self.batch_step, self.slot_row + row);
        (row < self.slice_rows).then_some(slot)
    }
}

impl WindowPart {
    /// What `streams` take from a window: of each, the given rows of it, of which there are some.
    pub fn new(
        window: Window,
        remaining: &Intervals,
        streams: &[(Range<u64>, &Stream)],
        bunches: Bunches,
    ) -> Self {
        let (mut spans, mut numbers, mut first_batch) = (Vec::new(), Vec::new(), u64::MAX);
        for (given, stream) in streams.iter().filter(|(given, _)| !given.is_empty()) {
            let (slice, last) = (given.start / stream.slice_rows, (given.end - 1) / stream.slice_rows);
            let mut counted = stream.counted(given.start);
            for positions in remaining.slice(counted..stream.counted(given.end - 1) + 1) {
                let places = positions.start - window.positions.start..positions.end - window.positions.start;
                let rows = positions.end - positions.start;
                spans.push(WindowSpan::new(stream, slice, &bunches, places, counted));
                counted += rows;
            }
            first_batch = first_batch.min(stream.batch_of(given.start));
            let step = bunches.places(stream.batch_stride).max(1);
            let mut place = bunches.place(stream.batch_of(given.start));
            let end = place + (last - slice) * step;
            while place <= end {
                let number = bunches.number(place);
                numbers.push(number);
                place += (bunches.end(number) - place).div_ceil(step) * step;
            }
        }
        spans.sort_unstable_by_key(|span| span.places.start);
        let all = Self {
            window,
            inverse: OnceLock::new(),
            bunches,
            first_batch,
            is_waiting: false,
            bins: None,
            spans,
            found: Vec::new(),
            first_number: 0,
            indices: Vec::new(),
        };
        all.with_bunches(numbers)
    }

    /// What streams take from a window of a source of a mixture: of each its rows there, of which there are some. They wait
    /// until their batches are ended.
    pub fn of_source(
        window: Window,
        comb: &Arc<Comb>,
        streams: &[(Vec<Spread>, Stream)],
        bunches: Bunches,
    ) -> Self {
        let mut all = Self::new(window, &Intervals::default(), &[], bunches);
        all.is_waiting = true;
        let mut numbers = Vec::new();
        for (spreads, stream) in streams {
            for spread in spreads {
                let behind = comb.distance(spread.phase, spread.places.end - spread.places.start - 1);
                let batch = |past: u64| stream.first_batch + past / stream.slice_stride * stream.batch_stride;
                let (first, last) = (batch(spread.past), batch(spread.past + behind));
                let numbers_of = bunches.number(bunches.place(first))..=bunches.number(bunches.place(last));
                numbers.extend(numbers_of);
                numbers.dedup();
                all.first_batch = all.first_batch.min(first);
                let mut span = WindowSpan::new(stream, 0, &bunches, spread.places.clone(), stream.start);
                (span.past, span.comb) = (spread.past, Some((Arc::clone(comb), spread.phase)));
                all.spans.push(span);
            }
        }
        all.spans.sort_unstable_by_key(|span| span.places.start);
        all.with_bunches(numbers)
    }

    /// The same, whose rows go to bunches of these numbers at most.
    fn with_bunches(mut self, mut numbers: Vec<u64>) -> Self {
        numbers.sort_unstable();
        numbers.dedup();
        self.first_number = numbers.first().copied().unwrap_or(0);
        for (index, number) in (0..).zip(&numbers) {
            self.indices.resize(usize::try_from(number - self.first_number).unwrap_or(0), NOWHERE);
            self.indices.push(index);
        }
        self.found = numbers.into_iter().map(|number| self.bunches.named(number)).collect();
        self
    }

    /// The same of a window of bins, whose batches have one bin at each place that a row would have.
    pub fn of_bins(mut self, source: usize, bins: &BinRows) -> Self {
        self.bins = Some(bins.places(source, &self.found));
        self
    }

    /// Whether its rows wait until their batches are ended.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// The first batch that gets a row.
    pub fn first_batch(&self) -> u64 {
        self.first_batch
    }

    /// The bunches that get a row, in order.
    pub fn bunches(&self) -> &[u64] {
        &self.found
    }

    /// The ordinals of each block, in the order of the files.
    pub fn blocks(&self) -> Vec<(usize, Range<u64>)> {
        let mut blocks: Vec<_> = self.window.blocks.iter().cloned().enumerate().collect();
        blocks.sort_unstable_by_key(|(_, ordinals)| ordinals.start);
        blocks
    }

    /// The first batch that gets a row of stretches.
    ///
    /// # Errors
    /// As for `scatter`.
    pub fn first_batch_of(&self, stretches: &[WindowStretch]) -> Result<Option<u64>> {
        let mut scatter = Scatter::default();
        self.scatter(stretches, &mut scatter)?;
        let Some((bunch, of)) = scatter.bunches.first().cloned() else { return Ok(None) };
        let first_row = scatter.moves(of).iter().map(|row| row.to).min();
        Ok(first_row.map(|row| self.bunches.batch_at(bunch, row.into())))
    }

    /// Notes where the rows of stretches go, in place of what was noted before.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn scatter(&self, stretches: &[WindowStretch], scatter: &mut Scatter) -> Result<()> {
        let Scatter { bunches, moves, numbers, slots } = scatter;
        slots.clear();
        room_for(slots, to_index(stretches.iter().map(WindowStretch::count).sum()))?;
        // Sorted by counting: the rows of a bunch begin where those of the one before end.
        // A segment has fewer rows than 2^32: its numbers are in memory.
        let mut ends = filled(self.found.len(), 0_u32)?;
        let inverse = self.inverse.get_or_init(|| self.window.inverse());
        for of in stretches {
            let ordinals = of.ordinal..of.ordinal + of.count();
            let Some(bins) = &self.bins else {
                self.window.places(inverse, of.block, ordinals, |places| {
                    slots.extend(places.iter().map(|&place| {
                        let slot = self.slot(place);
                        if let Some(count) = ends.get_mut(slot.0 as usize) {
                            *count += 1;
                        }
                        slot
                    }));
                });
                continue;
            };
            let own = bins.holding(&ordinals);
            let mut next = own.start;
            self.window.places(inverse, of.block, own, |places| {
                for (&place, bin) in places.iter().zip(next..) {
                    let (slot, rows) = (self.slot(place), bins.within(bin, &ordinals));
                    let first = bins.first_row(slot.0 as usize, slot.1.into());
                    if let Some(count) = ends.get_mut(slot.0 as usize).filter(|_| first.is_some()) {
                        *count += u32::try_from(rows.end - rows.start).unwrap_or(0);
                    }
                    slots.extend(rows.map(|row| {
                        let to = first.and_then(|first| u32::try_from(first + row).ok());
                        to.map_or((NOWHERE, 0), |to| (slot.0, to))
                    }));
                }
                next += places.len() as u64;
            });
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        moves.clear();
        resize(moves, sum as usize, Move::default())?;
        numbers.clear();
        room_for(numbers, slots.len())?;
        numbers.extend((0..).zip(slots.iter()).map(|(from, &(bunch, to))| {
            if bunch == NOWHERE {
                return NOWHERE;
            }
            let number = ends[bunch as usize];
            ends[bunch as usize] += 1;
            moves[number as usize] = Move { from, to };
            number
        }));
        let mut start = 0;
        bunches.clear();
        room_for(bunches, self.found.len())?;
        bunches.extend(self.found.iter().zip(ends).filter_map(|(&bunch, end)| {
            let of_bunch = start..end as usize;
            start = end as usize;
            (!of_bunch.is_empty()).then_some((bunch, of_bunch))
        }));
        Ok(())
    }

    /// Where the row at a place goes.
    #[inline]
    fn slot(&self, place: u64) -> BunchRow {
        let span = match &self.spans[..] {
            [one] => Some(one).filter(|span| span.places.contains(&place)),
            _ => self.span_of(place),
        };
        let Some((batch, row)) = span.and_then(|span| span.slot(place)) else { return (NOWHERE, 0) };
        let number = self.bunches.number(batch) - self.first_number;
        let index = usize::try_from(number).ok().and_then(|number| self.indices.get(number));
        // A bunch has fewer rows than 2^32: memory for it was given.
        match (index, u32::try_from(self.bunches.first_row_of(batch) + row)) {
            (Some(&index), Ok(row)) => (index, row),
            _ => (NOWHERE, 0),
        }
    }

    fn span_of(&self, place: u64) -> Option<&WindowSpan> {
        let next = self.spans.partition_point(|span| span.places.start <= place);
        self.spans[..next].last().filter(|span| place < span.places.end)
    }
}

fn to_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::blocks::tests::starts;
    use crate::order::pass_order::{Order, OrderKind};
    use crate::order::selection::Selection;

    /// Two streams that take from a window of 30 rows in turns, batches of 4 and of 3 rows; the last rows are nobody's.
    fn part(order: &Order, shift: u32) -> WindowPart {
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
        let streams = [stream(0, 4, 10), stream(12, 3, 11)];
        let streams = [(0..12, &streams[0]), (0..9, &streams[1])];
        WindowPart::new(order.window_at(0).unwrap(), &remaining, &streams, Bunches::new(10, 1, shift, 5))
    }

    #[test]
    fn rows_go_where_their_positions_say_whatever_was_scattered_before() {
        let kind = OrderKind::Shuffled { seed: 5, block_rows: 10, window_rows: 30 };
        let order = Order::new(&kind, 0, Selection::everything(&starts(&[30]))).unwrap();
        for shift in 0..4 {
            rows_go_where_their_positions_say(&order, &part(&order, shift));
        }
    }

    fn rows_go_where_their_positions_say(order: &Order, part: &WindowPart) {
        let stretches: Vec<WindowStretch> = part
            .blocks()
            .into_iter()
            .map(|(block, rows)| WindowStretch { block, ordinal: rows.start, rows })
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
            part.scatter(some, &mut scatter).unwrap();
            let numbers: Vec<u64> = some.iter().flat_map(|of| of.rows.clone()).collect();
            let mut found = Vec::new();
            for (bunch, of) in scatter.bunches() {
                for &Move { from, to } in scatter.moves(of.clone()) {
                    let batch = part.bunches.batch_at(*bunch, to.into());
                    let row = u64::from(to) - part.bunches.first_row(batch);
                    found.push((numbers[from as usize], (batch, row)));
                }
            }
            let first = part.first_batch_of(some).unwrap();
            assert_eq!(first, found.iter().map(|(_, (batch, _))| *batch).min());
            found.sort_unstable();
            let mut expected = expected.clone();
            expected.retain(|(row, _)| numbers.contains(row));
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
