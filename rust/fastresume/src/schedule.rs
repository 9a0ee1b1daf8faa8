//! What to decode next: the streams of one reader, cut into segments that are decoded in one go.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::Layout;
use crate::cursor::Pass;
use crate::error::Result;
use crate::lanes::{Reader, Stream};
use crate::manifest::Manifest;
use crate::order::Order;

/// A row group that decodes to more than this is decoded in even parts of at most so many bytes.
const SEGMENT_BYTES: u64 = 32 << 20;

/// A segment ends after so many pieces, so that small batches don't pile up by the hundred thousand.
const MAX_PIECES: usize = 4096;

/// Rows of one row group that go to one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The batch, counted within the present cut.
    pub batch: u64,
    /// The rows, counted within the row group.
    pub rows: Range<u64>,
    /// The row of the batch where they go.
    pub slot_row: u64,
}

/// Ascending rows of one row group, and where each goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The row group.
    pub group: usize,
    /// Never empty.
    pub pieces: Vec<Piece>,
}

impl Segment {
    /// The first batch that needs it.
    pub fn first_batch(&self) -> u64 {
        self.pieces.first().map_or(0, |piece| piece.batch)
    }
}

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
        let streams = pass.division().streams(reader, pass.done())?;
        let next = streams.iter().enumerate().map(|(index, stream)| Reverse((stream.first_batch, index)));
        Ok(Self {
            next: next.collect(),
            given: vec![0; streams.len()],
            row_bytes: layout.row_bytes() as u64,
            manifest,
            order,
            pass,
            streams,
        })
    }

    /// The next segment, or none at the end.
    pub fn next_segment(&mut self) -> Option<Segment> {
        let Reverse((_, index)) = self.next.pop()?;
        let stream = &self.streams[index];
        let (segment, given) = self.segment_from(stream, self.given[index])?;
        self.given[index] = given;
        if given < stream.counted.end - stream.counted.start {
            self.next.push(Reverse((batch_of(stream, given), index)));
        }
        Some(segment)
    }

    /// The segment that begins after `given` rows of a stream, and the rows given after it.
    fn segment_from(&self, stream: &Stream, mut given: u64) -> Option<(Segment, u64)> {
        let counted = stream.counted.start + given..stream.counted.end;
        let positions = self.pass.division().remaining().slice(counted);
        let mut runs = positions.flat_map(|positions| self.order.rows(positions)).peekable();
        let group = self.manifest.group_of(runs.peek()?.start);
        let whole = self.manifest.group_rows(group);
        let part = self.part_of(&whole, runs.peek()?.start);
        let mut pieces: Vec<Piece> = Vec::new();
        let mut reached = part.start;
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
                    batch: batch_of(stream, given),
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
        Some((Segment { group, pieces }, given))
    }

    /// The part of a row group (by row numbers) that holds `row` and is decoded in one go.
    fn part_of(&self, group: &Range<u64>, row: u64) -> Range<u64> {
        let rows = group.end - group.start;
        let parts = u128::from(rows) * u128::from(self.row_bytes) / u128::from(SEGMENT_BYTES) + 1;
        let part_rows = rows.div_ceil(u64::try_from(parts).unwrap_or(rows).clamp(1, rows));
        let start = group.start + (row - group.start) / part_rows * part_rows;
        start..(start + part_rows).min(group.end)
    }
}

/// The batch of the row that comes after `given` rows of a stream.
fn batch_of(stream: &Stream, given: u64) -> u64 {
    stream.first_batch + given / stream.slice_rows * stream.batch_stride
}
