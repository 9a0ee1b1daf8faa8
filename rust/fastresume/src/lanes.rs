//! Whose rows, and when: the division of what remains into lanes.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::intervals::Intervals;

/// More lanes than any topology needs; a state that claims more is damaged.
const MAX_LANES: u64 = 1 << 22;

/// The shape of a division: `lanes` contiguous parts in `groups` groups, each giving `rows` rows to
/// a global batch. A global batch has `rows * lanes / groups` rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    lanes: u64,
    groups: u64,
    rows: u64,
}

impl Cut {
    /// Checks that the numbers make a division.
    ///
    /// # Errors
    /// `Argument` if a number is 0, `groups` does not divide `lanes`, there are more than 2^22 lanes, or
    /// `lanes * rows` overflows.
    pub fn new(lanes: u64, groups: u64, rows: u64) -> Result<Self> {
        let fits = lanes <= MAX_LANES && lanes.checked_mul(rows).is_some_and(|rows| rows < 1 << 62);
        if lanes == 0 || groups == 0 || rows == 0 || !lanes.is_multiple_of(groups) || !fits {
            return Err(Error::Argument(format!(
                "no division has {lanes} lanes in {groups} groups with {rows} rows per lane and batch"
            )));
        }
        Ok(Self { lanes, groups, rows })
    }

    /// The number of lanes.
    #[must_use]
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    /// The number of groups.
    #[must_use]
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// Rows per lane and batch.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of a global batch.
    #[must_use]
    pub fn global_batch_rows(&self) -> u64 {
        self.rows * (self.lanes / self.groups)
    }
}

/// Which reader asks: a worker of a rank. Worker `w` of `workers` delivers the batches `d + w`,
/// `d + w + workers`, ... where d batches were done when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The rank, below `world_size`.
    pub rank: u64,
    /// How many ranks there are.
    pub world_size: u64,
    /// The worker, below `workers`; 0 in a process without workers.
    pub worker: u64,
    /// How many workers the rank has; 1 without workers.
    pub workers: u64,
}

/// A stretch of what remains that one reader consumes in order, slice by slice.
///
/// Slice i is `[start + i * slice_rows, start + (i + 1) * slice_rows)` of the remaining sequence. It
/// belongs to batch `first_batch + i * batch_stride`, where it fills the rows from `slot_row` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The stretch, counted along the remaining positions.
    pub counted: Range<u64>,
    /// Rows per slice.
    pub slice_rows: u64,
    /// The batch of the first slice.
    pub first_batch: u64,
    /// From one slice's batch to the next one's.
    pub batch_stride: u64,
    /// The first row of the batch that a slice fills.
    pub slot_row: u64,
}

/// A cut, applied to the positions that remained when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    cut: Cut,
    remaining: Intervals,
    /// Slices that every lane gives.
    slices: u64,
}

impl Division {
    /// Divides the remaining positions.
    #[must_use]
    pub fn new(cut: Cut, remaining: Intervals) -> Self {
        let slices = remaining.count() / (cut.lanes * cut.rows);
        Self { cut, remaining, slices }
    }

    /// The shape.
    #[must_use]
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The positions that are divided.
    #[must_use]
    pub fn remaining(&self) -> &Intervals {
        &self.remaining
    }

