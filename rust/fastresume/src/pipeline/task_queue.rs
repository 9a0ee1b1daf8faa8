//! The tasks of one reader: what its batches still need, and what to do next.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::ended_bunch::EndedBunch;
use crate::batch::fetches::Soon;
use crate::batch::filler::Filled;
use crate::batch::segment::{Places, Segment, to_usize};
use crate::batch::slots::fields::{SharedSlots, Slots};
use crate::batch::slots::pending::waiting;
use crate::batch::sources::Sources;
use crate::batch::window::WindowPart;
use crate::error::{Error, Result};
use crate::memory::buffer::Pool;
use crate::order::pass_order::Order;
use crate::pipeline::prefetch_queue::{BatchSlots, Filling, New};
use crate::pipeline::schedule::Schedule;
use crate::projection::layout::Layout;
use crate::resume::lanes::WorkerId;
use crate::resume::pass::Pass;
use crate::resume::tail::Shape;

/// What a batch takes beside its values.
const BATCH_OVERHEAD_BYTES: u64 = 1 << 10;

/// The number of batches behind the front one that are finished ahead of the consumer. With more, their
/// memory would have left the processor's caches before they are asked for.
const ENDED_AHEAD: u64 = 8;

/// So many segments are looked up where their bytes take a network: they are asked for before their turn.
const MOST_AHEAD: usize = 64;

/// The batches of one reader in the rest of a pass: from those to be decoded to those that wait for the
/// consumer.
pub struct Agenda {
    pass: Arc<Pass>,
    reader: WorkerId,
    budget_bytes: u64,
    /// The memory of batches that the consumer released.
    pool: Pool,
    schedule: Schedule,
    /// The segments that come next: the first one waits for room.
    ahead: VecDeque<Segment>,
    /// So many of them are looked up.
    most_ahead: usize,
    /// The rests of segments that were too large to be decoded at once.
    divided: Vec<Decoding>,
    /// The window that was opened last, and the memory of its batches, which all its segments share.
    window: Option<(Arc<WindowPart>, Arc<BatchSlots>)>,
    bunches: Bunches,
    filling: Filling,
    /// The bunch from which batches are delivered, and the batch behind the last one of it that may be.
    open: Option<(Arc<EndedBunch>, u64)>,
    /// So many segments are being decoded.
    decoding: usize,
    /// What is being decoded takes so many bytes, which its batches do not take yet.
    decoding_bytes: u64,
    /// The next batch to deliver.
    front: u64,
    /// The first batch that failed, and why.
    failed: Option<(u64, Error)>,
}

/// A task, which one thread does in one go.
pub enum Task {
    Decode(Decoding),
    /// A batch, or a bunch, whose rows are all there is brought into the form that is delivered.
    End(u64, SharedSlots, Shape),
}

/// A segment to decode, and the memory of its batches.
pub struct Decoding {
    pub segment: Segment,
    pub slots: Arc<BatchSlots>,
    /// The bytes of its rows, if its batches do not count them from the beginning.
    bytes: u64,
}

/// What is to be decoded next.
enum NextDecode {
    /// The rest of a segment, by its index.
    Divided(usize),
    /// The segment that waits.
    Segment,
}

/// What is at the front of the queue.
pub enum Front {
    /// A batch, ready for its consumer, and its memory.
    Batch(u64, Slots),
    /// A batch of a bunch, and the row of this where it begins.
    OfBunch(u64, Arc<EndedBunch>, u64),
    /// Nothing more: the pass is over for this reader.
    End,
}

