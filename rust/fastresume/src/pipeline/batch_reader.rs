//! Reads single batches of a pass: nothing but their rows is decoded.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::batch::bin_rows::BinRows;
use crate::batch::filler::Filler;
use crate::batch::list_span::SpanCutter;
use crate::batch::random_access::{self, ReadRows};
use crate::batch::segment::{Places, Segment, to_usize};
use crate::batch::slots::fields::Slots;
use crate::batch::sources::Sources;
use crate::error::{Result, locked};
use crate::memory::buffer::Pool;
use crate::memory::vectors::{collected, push};
use crate::pipeline::schedule::PassOrder;
use crate::pipeline::sequence_pass::{SequencePass, Tokens};
use crate::pipeline::thread_pool::Delivered;
use crate::pipeline::waiting_lists::WaitingLists;
use crate::resume::pass::Pass;

/// The batches of one rank in the cut of a pass.
#[derive(Debug)]
pub struct BatchReader {
    sources: Arc<Sources>,
    order: Mutex<PassOrder>,
    pass: Arc<Pass>,
    rank: u64,
}

impl BatchReader {
    /// Those of a rank.
    #[must_use]
    pub fn new(sources: Arc<Sources>, order: PassOrder, pass: Arc<Pass>, rank: u64) -> Self {
        Self { sources, order: Mutex::new(order), pass, rank }
    }

    /// The sources.
    #[must_use]
    pub fn sources(&self) -> &Arc<Sources> {
        &self.sources
    }

    /// The rows or units of a batch that are no copies, in its order: each source, and those that follow one another.
    ///
    /// # Errors
    /// As for [`PassOrder::numbers`].
    pub fn numbers(&self, batch: u64) -> Result<Vec<(usize, Range<u64>)>> {
        let positions = self.pass.valid_positions(batch, self.rank)?;
        locked(&self.order).numbers(&positions)
    }

    /// The batch with this number in the cut: the same as a pipeline delivers.
    ///
    /// # Errors
    /// `Data` or `Source` if rows can't be read; `Argument` if the system does not give so much memory; `Interrupted` once
    /// `stop` is set.
    pub fn read(&self, batch: u64, stop: &AtomicBool) -> Result<Delivered> {
        let (bins, sequences) = {
            let order = locked(&self.order);
            (order.bins(), order.sequences())
        };
        if let Some(sequences) = sequences {
            return self.sequences(&sequences, batch, stop);
        }
        if let Some(bins) = bins {
            return self.bins(&bins, batch, stop);
        }
        let positions = self.pass.positions(batch, self.rank)?;
        let numbers = locked(&self.order).numbers(&positions)?;
        let runs = collected(numbers.into_iter().map(|(source, run)| {
            let before = self.sources.rows_before(source);
            before + run.start..before + run.end
        }))?;
        let shape = self.pass.shape(batch, self.rank);
        let ReadRows { fields, written } = random_access::read(&self.sources, &runs, shape.rows, stop)?;
        Delivered::new(&self.pass, batch, (fields, written), shape, None)
    }

    fn bins(&self, of: &BinRows, batch: u64, stop: &AtomicBool) -> Result<Delivered> {
        let bins = of.looked_up(batch)?;
        let mut runs = Vec::new();
        for run in of.numbers(batch)?.flat_map(|bin| of.bins().rows_of(bin)) {
            push(&mut runs, run)?;
        }
        let ReadRows { fields, written } = random_access::read(&self.sources, &runs, bins.shape.rows, stop)?;
        Delivered::new(&self.pass, batch, (fields, written), bins.shape, Some(bins.offsets))
    }

    fn sequences(&self, of: &Arc<SequencePass>, batch: u64, stop: &AtomicBool) -> Result<Delivered> {
        let filler = Filler::new(Arc::clone(&self.sources), 1);
        let mut waiting = WaitingLists::new(Arc::clone(of), batch)?;
        let mut segments = VecDeque::from(self.segments(of, of.sequences(batch)?)?);
        while let Some(segment) = segments.pop_front() {
            waiting.put(filler.fill(&segment, |_| None, stop)?.lists);
        }
        let taken = waiting.take(self.pass.batches())?;
        let shape = self.pass.shape(batch, self.rank);
        let (rows, distinct) = (to_usize(shape.rows)?, to_usize(shape.distinct)?);
        let mut slots = Slots::new(&of.layout, rows, &Pool::new(0), None)?;
        taken.hand_over(&mut slots)?;
        slots.finish(&of.layout, (distinct, rows), &[])?;
        Delivered::new(&self.pass, batch, slots.into_parts(&of.layout), shape, None)
    }

    /// What the tokens of sequences are decoded from, a row group after another.
    fn segments(&self, of: &SequencePass, mut sequences: Vec<Tokens>) -> Result<Vec<Segment>> {
        sequences.sort_unstable_by_key(|(file, tokens)| (*file, tokens.start));
        let mut cutter = SpanCutter::new(&of.of, &self.sources.each()[0].manifest, u64::MAX);
        let mut segments = Vec::new();
        let mut put = |cutter: &mut SpanCutter<'_>| {
            let Some((group, spans, _)) = cutter.taken() else { return Ok(()) };
            let places = Places::Lists { of: Arc::clone(&of.of), first_batch: 0, bytes: 0, spans };
            push(&mut segments, Segment { group, places })
        };
        for (file, tokens) in sequences {
            cutter.add_all(file, tokens, &mut put)?;
        }
        put(&mut cutter)?;
        Ok(segments)
    }
}
