//! The decoded rows of a batch that are not in their places yet.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::batch::slots::interleave::{Columns, Move, scatter, scatter_raised, stride};
use crate::error::Result;
use crate::memory::pool::Memory;

/// Columns that are decoded side by side for matrices lie in about this many strips of memory. The strips are
/// freed one by one as batches are finished.
pub const STRIPS: usize = 8;

/// Rows of fewer 8-byte numbers than this stay as they are: the cost of each row does not depend on its
/// bytes.
pub const LEAST_LOWERED: usize = 4;

/// The bytes of an 8-byte number that is stored as a difference to its floor.
pub const LOWERED_BYTES: usize = 4;

/// The smallest strip, unless rows are few: each strip costs calls to all decoders.
const LEAST_STRIP_BYTES: usize = 64 << 10;

/// Strips of rows that wait for batches between which those of other sources go: small enough to be let go of soon.
const WAITING_STRIP_BYTES: usize = 1 << 20;

/// The number of rows in one strip of rows that wait: the same for all segments, so that what one lets go of fits another.
pub fn waiting_strip_rows(row_bytes: usize) -> usize {
    (WAITING_STRIP_BYTES / row_bytes.max(1)).max(1)
}

/// The number of rows in one strip, of `rows` rows of `row_bytes` each. It does not depend on how batches
/// divide the rows, so that the freed strips of one segment fit those of the next.
pub fn strip_rows(rows: usize, row_bytes: usize) -> usize {
    rows.div_ceil(STRIPS).max(LEAST_STRIP_BYTES / row_bytes.max(1)).max(1)
}

/// The bytes that rows take until their batch is finished, where `bytes` is what they are delivered in.
/// Columns lie up to an eighth farther apart than they are long. Of sixteen sorted pieces of a segment, the
/// last may not be full. The first one stays until its last batch is finished.
pub fn waiting(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8)
}

/// Fills values up with copies of the first `distinct`, in turn.
pub fn repeat<V: Copy>(values: &mut [V], distinct: usize) {
    let mut filled = distinct;
    while filled > 0 && filled < values.len() {
        let some = filled.min(values.len() - filled);
        values.copy_within(..some, filled);
        filled += some;
    }
}

/// Some rows of one field, or of its mask, for one batch.
#[derive(Debug, Clone)]
pub enum PendingRows {
    /// Scattered rows, one behind another.
    Sorted {
        /// Where they lie, among others.
        memory: Arc<Memory>,
        /// Which bytes of it are theirs.
        bytes: Range<usize>,
        /// How many rows of the batch came in before.
        before: usize,
        /// Set where 4-byte numbers stand for 8-byte ones: for each column, what must be added to them.
        floors: Option<Arc<[u64]>>,
    },
    /// Rows of columns, which follow each other in the batch.
    Columns {
        /// Where they lie, among others.
        strip: Arc<Strip>,
        /// Whether they are rows of the masks.
        is_mask: bool,
        /// Which rows of the strip they are.
        rows: Range<usize>,
        /// The row of the batch that the first of them becomes.
        to: usize,
    },
}

impl PendingRows {
    /// The same of a batch that so many more rows came to before.
    #[must_use]
    pub fn behind(mut self, rows: usize) -> Self {
        match &mut self {
            Self::Sorted { before, .. } => *before += rows,
            Self::Columns { .. } => {}
        }
        self
    }

    /// Puts rows of `row_bytes` in their places among those of the batch. `moves` has the moves of all
    /// scattered rows, in the order in which they came in.
    pub fn put(&self, row_bytes: usize, moves: &[Move], output: &mut [u8]) {
        match self {
            Self::Sorted { memory, bytes, before, floors } => {
                let (rows, moves) = (&memory.bytes()[bytes.clone()], &moves[*before..]);
                match floors {
                    None => scatter(rows, row_bytes, moves, output),
                    Some(floors) => {
                        let (rows, output) = (cast_slice(rows), cast_slice_mut(output));
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
    /// Set where 4-byte numbers stand for 8-byte ones: for each column, what must be added to them.
    floors: Option<Arc<[u64]>>,
}

impl Strip {
    /// A strip of `rows` rows: columns of a width, and masks, in the given memory, whose contents are not
    /// defined. If there are floors, it holds the differences to them. One that is not much shorter than `whole_rows` has
    /// memory for as many: so strips that were let go of fit the next ones.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(
        (rows, whole_rows): (usize, usize),
        (width, count, masks): (usize, usize, usize),
        floors: Option<Arc<[u64]>>,
        [mut values, mut valid]: [Memory; 2],
    ) -> Result<Self> {
        let width = if floors.is_some() { LOWERED_BYTES } else { width };
        if rows < whole_rows && rows >= whole_rows / 2 {
            values.reserve(stride(whole_rows, width, count) * width * count)?;
            valid.reserve(stride(whole_rows, 1, masks) * masks)?;
        }
        values.resize(stride(rows, width, count) * width * count)?;
        valid.resize(stride(rows, 1, masks) * masks)?;
        Ok(Self { rows, width, values, count, valid, masks, floors })
    }

    /// One column of rows that have one length, and their mask, which may be empty.
    pub fn of_rows(rows: usize, width: usize, values: Memory, valid: Memory) -> Self {
        let masks = usize::from(!valid.is_empty());
        Self { rows, width, values, count: 1, valid, masks, floors: None }
    }

    /// Whether it has masks.
    pub fn has_masks(&self) -> bool {
        self.masks > 0
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> u64 {
        (self.values.len() + self.valid.len()) as u64
    }

    /// Its memory, for reuse.
    pub fn into_memory(self) -> [Memory; 2] {
        [self.values, self.valid]
    }

    /// A column of the values, and a column of the masks if `mask` names one.
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
        let floors = self.floors.as_deref().filter(|_| !is_mask);
        Columns { bytes: memory.bytes(), width, count, stride: stride(self.rows, width, count), floors }
    }
}
