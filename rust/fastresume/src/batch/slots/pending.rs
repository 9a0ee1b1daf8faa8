//! Rows of a batch as they were decoded, until it is ended.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::slots::interleave::{Columns, Move, scatter, scatter_raised, stride};
use crate::error::Result;
use crate::memory::buffer::Memory;

/// Columns that were decoded side by side for matrices lie in about so many strips of memory, which go one by one as batches
/// are ended.
pub const STRIPS: usize = 8;

/// Rows of fewer numbers of 8 bytes are not lowered: what is done for each row costs as much whatever it takes.
pub const LEAST_LOWERED: usize = 4;

/// What is left of a number of 8 bytes when it is lowered.
pub const LOWERED_BYTES: usize = 4;

/// A strip is no smaller, unless there are fewer rows: decoders are asked for each strip anew.
const LEAST_STRIP_BYTES: usize = 64 << 10;

/// How many of so many rows, of so many bytes each, lie in one strip. It does not depend on how batches divide them, so that
/// what the strips of one segment let go of fits those of the next.
pub fn strip_rows(rows: usize, row_bytes: usize) -> usize {
    rows.div_ceil(STRIPS).max(LEAST_STRIP_BYTES / row_bytes.max(1)).max(1)
}

/// What rows of so many bytes take until their batch is ended: columns lie up to an eighth farther apart than they are long;
/// and of what is sorted of a whole segment, the last one of sixteen pieces may not be full, and the first one stays until its
/// last batch is ended.
pub fn waiting(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8)
}

/// Fills up values with copies of the first so many, in turn.
pub fn repeat<V: Copy>(values: &mut [V], distinct: usize) {
    let mut filled = distinct;
    while filled > 0 && filled < values.len() {
        let some = filled.min(values.len() - filled);
        values.copy_within(..some, filled);
        filled += some;
    }
}

/// Some rows of one field, or of its mask, for one batch.
#[derive(Debug)]
pub enum PendingRows {
    /// Rows that lie one behind another, and come scattered: so many rows of the batch came in before.
    Sorted {
        /// Where they are, with others.
        memory: Arc<Memory>,
        /// Which bytes of it are theirs.
        bytes: Range<usize>,
        /// How many rows of the batch came in before.
        before: usize,
        /// Where they are numbers of 4 bytes in place of 8: of each column, what is to be added to them.
        floors: Option<Arc<[u64]>>,
    },
    /// Rows of columns, which follow each other in the batch.
    Columns {
        /// Where they are, with others.
        strip: Arc<Strip>,
        /// Whether they are those of the masks.
        is_mask: bool,
        /// Which rows of it they are.
        rows: Range<usize>,
        /// The row of the batch that the first of them becomes.
        to: usize,
    },
}

impl PendingRows {
    /// Puts rows of so many bytes in their places among those of the batch. `moves` has those of all rows that came
    /// scattered, in the order in which they came in.
    pub fn put(&self, row_bytes: usize, moves: &[Move], output: &mut [u8]) {
        match self {
            Self::Sorted { memory, bytes, before, floors } => {
                let (rows, moves) = (&memory.bytes()[bytes.clone()], &moves[*before..]);
                match floors {
                    None => scatter(rows, row_bytes, moves, output),
                    Some(floors) => {
                        let (rows, output) = (bytemuck::cast_slice(rows), bytemuck::cast_slice_mut(output));
                        scatter_raised(rows, floors, moves, output);
                    }
                }
            }
            Self::Columns { strip, is_mask, rows, to } => {
                let places = to * row_bytes..(to + rows.len()) * row_bytes;
                strip.columns(*is_mask).interleave_raised(rows.start, &mut output[places]);
            }
        }
    }
}

/// Some rows of columns of one width, decoded side by side, and the masks of those that have one.
#[derive(Debug)]
pub struct Strip {
    rows: usize,
    width: usize,
    values: Memory,
    count: usize,
    valid: Memory,
    masks: usize,
    /// Where values are numbers of 4 bytes in place of 8: of each column, what is to be added to them.
    floors: Option<Arc<[u64]>>,
}

impl Strip {
    /// So many rows of columns of a width, as many as are told behind it, and of masks, in memory for both; what it holds is
    /// not defined. Where there are floors, it is what numbers are above these.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(
        rows: usize,
        (width, count, masks): (usize, usize, usize),
        floors: Option<Arc<[u64]>>,
        [mut values, mut valid]: [Memory; 2],
    ) -> Result<Self> {
        let width = if floors.is_some() { LOWERED_BYTES } else { width };
        values.resize(stride(rows, width, count) * width * count)?;
        valid.resize(stride(rows, 1, masks) * masks)?;
        Ok(Self { rows, width, values, count, valid, masks, floors })
    }

    /// Its memory, to be used again.
    pub fn into_memory(self) -> [Memory; 2] {
        [self.values, self.valid]
    }

    /// A column of the values, and one of the masks, if there is one of that number.
    pub fn column(&mut self, number: usize, mask: Option<usize>) -> (&mut [u8], &mut [u8]) {
        let bytes = stride(self.rows, self.width, self.count) * self.width;
        let values = &mut self.values.bytes_mut()[number * bytes..][..self.rows * self.width];
        let Some(mask) = mask else { return (values, &mut []) };
        let bytes = stride(self.rows, 1, self.masks);
        (values, &mut self.valid.bytes_mut()[mask * bytes..][..self.rows])
    }

    /// All columns of the values, or of the masks.
    pub fn columns(&self, is_mask: bool) -> Columns<'_> {
        let (memory, width, count) =
            if is_mask { (&self.valid, 1, self.masks) } else { (&self.values, self.width, self.count) };
        let floors = self.floors.as_ref().filter(|_| !is_mask);
        Columns { bytes: memory.bytes(), width, count, stride: stride(self.rows, width, count), floors }
    }
}
