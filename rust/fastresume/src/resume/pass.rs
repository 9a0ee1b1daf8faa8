//! The rest of a pass under one cut: its batches, the rows of each rank, and the cursor after each batch.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::resume::cursor::Cursor;
use crate::resume::lanes::{Cut, Division, MAX_LANES, Stream, WorkerId};
use crate::resume::tail::{Shape, Tail};

/// The rest of a pass under one cut.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The cursor without the current cut.
    before: Cursor,
    division: Division,
    done: u64,
    tail: Tail,
    world_size: u64,
}

impl Pass {
    /// The pass that continues from a cursor under `cut`. If the cursor's last cut is the same, it continues.
    ///
    /// # Errors
    /// `State` if a cut has more batches done than it holds. `Argument` without a rank, or with more ranks
    /// than any topology has.
    pub fn new(cursor: &Cursor, cut: Cut, tail: Tail, world_size: u64) -> Result<Self> {
        let (before, done) = cursor.before_cut(cut);
        Self::of(before, cut, done, tail, world_size)
    }

    fn of(before: Cursor, cut: Cut, done: u64, tail: Tail, world_size: u64) -> Result<Self> {
        if world_size == 0 || world_size > MAX_LANES {
            return Err(Error::Argument(format!(
                "world_size must be at least 1 and at most {MAX_LANES}, found {world_size}"
            )));
        }
        let division = Division::new(cut, before.remaining()?);
        let pass = Self { before, division, done, tail, world_size };
        if pass.before.earlier_batches().is_some() {
            return Ok(pass);
        }
        let earlier = pass.presumed_earlier_batches();
        Ok(Self { before: pass.before.with_earlier_batches(earlier), ..pass })
    }

    /// The pass at the cut, among a cursor's cuts, that held batch `step`; at `cut` if none did. Also returns
    /// the batch's number within that cut.
    ///
    /// # Errors
    /// As for `new`.
    pub fn at_step(cursor: &Cursor, step: u64, cut: Cut, tail: Tail, world_size: u64) -> Result<(Self, u64)> {
        let (before, cut, done, batch) =
            cursor.at_step(step).unwrap_or_else(|| (cursor.clone(), cut, 0, step - cursor.steps()));
        Ok((Self::of(before, cut, done, tail, world_size)?, batch))
    }

