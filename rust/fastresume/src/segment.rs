//! What is decoded in one go, and where its rows go.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::intervals::Intervals;
use crate::lanes::Stream;
use crate::order::Window;

/// A row group that decodes to more than this is decoded in even parts of at most so many bytes.
pub const SEGMENT_BYTES: u64 = 32 << 20;

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

/// A part of one row group, decoded in one go.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The row group.
    pub group: usize,
    /// What of it goes where.
    pub places: Places,
}

/// Rows of one block of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The number of the block in its window.
    pub block: usize,
    /// Row numbers, all of them selected.
    pub rows: Range<u64>,
    /// The ordinal of the first row.
    pub ordinal: u64,
}

/// Where the rows of a segment go.
#[derive(Debug, Clone)]
pub enum Places {
    /// Ascending stretches of rows. Never empty.
    Pieces(Vec<Piece>),
    /// Rows that their window scatters over its batches.
    Scattered {
        /// The window, and the streams that take from it.
        part: Arc<WindowPart>,
        /// The rows of the dataset to decode, ascending, and which of the window's blocks they are of.
        stretches: Vec<Stretch>,
    },
}

impl Segment {
    /// The first batch that may need it.
    pub fn first_batch(&self) -> u64 {
        match &self.places {
            Places::Pieces(pieces) => pieces.first().map_or(0, |piece| piece.batch),
            Places::Scattered { part, .. } => part.batches.first().copied().unwrap_or(0),
        }
    }
}

/// The part of a row group (by row numbers) that holds `row` and is decoded in one go.
pub fn part_of(group: &Range<u64>, row: u64, row_bytes: u64) -> Range<u64> {
    let rows = group.end - group.start;
    let parts = u128::from(rows) * u128::from(row_bytes) / u128::from(SEGMENT_BYTES) + 1;
    let part_rows = rows.div_ceil(u64::try_from(parts).unwrap_or(rows).clamp(1, rows));
    let start = group.start + (row - group.start) / part_rows * part_rows;
    start..(start + part_rows).min(group.end)
}

/// A window of a shuffled order, and what the streams of one reader take from it.
#[derive(Debug)]
pub struct WindowPart {
    window: Window,
    /// Ranges of remaining positions in the window, and where each begins along all that remains.
    remaining: Vec<(Range<u64>, u64)>,
    /// The streams that take from it, and from where on each does, counted along all that remains.
    streams: Vec<(u64, Stream)>,
    /// The batches that get a row, in order.
    batches: Vec<u64>,
}

/// Rows of a segment by the batches that they go to.
#[derive(Debug, Default)]
pub struct Scatter {
    /// Each batch that gets a row, and which of `rows` are its own.
    pub batches: Vec<(u64, Range<usize>)>,
    /// Row `.0` of the segment, counted over its stretches, is row `.1` of the batch.
    pub rows: Vec<(u32, u32)>,
}

impl WindowPart {
    /// What `streams` take from a window: of each, the given rows of it.
    pub fn new(window: Window, remaining: &Intervals, streams: Vec<(Range<u64>, Stream)>) -> Self {
        let first = remaining.rank(window.positions.start);
        let mut counted = first;
        let remaining = remaining
            .slice(first..remaining.rank(window.positions.end))
            .map(|range| {
                let start = counted;
                counted += range.end - range.start;
                (range, start)
            })
            .collect();
        let mut batches = Vec::new();
        let mut by_count: Vec<(u64, Stream)> = Vec::with_capacity(streams.len());
        for (given, stream) in streams.into_iter().filter(|(given, _)| !given.is_empty()) {
            let slices = given.start / stream.slice_rows..(given.end - 1) / stream.slice_rows + 1;
            batches.extend(slices.map(|slice| stream.first_batch + slice * stream.batch_stride));
            by_count.push((stream.counted(given.start), stream));
        }
        batches.sort_unstable();
        batches.dedup();
        by_count.sort_unstable_by_key(|(counted, _)| *counted);
        Self { window, remaining, streams: by_count, batches }
    }

    /// The batches that get a row, in order.
    pub fn batches(&self) -> &[u64] {
        &self.batches
    }

    /// The ordinals of each block, in the order of the files.
    pub fn blocks(&self) -> Vec<(usize, Range<u64>)> {
        let mut blocks: Vec<_> = self.window.blocks.iter().cloned().enumerate().collect();
        blocks.sort_unstable_by_key(|(_, ordinals)| ordinals.start);
        blocks
    }

    /// Where the rows of stretches go, batch by batch, and the rows of each in their order in the stretches.
    pub fn scatter(&self, stretches: &[Stretch]) -> Scatter {
        let rows = stretches
            .iter()
            .flat_map(|of| (of.ordinal..).zip(of.rows.clone()).map(|(ordinal, _)| (of.block, ordinal)));
        // Of each row the batch, by its index, and its row there.
        let slots: Vec<Option<(u32, u32)>> = rows
            .map(|(block, ordinal)| {
                let (batch, row) = self.slot_of(self.window.position(block, ordinal))?;
                let batch = self.index_of(batch)?;
                // A batch has fewer rows than 2^32: memory for it was given.
                Some((u32::try_from(batch).ok()?, u32::try_from(row).ok()?))
            })
            .collect();
        // Sorted by counting: the rows of a batch begin where those of the one before end.
        let mut ends = vec![0; self.batches.len() + 1];
        for (batch, _) in slots.iter().flatten() {
            ends[*batch as usize + 1] += 1;
        }
        for batch in 0..self.batches.len() {
            ends[batch + 1] += ends[batch];
        }
        let mut rows = vec![(0, 0); ends[self.batches.len()]];
        for (from, slot) in (0..).zip(&slots) {
            if let Some((batch, to)) = *slot {
                let next = &mut ends[batch as usize];
                rows[*next] = (from, to);
                *next += 1;
            }
        }
        let mut start = 0;
        let batches = self.batches.iter().zip(ends).filter_map(|(&batch, end)| {
            let of_batch = start..end;
            start = end;
            (!of_batch.is_empty()).then_some((batch, of_batch))
        });
        Scatter { batches: batches.collect(), rows }
    }

    /// The index of a batch among those that get a row: mostly, they follow one another.
    fn index_of(&self, batch: u64) -> Option<usize> {
        let likely = usize::try_from(batch.checked_sub(*self.batches.first()?)?).ok()?;
        if self.batches.get(likely) == Some(&batch) {
            return Some(likely);
        }
        self.batches.binary_search(&batch).ok()
    }

    /// The batch, and its row, where the row at a position goes.
    fn slot_of(&self, position: u64) -> Option<(u64, u64)> {
        let range = self.remaining.partition_point(|(range, _)| range.start <= position).checked_sub(1)?;
        let (range, counted) = &self.remaining[range];
        let counted = (position < range.end).then(|| counted + (position - range.start))?;
        let stream = self.streams.partition_point(|(start, _)| *start <= counted).checked_sub(1)?;
        self.streams[stream].1.slot_of(counted)
    }
}

/// The number as an index of this machine.
///
/// # Errors
/// `Data` if it does not fit.
pub fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("{count} rows do not fit the address space")))
}