    /// How many whole global batches there are: those of the lanes, then those of the tail.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.remaining.count() / self.cut.global_batch_rows()
    }

    /// How many rows are left over after the last whole global batch.
    #[must_use]
    pub fn rest(&self) -> u64 {
        self.remaining.count() % self.cut.global_batch_rows()
    }

    /// The batches that come out of lanes; those from here on come out of the tail.
    fn lane_batches(&self) -> u64 {
        self.slices * self.cut.groups
    }

    /// The rows of all lanes, and so the place where the tail begins.
    fn lane_rows(&self) -> u64 {
        self.cut.lanes * self.slices * self.cut.rows
    }

    /// Slices that a lane of `group` has given after `done` batches (at most `lane_batches`).
    fn slices_done(&self, group: u64, done: u64) -> u64 {
        let Cut { groups, .. } = self.cut;
        done.min(self.lane_batches()).saturating_add(groups - 1 - group) / groups
    }

    /// The positions that the first `done` batches hold.
    ///
    /// # Errors
    /// `State` if there are not so many batches.
    pub fn consumed(&self, done: u64) -> Result<Intervals> {
        if done > self.batches() {
            return Err(Error::State(format!(
                "damaged state: {done} batches done of a cut that has {}",
                self.batches()
            )));
        }
        if let Some(tail_batches) = done.checked_sub(self.lane_batches()) {
            let end = self.lane_rows() + tail_batches * self.cut.global_batch_rows();
            return Intervals::new(self.remaining.slice(0..end).collect());
        }
        let lane_rows = self.slices * self.cut.rows;
        let ranges = (0..self.cut.lanes).flat_map(|lane| {
            let start = lane * lane_rows;
            let end = start + self.slices_done(lane % self.cut.groups, done) * self.cut.rows;
            self.remaining.slice(start..end)
        });
        Intervals::new(ranges.collect())
    }

    /// What a reader consumes from batch `done` on: its lanes, then its shares of the tail.
    ///
    /// # Errors
    /// `Argument` if the rank or worker is out of range, `world_size * groups` does not divide
    /// `lanes`, or `workers` does not divide `groups`.
    pub fn streams(&self, reader: Reader, done: u64) -> Result<Vec<Stream>> {
        let Cut { lanes, groups, rows } = self.cut;
        let Reader { rank, world_size, worker, workers } = reader;
        let divides = |divisor: u64, number: u64| divisor > 0 && number.is_multiple_of(divisor);
        let ranks_fit = world_size.checked_mul(groups).is_some_and(|divisor| divides(divisor, lanes));
        if rank >= world_size || worker >= workers || !ranks_fit || !divides(workers, groups) {
            return Err(Error::Argument(format!(
                "rank {rank} of {world_size} with worker {worker} of {workers} has no share in \
                 {lanes} lanes in {groups} groups"
            )));
        }
        let is_mine = |batch: u64| batch % workers == (done % workers + worker) % workers;
        let lane_rows = self.slices * rows;
        let first_lane = lanes / world_size * rank;
        let of_lanes = (0..lanes / world_size).filter(|lane| is_mine(lane % groups)).map(|lane| {
            let group = lane % groups;
            let slices_done = self.slices_done(group, done);
            let start = (first_lane + lane) * lane_rows;
            Stream {
                counted: start + slices_done * rows..start + lane_rows,
                slice_rows: rows,
                first_batch: slices_done * groups + group,
                batch_stride: groups,
                slot_row: lane / groups * rows,
            }
        });
        let batch_rows = self.cut.global_batch_rows() / world_size;
        let of_tail =
            (self.lane_batches().max(done)..self.batches()).filter(|&batch| is_mine(batch)).map(|batch| {
                let nth = batch - self.lane_batches();
                let start = self.lane_rows() + nth * self.cut.global_batch_rows() + rank * batch_rows;
                Stream {
                    counted: start..start + batch_rows,
                    slice_rows: batch_rows,
                    first_batch: batch,
                    batch_stride: 1,
                    slot_row: 0,
                }
            });
        Ok(of_lanes.chain(of_tail).filter(|stream| !stream.counted.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(intervals: &Intervals) -> Vec<(u64, u64)> {
        intervals.ranges().iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn lanes_take_turns_by_group_and_the_tail_comes_last() {
        // 4 lanes in 2 groups, 2 rows each: S = 27 div 8 = 3, lanes of 6 rows, 3 rows left over.
        let division = Division::new(Cut::new(4, 2, 2).unwrap(), Intervals::full(27));
        assert_eq!((division.batches(), division.rest()), (6, 3));
        assert_eq!(ranges(&division.consumed(1).unwrap()), vec![(0, 2), (12, 14)]);
        assert_eq!(ranges(&division.consumed(2).unwrap()), vec![(0, 2), (6, 8), (12, 14), (18, 20)]);
        assert_eq!(ranges(&division.consumed(6).unwrap()), vec![(0, 24)]);
        assert!(division.consumed(7).is_err());
    }

    #[test]
    fn whole_batches_of_the_tail_are_shared_by_rank() {
        // 2 lanes in 2 groups, 3 rows each, 11 rows: S = 1, 5 left over, one more batch of 3.
        let division = Division::new(Cut::new(2, 2, 3).unwrap(), Intervals::full(11));
        assert_eq!((division.batches(), division.rest()), (3, 2));
        let reader = Reader { rank: 0, world_size: 1, worker: 0, workers: 1 };
        let streams = division.streams(reader, 2).unwrap();
        assert_eq!(streams.len(), 1);
        assert_eq!((streams[0].counted.clone(), streams[0].first_batch), (6..9, 2));
    }

    #[test]
    fn a_worker_gets_the_groups_of_its_batches() {
        let division = Division::new(Cut::new(4, 2, 1).unwrap(), Intervals::full(40));
        let reader = Reader { rank: 1, world_size: 2, worker: 0, workers: 2 };
        // With 3 batches done, worker 0 delivers batch 3, which is of group 1: lane 3.
        let streams = division.streams(reader, 3).unwrap();
        assert_eq!(
            streams,
            vec![Stream { counted: 31..40, slice_rows: 1, first_batch: 3, batch_stride: 2, slot_row: 0 }]
        );
        assert!(division.streams(Reader { rank: 2, ..reader }, 0).is_err());
    }
}
