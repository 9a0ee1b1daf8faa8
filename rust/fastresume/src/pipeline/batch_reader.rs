//! Reads single batches of a pass: nothing but their rows is decoded.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::batch::bin_rows::BinRows;
use crate::batch::filler::Filler;
use crate::batch::list_span::SpanCutter;
use crate::batch::read_rows::{self, ReadRows};
use crate::batch::segment::{Places, Segment, to_usize};
use crate::batch::slots::fields::FieldSlots;
use crate::batch::sources::Sources;
use crate::error::{Result, locked};
use crate::memory::pool::Pool;
use crate::memory::vectors::{collected, push};
use crate::pipeline::counted::Counted;
use crate::pipeline::decode_cost::rows_scheduled;
use crate::pipeline::memory_bound::MemoryBound;
use crate::pipeline::mixture_bound::of_mixture;
use crate::pipeline::schedule::PassOrder;
use crate::pipeline::sequence_pass::SequencePass;
use crate::pipeline::thread_pool::{Delivered, ThreadPool};
use crate::pipeline::waiting_lists::WaitingLists;
use crate::resume::lanes::WorkerId;
use crate::resume::mixed_order::Standing;
use crate::resume::pass::Pass;
use crate::resume::unit_order::UnitOrder;

/// The batches of one rank in the cut of a pass.
#[derive(Debug)]
pub struct BatchReader {
    sources: Arc<Sources>,
    units: Mutex<UnitOrder>,
    counted: Counted,
    pass: Arc<Pass>,
    rank: u64,
}

impl BatchReader {
    /// Those of a rank.
    #[must_use]
    pub fn new(sources: Arc<Sources>, order: PassOrder, pass: Arc<Pass>, rank: u64) -> Self {
        Self { sources, units: Mutex::new(order.units), counted: order.counted, pass, rank }
    }

    /// The sources.
    #[must_use]
    pub fn sources(&self) -> &Arc<Sources> {
        &self.sources
    }

    /// The batches of a reader from the next one on, decoded ahead by threads up to so many bytes.
    ///
    /// # Errors
    /// As for [`ThreadPool::new`].
    pub fn pipeline(&self, reader: WorkerId, threads: usize, budget_bytes: u64) -> Result<ThreadPool> {
        let (sources, pass) = (Arc::clone(&self.sources), Arc::clone(&self.pass));
        ThreadPool::new(sources, self.order(), pass, reader, threads, budget_bytes)
    }

    fn order(&self) -> PassOrder {
        PassOrder { units: locked(&self.units).clone(), counted: self.counted.clone() }
    }

    /// The rows or units of a batch that are no copies, in its order.
    ///
    /// # Errors
    /// As for [`UnitOrder::standing_at`].
    pub fn standing(&self, batch: u64) -> Result<Vec<Standing>> {
        let positions = self.pass.valid_positions(batch, self.rank)?;
        locked(&self.units).standing_at(&positions)
    }

    /// The batch with this number in the cut: the same as a pipeline delivers.
    ///
    /// # Errors
    /// `Data` or `Source` if rows can't be read; `Argument` if the system does not give so much memory; `Interrupted` once
    /// `stop` is set.
    pub fn read(&self, batch: u64, stop: &AtomicBool) -> Result<Delivered> {
        match &self.counted {
            Counted::Sequences(sequences) => return self.sequences(sequences, batch, stop),
            Counted::Bins(bins) => return self.bins(bins, batch, stop),
            Counted::Rows => {}
        }
        let positions = self.pass.positions(batch, self.rank)?;
        let standing = locked(&self.units).standing_at(&positions)?;
        let runs = collected(standing.into_iter().map(|of| self.of_all(of.source, of.numbers)))?;
        let shape = self.pass.shape(batch, self.rank);
        let ReadRows { fields, written } = read_rows::read(&self.sources, &runs, shape.rows, stop)?;
        Delivered::new(&self.pass, batch, (fields, written), shape, None)
    }

    /// Rows of a source, as they are numbered over all of them.
    fn of_all(&self, source: usize, rows: Range<u64>) -> Range<u64> {
        let before = self.sources.rows_before(source);
        before + rows.start..before + rows.end
    }

