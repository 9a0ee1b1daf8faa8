//! What to decode next: the streams of one reader, cut into segments.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Result;
use crate::lanes::{Reader, Stream};
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::order::{Order, Window};
use crate::pass::Pass;
use crate::segment::{Piece, Places, SEGMENT_BYTES, Segment, part_of};
use crate::turns::Turns;
use crate::window::{Stretch, WindowPart};

/// A segment ends after so many batches, so that small ones don't pile up by the hundred thousand.
const MAX_BATCHES: usize = 4096;

/// The first segment of a stream that begins amid what is decoded in one go ends after so many, so that nobody waits for
/// all of the rest after a resume.
const FIRST_BATCHES: usize = 2;

/// A segment ends after so many pieces: those of a selection may be a row each.
const MAX_PIECES: usize = 1 << 16;

/// Gives the segments of one reader in the order in which batches first need them.
pub struct Schedule {
    manifest: Arc<Manifest>,
    order: Order,
    pass: Arc<Pass>,
    turns: Turns,
    /// Segments of the window that was opened last.
    open: VecDeque<Segment>,
    row_bytes: u64,
}

impl Schedule {
    /// The schedule of what is left of a pass for one reader.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(
        manifest: Arc<Manifest>,
        layout: &Layout,
        order: Order,
        pass: Arc<Pass>,
        reader: Reader,
    ) -> Result<Self> {
        Ok(Self {
            turns: Turns::new(pass.streams(reader)?),
            open: VecDeque::new(),
            row_bytes: layout.row_bytes() as u64,
            manifest,
            order,
            pass,
        })
    }

    /// Whether rows come scattered over the batches of a window.
    pub fn is_shuffled(&self) -> bool {
        self.order.sizes().is_some()
    }

    /// Bytes of the batches that what is decoded in one go makes, over all lanes.
    pub fn open_bytes(&self) -> u64 {
        let of_a_lane = match self.order.largest_window() {
            0 => SEGMENT_BYTES,
            rows => rows.saturating_mul(self.row_bytes),
        };
        of_a_lane.saturating_mul(self.turns.streams() as u64)
    }

    /// The next segment, or none at the end.
    pub fn next_segment(&mut self) -> Option<Segment> {
        if let Some(segment) = self.open.pop_front() {
            return Some(segment);
        }
        let index = self.turns.first()?;
        let (stream, given) = self.turns.stream(index);
        let counted = stream.counted(given);
        let position = self.pass.division().remaining().slice(counted..counted + 1).next()?.start;
        let Some(window) = self.order.window_at(position) else {
            let (segment, given) = self.segment_from(stream, given)?;
            self.turns.take(index, given);
            return Some(segment);
        };
        self.open_window(window);
        self.open.pop_front()
    }

    /// Makes the segments of a window, for all streams that come to it now.
    fn open_window(&mut self, window: Window) {
        let remaining = self.pass.division().remaining();
        let counted = remaining.rank(window.positions.start)..remaining.rank(window.positions.end);
        let taken = self.turns.take_window(&counted);
        let streams = taken.into_iter().map(|(index, given)| (given, self.turns.stream(index).0.clone()));
        let part = Arc::new(WindowPart::new(window, remaining, streams.collect()));
        // Blocks of one part of a row group are decoded in one go: its dictionaries are read once.
        let mut reached = 0;
        for (block, mut ordinals) in part.blocks() {
            while let Some(rows) = self.order.rows_of_ordinals(ordinals.clone()).next() {
                let group = self.manifest.group_of(rows.start);
                let decoded = part_of(&self.manifest.group_rows(group), rows.start, self.row_bytes);
                let rows = rows.start..decoded.end.min(rows.end);
                let stretch = Stretch { block, ordinal: ordinals.start, rows: rows.clone() };
                ordinals.start += rows.end - rows.start;
                match self.open.back_mut() {
                    Some(Segment { places: Places::Scattered { stretches, .. }, .. })
                        if decoded.start < reached =>
                    {
                        stretches.push(stretch);
                    }
                    _ => {
                        let places = Places::Scattered { part: Arc::clone(&part), stretches: vec![stretch] };
                        self.open.push_back(Segment { group, places });
                    }
                }
                reached = decoded.end;
            }
        }
    }

    /// The segment that begins after `given` rows of a stream, and the rows given after it.
    fn segment_from(&self, stream: &Stream, given: u64) -> Option<(Segment, u64)> {
        let remaining = self.pass.division().remaining();
        let positions = stream.stretches(given).flat_map(|counted| remaining.slice(counted));
        let mut runs = positions.flat_map(|positions| self.order.rows(positions)).peekable();
        let group = self.manifest.group_of(runs.peek()?.start);
        let whole = self.manifest.group_rows(group);
        let part = part_of(&whole, runs.peek()?.start, self.row_bytes);
        let mut pieces: Vec<Piece> = Vec::new();
        let is_resumed = given == 0 && runs.peek()?.start > part.start;
        let most_batches = if is_resumed { FIRST_BATCHES } else { MAX_BATCHES };
        let (mut given, mut reached, mut batches) = (given, part.start, 0);
        for run in runs {
            // Decoders only go forward: a row before the last one opens a segment of its own.
            if run.start < reached || run.start >= part.end {
                break;
            }
            let end = run.end.min(part.end);
            let mut row = run.start;
            while row < end && pieces.len() < MAX_PIECES {
                let batch = stream.batch_of(given);
                if pieces.last().is_none_or(|last| last.batch != batch) {
                    if batches == most_batches {
                        break;
                    }
                    batches += 1;
                }
                let in_slice = given % stream.slice_rows;
                let rows = (stream.slice_rows - in_slice).min(end - row);
                let first = row - whole.start;
                pieces.push(Piece { batch, rows: first..first + rows, slot_row: stream.slot_row + in_slice });
                row += rows;
                given += rows;
            }
            reached = row;
            if row < run.end || pieces.len() == MAX_PIECES {
                break;
            }
        }
        Some((Segment { group, places: Places::Pieces(pieces) }, given))
    }
}
