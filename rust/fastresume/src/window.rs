//! A window of a shuffled order, as one reader takes from it.

use std::ops::Range;

use crate::intervals::Intervals;
use crate::lanes::Stream;
use crate::order::Window;

/// Rows of one block of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The number of the block in its window.
    pub block: usize,
    /// Row numbers, all of them selected.
    pub rows: Range<u64>,
    /// The ordinal of the first row.
    pub ordinal: u64,
}

impl Stretch {
    fn count(&self) -> u64 {
        self.rows.end - self.rows.start
    }
}

/// A window of a shuffled order, and what the streams of one reader take from it.
#[derive(Debug)]
pub struct WindowPart {
    window: Window,
    /// Ranges of remaining positions in the window, and where each begins along all that remains.
    remaining: Vec<(Range<u64>, u64)>,
    /// The streams that take from it, and from where on each does, counted along all that remains.
    streams: Vec<(u64, Stream)>,
    /// The batches that get a row, in order.
    batches: Vec<u64>,
}

/// Of a row, its batch, as an index among those of its window, and its row there.
type Slot = (u32, u32);

/// In place of the batch of a row that goes nowhere.
const NOWHERE: u32 = u32::MAX;

/// Where the rows of a segment go, counted over its stretches. Its memory is used again from segment to segment.
#[derive(Debug, Default)]
pub struct Scatter {
    /// Each batch that gets a row, and which of `rows` are its own.
    batches: Vec<(u64, Range<usize>)>,
    /// Row `.0` of the segment is row `.1` of the batch; in the order of the segment within each batch.
    rows: Vec<(u32, u32)>,
    /// Where each row of the segment goes, in its order.
    slots: Vec<Slot>,
}

impl Scatter {
    /// Each batch that gets a row, and the range of its rows.
    pub fn batches(&self) -> &[(u64, Range<usize>)] {
        &self.batches
    }

    /// The rows of such a range: row `.0` of the segment is row `.1` of the batch.
    pub fn rows(&self, of: Range<usize>) -> &[(u32, u32)] {
        &self.rows[of]
    }
}

impl WindowPart {
    /// What `streams` take from a window: of each, the given rows of it.
    pub fn new(window: Window, remaining: &Intervals, streams: Vec<(Range<u64>, Stream)>) -> Self {
        let first = remaining.rank(window.positions.start);
        let mut counted = first;
        let remaining = remaining
            .slice(first..remaining.rank(window.positions.end))
            .map(|range| {
                let start = counted;
                counted += range.end - range.start;
                (range, start)
            })
            .collect();
        let mut batches = Vec::new();
        let mut by_count: Vec<(u64, Stream)> = Vec::with_capacity(streams.len());
        for (given, stream) in streams.into_iter().filter(|(given, _)| !given.is_empty()) {
            let slices = given.start / stream.slice_rows..(given.end - 1) / stream.slice_rows + 1;
            batches.extend(slices.map(|slice| stream.first_batch + slice * stream.batch_stride));
            by_count.push((stream.counted(given.start), stream));
        }
        batches.sort_unstable();
        batches.dedup();
        by_count.sort_unstable_by_key(|(counted, _)| *counted);
        Self { window, remaining, streams: by_count, batches }
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

    /// Notes where the rows of stretches go, in place of what was noted before.
    pub fn scatter(&self, stretches: &[Stretch], scatter: &mut Scatter) {
        let Scatter { batches, rows, slots } = scatter;
        slots.clear();
        for of in stretches {
            let places = self.window.places(of.block, of.ordinal..of.ordinal + of.count());
            slots.extend(places.map(|place| self.slot(self.window.positions.start + place)));
        }
        // Sorted by counting: the rows of a batch begin where those of the one before end.
        let mut ends = vec![0; self.batches.len() + 1];
        for &(batch, _) in slots.iter().filter(|(batch, _)| *batch != NOWHERE) {
            ends[batch as usize + 1] += 1;
        }
        for batch in 0..self.batches.len() {
            ends[batch + 1] += ends[batch];
        }
        rows.resize(ends[self.batches.len()], (0, 0));
        for (from, &(batch, to)) in (0..).zip(slots.iter()) {
            if batch != NOWHERE {
                let next = &mut ends[batch as usize];
                rows[*next] = (from, to);
                *next += 1;
            }
        }
        let mut start = 0;
        batches.clear();
        batches.extend(self.batches.iter().zip(ends).filter_map(|(&batch, end)| {
            let of_batch = start..end;
            start = end;
            (!of_batch.is_empty()).then_some((batch, of_batch))
        }));
    }

    /// Where the row at a position goes.
    #[inline]
    fn slot(&self, position: u64) -> Slot {
        let found = self.slot_of(position).and_then(|(batch, row)| {
            // A batch has fewer rows than 2^32: memory for it was given.
            Some((u32::try_from(self.index_of(batch)?).ok()?, u32::try_from(row).ok()?))
        });
        found.unwrap_or((NOWHERE, 0))
    }

    /// The index of a batch among those that get a row: mostly, they follow one another.
    #[inline]
    fn index_of(&self, batch: u64) -> Option<usize> {
        let likely = usize::try_from(batch.checked_sub(*self.batches.first()?)?).ok()?;
        if self.batches.get(likely) == Some(&batch) {
            return Some(likely);
        }
        self.batches.binary_search(&batch).ok()
    }

    /// The batch, and its row, where the row at a position goes.
    #[inline]
    fn slot_of(&self, position: u64) -> Option<(u64, u64)> {
        let range = last_up_to(&self.remaining, |(range, _)| range.start <= position)?;
        let (range, counted) = range;
        let counted = (position < range.end).then(|| counted + (position - range.start))?;
        last_up_to(&self.streams, |(start, _)| *start <= counted)?.1.slot_of(counted)
    }
}

/// The last element that fulfils a condition, which all before it do and none behind it.
#[inline]
fn last_up_to<T>(sorted: &[T], is_before: impl Fn(&T) -> bool) -> Option<&T> {
    match sorted {
        [only] => Some(only).filter(|only| is_before(only)),
        _ => sorted.partition_point(is_before).checked_sub(1).map(|last| &sorted[last]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::tests::starts;
    use crate::order::{Order, OrderKind};
    use crate::selection::Selection;

    /// Two streams that take from a window of 30 rows in turns, batches of 4 and of 3 rows; the last rows are nobody's.
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
        // Where each row goes: counted along what remains, the first 12 to one stream, the next 9 to the other.
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
                for &(from, to) in scatter.rows(of.clone()) {
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
