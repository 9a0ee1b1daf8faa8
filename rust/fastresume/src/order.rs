//! Which row stands at which position of a pass.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What fixes an order, as the cursor records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum OrderKind {
    /// Position p is row p.
    Sequential,
}

/// A bijection from the positions `[0, num_rows)` of one pass to the row numbers `[0, num_rows)`.
///
/// It knows nothing of ranks, workers, threads or batch sizes. Callers think in positions and ask
/// here for rows; nobody else may take a position for a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    kind: OrderKind,
    num_rows: u64,
}

impl Order {
    /// The order of this kind over so many rows.
    #[must_use]
    pub fn new(kind: OrderKind, num_rows: u64) -> Self {
        Self { kind, num_rows }
    }

    /// The rows at `positions`, in order, as runs of consecutive row numbers.
    ///
    /// Positions beyond the end give nothing.
    pub fn rows(&self, positions: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let run = match self.kind {
            OrderKind::Sequential => positions.start..positions.end.min(self.num_rows),
        };
        std::iter::once(run).filter(|run| !run.is_empty())
    }
}
