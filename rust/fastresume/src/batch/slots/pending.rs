//! The decoded rows of a batch that are not in their places yet.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::batch::slots::interleave::{Columns, Move, place, place_raised, scatter, scatter_raised, stride};
use crate::error::Result;
use crate::memory::buffer::Memory;

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

/// So many bytes of rows are put together from columns at once before they are moved.
const TILE_BYTES: usize = 8 << 10;

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

/// Rows of a field, or those of several that were decoded side by side.
#[derive(Debug)]
pub struct FlatRows {
    /// The field of the batch.
    pub field: usize,
    pub strip: Arc<Strip>,
    /// The row of the segment with which the strip begins.
    pub first: usize,
    /// The columns of the field in the strip, and their masks if it has some.
    pub columns: Range<usize>,
    pub masks: Option<Range<usize>>,
}

impl FlatRows {
    /// Their columns, or their masks.
    fn columns(&self, is_mask: bool) -> Option<Columns<'_>> {
        let columns = if is_mask { self.masks.as_ref()? } else { &self.columns };
        Some(self.strip.columns(is_mask).of(columns))
    }
}

/// Rows in strips, which a batch's moves put in their places.
#[derive(Debug)]
pub struct PlacedRows<'a> {
    /// All fields of one length, in their order.
    pub fields: &'a [FlatRows],
    /// Which rows of the segment they are.
    pub rows: Range<usize>,
    /// How many rows of the batch came in before.
    pub before: usize,
}

impl PlacedRows<'_> {
    /// Puts rows of a field, of `row_bytes`, or of its mask, in their places, and asks for those of the next field. `moves` has
    /// the moves of all scattered rows, in the order in which they came in.
    pub fn put(&self, (index, is_mask): (usize, bool), row_bytes: usize, moves: &[Move], output: &mut [u8]) {
        let Ok(number) = self.fields.binary_search_by_key(&index, |own| own.field) else { return };
        if let Some(next) = self.fields.get(number + 1)
            && let Some(columns) = next.columns(false)
        {
            columns.fetch(self.rows.start - next.first, self.rows.len());
        }
        let own = &self.fields[number];
        if let Some(columns) = own.columns(is_mask) {
            let moves = &moves[self.before..self.before + self.rows.len()];
            columns.put(self.rows.start - own.first, row_bytes, moves, output);
        }
    }
}

impl Columns<'_> {
    /// Puts the rows from `first` on, of `row_bytes`, in their places in `output`.
    fn put(&self, first: usize, row_bytes: usize, moves: &[Move], output: &mut [u8]) {
        if self.count == 1 {
            let rows = &self.bytes[first * self.width..][..moves.len() * self.width];
            match (self.floors, self.width) {
                (Some(floors), _) => {
                    let floor = floors.first().copied().unwrap_or(0);
                    place_raised(cast_slice(rows), floor, moves, cast_slice_mut(output));
                }
                (None, 1) => place(rows, moves, output),
                (None, 2) => place::<u16>(cast_slice(rows), moves, cast_slice_mut(output)),
                (None, 4) => place::<u32>(cast_slice(rows), moves, cast_slice_mut(output)),
                (None, 8) => place::<u64>(cast_slice(rows), moves, cast_slice_mut(output)),
                _ => scatter(rows, row_bytes, moves, output),
            }
            return;
        }
        let tile_rows = (TILE_BYTES / row_bytes.max(1)).max(1);
        // Of 8-byte numbers, so that numbers of each width are aligned.
        let mut tile = vec![0_u64; (tile_rows.min(moves.len()) * row_bytes).div_ceil(size_of::<u64>())];
        let tile: &mut [u8] = cast_slice_mut(&mut tile);
        let mut first = first;
        for moves in moves.chunks(tile_rows) {
            let rows = &mut tile[..moves.len() * row_bytes];
            self.interleave_raised(first, rows);
            scatter(rows, row_bytes, moves, output);
            first += moves.len();
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
