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
use crate::pipeline::sequence_pass::{SequencePass, Tokens, no_rows};
use crate::pipeline::thread_pool::{Delivered, UnitRows};
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
        let read = random_access::read(&self.sources, &runs, shape.rows, stop)?;
        self.delivered(batch, read, (shape.rows, shape.valid), None)
    }

    fn bins(&self, of: &BinRows, batch: u64, stop: &AtomicBool) -> Result<Delivered> {
        let bins = of.looked_up(batch)?;
        let mut runs = Vec::new();
        for range in self.pass.positions(batch, self.rank)? {
            for bin in of.order().rows(range).flatten() {
                for run in of.bins().rows_of(bin) {
                    push(&mut runs, run)?;
                }
            }
        }
        let read = random_access::read(&self.sources, &runs, bins.shape.rows, stop)?;
        let units = UnitRows { offsets: bins.offsets, are_documents: false };
        self.delivered(batch, read, (bins.shape.rows, bins.shape.valid), Some(units))
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
        let (fields, written) = slots.into_parts(&of.layout);
        let offsets = written.document_offsets(rows)?;
        let units = offsets.map(|offsets| UnitRows { offsets, are_documents: true });
        self.delivered(batch, ReadRows { fields, written }, (shape.rows, shape.valid), units)
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
        for (file, mut tokens) in sequences {
            loop {
                tokens.start = cutter.add(file, tokens.clone())?;
                if tokens.is_empty() {
                    break;
                }
                if cutter.is_empty() {
                    return Err(no_rows());
                }
                put(&mut cutter)?;
            }
        }
        put(&mut cutter)?;
        Ok(segments)
    }

    fn delivered(
        &self,
        batch: u64,
        ReadRows { fields, written }: ReadRows,
        (rows, valid_rows): (u64, u64),
        units: Option<UnitRows>,
    ) -> Result<Delivered> {
        Ok(Delivered {
            rows: to_usize(rows)?,
            valid_rows: to_usize(valid_rows)?,
            fields,
            written,
            cursor: self.pass.cursor_after(batch + 1),
            pass: Arc::clone(&self.pass),
            batch,
            units,
        })
    }
}
