//! The tasks of one reader: what its batches still need, and what to do next.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::batch::bin_rows::BinRows;
use crate::batch::bunch::Bunches;
use crate::batch::ended_bunch::EndedBunch;
use crate::batch::fetches::Soon;
use crate::batch::filler::Filled;
use crate::batch::segment::{Places, Segment, to_usize};
use crate::batch::slots::fields::FieldSlots;
use crate::batch::slots::pending::waiting;
use crate::batch::sources::Sources;
use crate::batch::waiting::Share;
use crate::batch::window::WindowPart;
use crate::error::{Error, Result};
use crate::memory::pool::Pool;
use crate::pipeline::prefetch_queue::{BatchSlots, New, PrefetchQueue};
use crate::pipeline::schedule::{PassOrder, Schedule};
use crate::pipeline::task::{Decoding, Front, Task};
use crate::pipeline::waits::Waits;
use crate::projection::layout::Layout;
use crate::resume::lanes::WorkerId;
use crate::resume::pass::Pass;
use crate::resume::tail::Shape;

/// What a batch takes beside its values.
const BATCH_OVERHEAD_BYTES: u64 = 1 << 10;

/// The number of batches behind the front one that are finished ahead of the consumer. With more, their
/// memory would have left the processor's caches before they are asked for.
const ENDED_AHEAD: u64 = 8;

/// So many segments are looked up where they are waited for, or held: they are asked for before their turn.
const MOST_AHEAD: usize = 64;

/// The batches of one reader in the rest of a pass: from those to be decoded to those that wait for the
/// consumer.
pub struct TaskQueue {
    pass: Arc<Pass>,
    /// Where bins are counted in the place of rows.
    bins: Option<Arc<BinRows>>,
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
    filling: PrefetchQueue,
    /// What waits for its batches, where rows do, and what batches have taken that are to be ended.
    waits: Option<Waits>,
    taken: BTreeMap<u64, Vec<Share>>,
    /// The bunch from which batches are delivered, and the batch behind the last one of it that may be.
    open: Option<(Arc<EndedBunch>, u64)>,
    /// So many segments are being decoded.
    decoding: usize,
    /// What is being decoded takes so many bytes, which its batches do not take yet.
    decoding_bytes: u64,
    /// The next batch to deliver.
    front: u64,
    /// The bunch that is ended though some of its rows can't be had.
    given_up: Option<u64>,
    /// The first batch that failed, and why.
    failed: Option<(u64, Error)>,
}

/// What is to be decoded next.
enum NextDecode {
    /// The rest of a segment, by its index.
    Divided(usize),
    /// The segment that waits.
    Segment,
}

