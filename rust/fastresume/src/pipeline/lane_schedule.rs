//! The schedule of one dataset: it cuts the streams of one reader into segments.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::bin_rows::{BinBatch, BinRows};
use crate::batch::bunch::Bunches;
use crate::batch::bunch_size::BunchSize;
use crate::batch::segment::{MAX_PIECES, Piece, Places, SEGMENT_BYTES, Segment, part_of};
use crate::batch::slots::pending::waiting;
use crate::batch::sources::Sources;
use crate::batch::window::WindowPart;
use crate::error::Result;
use crate::memory::vectors::room_for;
use crate::order::pass_order::Order;
use crate::order::shuffle::Window;
use crate::pipeline::stream_queue::StreamQueue;
use crate::pipeline::window_segments::{WindowRows, segments_of};
use crate::resume::lanes::{Stream, WorkerId};
use crate::resume::pass::Pass;

/// The most batches of a segment, so that small ones don't pile up by the hundred thousand.
const MAX_BATCHES: usize = 4096;

/// The same for the first segment of a stream that begins in the middle of a part that is decoded in one go.
/// So a resume need not wait for the rest of that part.
const FIRST_BATCHES: usize = 2;

/// Returns the segments of one reader in the order in which batches first need them.
pub struct LaneSchedule {
    sources: Arc<Sources>,
    order: Order,
    pass: Arc<Pass>,
    turns: StreamQueue,
    /// The segments of the window that was opened last.
    open: VecDeque<Segment>,
    bunches: Bunches,
    row_bytes: u64,
    /// Where bins are counted in the place of rows, in their order.
    bins: Option<Arc<BinRows>>,
}

impl LaneSchedule {
    /// The schedule of the rest of a pass for one reader.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(
        sources: Arc<Sources>,
        order: Order,
        pass: Arc<Pass>,
        reader: WorkerId,
        bins: Option<Arc<BinRows>>,
    ) -> Result<Self> {
        let layout = sources.layout();
        // The rows of batches of bins differ: each is alone.
        let size = bins.is_none().then(|| BunchSize::new(layout, &order, pass.rank_rows()));
        let first = pass.done() + reader.worker;
        Ok(Self {
            bunches: Bunches::new(first, reader.workers, size.map_or(0, |size| size.shift), pass.rank_rows()),
            turns: StreamQueue::new(pass.streams(reader)?),
            open: VecDeque::new(),
            row_bytes: layout.row_bytes() as u64,
            sources,
            order,
            pass,
            bins,
        })
    }

    /// How batches are put in order together.
    pub fn bunches(&self) -> Bunches {
        self.bunches
    }

    /// Whether rows come scattered over the batches of a window.
    pub fn is_shuffled(&self) -> bool {
        self.order.sizes().is_some()
    }

    /// The bytes of the batches that are made of what is decoded in one go, over all streams. The tail is a
    /// stream of few rows. A segment leaves room for batches, and for a strip of the segment before, which
    /// stays until its last batch is finished. The dictionaries of a row group that is decoded in parts are
    /// counted as well.
    pub fn open_bytes(&self) -> u64 {
        let unit_rows = self.bins.as_ref().map_or(1, |of| of.bins(0).mean_rows());
        let unit_bytes = self.row_bytes.saturating_mul(unit_rows);
        let of_each = self.turns.streams().map(|stream| match self.order.largest_window() {
            0 => stream.rows().saturating_mul(unit_bytes).min(SEGMENT_BYTES) / 2 * 3,
            units => waiting(stream.rows().min(units).saturating_mul(unit_bytes)),
        });
        of_each.fold(self.sources.most_kept(1), u64::saturating_add)
    }

    /// The next segment; `None` at the end.
    pub fn next_segment(&mut self) -> Option<Segment> {
        if let Some(segment) = self.open.pop_front() {
            return Some(segment);
        }
        let index = self.turns.first()?;
        let (stream, given) = self.turns.stream(index);
        let counted = stream.counted(given);
        let position = self.pass.division().remaining().slice(counted..counted + 1).next()?.start;
        let Some(window) = self.order.window_at(position) else {
            return self.segment_from(index);
        };
        self.open_window(window);
        self.open.pop_front()
    }

    /// Makes the segments of a window, for all streams that need it now.
    fn open_window(&mut self, window: Window) {
        let remaining = self.pass.division().remaining();
        let counted = remaining.rank(window.positions.start)..remaining.rank(window.positions.end);
        let taken = self.turns.take_window(&counted);
        let streams = taken.into_iter().map(|(index, given)| (given, self.turns.stream(index).0));
        let streams: Vec<_> = streams.collect();
        let mut part = WindowPart::new(window, remaining, &streams, self.bunches);
        if let Some(bins) = &self.bins {
            part = part.of_bins(0, bins);
        }
        let bins = self.bins.as_ref().map(|of| of.bins(0));
        let of = WindowRows { sources: &self.sources, source: 0, order: &self.order, bins };
        self.open.extend(segments_of(&Arc::new(part), &of));
    }

    /// The segment that begins with the next row of a stream; its rows count as given. Where the stream ends
    /// in it, the stream that begins there continues it, as the tail does behind a lane. So no row is decoded
    /// twice.
    fn segment_from(&mut self, index: usize) -> Option<Segment> {
        let bins = self.bins.clone();
        let (stream, given) = self.turns.stream(index);
        let first = self.runs(stream, given).next()?.start;
        let row = match &bins {
            Some(of) => of.bins(0).rows_of(first).next()?.start,
            None => first,
        };
        let manifest = Arc::clone(&self.sources.each()[0].manifest);
        let group = manifest.group_of(row);
        let whole = manifest.group_rows(group);
        let part = part_of(&whole, row, self.row_bytes, SEGMENT_BYTES);
        let is_resumed = given == 0 && row > part.start;
        let most_batches = if is_resumed { FIRST_BATCHES } else { MAX_BATCHES };
        let mut begun =
            BegunWindow { first: whole.start, rows: part, pieces: Vec::new(), batches: 0, most_batches };
        let mut next = Some(index);
        while let Some(index) = next {
            let (stream, given) = self.turns.stream(index);
            let reached = match &bins {
                Some(bins) => begun.add_bins(stream, given, self.runs(stream, given).flatten(), bins),
                None => begun.add(stream, given, self.runs(stream, given)),
            };
            let end = stream.counted(stream.rows() - 1) + 1;
            let is_used_up = reached > given && reached == stream.rows();
            if reached > given {
                self.turns.take(index, reached);
            }
            // Batches ascend: what is left of a segment waits for its first one.
            let last_batch = begun.pieces.last().map_or(0, |last| last.batch);
            let follows = |&index: &usize| self.turns.stream(index).0.first_batch > last_batch;
            next = self.turns.beginning_at(end).filter(|index| is_used_up && follows(index));
        }
        Some(Segment { group, places: Places::Pieces(begun.pieces) })
    }

    /// The rows behind the first `given` rows of a stream.
    fn runs(&self, stream: &Stream, given: u64) -> impl Iterator<Item = Range<u64>> + use<'_> {
        let remaining = self.pass.division().remaining();
        let positions = stream.stretches(given).flat_map(|counted| remaining.slice(counted));
        positions.flat_map(|positions| self.order.rows(positions))
    }
}

