//! The schedule of a mixture: it cuts the streams of one reader, one for each lane and source, into segments.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::bunch_size::BunchSize;
use crate::batch::segment::{MAX_PIECES, Piece, Places, SEGMENT_BYTES, Segment, part_of};
use crate::batch::slots::pending::waiting;
use crate::batch::sources::Sources;
use crate::batch::window::{Stretch, WindowPart};
use crate::error::{Error, Result};
use crate::memory::vectors::room_for;
use crate::order::comb::Comb;
use crate::order::pass_order::Order;
use crate::pipeline::mixed_queue::MixedQueue;
use crate::resume::lanes::{Stream, WorkerId};
use crate::resume::mixed_order::MixedOrder;
use crate::resume::pass::Pass;
use crate::resume::source_places::Run;

/// What the parts that are decoded in one go take of all streams together, shared out by what each one gives.
const PARTS_BYTES: u64 = 128 << 20;

/// No part of a stream is less.
const LEAST_PART_BYTES: u64 = 4 << 20;

/// A stream's first segment has rows of so many batches: the first batch waits for few rows of each.
const FIRST_BATCHES: u64 = 2;

/// Returns the segments of a mixture for one reader, in the order in which batches first need them.
pub struct MixedSchedule {
    sources: Arc<Sources>,
    order: MixedOrder,
    pass: Arc<Pass>,
    queue: MixedQueue,
    /// Of each source, the most bytes that are decoded in one go.
    part_bytes: Vec<u64>,
    bunches: Bunches,
    /// The segments of the window that was opened last.
    open: VecDeque<Segment>,
    runs: Vec<Run>,
}

/// A segment of a stream that is being cut.
struct Begun {
    pieces: Vec<Piece>,
    /// The first row of the row group, counted in its source.
    first: u64,
    /// The rows that may still be added.
    rows: Range<u64>,
    /// The batches whose rows may be.
    end_batch: u64,
}

