//! What to decode next: the streams of one reader, cut into segments.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::batch::Layout;
use crate::error::Result;
use crate::lanes::{Reader, Stream};
use crate::manifest::Manifest;
use crate::order::{Order, Window};
use crate::pass::Pass;
use crate::segment::{Piece, Places, Segment, Stretch, WindowPart, part_of};

/// A segment ends after so many pieces, so that small batches don't pile up by the hundred thousand.
const MAX_PIECES: usize = 4096;

/// Gives the segments of one reader in the order in which batches first need them.
pub struct Schedule {
    manifest: Arc<Manifest>,
    order: Order,
    pass: Arc<Pass>,
    streams: Vec<Stream>,
    /// How many rows of each stream were given.
    given: Vec<u64>,
    /// The next batch of each stream that is not used up, the least on top.
    next: BinaryHeap<Reverse<(u64, usize)>>,
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
        let streams = pass.streams(reader)?;
        let next = streams.iter().enumerate().map(|(index, stream)| Reverse((stream.first_batch, index)));
        Ok(Self {
            next: next.collect(),
            given: vec![0; streams.len()],
            open: VecDeque::new(),
            row_bytes: layout.row_bytes() as u64,
            manifest,
            order,
            pass,
            streams,
        })
    }

    /// Whether rows come scattered over the batches of a window.
    pub fn is_shuffled(&self) -> bool {
        self.order.sizes().is_some()
    }

    /// The next segment, or none at the end.
    pub fn next_segment(&mut self) -> Option<Segment> {
        if let Some(segment) = self.open.pop_front() {
            return Some(segment);
        }
        let Reverse((_, index)) = self.next.pop()?;
        let counted = self.streams[index].counted(self.given[index]);
        let position = self.pass.division().remaining().slice(counted..counted + 1).next()?.start;
        let Some(window) = self.order.window_at(position) else {
            let (segment, given) = self.segment_from(&self.streams[index], self.given[index])?;
            self.take(index, given);
            return Some(segment);
        };
        self.open_window(window);
        self.open.pop_front()
    }

    /// Counts the rows of a stream up to `given` as given.
    fn take(&mut self, index: usize, given: u64) {
        self.given[index] = given;
        if given < self.streams[index].rows() {
            self.next.push(Reverse((self.streams[index].batch_of(given), index)));
        }
    }

    /// Makes the segments of a window, for all streams that come to it now.
    fn open_window(&mut self, window: Window) {
        let remaining = self.pass.division().remaining();
        let counted = remaining.rank(window.positions.start)..remaining.rank(window.positions.end);
        let mut taken = Vec::new();
        for (index, stream) in self.streams.iter().enumerate() {
            let given = self.given[index];
            if given < stream.rows() && counted.contains(&stream.counted(given)) {
                taken.push((index, given..stream.rows_before(counted.end)));
            }
        }
        let streams = taken.iter().map(|(index, given)| (given.clone(), self.streams[*index].clone()));
        let part = Arc::new(WindowPart::new(window, remaining, streams.collect()));
        let mut is_taken = vec![false; self.streams.len()];
        for (index, _) in &taken {
            is_taken[*index] = true;
        }
        self.next.retain(|Reverse((_, index))| !is_taken[*index]);
        for (index, given) in taken {
            self.take(index, given.end);
        }
        // Blocks of one part of a row group are decoded in one go: its dictionaries are read once.
        let mut reached = 0;
        for (block, rows) in part.blocks() {
            let mut row = rows.start;
            while row < rows.end {
                let group = self.manifest.group_of(row);
                let decoded = part_of(&self.manifest.group_rows(group), row, self.row_bytes);
                let stretch = Stretch { block, rows: row..decoded.end.min(rows.end) };
                row = stretch.rows.end;
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
        let (mut given, mut reached) = (given, part.start);
        for run in runs {
            // Decoders only go forward: a row before the last one opens a segment of its own.
            if run.start < reached || run.start >= part.end {
                break;
            }
            let end = run.end.min(part.end);
            let mut row = run.start;
            while row < end && pieces.len() < MAX_PIECES {
                let in_slice = given % stream.slice_rows;
                let rows = (stream.slice_rows - in_slice).min(end - row);
                let first = row - whole.start;
                pieces.push(Piece {
                    batch: stream.batch_of(given),
                    rows: first..first + rows,
                    slot_row: stream.slot_row + in_slice,
                });
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
