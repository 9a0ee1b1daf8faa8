//! Segments of a mixture in file order: rows, or bins of them, between which those of other sources go.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::bin_rows::{BinRows, Bins};
use crate::batch::segment::{MAX_PIECES, Piece, Places, Segment, part_of};
use crate::error::Result;
use crate::memory::vectors::room_for;
use crate::order::comb::Comb;
use crate::order::pass_order::Order;
use crate::pipeline::mixed_schedule::{MixedSchedule, nowhere};
use crate::resume::lanes::Stream;
use crate::resume::source_places::Run;

/// A segment of a stream that is being cut.
struct BegunSegment {
    pieces: Vec<Piece>,
    /// The first row of the row group, counted in its source.
    first: u64,
    /// The rows that may still be added.
    rows: Range<u64>,
    /// The batches whose rows may be.
    end_batch: u64,
}

impl MixedSchedule {
    /// The segment that begins with the next row of a stream, or the rows of its next bin.
    pub(super) fn rows_from(
        &mut self,
        index: usize,
        (stream, source): (&Stream, usize),
        mut given: u64,
        bins: Option<&BinRows>,
    ) -> Result<Segment> {
        let (order, of_pass) = self.order.pass_at(source, self.queue.point(index))?;
        let comb = self.order.comb(source).map(Arc::clone).ok_or_else(nowhere)?;
        let of_source = (source, bins.map(|bins| bins.bins(source)));
        let (mut begun, group) =
            self.begun_at(index, (stream, given), of_source, (&*order, of_pass.start))?;
        let places = self.order.places(source, self.pass.division().remaining()).ok_or_else(nowhere)?;
        let mut stopped = None;
        while stopped.is_none() && given < stream.rows() {
            if stream.batch_of(given) >= begun.end_batch {
                break;
            }
            self.runs.clear();
            let end = places.runs(stream, given, &mut self.runs);
            stopped = self.runs.iter().find_map(|run| {
                let own = (&*order, &of_pass, &*comb);
                match bins {
                    None => begun.add(stream, run, own),
                    Some(bins) => begun.add_bins(stream, run, own, (bins, bins.bins(source))),
                }
            });
            given =
                if self.runs.is_empty() { places.next(stream, end).unwrap_or(stream.rows()) } else { end };
        }
        if begun.pieces.is_empty() {
            return Err(nowhere());
        }
        self.queue.count_segment(index);
        self.settle(index, Some(stopped.unwrap_or(given)));
        // The rows of a bin follow one another.
        let comb = if bins.is_some() { Arc::new(Comb::alone()) } else { comb };
        Ok(Segment { group, places: Places::Combed { comb, bunches: self.bunches, pieces: begun.pieces } })
    }

    /// A segment that begins with what a pass of a source has at the point of a stream, and its row group.
    fn begun_at(
        &self,
        index: usize,
        (stream, given): (&Stream, u64),
        (source, bins): (usize, Option<&Bins>),
        (order, pass_start): (&Order, u64),
    ) -> Result<(BegunSegment, usize)> {
        let position = self.queue.point(index) - pass_start;
        let unit = order.rows(position..position + 1).next().ok_or_else(nowhere)?.start;
        let row = match bins {
            Some(bins) => bins.rows_of(unit).next().ok_or_else(nowhere)?.start,
            None => unit,
        };
        let files = &self.sources.each()[source];
        let row_bytes = files.layout.row_bytes() as u64;
        let group = files.manifest.group_of(row);
        let whole = files.manifest.group_rows(group);
        let mut rows = part_of(&whole, row, row_bytes, self.part_bytes[source]);
        let share = self.share(index, stream, given);
        if share.count > 1 {
            let part = (rows.end - rows.start).div_ceil(share.count).saturating_mul(share.number);
            rows.end = rows.end.min(row.saturating_add(part));
        }
        let (first, rows) = (whole.start, row..rows.end);
        let begun = BegunSegment { pieces: Vec::new(), first, rows, end_batch: share.end_batch };
        Ok((begun, self.sources.number_of(source, group)))
    }
}

impl BegunSegment {
    /// Whether another piece has room. Where the system has no memory for it, the segment ends before it.
    fn has_room(&mut self) -> bool {
        self.pieces.is_empty() || (self.pieces.len() < MAX_PIECES && room_for(&mut self.pieces, 1).is_ok())
    }

    /// Adds a run of a stream. Returns the place of its first row that does not belong to this segment, if there is one.
    fn add(
        &mut self,
        stream: &Stream,
        run: &Run,
        (order, of_pass, comb): (&Order, &Range<u64>, &Comb),
    ) -> Option<u64> {
        if !of_pass.contains(&run.points.start) {
            return Some(run.given);
        }
        let positions = run.points.start - of_pass.start..run.points.end - of_pass.start;
        let (batch, in_slice) = (stream.batch_of(run.given), run.given % stream.slice_rows);
        let mut done = 0;
        for rows in order.rows(positions) {
            let behind = comb.distance(run.phase, done);
            // Decoders only go forward: a row before the last one opens a segment of its own.
            if rows.start < self.rows.start || rows.start >= self.rows.end || !self.has_room() {
                return Some(run.given + behind);
            }
            let end = rows.end.min(self.rows.end);
            self.pieces.push(Piece {
                batch,
                rows: rows.start - self.first..end - self.first,
                slot_row: stream.slot_row + in_slice + behind,
                phase: comb.phase_of(run.phase + done),
            });
            done += end - rows.start;
            self.rows.start = end;
            if end < rows.end {
                return Some(run.given + comb.distance(run.phase, done));
            }
        }
        None
    }

    /// Adds the bins of a run that begin in this segment, whole. Returns the place of the first one that does not, if there is
    /// one.
    fn add_bins(
        &mut self,
        stream: &Stream,
        run: &Run,
        (order, of_pass, comb): (&Order, &Range<u64>, &Comb),
        (batches, bins): (&BinRows, &Bins),
    ) -> Option<u64> {
        if !of_pass.contains(&run.points.start) {
            return Some(run.given);
        }
        let positions = run.points.start - of_pass.start..run.points.end - of_pass.start;
        let (batch, in_slice) = (stream.batch_of(run.given), run.given % stream.slice_rows);
        // Where that can't be known, the batch fails before it is filled.
        let of_batch = batches.of(batch).ok();
        for (done, bin) in (0..).zip(order.rows(positions).flatten()) {
            let behind = comb.distance(run.phase, done);
            let Some(first) = bins.rows_of(bin).next() else { return Some(run.given + behind) };
            if !self.rows.contains(&first.start) || !self.has_room() {
                return Some(run.given + behind);
            }
            let slot = usize::try_from(stream.slot_row + in_slice + behind).unwrap_or(usize::MAX);
            let begins = of_batch.as_ref().and_then(|of| of.offsets.get(slot).copied());
            let mut slot_row = begins.unwrap_or(0);
            for rows in bins.rows_of(bin) {
                let own = rows.start - self.first..rows.end - self.first;
                self.pieces.push(Piece { batch, rows: own, slot_row, phase: 0 });
                slot_row += rows.end - rows.start;
                self.rows.start = rows.end;
            }
        }
        None
    }
}
