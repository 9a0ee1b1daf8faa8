//! How many rows a pass decodes, worked out before it is read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::sources::Sources;
use crate::error::{Result, check};
use crate::order::pass_order::Order;
use crate::pipeline::schedule::{PassOrder, Schedule};
use crate::pipeline::stream_queue::StreamQueue;
use crate::resume::lanes::WorkerId;
use crate::resume::pass::Pass;

/// The number of rows that all readers of all ranks decode in the rest of a pass. Setting `stop` ends the
/// work early.
///
/// # Errors
/// `Argument` if so many readers can't share the pass's cut; `Interrupted` if stopped.
pub fn rows_decoded(
    pass: &Pass,
    order: &Order,
    world_size: u64,
    workers: u64,
    stop: &AtomicBool,
) -> Result<u64> {
    let is_shared_out = pass.division().cut().lanes() == 1 && order.sizes().is_some();
    let mut decoded =
        if is_shared_out { rows_of_shared_windows(pass, order, world_size, workers, stop)? } else { 0_u64 };
    for rank in 0..world_size {
        for worker in 0..workers {
            let reader = WorkerId { rank, world_size, worker, workers };
            let of_reader = if is_shared_out {
                rows_of_rest(pass, order, reader, stop)
            } else {
                rows_decoded_by(pass, order, reader, stop)
            };
            decoded = decoded.saturating_add(of_reader?);
        }
    }
    Ok(decoded)
}

/// The number of rows that one reader decodes. A window counts as a whole each time it is opened. In a
/// sequential order, all rows between the first and the last of a range count.
///
/// # Errors
/// As for `rows_decoded`.
pub fn rows_decoded_by(pass: &Pass, order: &Order, reader: WorkerId, stop: &AtomicBool) -> Result<u64> {
    check(stop)?;
    let streams = pass.streams(reader)?;
    if order.sizes().is_none() {
        return Ok(streams.iter().map(|of| of.counted(of.rows() - 1) + 1 - of.counted(0)).sum());
    }
    rows_opened(pass, order, StreamQueue::new(streams), stop)
}

/// The number of rows that one reader decodes of what stands at the positions of a pass: all its segments are cut.
///
/// # Errors
/// As for `rows_decoded`, and if a segment can't be cut.
pub fn rows_scheduled(
    sources: &Arc<Sources>,
    order: PassOrder,
    pass: &Arc<Pass>,
    reader: WorkerId,
    stop: &AtomicBool,
) -> Result<u64> {
    let mut schedule = Schedule::new(Arc::clone(sources), order, Arc::clone(pass), reader)?;
    let mut decoded = 0_u64;
    while let Some(segment) = schedule.next_segment() {
        check(stop)?;
        decoded = decoded.saturating_add(segment.map_err(|(_, error)| error)?.decoded_rows());
    }
    Ok(decoded)
}

/// The rows of all windows that the streams of a reader open.
fn rows_opened(pass: &Pass, order: &Order, mut turns: StreamQueue, stop: &AtomicBool) -> Result<u64> {
    let mut decoded = 0;
    while let Some(index) = turns.first() {
        check(stop)?;
        let (stream, given) = turns.stream(index);
        let Some(window) = OpenedWindow::at(pass, order, stream.counted(given)) else { break };
        decoded += window.rows;
        turns.take_window(&window.counted);
    }
    Ok(decoded)
}

/// A window that is opened.
struct OpenedWindow {
    /// The number of its rows, whether they remain or not.
    rows: u64,
    /// Those that remain, counted along the remaining positions.
    counted: Range<u64>,
}

impl OpenedWindow {
    /// The window at a place, counted along what remains; `None` beyond the end.
    fn at(pass: &Pass, order: &Order, counted: u64) -> Option<Self> {
        let remaining = pass.division().remaining();
        let position = remaining.slice(counted..counted + 1).next()?.start;
        let window = order.window_positions(position);
        Some(Self {
            rows: window.end - window.start,
            counted: remaining.rank(window.start)..remaining.rank(window.end),
        })
    }
}

/// The slices of a single lane, whose readers take turns: slice i belongs to reader `i % readers`.
struct SharedLane {
    /// What is left of the lane, counted along the remaining positions.
    left: Range<u64>,
    slice_rows: u64,
    readers: u64,
}

impl SharedLane {
    fn new(pass: &Pass, world_size: u64, workers: u64) -> Self {
        let batch_rows = pass.division().cut().global_batch_rows();
        Self {
            left: pass.done() * batch_rows..pass.division().batches() * batch_rows,
            slice_rows: (batch_rows / world_size).max(1),
            readers: world_size * workers,
        }
    }

    /// The slices that have rows in a window.
    fn slices(&self, window: &OpenedWindow) -> Range<u64> {
        let (start, end) = (window.counted.start.max(self.left.start), window.counted.end.min(self.left.end));
        if start >= end {
            return 0..0;
        }
        (start - self.left.start) / self.slice_rows..(end - 1 - self.left.start) / self.slice_rows + 1
    }

