//! The schedule of a mixture: it cuts the streams of one reader, one for each lane and source, into segments.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::bunch_size::BunchSize;
use crate::batch::segment::{SEGMENT_BYTES, Segment};
use crate::batch::slots::pending::waiting;
use crate::batch::sources::Sources;
use crate::error::{Error, Result};
use crate::pipeline::counted::Counted;
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
    pub(super) sources: Arc<Sources>,
    pub(super) order: MixedOrder,
    pub(super) counted: Counted,
    pub(super) pass: Arc<Pass>,
    pub(super) queue: MixedQueue,
    /// Of each source, the most bytes that are decoded in one go.
    pub(super) part_bytes: Vec<u64>,
    pub(super) bunches: Bunches,
    /// The segments of windows that were opened, by the first batch that needs them, and in their order.
    open: BTreeMap<(u64, u64), Segment>,
    count: u64,
    pub(super) runs: Vec<Run>,
    /// Of a stream whose next sequence was begun, the token of its file up to which it was.
    pub(super) begun: BTreeMap<usize, u64>,
}

/// How much of a stream goes to its next segment, which is smaller at the beginning.
pub(super) struct SourceShare {
    /// The batches below which its rows may be.
    pub end_batch: u64,
    /// The part of what is decoded in one go: `number` of `count` parts of it.
    pub number: u64,
    pub count: u64,
}