    /// The current cut, applied.
    #[must_use]
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// The batches of the current cut that were done when this pass was resumed.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The number of batches of the current cut, with those done and a last one of the tail.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.division.batches() + u64::from(self.tail_gives_batch())
    }

    /// The number of batches still to come.
    #[must_use]
    pub fn batches_left(&self) -> u64 {
        self.batches() - self.done
    }

    /// The number of rows still to come, with those that no rank gets.
    #[must_use]
    pub fn rows_left(&self) -> u64 {
        let done = self.done.saturating_mul(self.division.cut().global_batch_rows());
        self.division.remaining().count().saturating_sub(done)
    }

    /// The number of ranks that share it.
    #[must_use]
    pub fn world_size(&self) -> u64 {
        self.world_size
    }

    /// The number of the pass.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.before.epoch()
    }

    /// The number of batches before batch `batch` of the current cut, over all cuts of the pass.
    #[must_use]
    pub fn step_of(&self, batch: u64) -> u64 {
        self.before.steps() + batch
    }

    /// The number of batches of the job before batch `batch` of the current cut, over all its passes.
    #[must_use]
    pub fn global_step_of(&self, batch: u64) -> u64 {
        let earlier = self.before.earlier_batches().unwrap_or(0);
        earlier.saturating_add(self.step_of(batch))
    }

    /// The batches of the job before the cuts of this pass, where nobody counted them.
    ///
    /// What no cut tells of, passes that are done first of all, counts as if it had been read under the first cut of the
    /// pass. A mixture's passes differ in length, but its state tells what they took together: a tail that gives batches
    /// counts as one in each of them.
    fn presumed_earlier_batches(&self) -> u64 {
        if let Some(rows) = self.before.rows_of_earlier_passes() {
            let tails = if self.tail == Tail::Drop { 0 } else { self.before.epoch() };
            return (rows / self.first_cut().global_batch_rows()).saturating_add(tails);
        }
        let passes = self.before.epoch() - self.before.first_epoch();
        let of_passes = passes.saturating_mul(self.batches_of(self.before.rows_at_begin()));
        let of_consumed = self.batches_of(self.before.rows_without_cut());
        of_passes.saturating_add(of_consumed)
    }

    /// The cut that the pass began with.
    fn first_cut(&self) -> Cut {
        let cut =
            self.before.first_cut_of_stages().or_else(|| self.before.cuts().first().map(|(cut, _)| *cut));
        cut.unwrap_or_else(|| self.division.cut())
    }

    /// The number of batches that so many rows make under the first cut of the pass.
    fn batches_of(&self, rows: u64) -> u64 {
        let cut = self.first_cut();
        let ranks = if cut.lanes() == 1 { self.world_size } else { cut.lanes() / cut.groups() };
        let of_batch = cut.global_batch_rows();
        rows / of_batch + u64::from(self.tail.gives_batch(rows % of_batch, ranks))
    }

    /// The cursor after `done` batches of the current cut; after the last one, it is the start of the next
    /// pass.
    ///
    /// If the cut is known to have come this far in mid pass, it stays in mid pass: under another tail
    /// policy, say.
    #[must_use]
    pub fn cursor_after(&self, done: u64) -> Cursor {
        let is_carried = self.tail == Tail::Carry && self.division.rest() > 0;
        if done >= self.batches() && done > self.done && !is_carried {
            return self.next_pass();
        }
        self.before.with_cut(self.division.cut(), done)
    }

    /// The start of the next pass. Rows that make no batch of this one are dropped, or go back to the sources of a mixture.
    #[must_use]
    pub fn next_pass(&self) -> Cursor {
        // What a mixture takes of its sources next follows from all that was done of this stage.
        let cut = self.division.cut();
        let whole = self.before.with_cut(cut, self.division.batches());
        whole.next_pass(cut.global_batch_rows(), self.tail_gives_batch())
    }

    /// The positions that no rank gets (the dropped tail).
    #[must_use]
    pub fn dropped(&self) -> Intervals {
        let start =
            if self.tail_gives_batch() || self.tail == Tail::Carry { u64::MAX } else { self.rest_start() };
        Intervals::of_sorted(self.division.remaining().slice(start..u64::MAX))
    }

    /// The same if this is the last batch of the pass; empty for another one.
    #[must_use]
    pub fn dropped_with(&self, batch: u64) -> Intervals {
        if batch + 1 == self.batches() { self.dropped() } else { Intervals::default() }
    }

    /// The number of padding rows in the last global batch, over all ranks.
    #[must_use]
    pub fn padded_rows(&self) -> u64 {
        let is_padded = self.tail == Tail::Pad && self.tail_gives_batch();
        if is_padded { self.division.cut().global_batch_rows() - self.division.rest() } else { 0 }
    }

    /// The shape of a rank's batch `batch` of the current cut.
    #[must_use]
    pub fn shape(&self, batch: u64, rank: u64) -> Shape {
        let rank_rows = self.rank_rows();
        if batch < self.division.batches() {
            return Shape::whole(rank_rows);
        }
        self.tail.share(self.division.rest(), rank_rows, rank, self.world_size).0
    }

    /// The number of rows in a whole batch of a rank.
    #[must_use]
    pub fn rank_rows(&self) -> u64 {
        self.division.cut().global_batch_rows() / self.world_size
    }

    /// What a reader consumes from here to the end of the pass.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the cut.
    pub fn streams(&self, reader: WorkerId) -> Result<Vec<Stream>> {
        self.streams_from(reader, self.done)
    }

    fn streams_from(&self, reader: WorkerId, done: u64) -> Result<Vec<Stream>> {
        let mut streams = self.division.streams(reader, done)?;
        let last = self.division.batches();
        let is_mine = last % reader.workers == (done + reader.worker) % reader.workers;
        if self.tail_gives_batch() && is_mine {
            let (_, parts) =
                self.tail.share(self.division.rest(), self.rank_rows(), reader.rank, self.world_size);
            let mut slot_row = 0;
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let slice_rows = part.end - part.start;
                streams.push(Stream {
                    start: self.rest_start() + part.start,
                    slices: 1,
                    slice_rows,
                    slice_stride: slice_rows,
                    first_batch: last,
                    batch_stride: 1,
                    slot_row,
                });
                slot_row += slice_rows;
            }
        }
        Ok(streams)
    }

    /// The positions of the distinct rows of a rank's batch of the current cut, in the batch's order.
    ///
    /// # Errors
    /// `Argument` if the rank has no share in the cut.
    pub fn positions(&self, batch: u64, rank: u64) -> Result<Vec<Range<u64>>> {
        let reader = WorkerId { rank, world_size: self.world_size, worker: 0, workers: 1 };
        let mut slices: Vec<(u64, Range<u64>)> = Vec::new();
        for stream in self.streams_from(reader, 0)? {
            let Some(past) = batch.checked_sub(stream.first_batch) else { continue };
            if past % stream.batch_stride == 0 && past / stream.batch_stride < stream.slices {
                let start = stream.start + past / stream.batch_stride * stream.slice_stride;
                slices.push((stream.slot_row, start..start + stream.slice_rows));
            }
        }
        slices.sort_unstable_by_key(|(slot_row, _)| *slot_row);
        let remaining = self.division.remaining();
        Ok(slices.into_iter().flat_map(|(_, counted)| remaining.slice(counted)).collect())
    }

    /// The batch of the cut that delivers a position, its rank, and the row in it; `None` if none does.
    ///
    /// # Errors
    /// `Argument` if the ranks can't share the cut.
    pub fn slot_of(&self, position: u64) -> Result<Option<(u64, u64, u64)>> {
        let remaining = self.division.remaining();
        let counted = remaining.rank(position);
        if remaining.rank(position + 1) == counted {
            return Ok(None);
        }
        // Rows that fill a batch up come behind their originals.
        for rank in 0..self.world_size {
            let reader = WorkerId { rank, world_size: self.world_size, worker: 0, workers: 1 };
            let slot = self.streams_from(reader, 0)?.iter().find_map(|stream| stream.slot_of(counted));
            if let Some((batch, row)) = slot {
                return Ok(Some((batch, rank, row)));
            }
        }
        Ok(None)
    }

    /// The positions of the valid rows of a rank's batch, in the batch's order.
    ///
    /// # Errors
    /// `Argument` if the rank has no share in the cut.
    pub fn valid_positions(&self, batch: u64, rank: u64) -> Result<Vec<Range<u64>>> {
        Ok(self.valid_of(batch, rank, self.positions(batch, rank)?))
    }

    /// The valid ones among the rows (or positions) of a rank's batch, in the batch's order. The rows behind
    /// them are padding.
    #[must_use]
    pub fn valid_of(&self, batch: u64, rank: u64, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let mut left = self.shape(batch, rank).valid;
        let valid = ranges.into_iter().map_while(|range| {
            let end = range.end.min(range.start + left);
            left -= end - range.start;
            (range.start < end).then_some(range.start..end)
        });
        valid.collect()
    }

    fn tail_gives_batch(&self) -> bool {
        self.tail.gives_batch(self.division.rest(), self.world_size)
    }

    /// Where the rest behind the last whole global batch begins, counted along the remaining positions.
    fn rest_start(&self) -> u64 {
        self.division.remaining().count() - self.division.rest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::pass_order::OrderKind;
    use crate::resume::cursor::Identity;

    fn pass(num_rows: u64, tail: Tail, world_size: u64) -> Pass {
        let fingerprint = "00112233445566778899aabbccddeeff".to_owned();
        let start =
            Cursor::start(Identity { fingerprint, num_rows, selection: None, order: OrderKind::Sequential });
        Pass::new(&start, Cut::new(world_size, 1, 5).unwrap(), tail, world_size).unwrap()
    }

    #[test]
    fn a_finished_pass_is_the_next_pass_at_zero() {
        for (tail, batches) in [(Tail::Drop, 10), (Tail::Short, 11), (Tail::Pad, 11)] {
            let pass = pass(103, tail, 2);
            assert_eq!(pass.batches(), batches);
            let end = pass.cursor_after(batches);
            assert_eq!((end.epoch(), end.steps()), (1, 0));
            assert_eq!(end.remaining().unwrap(), Intervals::full(103));
            assert_eq!(pass.cursor_after(batches - 1).epoch(), 0);
        }
    }

    #[test]
    fn a_carried_rest_stays_in_the_pass() {
        let carried = pass(103, Tail::Carry, 2);
        assert!(carried.batches() == 10 && carried.dropped().is_empty());
        let end = carried.cursor_after(10);
        assert_eq!(end.epoch(), 0);
        assert_eq!(end.remaining().unwrap().ranges(), std::slice::from_ref(&(100..103)));
        assert_eq!(Cursor::parse(&end.to_json()).unwrap(), end);
        let whole = pass(100, Tail::Carry, 2);
        assert_eq!(whole.cursor_after(10).epoch(), 1);
    }

    #[test]
    fn batches_of_a_job_are_counted_over_its_passes() {
        for (tail, batches) in [(Tail::Drop, 10), (Tail::Short, 11), (Tail::Pad, 11)] {
            let (first, cut) = (pass(103, tail, 2), Cut::new(1, 1, 5).unwrap());
            assert_eq!((first.global_step_of(0), first.global_step_of(7)), (0, 7));
            let second = Pass::new(&first.cursor_after(batches), first.division().cut(), tail, 2).unwrap();
            assert_eq!(second.global_step_of(4), batches + 4);
            // Half as many ranks go on in the middle of a pass: what was done stays done.
            let fewer = Pass::new(&second.cursor_after(4), cut, tail, 1).unwrap();
            assert_eq!(fewer.global_step_of(3), batches + 4 + 3);
        }
    }

    #[test]
    fn all_cursors_of_a_pass_share_what_was_consumed_before() {
        let consumed = Intervals::new(vec![0..1, 2..3]).unwrap();
        let identity = pass(103, Tail::Short, 2).before.identity().clone();
        let start = Cursor::from_consumed(identity, 0, consumed).unwrap();
        let cut = Cut::new(2, 1, 5).unwrap();
        let pass = Pass::new(&start, cut, Tail::Short, 2).unwrap();
        assert!((0..3).all(|done| pass.cursor_after(done).shares_consumed(&start)));
        let resumed = Pass::new(&pass.cursor_after(2), cut, Tail::Short, 2).unwrap();
        assert!(resumed.cursor_after(3).shares_consumed(&start));
    }

    #[test]
    fn the_rest_is_dropped_shared_or_filled_up() {
        assert_eq!(pass(103, Tail::Drop, 2).dropped().ranges(), std::slice::from_ref(&(100..103)));
        let short = pass(103, Tail::Short, 2);
        assert!(short.dropped().is_empty());
        assert_eq!((short.shape(10, 0).rows, short.shape(10, 1).rows), (1, 2));
        assert_eq!(short.positions(10, 1).unwrap(), std::slice::from_ref(&(101..103)));
        let pad = pass(103, Tail::Pad, 2);
        assert_eq!(pad.positions(10, 1).unwrap(), vec![102..103, 100..102]);
        assert_eq!(pad.shape(10, 1), Shape { rows: 5, valid: 0, distinct: 3 });
    }

    #[test]
    fn every_position_is_delivered_by_one_row_of_one_batch() {
        for (rows, tail, ranks, missing) in [
            (103, Tail::Drop, 2, 3),
            (103, Tail::Short, 2, 0),
            (103, Tail::Pad, 2, 0),
            (107, Tail::Pad, 4, 0),
            (3, Tail::Pad, 4, 0),
        ] {
            let pass = pass(rows, tail, ranks);
            let mut found = 0;
            for (batch, rank) in
                (0..pass.batches()).flat_map(|batch| (0..ranks).map(move |rank| (batch, rank)))
            {
                let positions = pass.valid_positions(batch, rank).unwrap().into_iter().flatten();
                for (row, position) in (0..).zip(positions) {
                    assert_eq!(pass.slot_of(position).unwrap(), Some((batch, rank, row)));
                    found += 1;
                }
            }
            assert_eq!(found + missing, rows);
            assert_eq!(pass.slot_of(rows).unwrap(), None);
            assert_eq!(pass.slot_of(rows - 1).unwrap().is_none(), missing > 0);
        }
    }

    #[test]
    fn what_fills_a_batch_up_is_not_delivered_for_the_first_time() {
        let pad = pass(107, Tail::Pad, 2);
        assert_eq!(pad.shape(10, 1), Shape { rows: 5, valid: 2, distinct: 5 });
        assert_eq!(pad.positions(10, 1).unwrap(), vec![105..107, 100..103]);
        assert_eq!(pad.valid_positions(10, 1).unwrap(), std::slice::from_ref(&(105..107)));
        assert_eq!(pad.valid_of(10, 1, vec![7..8, 3..4, 9..12]), [7..8, 3..4]);
        assert_eq!(pad.valid_of(9, 1, vec![7..8, 3..7]), [7..8, 3..7]);
        assert!(pass(103, Tail::Pad, 2).valid_positions(10, 1).unwrap().is_empty());
    }

    #[test]
    fn dropped_positions_come_with_the_last_batch() {
        let drop = pass(103, Tail::Drop, 2);
        assert!(drop.dropped_with(8).is_empty());
        assert_eq!(drop.dropped_with(9), drop.dropped());
    }
}
