//! What one thread does in one go, and what the consumer gets.

use std::sync::Arc;

use crate::batch::ended_bunch::EndedBunch;
use crate::batch::segment::Segment;
use crate::batch::slots::fields::{FieldSlots, SharedSlots};
use crate::batch::waiting::Share;
use crate::pipeline::prefetch_queue::BatchSlots;
use crate::resume::tail::Shape;

/// A task, which one thread does in one go.
pub enum Task {
    Decode(Decoding),
    /// A batch, or a bunch, whose rows are all there is brought into the form that is delivered. It has what it took of
    /// segments that wait.
    End(u64, SharedSlots, Shape, Vec<Share>),
}

/// A segment to decode, and the memory of its batches.
pub struct Decoding {
    pub segment: Segment,
    pub slots: Arc<BatchSlots>,
    /// The bytes of its rows, if its batches do not count them from the beginning.
    pub bytes: u64,
}

/// What is at the front of the queue.
pub enum Front {
    /// A batch, ready for its consumer, and its memory.
    Batch(u64, FieldSlots),
    /// A batch of a bunch, and the row of this where it begins.
    OfBunch(u64, Arc<EndedBunch>, u64),
    /// Nothing more: the pass is over for this reader.
    End,
}