impl MixedSchedule {
    /// The schedule of the rest of a stage for one reader.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(
        sources: Arc<Sources>,
        (order, counted): (MixedOrder, Counted),
        pass: Arc<Pass>,
        reader: WorkerId,
    ) -> Result<Self> {
        let streams = pass.streams(reader)?;
        let rows = pass.rank_rows();
        // The rows of batches of bins differ, and sequences are cut batch by batch: each is alone.
        let shift = match counted {
            Counted::Rows => BunchSize::of_mixture(sources.layout(), rows, windows(&sources, &order)).shift,
            Counted::Bins(_) | Counted::Sequences(_) => 0,
        };
        let first = pass.done() + reader.worker;
        let part_bytes = part_bytes((&sources, &order, &counted), streams.len() as u64);
        let mut made = Self {
            bunches: Bunches::new(first, reader.workers, shift, rows),
            queue: MixedQueue::default(),
            open: BTreeMap::new(),
            count: 0,
            runs: Vec::new(),
            begun: BTreeMap::new(),
            part_bytes,
            sources,
            order,
            counted,
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

    /// Whether batches get memory with their rows, and not before: sequences are cut into it.
    pub fn is_scattered(&self) -> bool {
        self.counted.sequences().is_none()
    }

    /// What is decoded in one go of each stream, and waits for its batches, with the dictionaries of row groups that are
    /// decoded in parts.
    pub fn open_bytes(&self) -> u64 {
        let of_each = (0..self.queue.count()).map(|index| {
            let (own, _) = self.queue.stream(index);
            let unit_bytes = unit_bytes(&self.sources, &self.counted, own.source);
            let share = self.order.comb(own.source).map_or(0, |comb| {
                let places = own.stream.rows().div_ceil(comb.length()).saturating_mul(comb.weight());
                places.saturating_mul(unit_bytes)
            });
            let window = self.order.window_rows(own.source).map(|units| units.saturating_mul(unit_bytes));
            waiting(window.unwrap_or(self.part_bytes[own.source]).min(share))
        });
        of_each.fold(self.sources.most_kept(self.queue.count() as u64), u64::saturating_add)
    }

    /// The next segment; `None` at the end.
    ///
    /// # Errors
    /// The first batch that can't be had, and why.
    pub fn next_segment(&mut self) -> Option<std::result::Result<Segment, (u64, Error)>> {
        loop {
            let next = self.queue.first().and_then(|index| {
                let (own, next) = self.queue.stream(index);
                Some((index, own.source, own.stream.clone(), next?))
            });
            let batch = next.as_ref().map(|(_, _, stream, given)| stream.batch_of(*given));
            if let Some(entry) = self.open.first_entry()
                && batch.is_none_or(|batch| entry.key().0 <= batch)
            {
                return Some(Ok(entry.remove()));
            }
            let ((index, source, stream, given), batch) = next.zip(batch)?;
            let cut = self.open_window(index, source).and_then(|has_window| {
                let cut = (!has_window).then(|| self.segment_from(index, (&stream, source), given));
                cut.transpose()
            });
            if let Some(cut) = cut.map_err(|error| (batch, error)).transpose() {
                return Some(cut);
            }
        }
    }

    /// The segment that begins with the next row, or unit, of a stream; its rows count as given.
    fn segment_from(&mut self, index: usize, of: (&Stream, usize), given: u64) -> Result<Segment> {
        match self.counted.clone() {
            Counted::Rows => self.rows_from(index, of, given, None),
            Counted::Bins(bins) => self.rows_from(index, of, given, Some(&bins)),
            Counted::Sequences(sequences) => self.lists_from(index, of, given, &sequences),
        }
    }

    /// Takes a segment of a window.
    pub(super) fn put(&mut self, segment: Segment) {
        self.open.insert((segment.first_batch(), self.count), segment);
        self.count += 1;
    }

    /// How much of a stream goes to its next segment. The second segments of streams end one after another, so that not all are
    /// due at once from then on.
    pub(super) fn share(&self, index: usize, stream: &Stream, given: u64) -> SourceShare {
        let (own, _) = self.queue.stream(index);
        let (mut end_batch, mut number, mut count) = (u64::MAX, 1, 1);
        match own.cut {
            0 => {
                let first = stream.batch_of(given);
                let few = first.saturating_add(FIRST_BATCHES.saturating_mul(stream.batch_stride));
                end_batch = few.max(self.bunches.last(self.bunches.of(first)).saturating_add(1));
            }
            1 => (number, count) = (index as u64 + 1, self.queue.count() as u64),
            _ => {}
        }
        SourceShare { end_batch, number, count }
    }

    /// A stream goes on at a place, or behind it where its source stands next.
    pub(super) fn settle(&mut self, index: usize, from: Option<u64>) {
        let (own, _) = self.queue.stream(index);
        let source = own.source;
        let next = from.zip(self.order.places(source, self.pass.division().remaining())).and_then(
            |(from, places)| {
                let place = places.next(&own.stream, from)?;
                Some((place, places.point_at(&own.stream, place)?))
            },
        );
        self.queue.advance(index, next);
    }
}

/// The bytes of what a position of a source counts, on the average.
fn unit_bytes(sources: &Sources, counted: &Counted, source: usize) -> u64 {
    let row_bytes = sources.each()[source].layout.row_bytes() as u64;
    match counted {
        Counted::Rows => row_bytes,
        Counted::Bins(bins) => row_bytes.saturating_mul(bins.bins(source).mean_rows()),
        Counted::Sequences(sequences) => sequences.sequence_bytes(),
    }
}

/// How many segments the windows of all shuffled sources have together, and how many rows of a mixture the shortest of them
/// reaches over; `None` where all are in file order.
pub(super) fn windows(sources: &Sources, order: &MixedOrder) -> Option<(u64, u64)> {
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
pub(super) fn part_bytes(
    (sources, order, counted): (&Sources, &MixedOrder, &Counted),
    streams: u64,
) -> Vec<u64> {
    let given: Vec<u128> = (0..sources.each().len())
        .map(|source| {
            let weight = order.comb(source).map_or(0, |comb| comb.weight());
            u128::from(weight) * u128::from(unit_bytes(sources, counted, source)).max(1)
        })
        .collect();
    let all = given.iter().sum::<u128>().max(1);
    let of_stream = u128::from(PARTS_BYTES / streams.max(1));
    let part = |own: &u128| u64::try_from(own * of_stream / all).unwrap_or(SEGMENT_BYTES);
    given.iter().map(|own| part(own).clamp(LEAST_PART_BYTES, SEGMENT_BYTES)).collect()
}

/// That a source stands nowhere in its mixture.
pub(super) fn nowhere() -> Error {
    Error::State("a pass of a source ends before the rows that the mixture has of it".into())
}
