//! A segment: rows of one row group that are decoded in one go, and where they go.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::list_span::ListSpan;
use crate::batch::packing::PackedRows;
use crate::batch::slots::pending::waiting;
use crate::batch::window::{WindowPart, WindowStretch};
use crate::error::{Error, Result};
use crate::order::comb::Comb;

/// A row group that decodes to more than this is decoded in equal parts of at most this many bytes.
pub const SEGMENT_BYTES: u64 = 32 << 20;

/// The most pieces of a segment: those of a selection may be a row each.
pub const MAX_PIECES: usize = 1 << 16;

/// Rows of one row group that go to one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The number of the batch within the current cut.
    pub batch: u64,
    /// The rows, counted within the row group.
    pub rows: Range<u64>,
    /// The row of the batch where the first of them goes.
    pub slot_row: u64,
    /// Where that is among the source's places of a period: row k goes `comb.distance(phase, k)` rows behind it.
    pub phase: u64,
}

/// A part of one row group, decoded in one go.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The row group.
    pub group: usize,
    /// Which of its rows go where.
    pub places: Places,
}

/// Where the rows of a segment go.
#[derive(Debug, Clone)]
pub enum Places {
    /// Ascending ranges of rows, which go to rows that follow each other. Never empty.
    Pieces(Vec<Piece>),
    /// Ascending ranges of rows, between which rows of other sources go. Never empty.
    Combed {
        /// Where the source stands.
        comb: Arc<Comb>,
        /// How batches are ended together.
        bunches: Bunches,
        /// The ranges.
        pieces: Vec<Piece>,
    },
    /// Rows that a shuffled window scatters over its batches.
    Scattered {
        /// The window, and the streams that take from it.
        part: Arc<WindowPart>,
        /// The rows of the dataset to decode, ascending, with their blocks in the window.
        stretches: Vec<WindowStretch>,
    },
    /// Rows of lists, from which sequences are cut.
    Lists {
        /// How.
        of: Arc<PackedRows>,
        /// The first batch that needs them.
        first_batch: u64,
        /// The bytes of the lists.
        bytes: u64,
        /// The rows, ascending. Never empty.
        spans: Vec<ListSpan>,
    },
}

impl Segment {
    /// The bytes of rows that wait until their batches are ended, of so many bytes each; 0 of rows that are decoded in place.
    pub fn waiting_bytes(&self, row_bytes: u64) -> u64 {
        let of_rows = |rows: u64| waiting(rows.saturating_mul(row_bytes));
        match &self.places {
            Places::Pieces(_) => 0,
            Places::Combed { pieces, .. } => {
                of_rows(pieces.iter().map(|piece| piece.rows.end - piece.rows.start).sum())
            }
            Places::Scattered { stretches, .. } => of_rows(stretches.iter().map(WindowStretch::count).sum()),
            Places::Lists { bytes, .. } => *bytes,
        }
    }

    /// The rows that are decoded, those between ascending ranges among them.
    pub fn decoded_rows(&self) -> u64 {
        match &self.places {
            Places::Pieces(pieces) | Places::Combed { pieces, .. } => {
                let ends = pieces.first().zip(pieces.last());
                ends.map_or(0, |(first, last)| last.rows.end - first.rows.start)
            }
            Places::Scattered { stretches, .. } => stretches.iter().map(WindowStretch::count).sum(),
            Places::Lists { spans, .. } => {
                spans.iter().map(|span| span.ordinals.end - span.ordinals.start).sum()
            }
        }
    }

    /// The first batch that may need it.
    pub fn first_batch(&self) -> u64 {
        match &self.places {
            Places::Pieces(pieces) | Places::Combed { pieces, .. } => {
                pieces.first().map_or(0, |piece| piece.batch)
            }
            Places::Scattered { part, .. } => part.first_batch(),
            Places::Lists { first_batch, .. } => *first_batch,
        }
    }

    /// The first batch that does need it. Where rows are scattered, this looks at each of them.
    pub fn first_needing_batch(&self) -> u64 {
        match &self.places {
            Places::Scattered { part, stretches } => part.first_batch_of(stretches).ok().flatten(),
            Places::Pieces(_) | Places::Combed { .. } | Places::Lists { .. } => None,
        }
        .unwrap_or_else(|| self.first_batch())
    }
}

/// The part of a row group (as row numbers) that holds `row`, where it is decoded in equal parts of so many bytes at most.
pub fn part_of(group: &Range<u64>, row: u64, row_bytes: u64, most_bytes: u64) -> Range<u64> {
    let rows = group.end - group.start;
    let parts = u128::from(rows) * u128::from(row_bytes) / u128::from(most_bytes.max(1)) + 1;
    let part_rows = rows.div_ceil(u64::try_from(parts).unwrap_or(rows).clamp(1, rows));
    let start = group.start + (row - group.start) / part_rows * part_rows;
    start..(start + part_rows).min(group.end)
}

/// The number as a `usize`.
///
/// # Errors
/// `Data` if it does not fit.
pub fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("{count} rows do not fit the address space")))
}
