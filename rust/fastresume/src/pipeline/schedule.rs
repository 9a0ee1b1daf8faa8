//! The schedule: what to decode next, of one dataset or of several.

use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::segment::Segment;
use crate::batch::sources::Sources;
use crate::error::{Error, Result};
use crate::order::pass_order::Order;
use crate::pipeline::bin_rows::BinRows;
use crate::pipeline::lane_schedule::LaneSchedule;
use crate::pipeline::mixed_schedule::MixedSchedule;
use crate::resume::lanes::WorkerId;
use crate::resume::mixed_order::MixedOrder;
use crate::resume::pass::Pass;

/// Which rows stand at the positions of a pass.
#[derive(Debug)]
pub enum PassOrder {
    /// Those of one dataset.
    One(Order),
    /// Those of the sources of a mixture.
    Mixed(MixedOrder),
    /// Those of bins of one dataset, which the pass counts, in their order.
    Bins(Arc<BinRows>),
}

impl PassOrder {
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
        })
    }

    /// How batches are put in order together.
    pub fn bunches(&self) -> Bunches {
        match self {
            Self::One(lanes) => lanes.bunches(),
            Self::Mixed(mixed) => mixed.bunches(),
        }
    }

    /// Whether rows come scattered over the batches of a window.
    pub fn is_shuffled(&self) -> bool {
        matches!(self, Self::One(lanes) if lanes.is_shuffled())
    }

    /// Whether rows wait until their batches are ended, which take them then.
    pub fn is_waiting(&self) -> bool {
        matches!(self, Self::Mixed(_))
    }

    /// The bytes of what is decoded in one go, over all streams, until batches are made of it.
    pub fn open_bytes(&self) -> u64 {
        match self {
            Self::One(lanes) => lanes.open_bytes(),
            Self::Mixed(mixed) => mixed.open_bytes(),
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
        }
    }
}