impl TaskQueue {
    /// The rest of a pass for a reader, whose undelivered batches may take `budget_bytes`.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(
        sources: Arc<Sources>,
        order: PassOrder,
        pass: Arc<Pass>,
        reader: WorkerId,
        budget_bytes: u64,
    ) -> Result<Self> {
        let (are_far, are_held) = (sources.are_far(), sources.held_bytes().is_some());
        let fetched_bytes = sources.read_bytes();
        let (bins, sequences) = (order.counted.bins().cloned(), order.counted.sequences().cloned());
        let schedule = Schedule::new(sources, order, Arc::clone(&pass), reader)?;
        // In file order, what is held goes when no segment that comes soon wants it.
        let looks_ahead = are_far || are_held && !schedule.is_shuffled();
        let most_ahead = if looks_ahead { MOST_AHEAD } else { 1 };
        let is_waiting = schedule.is_waiting();
        let with_open = budget_bytes.saturating_add(schedule.open_bytes());
        let stated_bytes = with_open.saturating_add(fetched_bytes);
        // What waits of each stream is there whatever is decoded ahead.
        let budget_bytes = if is_waiting { with_open } else { budget_bytes };
        let pool = Pool::new(to_usize(stated_bytes)?);
        let front = pass.done() + reader.worker;
        let bunches = schedule.bunches();
        let first = bunches.of(front);
        let of_bins = bins.as_ref();
        let rows = rows_of(of_bins, first)
            .unwrap_or_else(|| shape_of(&pass, &bunches, first, reader.rank).0.distinct);
        let waits = Waits::new(is_waiting, sequences, (first, rows))?;
        Ok(Self {
            filling: PrefetchQueue::new(schedule.is_scattered()),
            waits,
            taken: BTreeMap::new(),
            bunches,
            open: None,
            decoding: 0,
            pass,
            bins,
            reader,
            budget_bytes,
            pool,
            schedule,
            ahead: VecDeque::new(),
            most_ahead,
            divided: Vec::new(),
            window: None,
            decoding_bytes: 0,
            front,
            given_up: None,
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
        is_open || is_ready || self.has_complete(self.among(0)) || self.failure().is_some()
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
        if let Some(end) = self.take_end(ENDED_AHEAD, layout) {
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
                let bytes = segment.waiting_bytes(row_bytes);
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
    pub fn take_front_end(&mut self, layout: &Layout) -> Option<Task> {
        self.take_end(0, layout)
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
        self.has_complete(among) || self.next().is_some()
    }

    /// Notes the result of decoding a segment; if it failed, with the first batch that it failed for.
    pub fn note_decoded(&mut self, decoding: &Decoding, filled: std::result::Result<Filled, (u64, Error)>) {
        self.decoding_bytes = self.decoding_bytes.saturating_sub(decoding.bytes);
        self.decoding -= 1;
        match filled {
            Ok(mut filled) => {
                self.filling.count(&filled.rows);
                let left = filled.left.take();
                if let Some(waits) = &mut self.waits {
                    waits.put(filled);
                }
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
            && self.is_coming(bunch)
            && self.next().is_none()
        {
            self.given_up = Some(bunch);
            self.filling.give_up(bunch);
        }
    }

    /// Whether rows of a bunch are still to come.
    fn is_coming(&self, bunch: u64) -> bool {
        match &self.waits {
            Some(waits) => waits.next() == bunch && !waits.is_complete() && self.given_up != Some(bunch),
            None => self.filling.is_coming(bunch),
        }
    }

    /// Whether a batch of a range is to be finished.
    fn has_complete(&self, among: RangeInclusive<u64>) -> bool {
        self.takes_next(&among) || self.filling.has_complete(among)
    }

    /// Whether the next bunch can take what waits for it, and is among these.
    fn takes_next(&self, among: &RangeInclusive<u64>) -> bool {
        let Some(waits) = &self.waits else { return false };
        let is_due = among.contains(&waits.next()) && waits.next() < self.pass.batches();
        is_due && (waits.is_complete() || self.given_up == Some(waits.next()))
    }

    /// A batch to finish, of the front one and `behind` behind it.
    fn take_end(&mut self, behind: u64, layout: &Layout) -> Option<Task> {
        let among = self.among(behind);
        if self.takes_next(&among)
            && let Some(bunch) = self.waits.as_ref().map(Waits::next)
            && let Err(error) = self.take_waiting(bunch, layout)
        {
            self.note_failed(bunch, error);
        }
        let (batch, slots, shape) = self.filling.take_complete(among)?;
        Some(Task::End(batch, slots, shape, self.taken.remove(&batch).unwrap_or_default()))
    }

    /// A bunch takes what waits for it.
    fn take_waiting(&mut self, bunch: u64, layout: &Layout) -> Result<()> {
        let next = self.bunches.last(bunch).saturating_add(self.reader.workers);
        let rows = if next < self.pass.batches() { self.distinct(next) } else { 0 };
        let Some(waits) = &mut self.waits else { return Ok(()) };
        let shares = waits.take((next, rows))?;
        self.slots_of(std::iter::once(bunch), layout)?;
        if self.given_up == Some(bunch) {
            self.filling.give_up(bunch);
        } else {
            let distinct = self.distinct(bunch);
            self.filling.count(&[(bunch, distinct)]);
        }
        self.taken.insert(bunch, shares);
        Ok(())
    }

    /// How many rows of a bunch, or sequences, are read.
    fn distinct(&self, bunch: u64) -> u64 {
        let of_rows = || shape_of(&self.pass, &self.bunches, bunch, self.reader.rank).0.distinct;
        rows_of(self.bins.as_ref(), bunch).unwrap_or_else(of_rows)
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
        let waiting = self.waits.as_ref().map_or(0, Waits::bytes);
        let held = self.filling.bytes().saturating_add(self.decoding_bytes).saturating_add(waiting);
        let is_full = held >= self.budget_bytes;
        let may_go = |segment: &Segment| {
            let first = segment.first_batch();
            first < end && (!is_full || first <= front)
        };
        let divided = self.divided.iter().enumerate().filter(|(_, task)| may_go(&task.segment));
        if let Some((at, _)) = divided.min_by_key(|(_, task)| task.segment.first_batch()) {
            return Some(NextDecode::Divided(at));
        }
        while self.ahead.len() < self.most_ahead {
            match self.schedule.next_segment() {
                Some(Ok(segment)) => self.ahead.push_back(segment),
                Some(Err((first, error))) => {
                    if self.failed.as_ref().is_none_or(|(batch, _)| first < *batch) {
                        self.failed = Some((first, error));
                    }
                    break;
                }
                None => break,
            }
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
            Places::Combed { .. } | Places::Lists { .. } => Ok(Arc::default()),
            Places::Pieces(pieces) => {
                let slots = self.slots_of(pieces.iter().map(|piece| piece.batch), layout)?;
                Ok(Arc::new(slots))
            }
            Places::Scattered { part, .. } if part.is_waiting() => Ok(Arc::default()),
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
        let is_shuffled = self.schedule.is_scattered();
        let Self { pass, reader, pool, filling, bunches, bins, .. } = self;
        filling.slots_of(batches, |batch| {
            let of_rows = || Ok(shape_of(pass, bunches, batch, reader.rank));
            let (shape, batches) = bins.as_ref().map_or_else(of_rows, |of| Ok((of.of(batch)?.shape, 1)))?;
            let scattered = if is_shuffled { Some(to_usize(shape.distinct)?) } else { None };
            let slots = FieldSlots::new(layout, to_usize(shape.rows)?, pool, scattered)?;
            let bytes = slots.bytes().saturating_add(Self::other_bytes(layout, shape.rows, is_shuffled));
            Ok(New { slots, shape, batches, bytes })
        })
    }
}

/// How many rows of a batch of bins are read; none of one of which that can't be known, which fails when it gets memory. `None` of
/// other batches.
fn rows_of(bins: Option<&Arc<BinRows>>, batch: u64) -> Option<u64> {
    bins.map(|bins| bins.of(batch).map_or(0, |of| of.shape.distinct))
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
