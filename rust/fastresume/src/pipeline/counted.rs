//! What the positions of a pass count: rows, or units of them.

use std::sync::Arc;

use crate::batch::bin_rows::BinRows;
use crate::pipeline::sequence_pass::SequencePass;

/// What the positions of a pass count.
#[derive(Debug, Clone)]
pub enum Counted {
    /// Rows.
    Rows,
    /// Bins of them.
    Bins(Arc<BinRows>),
    /// Sequences, which are cut from lists.
    Sequences(Arc<SequencePass>),
}

impl Counted {
    /// The bins, where these are counted.
    #[must_use]
    pub fn bins(&self) -> Option<&Arc<BinRows>> {
        match self {
            Self::Bins(bins) => Some(bins),
            _ => None,
        }
    }

    /// The sequences, where these are counted.
    #[must_use]
    pub fn sequences(&self) -> Option<&Arc<SequencePass>> {
        match self {
            Self::Sequences(sequences) => Some(sequences),
            _ => None,
        }
    }
}
