//! The schedule: what to decode next, of one dataset or of several.

use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::segment::Segment;
use crate::batch::sources::Sources;
use crate::error::{Error, Result};
use crate::order::pass_order::Order;
use crate::pipeline::counted::Counted;
use crate::pipeline::lane_schedule::LaneSchedule;
use crate::pipeline::mixed_schedule::MixedSchedule;
use crate::pipeline::sequence_schedule::SequenceSchedule;
use crate::resume::lanes::WorkerId;
use crate::resume::pass::Pass;
use crate::resume::unit_order::UnitOrder;

/// Which rows, or units, stand at the positions of a pass.
#[derive(Debug, Clone)]
pub struct PassOrder {
    /// Which of which source.
    pub units: UnitOrder,
    /// What they are.
    pub counted: Counted,
}

impl PassOrder {
    /// That of the rows of one dataset.
    #[must_use]
    pub fn of_rows(order: Order) -> Self {
        Self { units: UnitOrder::One(Box::new(order)), counted: Counted::Rows }
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
        let PassOrder { units, counted } = order;
        Ok(match (units, counted) {
            (UnitOrder::One(order), Counted::Sequences(of)) => {
                Self::Sequences(Box::new(SequenceSchedule::new(&sources, (*order, of), pass, reader)?))
            }
            (UnitOrder::One(order), counted) => {
                let bins = counted.bins().cloned();
                Self::One(Box::new(LaneSchedule::new(sources, *order, pass, reader, bins)?))
            }
            (UnitOrder::Mixed(order), counted) => {
                Self::Mixed(Box::new(MixedSchedule::new(sources, (*order, counted), pass, reader)?))
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
            Self::Mixed(mixed) => mixed.is_scattered(),
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