    /// The most memory that reading the rest of the pass takes on this rank, with so many readers that share it.
    ///
    /// # Errors
    /// `Argument` if so many readers have no share in the pass's cut.
    pub fn memory_bound(&self, workers: u64) -> Result<MemoryBound> {
        let (source, pass) = (&self.sources.each()[0], &self.pass);
        Ok(match (&*locked(&self.units), &self.counted) {
            (UnitOrder::Mixed(order), counted) => {
                of_mixture(&self.sources, (order, counted), pass, (self.rank, workers.max(1)))?
            }
            (UnitOrder::One(order), Counted::Rows) => {
                MemoryBound::new(&source.manifest, &source.layout, order, pass, workers)
            }
            (UnitOrder::One(order), Counted::Bins(bins)) => {
                MemoryBound::of_bins(source, (order, bins), pass, workers)
            }
            (UnitOrder::One(order), Counted::Sequences(of)) => {
                MemoryBound::of_sequences(source, (order, of), pass, workers)
            }
        })
    }

    /// The number of rows that this rank decodes in the rest of the pass, with so many readers that share it.
    ///
    /// # Errors
    /// As for [`rows_scheduled`].
    pub fn rows_decoded(&self, workers: u64, stop: &AtomicBool) -> Result<u64> {
        let (rank, world_size, workers) = (self.rank, self.pass.world_size(), workers.max(1));
        let readers = (0..workers).map(|worker| WorkerId { rank, world_size, worker, workers });
        readers.map(|reader| rows_scheduled(&self.sources, self.order(), &self.pass, reader, stop)).sum()
    }

    fn bins(&self, of: &BinRows, batch: u64, stop: &AtomicBool) -> Result<Delivered> {
        let bins = of.looked_up(batch)?;
        let mut runs = Vec::new();
        for Standing { source, numbers, .. } in of.standing(batch)? {
            for rows in numbers.flat_map(|bin| of.bins(source).rows_of(bin)) {
                push(&mut runs, self.of_all(source, rows))?;
            }
        }
        let ReadRows { fields, written } = read_rows::read(&self.sources, &runs, bins.shape.rows, stop)?;
        Delivered::new(&self.pass, batch, (fields, written), bins.shape, Some(bins.offsets))
    }

    fn sequences(&self, of: &Arc<SequencePass>, batch: u64, stop: &AtomicBool) -> Result<Delivered> {
        let filler = Filler::new(Arc::clone(&self.sources), 1);
        let mut waiting = WaitingLists::new(Arc::clone(of), batch)?;
        let mut segments = VecDeque::from(self.segments(of, of.standing(batch)?)?);
        while let Some(segment) = segments.pop_front() {
            waiting.put(filler.fill(&segment, |_| None, stop)?.lists);
        }
        let taken = waiting.take(self.pass.batches())?;
        let shape = self.pass.shape(batch, self.rank);
        let (rows, distinct) = (to_usize(shape.rows)?, to_usize(shape.distinct)?);
        let mut slots = FieldSlots::new(&of.layout, rows, &Pool::new(0), None)?;
        taken.hand_over(&mut slots)?;
        slots.finish(&of.layout, (distinct, rows), &[])?;
        Delivered::new(&self.pass, batch, slots.into_parts(&of.layout), shape, None)
    }

    /// What sequences are decoded from: of each pass of a source, a row group after another.
    fn segments(&self, of: &SequencePass, mut standing: Vec<Standing>) -> Result<Vec<Segment>> {
        standing.sort_unstable_by_key(|own| (own.source, own.pass, own.numbers.start));
        let mut segments = Vec::new();
        for of_pass in standing.chunk_by(|one, other| (one.source, one.pass) == (other.source, other.pass)) {
            let Some(&Standing { source, pass, .. }) = of_pass.first() else { continue };
            let (packed, manifest) = (of.of(source), &self.sources.each()[source].manifest);
            let mut sequences = Vec::new();
            for sequence in of_pass.iter().flat_map(|own| own.numbers.clone()) {
                push(&mut sequences, (sequence, 0))?;
            }
            for (first_batch, (group, spans, _)) in
                SpanCutter::new((packed, pass), manifest, u64::MAX).cut(&sequences)?
            {
                let places = Places::Lists { of: Arc::clone(packed), first_batch, bytes: 0, spans };
                push(&mut segments, Segment { group: self.sources.number_of(source, group), places })?;
            }
        }
        Ok(segments)
    }
}