impl MixedSchedule {
    /// The schedule of the rest of a stage for one reader.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(sources: Arc<Sources>, order: MixedOrder, pass: Arc<Pass>, reader: WorkerId) -> Result<Self> {
        let streams = pass.streams(reader)?;
        let rows = pass.rank_rows();
        let size = BunchSize::of_mixture(sources.layout(), rows, windows(&sources, &order));
        let first = pass.done() + reader.worker;
        let part_bytes = part_bytes(&sources, &order, streams.len() as u64);
        let mut made = Self {
            bunches: Bunches::new(first, reader.workers, size.shift, rows),
            queue: MixedQueue::default(),
            open: VecDeque::new(),
            runs: Vec::new(),
            part_bytes,
            sources,
            order,
            pass,
        };
        let read: Vec<usize> = made.order.sources().collect();
        for stream in streams {
            for &source in &read {
                let index = made.queue.add(stream.clone(), source);
                made.settle(index, Some(0));
            }
        }
        Ok(made)
    }

    /// How batches are put in order together.
    pub fn bunches(&self) -> Bunches {
        self.bunches
    }

    /// What is decoded in one go of each stream, and waits for its batches, with the dictionaries of row groups that are
    /// decoded in parts.
    pub fn open_bytes(&self) -> u64 {
        let of_each = (0..self.queue.count()).map(|index| {
            let (own, _) = self.queue.stream(index);
            let row_bytes = self.sources.each()[own.source].layout.row_bytes() as u64;
            let share = self.order.comb(own.source).map_or(0, |comb| {
                let places = own.stream.rows().div_ceil(comb.length()).saturating_mul(comb.weight());
                places.saturating_mul(row_bytes)
            });
            let window = self.order.window_rows(own.source).map(|rows| rows.saturating_mul(row_bytes));
            waiting(window.unwrap_or(self.part_bytes[own.source]).min(share))
        });
        of_each.fold(self.sources.most_kept(self.queue.count() as u64), u64::saturating_add)
    }

    /// The next segment; `None` at the end.
    ///
    /// # Errors
    /// The first batch that can't be had, and why.
    pub fn next_segment(&mut self) -> Option<std::result::Result<Segment, (u64, Error)>> {
        if let Some(segment) = self.open.pop_front() {
            return Some(Ok(segment));
        }
        let index = self.queue.first()?;
        let (own, next) = self.queue.stream(index);
        let (stream, source, given) = (own.stream.clone(), own.source, next?);
        let cut = self.open_window(index, source).and_then(|has_window| match self.open.pop_front() {
            Some(segment) if has_window => Ok(segment),
            _ => self.segment_from(index, (&stream, source), given),
        });
        Some(cut.map_err(|error| (stream.batch_of(given), error)))
    }

    /// Makes the segments of the window at which a stream stands, for all streams that need it now; whether there is one.
    fn open_window(&mut self, index: usize, source: usize) -> Result<bool> {
        let ordinal = self.queue.ordinal(index);
        let (order, of_pass) = self.order.pass_at(source, ordinal)?;
        let Some(window) = order.window_at(ordinal - of_pass.start) else { return Ok(false) };
        let comb = self.order.comb(source).map(Arc::clone).ok_or_else(nowhere)?;
        let ordinals = of_pass.start + window.positions.start..of_pass.start + window.positions.end;
        let there = self.queue.standing_in(source, &ordinals);
        let places = self.order.places(source, self.pass.division().remaining()).ok_or_else(nowhere)?;
        let streams: Vec<_> = there
            .iter()
            .map(|&index| &self.queue.stream(index).0.stream)
            .map(|stream| (places.spreads(stream, &ordinals), stream))
            .collect();
        let part = Arc::new(WindowPart::of_source(window, &comb, &streams, self.bunches));
        let next: Vec<_> = streams
            .iter()
            .map(|(_, stream)| {
                let place = places.behind(stream, &ordinals)?;
                Some((place, places.ordinal_at(stream, place)?))
            })
            .collect();
        for (index, next) in there.into_iter().zip(next) {
            self.queue.advance(index, next);
        }
        let files = &self.sources.each()[source];
        let (row_bytes, before) = (files.layout.row_bytes() as u64, self.sources.rows_before(source));
        // Blocks of one part of a row group are decoded in one go: its dictionaries are read once.
        let mut reached = 0;
        for (block, mut ordinals) in part.blocks() {
            while let Some(rows) = order.rows_of_ordinals(ordinals.clone()).next() {
                let group = files.manifest.group_of(rows.start);
                let decoded =
                    part_of(&files.manifest.group_rows(group), rows.start, row_bytes, SEGMENT_BYTES);
                let rows = rows.start..decoded.end.min(rows.end);
                let of_all = before + rows.start..before + rows.end;
                let stretch = Stretch { block, ordinal: ordinals.start, rows: of_all };
                ordinals.start += rows.end - rows.start;
                match self.open.back_mut() {
                    Some(Segment { places: Places::Scattered { stretches, .. }, .. })
                        if decoded.start < reached =>
                    {
                        stretches.push(stretch);
                    }
                    _ => {
                        let group = self.sources.number_of(source, group);
                        let places = Places::Scattered { part: Arc::clone(&part), stretches: vec![stretch] };
                        self.open.push_back(Segment { group, places });
                    }
                }
                reached = decoded.end;
            }
        }
        Ok(true)
    }

    /// The segment that begins with the next row of a stream; its rows count as given.
    fn segment_from(
        &mut self,
        index: usize,
        (stream, source): (&Stream, usize),
        mut given: u64,
    ) -> Result<Segment> {
        let (order, of_pass) = self.order.pass_at(source, self.queue.ordinal(index))?;
        let comb = self.order.comb(source).map(Arc::clone).ok_or_else(nowhere)?;
        let (mut begun, group) = self.begun(index, (stream, source), (given, &order, of_pass.start))?;
        let places = self.order.places(source, self.pass.division().remaining()).ok_or_else(nowhere)?;
        let mut stopped = None;
        while stopped.is_none() && given < stream.rows() {
            if stream.batch_of(given) >= begun.end_batch {
                break;
            }
            self.runs.clear();
            let end = places.runs(stream, given, &mut self.runs);
            let mut runs = self.runs.iter();
            stopped = runs.find_map(|run| begun.add(stream, run, (&order, &of_pass), &comb));
            given =
                if self.runs.is_empty() { places.next(stream, end).unwrap_or(stream.rows()) } else { end };
        }
        if begun.pieces.is_empty() {
            return Err(nowhere());
        }
        self.queue.count_segment(index);
        self.settle(index, Some(stopped.unwrap_or(given)));
        Ok(Segment { group, places: Places::Combed { comb, bunches: self.bunches, pieces: begun.pieces } })
    }

    /// A segment that begins with the row that a pass of a source has at the ordinal of a stream, and its row group. The
    /// second segments of streams end one after another, so that not all are due at once from then on.
    fn begun(
        &self,
        index: usize,
        (stream, source): (&Stream, usize),
        (given, order, pass_start): (u64, &Order, u64),
    ) -> Result<(Begun, usize)> {
        let position = self.queue.ordinal(index) - pass_start;
        let row = order.rows(position..position + 1).next().ok_or_else(nowhere)?.start;
        let files = &self.sources.each()[source];
        let row_bytes = files.layout.row_bytes() as u64;
        let group = files.manifest.group_of(row);
        let whole = files.manifest.group_rows(group);
        let mut rows = part_of(&whole, row, row_bytes, self.part_bytes[source]);
        let (own, _) = self.queue.stream(index);
        let mut end_batch = u64::MAX;
        match own.cut {
            0 => {
                let first = stream.batch_of(given);
                let few = first.saturating_add(FIRST_BATCHES.saturating_mul(stream.batch_stride));
                end_batch = few.max(self.bunches.last(self.bunches.of(first)).saturating_add(1));
            }
            1 => {
                let (number, count) = (index as u64 + 1, self.queue.count() as u64);
                let part = (rows.end - rows.start).div_ceil(count).saturating_mul(number);
                rows.end = rows.end.min(row.saturating_add(part));
            }
            _ => {}
        }
        let begun = Begun { pieces: Vec::new(), first: whole.start, rows: row..rows.end, end_batch };
        Ok((begun, self.sources.number_of(source, group)))
    }

    /// A stream goes on at a place, or behind it where its source stands next.
    fn settle(&mut self, index: usize, from: Option<u64>) {
        let (own, _) = self.queue.stream(index);
        let source = own.source;
        let next = from.zip(self.order.places(source, self.pass.division().remaining())).and_then(
            |(from, places)| {
                let place = places.next(&own.stream, from)?;
                Some((place, places.ordinal_at(&own.stream, place)?))
            },
        );
        self.queue.advance(index, next);
    }
}

