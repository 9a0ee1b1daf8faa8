//! The schedule: what to decode next, of one dataset or of several.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::bin_rows::BinRows;
use crate::batch::bunch::Bunches;
use crate::batch::segment::Segment;
use crate::batch::sources::Sources;
use crate::error::{Error, Result};
use crate::memory::vectors::push;
use crate::order::pass_order::Order;
use crate::pipeline::lane_schedule::LaneSchedule;
use crate::pipeline::mixed_schedule::MixedSchedule;
use crate::pipeline::sequence_pass::SequencePass;
use crate::pipeline::sequence_schedule::SequenceSchedule;
use crate::resume::lanes::WorkerId;
use crate::resume::mixed_order::MixedOrder;
use crate::resume::pass::Pass;

/// Which rows stand at the positions of a pass.
#[derive(Debug, Clone)]
pub enum PassOrder {
    /// Those of one dataset.
    One(Order),
    /// Those of the sources of a mixture.
    Mixed(MixedOrder),
    /// Those of bins of one dataset, which the pass counts, in their order.
    Bins(Arc<BinRows>),
    /// Sequences of one dataset, which the pass counts.
    Sequences(Arc<SequencePass>),
}

impl PassOrder {
    /// The sequences, where the pass counts these.
    #[must_use]
    pub fn sequences(&self) -> Option<Arc<SequencePass>> {
        match self {
            Self::Sequences(sequences) => Some(Arc::clone(sequences)),
            _ => None,
        }
    }

    /// What stands at positions, in their order: each source, and its rows or units that follow one another.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `State` if a source does not stand there.
    pub fn numbers(&mut self, positions: &[Range<u64>]) -> Result<Vec<(usize, Range<u64>)>> {
        let order = match self {
            Self::Mixed(mixed) => return mixed.numbers(positions),
            Self::One(order) => order,
            Self::Bins(bins) => bins.order(),
            Self::Sequences(sequences) => &sequences.order,
        };
        let mut found = Vec::new();
        for run in positions.iter().flat_map(|range| order.rows(range.clone())) {
            push(&mut found, (0, run))?;
        }
        Ok(found)
    }

    /// The bins, where the pass counts these.
    #[must_use]
    pub fn bins(&self) -> Option<Arc<BinRows>> {
        match self {
            Self::Bins(bins) => Some(Arc::clone(bins)),
            _ => None,
        }
    }
}

/// Returns the segments of one reader in the order in which batches first need them.
pub enum Schedule {
    One(Box<LaneSchedule>),
    Mixed(Box<MixedSchedule>),
    Sequences(Box<SequenceSchedule>),
}

impl Schedule {
    /// The schedule of the rest of a pass for one reader.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(sources: Arc<Sources>, order: PassOrder, pass: Arc<Pass>, reader: WorkerId) -> Result<Self> {
        Ok(match order {
            PassOrder::One(order) => {
                Self::One(Box::new(LaneSchedule::new(sources, order, pass, reader, None)?))
            }
            PassOrder::Bins(bins) => {
                let order = bins.order().clone();
                Self::One(Box::new(LaneSchedule::new(sources, order, pass, reader, Some(bins))?))
            }
            PassOrder::Mixed(order) => {
                Self::Mixed(Box::new(MixedSchedule::new(sources, order, pass, reader)?))
            }
            PassOrder::Sequences(of) => {
                Self::Sequences(Box::new(SequenceSchedule::new(&sources, of, pass, reader)?))
            }
        })
    }

    /// How batches are put in order together.
    pub fn bunches(&self) -> Bunches {
        match self {
            Self::One(lanes) => lanes.bunches(),
            Self::Mixed(mixed) => mixed.bunches(),
            Self::Sequences(sequences) => sequences.bunches(),
        }
    }

    /// Whether the rows of a row group are decoded for many batches, some at a time.
    pub fn is_shuffled(&self) -> bool {
        match self {
            Self::One(lanes) => lanes.is_shuffled(),
            Self::Mixed(_) => false,
            Self::Sequences(sequences) => sequences.is_shuffled(),
        }
    }

    /// Whether batches get memory with their rows, which come scattered, and not before.
    pub fn is_scattered(&self) -> bool {
        match self {
            Self::One(lanes) => lanes.is_shuffled(),
            Self::Mixed(_) => true,
            Self::Sequences(_) => false,
        }
    }

    /// Whether rows wait until their batches are ended, which take them then.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::Mixed(_) | Self::Sequences(_))
    }

    /// The bytes of what is decoded in one go, over all streams, until batches are made of it.
    pub fn open_bytes(&self) -> u64 {
        match self {
            Self::One(lanes) => lanes.open_bytes(),
            Self::Mixed(mixed) => mixed.open_bytes(),
            Self::Sequences(sequences) => sequences.open_bytes(),
        }
    }

    /// The next segment; `None` at the end.
    ///
    /// # Errors
    /// The first batch that can't be had, and why.
    pub fn next_segment(&mut self) -> Option<std::result::Result<Segment, (u64, Error)>> {
        match self {
            Self::One(lanes) => lanes.next_segment().map(Ok),
            Self::Mixed(mixed) => mixed.next_segment(),
            Self::Sequences(sequences) => sequences.next_segment(),
        }
    }
}
