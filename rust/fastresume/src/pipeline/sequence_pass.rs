//! The sequences of a pass: which tokens each batch of a rank has.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::batch::packing::{PackedRows, Packing};
use crate::batch::segment::to_usize;
use crate::batch::sources::Sources;
use crate::error::{Error, Result, locked};
use crate::memory::vectors::{push, with_room};
use crate::projection::layout::Layout;
use crate::resume::mixed_order::Standing;
use crate::resume::pass::Pass;
use crate::resume::unit_order::UnitOrder;

/// The sequences of a pass, and what a rank gets of them.
#[derive(Debug)]
pub struct SequencePass {
    /// What those of each source are cut from.
    each: Vec<Arc<PackedRows>>,
    /// The files of all sources before each one.
    files_before: Vec<usize>,
    /// The sequence at each position.
    order: Mutex<UnitOrder>,
    /// The tensors of sequences.
    pub layout: Layout,
    /// The bytes of a token in each column.
    pub widths: Vec<usize>,
    pass: Arc<Pass>,
    rank: u64,
}

/// The tokens of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Their file, counted over all sources.
    pub file: usize,
    /// The pass of its source, in which each token stands once.
    pub pass: u64,
    /// Which tokens of the file.
    pub range: Range<u64>,
}

impl SequencePass {
    /// The sequences that are cut from rows of sources, all of one length.
    ///
    /// # Errors
    /// `Data` if a tensor that is packed is not one of lists of values, or sources pack others.
    pub fn new(
        sources: &Sources,
        each: Vec<PackedRows>,
        order: UnitOrder,
        (pass, rank): (Arc<Pass>, u64),
    ) -> Result<Self> {
        let first = each.first().map(|of| Arc::clone(&of.packing));
        let first = first.ok_or_else(|| Error::Argument("a reader has at least one source".into()))?;
        let files = &sources.each()[0];
        let layout = first.layout(&files.layout, &files.manifest)?;
        let widths = first.widths(&files.layout)?;
        let each = each.into_iter().map(|of| {
            let packing = Arc::new(of.packing.in_order_of(&first.names)?);
            Ok(Arc::new(PackedRows { packing, ..of }))
        });
        let each: Vec<_> = each.collect::<Result<_>>()?;
        let files_before = (0..each.len()).map(|source| sources.files_before(source)).collect();
        let order = Mutex::new(order);
        Ok(Self { each, files_before, order, layout, widths, pass, rank })
    }

    /// What the sequences of a source are cut from.
    #[must_use]
    pub fn of(&self, source: usize) -> &Arc<PackedRows> {
        &self.each[source]
    }

    /// How sequences of a file are made of lists.
    #[must_use]
    pub fn packing(&self, file: usize) -> &Arc<Packing> {
        let source = self.files_before.partition_point(|&before| before <= file).max(1) - 1;
        &self.each[source].packing
    }

    /// The elements of a sequence.
    #[must_use]
    pub fn length(&self) -> usize {
        self.each[0].packing.length
    }

    /// The bytes of a token in all columns; at least 1.
    #[must_use]
    pub fn token_bytes(&self) -> u64 {
        self.widths.iter().sum::<usize>().max(1) as u64
    }

    /// The bytes of a sequence in all columns.
    #[must_use]
    pub fn sequence_bytes(&self) -> u64 {
        self.token_bytes().saturating_mul(self.length() as u64)
    }

    /// The numbers of the sequences of a batch, in its order.
    ///
    /// # Errors
    /// As for [`UnitOrder::standing_at`].
    pub fn standing(&self, batch: u64) -> Result<Vec<Standing>> {
        let positions = self.pass.positions(batch, self.rank)?;
        locked(&self.order).standing_at(&positions)
    }

    /// The tokens of the sequences of a batch, in its order; none behind the last batch.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if the pass has others.
    pub fn sequences(&self, batch: u64) -> Result<Vec<Tokens>> {
        if batch >= self.pass.batches() {
            return Ok(Vec::new());
        }
        let distinct = to_usize(self.pass.shape(batch, self.rank).distinct)?;
        let mut found = with_room(distinct)?;
        for Standing { source, pass, numbers } in self.standing(batch)? {
            for sequence in numbers {
                let (file, range) = self.each[source].table.tokens(&(sequence..sequence + 1));
                push(&mut found, Tokens { file: self.files_before[source] + file, pass, range })?;
            }
        }
        if found.len() != distinct {
            return Err(Error::data(format!("batch {batch} has other sequences than its pass says")));
        }
        Ok(found)
    }
}
