//! The sequences of a pass: which tokens each batch of a rank has.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::packing::PackedRows;
use crate::batch::segment::to_usize;
use crate::batch::sources::FileSource;
use crate::error::{Error, Result};
use crate::memory::vectors::{push, with_room};
use crate::order::pass_order::Order;
use crate::projection::layout::Layout;
use crate::resume::pass::Pass;

/// The sequences of a pass, and what a rank gets of them.
#[derive(Debug)]
pub struct SequencePass {
    /// What they are cut from.
    pub of: Arc<PackedRows>,
    /// The sequence at each position.
    pub order: Order,
    /// The tensors of sequences.
    pub layout: Layout,
    /// The bytes of a token in each column.
    pub widths: Vec<usize>,
    pass: Arc<Pass>,
    rank: u64,
}

/// The tokens of a sequence: of which file, and which.
pub type Tokens = (usize, Range<u64>);

impl SequencePass {
    /// The sequences that are cut from rows of files.
    ///
    /// # Errors
    /// `Data` if a tensor that is packed is not one of lists of values.
    pub fn new(
        files: &FileSource,
        of: PackedRows,
        order: Order,
        (pass, rank): (Arc<Pass>, u64),
    ) -> Result<Self> {
        let layout = of.packing.layout(&files.layout, &files.manifest)?;
        let widths = of.packing.widths(&files.layout)?;
        Ok(Self { of: Arc::new(of), order, layout, widths, pass, rank })
    }

    /// The bytes of a token in all columns; at least 1.
    #[must_use]
    pub fn token_bytes(&self) -> u64 {
        self.widths.iter().sum::<usize>().max(1) as u64
    }

    /// The sequences of a batch, in its order; none behind the last batch.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if the pass has others.
    pub fn sequences(&self, batch: u64) -> Result<Vec<Tokens>> {
        if batch >= self.pass.batches() {
            return Ok(Vec::new());
        }
        let distinct = to_usize(self.pass.shape(batch, self.rank).distinct)?;
        let mut found = with_room(distinct)?;
        for run in self.pass.positions(batch, self.rank)?.into_iter().flat_map(|of| self.order.rows(of)) {
            for sequence in run {
                push(&mut found, self.of.table.tokens(&(sequence..sequence + 1)))?;
            }
        }
        if found.len() != distinct {
            return Err(Error::data(format!("batch {batch} has other sequences than its pass says")));
        }
        Ok(found)
    }
}
