//! How many batches make a bunch.

use crate::batch::segment::SEGMENT_BYTES;
use crate::order::pass_order::Order;
use crate::projection::layout::Layout;

/// What the memory of a batch, or of a bunch, takes beside its rows: of itself, of each field, and of what each segment brings
/// to a field, as vectors that grow have room for as much again.
const BATCH_BYTES: u64 = 512;
const FIELD_BYTES: u64 = 256;
const PART_BYTES: u64 = 2 * 64;

/// The rows of a bunch take at least so many times what it takes beside them.
const LEAST_SHARE: u64 = 8;

/// A window has at least so many bunches: with the rows of the last one, the next window is opened.
const LEAST_BUNCHES: u64 = 16;

/// So many rows of a mixture are ended in one go, if they have no more bytes than these; more where that leaves fewer rows
/// to each segment of a window.
const MIXED_ROWS: u64 = 2048;
const MIXED_BYTES: u64 = 8 << 20;
const ROWS_OF_SEGMENT: u64 = 16;

/// No bunch has more rows.
const MOST_ROWS: u64 = 1 << 20;

/// How many batches of a shuffled order make a bunch, and what each takes beside its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BunchSize {
    /// It has 2 to the power of this.
    pub shift: u32,
    /// What one takes beside its rows, as near as is known.
    pub own_bytes: u64,
}

impl BunchSize {
    /// That of an order whose batches have so many rows. Where rows come in their order, each batch is alone.
    #[must_use]
    pub fn new(layout: &Layout, order: &Order, batch_rows: u64) -> Self {
        let Some((blocks, windows)) = order.sizes() else { return Self { shift: 0, own_bytes: 0 } };
        let (window_rows, row_bytes) = (order.largest_window(), (layout.row_bytes() as u64).max(1));
        let segments = (blocks.div_ceil(windows.max(1)) as u64)
            .saturating_add(window_rows.saturating_mul(row_bytes) / SEGMENT_BYTES + 1);
        let fields = layout.fields().len() as u64;
        let bundled: usize = layout.bundles().iter().map(|bundle| bundle.len() - 1).sum();
        // Values and masks come each for themselves.
        let parts = 2 * (fields - bundled as u64);
        let of_segments = segments.saturating_mul(PART_BYTES * (1 + parts));
        let own_bytes = (BATCH_BYTES + FIELD_BYTES * fields).saturating_add(of_segments);
        let rows = own_bytes.saturating_mul(LEAST_SHARE) / row_bytes;
        let rows = rows.min(window_rows / LEAST_BUNCHES).min(MOST_ROWS);
        Self { shift: (rows / batch_rows.max(1)).max(1).ilog2(), own_bytes }
    }

    /// That of a mixture: what a segment brings to a batch costs as much, however few rows these are. Where sources are
    /// shuffled, `windows` says how many segments their windows have together, and over how many rows the shortest reaches.
    #[must_use]
    pub fn of_mixture(layout: &Layout, batch_rows: u64, windows: Option<(u64, u64)>) -> Self {
        let most = MIXED_BYTES / (layout.row_bytes() as u64).max(1);
        let rows = match windows {
            None => MIXED_ROWS,
            Some((segments, reach)) => {
                segments.saturating_mul(ROWS_OF_SEGMENT).max(MIXED_ROWS).min(reach / LEAST_BUNCHES)
            }
        };
        Self { shift: (rows.min(most) / batch_rows.max(1)).max(1).ilog2(), own_bytes: 0 }
    }

    /// The rows of a bunch of batches of so many.
    #[must_use]
    pub fn rows(self, batch_rows: u64) -> u64 {
        batch_rows.saturating_mul(1 << self.shift)
    }
}
