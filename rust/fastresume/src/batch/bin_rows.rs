//! Where the rows of bins stand in their batches.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result, locked};
use crate::memory::vectors::{push, with_room};
use crate::order::selection::Selection;
use crate::resume::mixed_order::Standing;
use crate::resume::pass::Pass;
use crate::resume::tail::Shape;
use crate::resume::unit_order::UnitOrder;
use crate::units::bin_table::BinTable;

/// The bins of a dataset, and the rows that are put together to them.
#[derive(Debug, Clone)]
pub struct Bins {
    /// Which rows each consists of.
    pub table: Arc<BinTable>,
    /// The selected rows.
    pub rows: Arc<Selection>,
}

/// The bins of one batch.
#[derive(Debug)]
pub struct BinBatch {
    /// Its rows.
    pub shape: Shape,
    /// The row where each of its bins begins, copies among them, then the number of rows.
    pub offsets: Vec<u64>,
}

/// Bins of some batches: where the rows of each one go.
#[derive(Debug)]
pub struct BinPlaces {
    bins: Bins,
    /// The bins of each batch; none of one of which that can't be known.
    batches: Vec<Option<Arc<BinBatch>>>,
}

/// Where the rows of bins stand in the batches of one rank, in the rest of a pass.
#[derive(Debug)]
pub struct BinRows {
    /// Those of each source.
    each: Vec<Bins>,
    order: Mutex<UnitOrder>,
    pass: Arc<Pass>,
    rank: u64,
    /// What was looked up, of batches that are not delivered yet. A failure stays: a batch is made of one answer.
    known: Mutex<BTreeMap<u64, Result<Arc<BinBatch>>>>,
}

impl Bins {
    /// The rows of a bin, as runs.
    pub fn rows_of(&self, bin: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.rows.rows(self.ordinals(bin..bin + 1))
    }

    /// How many rows a bin has on the average, rounded up.
    #[must_use]
    pub fn mean_rows(&self) -> u64 {
        let bins = self.table.starts.last().copied().unwrap_or(0);
        self.rows.count().div_ceil(bins.max(1)).max(1)
    }

    /// The ordinals of the rows of bins that follow one another.
    #[must_use]
    pub fn ordinals(&self, bins: Range<u64>) -> Range<u64> {
        let at = |bin: u64| {
            let bin = usize::try_from(bin).unwrap_or(usize::MAX);
            self.table.first_ordinals.get(bin).copied().unwrap_or(0)
        };
        at(bins.start)..at(bins.end)
    }

    /// The bin that holds an ordinal.
    fn holding(&self, ordinal: u64) -> u64 {
        (self.table.first_ordinals.partition_point(|&first| first <= ordinal) as u64).saturating_sub(1)
    }
}

impl BinPlaces {
    /// The bins that hold ordinals, of which there are some.
    pub fn holding(&self, ordinals: &Range<u64>) -> Range<u64> {
        self.bins.holding(ordinals.start)..self.bins.holding(ordinals.end - 1) + 1
    }

    /// Some of the rows of a bin: those of these ordinals, counted from its first one.
    pub fn within(&self, bin: u64, ordinals: &Range<u64>) -> Range<u64> {
        let own = self.bins.ordinals(bin..bin + 1);
        own.start.max(ordinals.start) - own.start..own.end.min(ordinals.end) - own.start
    }

    /// The row of a batch, which goes by its index among these, where one of its bins begins.
    pub fn first_row(&self, batch: usize, bin: u64) -> Option<u64> {
        let of = self.batches.get(batch)?.as_ref()?;
        of.offsets.get(usize::try_from(bin).ok()?).copied()
    }
}

impl BinRows {
    /// Those of a rank, of each source. `order` has the bin at each position.
    #[must_use]
    pub fn new(each: Vec<Bins>, order: UnitOrder, pass: Arc<Pass>, rank: u64) -> Self {
        Self { each, order: Mutex::new(order), pass, rank, known: Mutex::default() }
    }

    /// The bins of a source.
    #[must_use]
    pub fn bins(&self, source: usize) -> &Bins {
        &self.each[source]
    }

    /// The bins of a batch.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory, or the batch has 2^32 rows or more.
    pub fn of(&self, batch: u64) -> Result<Arc<BinBatch>> {
        let mut known = locked(&self.known);
        known.entry(batch).or_insert_with(|| self.looked_up(batch).map(Arc::new)).clone()
    }

    /// Where the rows of a source's bins go in batches. A batch of which that can't be known fails before it is filled.
    #[must_use]
    pub fn places(&self, source: usize, batches: &[u64]) -> BinPlaces {
        let each = batches.iter().map(|&batch| self.of(batch).ok());
        BinPlaces { bins: self.each[source].clone(), batches: each.collect() }
    }

    /// The bins of a batch that is delivered now: they, and those of batches before it, are not asked for any more.
    ///
    /// # Errors
    /// As for `of`.
    pub fn delivered(&self, batch: u64) -> Result<Arc<BinBatch>> {
        let found = self.of(batch);
        locked(&self.known).retain(|&other, _| other > batch);
        found
    }

    /// The bins of a batch that are no copies, in its order.
    ///
    /// # Errors
    /// As for [`UnitOrder::standing_at`].
    pub fn standing(&self, batch: u64) -> Result<Vec<Standing>> {
        let positions = self.pass.positions(batch, self.rank)?;
        locked(&self.order).standing_at(&positions)
    }

    /// The bins of a batch, looked up now.
    ///
    /// # Errors
    /// As for `of`.
    pub fn looked_up(&self, batch: u64) -> Result<BinBatch> {
        let Shape { rows, valid, distinct } = self.pass.shape(batch, self.rank);
        let to_usize = |count: u64| {
            usize::try_from(count)
                .map_err(|_| Error::Argument(format!("no memory for batches of {count} bins")))
        };
        let mut offsets = with_room(to_usize(rows)?.saturating_add(1))?;
        let mut sum = 0_u64;
        offsets.push(0);
        for Standing { source, numbers, .. } in self.standing(batch)? {
            for bin in numbers {
                let ordinals = self.each[source].ordinals(bin..bin + 1);
                sum += ordinals.end - ordinals.start;
                push(&mut offsets, sum)?;
            }
        }
        let distinct = to_usize(distinct)?;
        if offsets.len() != distinct + 1 {
            return Err(Error::data(format!("batch {batch} has other bins than its pass says")));
        }
        for copy in distinct..to_usize(rows)? {
            let of = copy - distinct;
            sum += offsets[of + 1] - offsets[of];
            push(&mut offsets, sum)?;
        }
        if sum > u64::from(u32::MAX) {
            return Err(Error::Argument(format!("no memory for batches of {sum} rows")));
        }
        let shape = Shape { rows: sum, valid: offsets[to_usize(valid)?], distinct: offsets[distinct] };
        Ok(BinBatch { shape, offsets })
    }
}
