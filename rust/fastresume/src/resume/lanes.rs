//! Lanes: how the remaining positions are divided among ranks and workers, and in which batches they come.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::intervals::set::Intervals;

/// The most lanes of a cut: a state that claims more is damaged.
pub const MAX_LANES: u64 = 1 << 22;

/// A cut: `lanes` contiguous parts in `groups` groups, each of which gives `rows` rows to a global batch. A
/// global batch has `rows * lanes / groups` rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    lanes: u64,
    groups: u64,
    rows: u64,
}

impl Cut {
    /// A cut of these numbers, checked.
    ///
    /// # Errors
    /// `Argument` if a number is 0, `groups` does not divide `lanes`, there are more than 2^22 lanes, or
    /// `lanes * rows` overflows.
    pub fn new(lanes: u64, groups: u64, rows: u64) -> Result<Self> {
        let fits = lanes <= MAX_LANES && lanes.checked_mul(rows).is_some_and(|rows| rows < 1 << 62);
        if lanes == 0 || groups == 0 || rows == 0 || !lanes.is_multiple_of(groups) || !fits {
            return Err(Error::Argument(format!(
                "no division has {lanes} lanes in {groups} groups with {rows} rows per lane and batch: there are \
                 at most {MAX_LANES} lanes, of fewer than 2^62 rows per batch together"
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

/// A reader: a worker of a rank. Worker `w` of `workers` delivers the batches `d + w`, `d + w + workers`, ...
/// where d batches were done when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerId {
    /// The rank, below `world_size`.
    pub rank: u64,
    /// The number of ranks.
    pub world_size: u64,
    /// The worker, below `workers`; 0 in a process without workers.
    pub worker: u64,
    /// The number of workers of the rank; 1 without workers.
    pub workers: u64,
}

/// A stream: slices of the remaining positions that one reader consumes in order.
///
/// Slice i holds the `slice_rows` rows from `start + i * slice_stride` on, counted along the remaining
/// positions. It belongs to batch `first_batch + i * batch_stride`, where it fills the rows from `slot_row`
/// on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Where the first slice begins.
    pub start: u64,
    /// The number of slices; at least one.
    pub slices: u64,
    /// Rows per slice.
    pub slice_rows: u64,
    /// The distance from one slice's beginning to the next one's; at least `slice_rows`.
    pub slice_stride: u64,
    /// The batch of the first slice.
    pub first_batch: u64,
    /// The distance from one slice's batch to the next one's.
    pub batch_stride: u64,
    /// The first row of the batch that a slice fills.
    pub slot_row: u64,
}

impl Stream {
    /// The number of rows in all slices.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.slices * self.slice_rows
    }

    /// The place of the row behind the first `given` rows, counted along the remaining positions.
    #[must_use]
    pub fn counted(&self, given: u64) -> u64 {
        self.start + given / self.slice_rows * self.slice_stride + given % self.slice_rows
    }

    /// The number of rows of the stream before `counted`.
    #[must_use]
    pub fn rows_before(&self, counted: u64) -> u64 {
        let past = counted.saturating_sub(self.start);
        let slices = (past / self.slice_stride).min(self.slices);
        let in_slice = (past % self.slice_stride).min(self.slice_rows);
        (slices * self.slice_rows + in_slice).min(self.rows())
    }

    /// The batch, and the row in it, of the row at `counted`, if it belongs to the stream.
    #[must_use]
    pub fn slot_of(&self, counted: u64) -> Option<(u64, u64)> {
        let past = counted.checked_sub(self.start)?;
        let (slice, row) = (past / self.slice_stride, past % self.slice_stride);
        (slice < self.slices && row < self.slice_rows)
            .then(|| (self.first_batch + slice * self.batch_stride, self.slot_row + row))
    }

    /// The batch of the row behind the first `given` rows.
    #[must_use]
    pub fn batch_of(&self, given: u64) -> u64 {
        self.first_batch + given / self.slice_rows * self.batch_stride
    }

    /// The places of its rows behind the first `given`, as contiguous ranges.
    pub fn stretches(&self, given: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let stream = self.clone();
        let is_contiguous = stream.slice_rows == stream.slice_stride;
        let mut given = given;
        std::iter::from_fn(move || {
            let left = stream.rows().checked_sub(given).filter(|&left| left > 0)?;
            let rows = if is_contiguous { left } else { stream.slice_rows - given % stream.slice_rows };
            let start = stream.counted(given);
            given += rows;
            Some(start..start + rows)
        })
    }
}

/// A cut, applied to the positions that remained when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    cut: Cut,
    remaining: Intervals,
    /// The number of slices of each lane.
    slices: u64,
}

impl Division {
    /// Divides the remaining positions.
    #[must_use]
    pub fn new(cut: Cut, remaining: Intervals) -> Self {
        let slices = remaining.count() / (cut.lanes * cut.rows);
        Self { cut, remaining, slices }
    }

    /// The cut.
    #[must_use]
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The positions that are divided.
    #[must_use]
    pub fn remaining(&self) -> &Intervals {
        &self.remaining
    }

    /// The number of whole global batches: those of the lanes, then those of the tail.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.remaining.count() / self.cut.global_batch_rows()
    }

    /// The number of rows after the last whole global batch.
    #[must_use]
    pub fn rest(&self) -> u64 {
        self.remaining.count() % self.cut.global_batch_rows()
    }

    /// The number of batches that come from lanes; later ones come from the tail.
    fn lane_batches(&self) -> u64 {
        self.slices * self.cut.groups
    }

    /// The number of rows in all lanes, which is also the place where the tail begins.
    fn lane_rows(&self) -> u64 {
        self.cut.lanes * self.slices * self.cut.rows
    }

    /// The number of slices that a lane of `group` has given after `done` batches (at most `lane_batches`).
    fn slices_done(&self, group: u64, done: u64) -> u64 {
        let Cut { groups, .. } = self.cut;
        done.min(self.lane_batches()).saturating_add(groups - 1 - group) / groups
    }

    /// The positions that remain after the first `done` batches.
    ///
    /// # Errors
    /// `State` if there are fewer batches.
    pub fn remaining_after(&self, done: u64) -> Result<Intervals> {
        if done > self.batches() {
            return Err(Error::State(format!(
                "damaged state: {done} batches done of a cut that has {}",
                self.batches()
            )));
        }
        let lane_rows = self.slices * self.cut.rows;
        let lanes = if done < self.lane_batches() { self.cut.lanes } else { 0 };
        let of_lanes = (0..lanes).map(|lane| {
            let given = self.slices_done(lane % self.cut.groups, done) * self.cut.rows;
            lane * lane_rows + given..(lane + 1) * lane_rows
        });
        let tail_batches = done.saturating_sub(self.lane_batches());
        let tail = self.lane_rows() + tail_batches * self.cut.global_batch_rows()..self.remaining.count();
        let kept = of_lanes.chain([tail]).flat_map(|counted| self.remaining.slice(counted));
        Intervals::try_of_sorted(kept)
    }

    /// What a reader consumes from batch `done` on: its lanes, then its share of each whole global batch of
    /// the tail. A single lane is shared out like the tail, by any readers: then batches follow the order.
    ///
    /// # Errors
    /// `Argument` if the rank or worker is out of range, or if the readers can't share the cut. They can't if
    /// `world_size * groups` does not divide `lanes`, or `workers` does not divide `groups`. With a single
    /// lane, they can't if `world_size` does not divide `rows`.
    pub fn streams(&self, reader: WorkerId, done: u64) -> Result<Vec<Stream>> {
        let Cut { lanes, groups, rows } = self.cut;
        let WorkerId { rank, world_size, worker, workers } = reader;
        let divides = |divisor: u64, number: u64| divisor > 0 && number.is_multiple_of(divisor);
        let is_time_order = lanes == 1;
        let can_share = if is_time_order {
            divides(world_size, rows)
        } else {
            world_size.checked_mul(groups).is_some_and(|divisor| divides(divisor, lanes))
                && divides(workers, groups)
        };
        if rank >= world_size || worker >= workers || !can_share {
            return Err(Error::Argument(format!(
                "rank {rank} of {world_size} with worker {worker} of {workers} has no share in \
                 {lanes} lanes in {groups} groups with {rows} rows per lane and batch"
            )));
        }
        let lane_rows = self.slices * rows;
        let first_lane = lanes / world_size * rank;
        let mine = 0..if is_time_order { 0 } else { lanes / world_size };
        let is_mine = |batch: u64| batch % workers == (done % workers + worker) % workers;
        let of_lanes = mine.filter(|lane| is_mine(lane % groups)).map(|lane| {
            let group = lane % groups;
            let slices_done = self.slices_done(group, done);
            Stream {
                start: (first_lane + lane) * lane_rows + slices_done * rows,
                slices: self.slices - slices_done,
                slice_rows: rows,
                slice_stride: rows,
                first_batch: slices_done * groups + group,
                batch_stride: groups,
                slot_row: lane / groups * rows,
            }
        });
        let (first_shared, shared_start) =
            if is_time_order { (0, 0) } else { (self.lane_batches(), self.lane_rows()) };
        let least = first_shared.max(done);
        let first_batch = least + (done + worker + workers - least % workers) % workers;
        let batch_rows = self.cut.global_batch_rows();
        let slice_rows = batch_rows / world_size;
        let of_tail = Stream {
            // A lane without slices has no stream, and these numbers may overflow.
            start: (first_batch.saturating_sub(first_shared).saturating_mul(batch_rows))
                .saturating_add(shared_start + rank * slice_rows),
            slices: self.batches().saturating_sub(first_batch).div_ceil(workers),
            slice_rows,
            slice_stride: workers.saturating_mul(batch_rows),
            first_batch,
            batch_stride: workers,
            slot_row: 0,
        };
        Ok(of_lanes.chain([of_tail]).filter(|stream| stream.slices > 0).collect())
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
        assert_eq!(ranges(&division.remaining_after(0).unwrap()), vec![(0, 27)]);
        assert_eq!(ranges(&division.remaining_after(1).unwrap()), vec![(2, 12), (14, 27)]);
        assert_eq!(ranges(&division.remaining_after(2).unwrap()), vec![(2, 6), (8, 12), (14, 18), (20, 27)]);
        assert_eq!(ranges(&division.remaining_after(6).unwrap()), vec![(24, 27)]);
        assert!(division.remaining_after(7).is_err());
    }

    #[test]
    fn whole_batches_of_the_tail_are_shared_by_rank() {
        // 2 lanes in 2 groups, 3 rows each, 11 rows: S = 1, 5 left over, one more batch of 3.
        let division = Division::new(Cut::new(2, 2, 3).unwrap(), Intervals::full(11));
        assert_eq!((division.batches(), division.rest()), (3, 2));
        let reader = WorkerId { rank: 0, world_size: 1, worker: 0, workers: 1 };
        let streams = division.streams(reader, 2).unwrap();
        assert_eq!(streams.len(), 1);
        assert_eq!(streams[0].stretches(0).collect::<Vec<_>>(), std::slice::from_ref(&(6..9)));
        assert_eq!(streams[0].first_batch, 2);
    }

    #[test]
    fn a_worker_gets_the_groups_of_its_batches() {
        let division = Division::new(Cut::new(4, 2, 1).unwrap(), Intervals::full(40));
        let reader = WorkerId { rank: 1, world_size: 2, worker: 0, workers: 2 };
        // With 3 batches done, worker 0 delivers batch 3, which belongs to group 1: lane 3.
        let streams = division.streams(reader, 3).unwrap();
        assert_eq!(streams.len(), 1);
        assert_eq!(streams[0].stretches(0).collect::<Vec<_>>(), std::slice::from_ref(&(31..40)));
        assert_eq!((streams[0].first_batch, streams[0].batch_stride, streams[0].slot_row), (3, 2, 0));
        assert!(division.streams(WorkerId { rank: 2, ..reader }, 0).is_err());
    }

    #[test]
    fn a_single_lane_is_shared_slice_by_slice() {
        let division = Division::new(Cut::new(1, 1, 6).unwrap(), Intervals::full(20));
        let reader = WorkerId { rank: 1, world_size: 3, worker: 1, workers: 2 };
        // With 1 batch done, worker 1 delivers batch 2: of rows 12 to 17, rank 1 takes 14 and 15.
        let streams = division.streams(reader, 1).unwrap();
        assert_eq!(streams.len(), 1);
        assert_eq!(streams[0].stretches(0).collect::<Vec<_>>(), std::slice::from_ref(&(14..16)));
        let first = &division.streams(WorkerId { worker: 0, ..reader }, 0).unwrap()[0];
        assert_eq!(first.stretches(1).collect::<Vec<_>>(), vec![3..4, 14..16]);
        assert_eq!((first.slot_of(14), first.slot_of(16), first.slot_of(20)), (Some((2, 0)), None, None));
        assert_eq!([3, 4, 13, 15, 99].map(|counted| first.rows_before(counted)), [1, 2, 2, 3, 4]);
    }
}