    /// The number of readers of these slices.
    fn readers_of(&self, slices: &Range<u64>) -> u64 {
        self.readers.min(slices.end - slices.start)
    }

    fn has_reader(&self, slices: &Range<u64>, reader: WorkerId) -> bool {
        let number = reader.worker * reader.world_size + reader.rank;
        let first = slices.start % self.readers;
        (number + self.readers - first) % self.readers < slices.end - slices.start
    }
}

/// With a single lane every reader opens nearly every window, once. So one walk over the windows counts what
/// they decode of the lane.
fn rows_of_shared_windows(
    pass: &Pass,
    order: &Order,
    world_size: u64,
    workers: u64,
    stop: &AtomicBool,
) -> Result<u64> {
    let lane = SharedLane::new(pass, world_size, workers);
    let mut decoded = 0_u64;
    let mut counted = lane.left.start;
    while counted < lane.left.end {
        check(stop)?;
        let Some(window) = OpenedWindow::at(pass, order, counted) else { break };
        let readers = lane.readers_of(&lane.slices(&window));
        decoded = decoded.saturating_add(window.rows.saturating_mul(readers));
        counted = window.counted.end;
    }
    Ok(decoded)
}

/// What a reader decodes of the rest behind the single lane, unless the lane's last window already holds it.
fn rows_of_rest(pass: &Pass, order: &Order, reader: WorkerId, stop: &AtomicBool) -> Result<u64> {
    check(stop)?;
    let lane = SharedLane::new(pass, reader.world_size, reader.workers);
    let mut streams = pass.streams(reader)?;
    streams.retain(|stream| stream.start >= lane.left.end);
    if streams.is_empty() {
        return Ok(0);
    }
    let mut turns = StreamQueue::new(streams);
    if let Some(window) = OpenedWindow::at(pass, order, lane.left.end)
        && lane.has_reader(&lane.slices(&window), reader)
    {
        turns.take_window(&window.counted);
    }
    rows_opened(pass, order, turns, stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::order::blocks::tests::starts;
    use crate::order::pass_order::OrderKind;
    use crate::order::selection::Selection;
    use crate::resume::cursor::{Cursor, Identity};
    use crate::resume::lanes::Cut;
    use crate::resume::tail::Tail;

    #[test]
    fn one_walk_over_shared_windows_tells_what_each_reader_would() {
        let go = AtomicBool::new(false);
        let groups = starts(&[10, 7, 0, 13, 9, 1]);
        let mut compared = 0;
        for (block_rows, window_rows) in [(1, 1), (1, 3), (4, 12), (13, 26), (40, 40)] {
            let kind = OrderKind::Shuffled { seed: 3, block_rows, window_rows };
            let order = Order::new(&kind, 0, Selection::everything(&groups)).unwrap();
            let fingerprint = "00112233445566778899aabbccddeeff".to_owned();
            let start = Cursor::start(Identity { fingerprint, num_rows: 40, selection: None, order: kind });
            for (world_size, workers, rows) in [(1, 1, 3), (2, 3, 2), (3, 2, 9), (3, 1, 39), (1, 4, 41)] {
                for tail in [Tail::Drop, Tail::Short, Tail::Pad] {
                    let cut = Cut::new(1, 1, rows).unwrap();
                    let batches = Pass::new(&start, cut, tail, world_size).unwrap().batches();
                    for done in 0..batches {
                        let pass = Pass::new(&start.with_cut(cut, done), cut, tail, world_size);
                        // A rank out of step leaves a hole in what remains.
                        let hole = Cursor::from_consumed(
                            start.identity().clone(),
                            0,
                            crate::intervals::set::Intervals::new(vec![5..9, 20..21]).unwrap(),
                        );
                        let holed = Pass::new(&hole.unwrap(), cut, tail, world_size);
                        for pass in [pass.unwrap(), holed.unwrap()] {
                            let places = (0..world_size).flat_map(|rank| {
                                (0..workers).map(move |worker| WorkerId { rank, world_size, worker, workers })
                            });
                            let each: u64 = places
                                .map(|reader| rows_decoded_by(&pass, &order, reader, &go).unwrap_or(0))
                                .sum();
                            if let Ok(all) = rows_decoded(&pass, &order, world_size, workers, &go) {
                                compared += 1;
                                assert_eq!(all, each);
                            }
                        }
                    }
                }
            }
        }
        assert!(compared > 500, "{compared}");
    }

    #[test]
    fn a_plan_can_be_stopped() {
        let kind = OrderKind::Shuffled { seed: 3, block_rows: 1, window_rows: 1 };
        let order = Order::new(&kind, 0, Selection::everything(&starts(&[10]))).unwrap();
        let start = Cursor::start(Identity {
            fingerprint: String::new(),
            num_rows: 10,
            selection: None,
            order: kind,
        });
        for lanes in [1, 2] {
            let pass = Pass::new(&start, Cut::new(lanes, 1, 1).unwrap(), Tail::Drop, 1).unwrap();
            let stopped = rows_decoded(&pass, &order, 1, 1, &AtomicBool::new(true));
            assert_eq!(stopped, Err(Error::Interrupted));
        }
    }
}