/// The place, among the units of its batch, of the unit behind the first `given` of a stream.
fn slot_of(stream: &Stream, given: u64) -> usize {
    usize::try_from(stream.slot_row + given % stream.slice_rows).unwrap_or(usize::MAX)
}

/// A segment of ascending rows, to which more rows may be added.
struct BegunWindow {
    /// The first row of the row group.
    first: u64,
    /// The rows that may still be added.
    rows: Range<u64>,
    pieces: Vec<Piece>,
    batches: usize,
    most_batches: usize,
}

impl BegunWindow {
    /// Whether another piece has room. Where the system has no memory for it, the segment ends before it.
    fn has_room(&mut self) -> bool {
        let count = self.pieces.len();
        count == 0 || (count < MAX_PIECES && room_for(&mut self.pieces, 1).is_ok())
    }

    /// Adds bins of a stream behind its first `given`: those that begin in this segment, whole. Returns how many of the stream
    /// are given then.
    fn add_bins(
        &mut self,
        stream: &Stream,
        mut given: u64,
        units: impl Iterator<Item = u64>,
        bins: &BinRows,
    ) -> u64 {
        for bin in units {
            let runs = || bins.bins(0).rows_of(bin);
            let Some(first) = runs().next() else { break };
            let batch = stream.batch_of(given);
            let is_new = self.pieces.last().is_none_or(|last| last.batch != batch);
            let has_batches = !is_new || self.batches < self.most_batches;
            if !self.rows.contains(&first.start) || !has_batches || !self.has_room() {
                break;
            }
            self.batches += usize::from(is_new);
            // Where that can't be known, the batch fails before it is filled.
            let offset = |of: &BinBatch| of.offsets.get(slot_of(stream, given)).copied();
            let mut slot_row = bins.of(batch).ok().and_then(|of| offset(&of)).unwrap_or(0);
            for run in runs() {
                let rows = run.start - self.first..run.end - self.first;
                let count = rows.end - rows.start;
                match self.pieces.last_mut() {
                    Some(last)
                        if last.batch == batch
                            && last.rows.end == rows.start
                            && last.slot_row + (last.rows.end - last.rows.start) == slot_row =>
                    {
                        last.rows.end = rows.end;
                    }
                    _ => self.pieces.push(Piece { batch, rows, slot_row, phase: 0 }),
                }
                slot_row += count;
                self.rows.start = run.end;
            }
            given += 1;
        }
        given
    }

    /// Adds rows of a stream behind its first `given`, as far as they belong to this segment. Returns how
    /// many of the stream are given then.
    fn add(&mut self, stream: &Stream, mut given: u64, runs: impl Iterator<Item = Range<u64>>) -> u64 {
        for run in runs {
            // Decoders only go forward: a row before the last one opens a segment of its own.
            if run.start < self.rows.start || run.start >= self.rows.end {
                break;
            }
            let end = run.end.min(self.rows.end);
            let mut row = run.start;
            while row < end && self.has_room() {
                let batch = stream.batch_of(given);
                if self.pieces.last().is_none_or(|last| last.batch != batch) {
                    if self.batches == self.most_batches {
                        break;
                    }
                    self.batches += 1;
                }
                let in_slice = given % stream.slice_rows;
                let rows = (stream.slice_rows - in_slice).min(end - row);
                let first = row - self.first;
                let slot_row = stream.slot_row + in_slice;
                self.pieces.push(Piece { batch, rows: first..first + rows, slot_row, phase: 0 });
                row += rows;
                given += rows;
            }
            self.rows.start = row;
            if row < run.end || self.pieces.len() == MAX_PIECES {
                break;
            }
        }
        given
    }
}