impl Agenda {
    /// The rest of a pass for a reader, whose undelivered batches may take `budget_bytes`.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(
        sources: Arc<Sources>,
        order: Order,
        pass: Arc<Pass>,
        reader: WorkerId,
        budget_bytes: u64,
    ) -> Result<Self> {
        let most_ahead = if sources.has_objects() { MOST_AHEAD } else { 1 };
        let fetched_bytes = sources.read_bytes();
        let schedule = Schedule::new(sources, order, Arc::clone(&pass), reader)?;
        let is_scattered = schedule.is_shuffled();
        let stated_bytes = budget_bytes.saturating_add(schedule.open_bytes()).saturating_add(fetched_bytes);
        let pool = Pool::new(to_usize(stated_bytes)?);
        let front = pass.done() + reader.worker;
        let bunches = schedule.bunches();
        Ok(Self {
            bunches,
            open: None,
            decoding: 0,
            pass,
            reader,
            budget_bytes,
            pool,
            schedule,
            ahead: VecDeque::new(),
            most_ahead,
            divided: Vec::new(),
            window: None,
            filling: Filling::new(is_scattered),
            decoding_bytes: 0,
            front,
            failed: None,
        })
    }

    /// The number of batches that have all their rows, and their bytes.
    pub fn queued(&self) -> (u64, u64) {
        let open = self.open.as_ref().filter(|(_, end)| self.front < *end);
        let of_open = open.map_or(0, |(_, end)| (end - self.front).div_ceil(self.reader.workers));
        let (batches, bytes) = self.filling.queued();
        (batches + of_open, bytes)
    }

    /// Takes the front batch if it is ready, its error, or the end; none if it is still coming.
    pub fn take_front(&mut self, layout: &Layout) -> Option<Result<Front>> {
        let batch = self.front;
        if batch >= self.pass.batches() {
            return Some(Ok(Front::End));
        }
        let bunch = self.bunches.of(batch);
        if self.open.as_ref().is_none_or(|(_, end)| *end <= batch)
            && let Some((slots, is_whole)) = self.filling.take_ready(bunch)
        {
            if self.bunches.are_single() {
                self.front += self.reader.workers;
                return Some(Ok(Front::Batch(batch, slots)));
            }
            let last = self.bunches.last(bunch);
            let end = self.failed.as_ref().filter(|_| !is_whole).map_or(last + 1, |(first, _)| *first);
            match EndedBunch::new(slots, layout) {
                Ok(ended) => self.open = Some((Arc::new(ended), end)),
                Err(error) => self.note_failed(batch, error),
            }
        }
        if let Some((open, end)) = &self.open
            && batch < *end
        {
            let front = Front::OfBunch(batch, Arc::clone(open), self.bunches.first_row(batch));
            self.front += self.reader.workers;
            if self.front >= *end {
                self.open = None;
            }
            self.give_up_front();
            return Some(Ok(front));
        }
        self.failure().map(|error| Err(error.clone()))
    }

    /// Whether the consumer has something to do: the front batch, to be delivered or finished first, or its
    /// error.
    pub fn has_front(&self) -> bool {
        let is_open = self.open.as_ref().is_some_and(|(_, end)| self.front < *end);
        let is_ready = self.filling.is_ready(self.bunches.of(self.front));
        is_open || is_ready || self.filling.has_complete(self.among(0)) || self.failure().is_some()
    }

    /// Why the front batch failed.
    fn failure(&self) -> Option<&Error> {
        self.failed.as_ref().filter(|(first, _)| *first <= self.front).map(|(_, error)| error)
    }

    /// The next task, if there is one. Batches with all their rows come first, then the next segment, if its
    /// batches fit the budget.
    ///
    /// What the front batch needs is taken whatever the budget is: so there is always progress.
    pub fn take(&mut self, layout: &Layout) -> Option<Task> {
        if let Some(end) = self.take_end(ENDED_AHEAD) {
            return Some(end);
        }
        let segment = match self.next()? {
            NextDecode::Divided(at) => {
                self.decoding += 1;
                return Some(Task::Decode(self.divided.swap_remove(at)));
            }
            NextDecode::Segment => self.ahead.pop_front()?,
        };
        match self.slots_for(&segment, layout) {
            Ok(slots) => {
                let row_bytes = layout.row_bytes().saturating_add(layout.jagged_row_bytes()) as u64;
                let bytes = waiting(segment.scattered_rows().saturating_mul(row_bytes));
                self.decoding_bytes = self.decoding_bytes.saturating_add(bytes);
                self.decoding += 1;
                Some(Task::Decode(Decoding { segment, slots, bytes }))
            }
            Err(error) => {
                self.note_failed(segment.first_batch(), error);
                None
            }
        }
    }

    /// Takes the task to finish the front batch, if it has all its rows.
    pub fn take_front_end(&mut self) -> Option<Task> {
        self.take_end(0)
    }

    /// The row groups of a segment and of those that come next, each once.
    pub fn soon(&self, now: usize) -> Soon {
        let mut groups = vec![now];
        for segment in &self.ahead {
            if !groups.contains(&segment.group) {
                groups.push(segment.group);
            }
        }
        Soon { groups, come_again: self.schedule.is_shuffled() }
    }

    /// Whether there seems to be a task.
    pub fn has_task(&mut self) -> bool {
        let among = self.among(ENDED_AHEAD);
        self.filling.has_complete(among) || self.next().is_some()
    }

    /// Notes the result of decoding a segment; if it failed, with the first batch that it failed for.
    pub fn note_decoded(&mut self, decoding: &Decoding, filled: std::result::Result<Filled, (u64, Error)>) {
        self.decoding_bytes = self.decoding_bytes.saturating_sub(decoding.bytes);
        self.decoding -= 1;
        match filled {
            Ok(Filled { rows, left }) => {
                self.filling.count(&rows);
                let slots = &decoding.slots;
                let left = left.map(|segment| Decoding { segment, slots: Arc::clone(slots), bytes: 0 });
                self.divided.extend(left);
            }
            Err((first, error)) => self.note_failed(first, error),
        }
        self.give_up_front();
    }

    /// Notes that a batch is finished.
    pub fn note_ended(&mut self, batch: u64) {
        self.filling.end(batch);
    }

    /// Notes that a batch which was taken can't be had for all that.
    pub fn note_not_delivered(&mut self, batch: u64, error: Error) {
        (self.front, self.open) = (batch, None);
        self.note_failed(batch, error);
    }

    /// Notes why a batch and those behind it can't be had.
    pub fn note_failed(&mut self, first: u64, error: Error) {
        if self.failed.as_ref().is_none_or(|(batch, _)| first < *batch) {
            self.failed = Some((first, error));
        }
        self.give_up_front();
    }

    /// Some batches of the front bunch can't be had: those before them are delivered once all their rows are there, which is
    /// when nothing is decoded any more.
    fn give_up_front(&mut self) {
        let Some((first, _)) = &self.failed else { return };
        let bunch = self.bunches.of(self.front);
        if self.front < *first
            && bunch == self.bunches.of(*first)
            && self.decoding == 0
            && self.filling.is_coming(bunch)
            && self.next().is_none()
        {
            self.filling.give_up(bunch);
        }
    }

    /// A batch to finish, of the front one and `behind` behind it.
    fn take_end(&mut self, behind: u64) -> Option<Task> {
        let (batch, slots, shape) = self.filling.take_complete(self.among(behind))?;
        Some(Task::End(batch, slots, shape))
    }

    /// The front batch, or its bunch, and so many batches behind it, or the next bunch.
    fn among(&self, behind: u64) -> RangeInclusive<u64> {
        let bunch = self.bunches.of(self.front);
        bunch..=self.bunches.behind(bunch, behind)
    }

    /// What to decode next, if its batches fit the budget.
    fn next(&mut self) -> Option<NextDecode> {
        // What batches before a failed one need is still decoded: they are delivered.
        let end = self.failed.as_ref().map_or(u64::MAX, |(first, _)| *first);
        // With its rows, those of its bunch are needed.
        let front = self.bunches.last(self.bunches.of(self.front));
        let is_full = self.filling.bytes().saturating_add(self.decoding_bytes) >= self.budget_bytes;
        let may_go = |segment: &Segment| {
            let first = segment.first_batch();
            first < end && (!is_full || first <= front)
        };
        let divided = self.divided.iter().enumerate().filter(|(_, task)| may_go(&task.segment));
        if let Some((at, _)) = divided.min_by_key(|(_, task)| task.segment.first_batch()) {
            return Some(NextDecode::Divided(at));
        }
        while self.ahead.len() < self.most_ahead {
            let Some(segment) = self.schedule.next_segment() else { break };
            self.ahead.push_back(segment);
        }
        self.ahead.front().filter(|segment| may_go(segment)).map(|_| NextDecode::Segment)
    }

    /// The bytes that a batch of `rows` rows is expected to take beside its rows of one length.
    fn other_bytes(layout: &Layout, rows: u64, is_shuffled: bool) -> u64 {
        let jagged = rows.saturating_mul(layout.jagged_row_bytes() as u64);
        let numbers = rows.saturating_mul(size_of::<u64>() as u64);
        let bytes = if is_shuffled { waiting(jagged).saturating_add(numbers) } else { jagged };
        bytes.saturating_add(BATCH_OVERHEAD_BYTES)
    }

    /// The memory of each batch that a segment goes to; new memory for new batches.
    fn slots_for(&mut self, segment: &Segment, layout: &Layout) -> Result<Arc<BatchSlots>> {
        match &segment.places {
            Places::Pieces(pieces) => {
                let slots = self.slots_of(pieces.iter().map(|piece| piece.batch), layout)?;
                Ok(Arc::new(slots))
            }
            Places::Scattered { part, .. } => {
                if let Some((open, slots)) = &self.window
                    && Arc::ptr_eq(open, part)
                {
                    return Ok(Arc::clone(slots));
                }
                let slots = Arc::new(self.slots_of(part.bunches().iter().copied(), layout)?);
                self.window = Some((Arc::clone(part), Arc::clone(&slots)));
                Ok(slots)
            }
        }
    }

    fn slots_of(&mut self, batches: impl Iterator<Item = u64>, layout: &Layout) -> Result<BatchSlots> {
        let is_shuffled = self.schedule.is_shuffled();
        let Self { pass, reader, pool, filling, bunches, .. } = self;
        filling.slots_of(batches, |batch| {
            let (shape, batches) = shape_of(pass, bunches, batch, reader.rank);
            let rows = to_usize(shape.rows)?;
            let scattered = if is_shuffled { Some(to_usize(shape.distinct)?) } else { None };
            let slots = Slots::new(layout, rows, pool, scattered)?;
            let bytes = slots.bytes().saturating_add(Self::other_bytes(layout, shape.rows, is_shuffled));
            Ok(New { slots, shape, batches, bytes })
        })
    }
}

/// The shape of a batch, or what its bunch has of rows that are read, and how many batches that is.
fn shape_of(pass: &Pass, bunches: &Bunches, batch: u64, rank: u64) -> (Shape, u64) {
    if bunches.are_single() {
        return (pass.shape(batch, rank), 1);
    }
    let of_bunch = bunches.batches(batch, pass.batches());
    of_bunch.fold((Shape::whole(0), 0), |(bunch, batches), batch| {
        let distinct = pass.shape(batch, rank).distinct;
        // Those of the last one may be fewer, behind which nothing follows.
        (Shape::whole(bunch.distinct + distinct), batches + 1)
    })
}

#[cfg(test)]
#[path = "task_queue_tests.rs"]
mod tests;