impl Begun {
    /// Adds a run of a stream. Returns the place of its first row that does not belong to this segment, if there is one.
    fn add(
        &mut self,
        stream: &Stream,
        run: &Run,
        (order, of_pass): (&Order, &Range<u64>),
        comb: &Comb,
    ) -> Option<u64> {
        if !of_pass.contains(&run.ordinals.start) {
            return Some(run.given);
        }
        let positions = run.ordinals.start - of_pass.start..run.ordinals.end - of_pass.start;
        let (batch, in_slice) = (stream.batch_of(run.given), run.given % stream.slice_rows);
        let mut done = 0;
        for rows in order.rows(positions) {
            let behind = comb.distance(run.phase, done);
            // Decoders only go forward: a row before the last one opens a segment of its own.
            let has_room = self.pieces.is_empty()
                || (self.pieces.len() < MAX_PIECES && room_for(&mut self.pieces, 1).is_ok());
            if rows.start < self.rows.start || rows.start >= self.rows.end || !has_room {
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
}

/// How many segments the windows of all shuffled sources have together, and how many rows of a mixture the shortest of them
/// reaches over; `None` where all are in file order.
fn windows(sources: &Sources, order: &MixedOrder) -> Option<(u64, u64)> {
    let each = order.sources().filter_map(|source| {
        let (rows, comb) = (order.window_rows(source)?, order.comb(source)?);
        let bytes = rows.saturating_mul(sources.each()[source].layout.row_bytes() as u64);
        let segments = order.blocks_of_window(source) + bytes / SEGMENT_BYTES;
        Some((segments, rows.saturating_mul(comb.length()) / comb.weight()))
    });
    each.reduce(|all, of| (all.0.saturating_add(of.0), all.1.min(of.1)))
}

/// Of each source, the most bytes that are decoded in one go of each of so many streams: all together take no more than
/// `PARTS_BYTES`, unless that makes them too small.
fn part_bytes(sources: &Sources, order: &MixedOrder, streams: u64) -> Vec<u64> {
    let given: Vec<u128> = (0..sources.each().len())
        .map(|source| {
            let weight = order.comb(source).map_or(0, |comb| comb.weight());
            u128::from(weight) * (sources.each()[source].layout.row_bytes() as u128).max(1)
        })
        .collect();
    let all = given.iter().sum::<u128>().max(1);
    let of_stream = u128::from(PARTS_BYTES / streams.max(1));
    let part = |own: &u128| u64::try_from(own * of_stream / all).unwrap_or(SEGMENT_BYTES);
    given.iter().map(|own| part(own).clamp(LEAST_PART_BYTES, SEGMENT_BYTES)).collect()
}

fn nowhere() -> Error {
    Error::State("a pass of a source ends before the rows that the mixture has of it".into())
}
