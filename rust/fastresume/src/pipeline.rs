//! The only place with threads: segments are decoded ahead, bounded by bytes, and batches come out in
//! order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::activity::{Activity, Doing};
use crate::batch::{SharedSlots, Slots};
use crate::cursor::Cursor;
use crate::error::{Error, Result, caught, locked};
use crate::fill::{Filled, Filler};
use crate::filling::{BatchSlots, Filling};
use crate::lanes::Reader;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::memory::{Memory, Pool};
use crate::order::Order;
use crate::part::waiting;
use crate::pass::Pass;
use crate::schedule::Schedule;
use crate::segment::{Places, Segment, to_usize};
use crate::window::WindowPart;
use crate::written::Written;

/// What a batch takes beside its values.
const BATCH_OVERHEAD_BYTES: u64 = 1 << 10;

/// So many batches behind the front one are brought into their last form ahead of the consumer. More would leave the
/// processor's caches before they are asked for.
const ENDED_AHEAD: u64 = 8;

/// A batch, ready for its consumer.
#[derive(Debug)]
pub struct Delivered {
    /// The number of rows.
    pub rows: usize,
    /// The first so many rows are delivered for the first time; the others fill the batch up.
    pub valid_rows: usize,
    /// The memory of each field of the layout.
    pub fields: Vec<Memory>,
    /// Which rows it has.
    pub written: Written,
    /// The cursor after this batch.
    pub cursor: Cursor,
    /// The pass that it belongs to, and its number there.
    pub pass: Arc<Pass>,
    /// Its number within the present cut.
    pub batch: u64,
}

impl Delivered {
    /// Whether it is the last batch of the pass.
    #[must_use]
    pub fn ends_pass(&self) -> bool {
        self.batch + 1 == self.pass.batches()
    }
}

/// What a poll of the pipeline found.
#[derive(Debug)]
pub enum Polled {
    /// The next batch.
    Batch(Box<Delivered>),
    /// Nothing yet: poll again.
    Pending,
    /// The pass is over for this reader.
    End,
}

/// What the threads share and nobody changes.
struct Work {
    filler: Filler,
    pass: Arc<Pass>,
    reader: Reader,
    budget_bytes: u64,
    /// The memory of batches that the consumer let go of.
    pool: Pool,
    stop: AtomicBool,
    /// Of the threads, and of the consumer behind them.
    activity: Arc<Activity>,
    state: Mutex<State>,
    room: Condvar,
    ready: Condvar,
}

struct State {
    schedule: Schedule,
    /// A segment that waits for room.
    waiting: Option<Segment>,
    /// Later parts of segments that were too large to be decoded at once.
    divided: Vec<Decoding>,
    /// The window that was opened last, and the memory of its batches, which all its segments share.
    window: Option<(Arc<WindowPart>, Arc<BatchSlots>)>,
    filling: Filling,
    /// The next batch to deliver.
    front: u64,
    /// The least batch that can't be had, and why.
    failed: Option<(u64, Error)>,
}

impl State {
    /// Notes why a batch and those behind it can't be had.
    fn fail(&mut self, first: u64, error: Error) {
        if self.failed.as_ref().is_none_or(|(batch, _)| first < *batch) {
            self.failed = Some((first, error));
        }
    }
}

/// What a thread does in one go.
enum Task {
    Decode(Decoding),
    /// A batch whose rows are all there is brought into the form that is delivered.
    End(u64, SharedSlots),
}

/// A segment to decode, and the memory of its batches.
struct Decoding {
    segment: Segment,
    slots: Arc<BatchSlots>,
}

/// Decodes what one reader is to deliver in the rest of a pass.
///
/// With no threads, polling decodes in the caller's thread. With some, they start at the first poll
/// (or at [`Pipeline::start`]), decode ahead until `budget_bytes` of batches are in memory, and end
/// when the pipeline is dropped. After a fork the child's copy has no threads: polling it says so.
pub struct Pipeline {
    work: Arc<Work>,
    threads: usize,
    running: Vec<JoinHandle<()>>,
    process: u32,
}

impl Pipeline {
    /// A pipeline over what is left of `pass` for `reader`.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut, or batches have 2^32 rows or more.
    pub fn new(
        manifest: Arc<Manifest>,
        layout: Layout,
        order: Order,
        pass: Arc<Pass>,
        reader: Reader,
        threads: usize,
        budget_bytes: u64,
    ) -> Result<Self> {
        if pass.rank_rows() > u64::from(u32::MAX) {
            return Err(Error::Argument(format!("no memory for batches of {} rows", pass.rank_rows())));
        }
        let schedule = Schedule::new(Arc::clone(&manifest), &layout, order, Arc::clone(&pass), reader)?;
        let pool = Pool::new(to_usize(budget_bytes.saturating_add(schedule.open_bytes()))?);
        let state = State {
            schedule,
            waiting: None,
            divided: Vec::new(),
            window: None,
            filling: Filling::default(),
            front: pass.done() + reader.worker,
            failed: None,
        };
        let work = Work {
            filler: Filler::new(manifest, layout),
            pass,
            reader,
            pool,
            budget_bytes,
            stop: AtomicBool::new(false),
            activity: Arc::new(Activity::new(threads + 1)),
            state: Mutex::new(state),
            room: Condvar::new(),
            ready: Condvar::new(),
        };
        Ok(Self { work: Arc::new(work), threads, running: Vec::new(), process: std::process::id() })
    }

    /// Starts the threads, if there are to be any and they do not run yet.
    ///
    /// # Errors
    /// `Source` if the system gives no thread; `State` in a forked child.
    pub fn start(&mut self) -> Result<()> {
        self.check_process()?;
        while self.running.len() < self.threads {
            let work = Arc::clone(&self.work);
            let number = self.running.len();
            let name = format!("fastresume-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || work.run(number));
            self.running.push(
                thread.map_err(|cause| Error::Source(format!("can't start a decoding thread: {cause}")))?,
            );
        }
        Ok(())
    }

    /// The next batch, if it is ready within `patience` (or, without threads, after one segment).
    ///
    /// # Errors
    /// Why the next batch can't be had. All batches before it were delivered; the error stays.
    pub fn poll(&mut self, patience: Duration) -> Result<Polled> {
        self.start()?;
        let mut state = locked(&self.work.state);
        loop {
            if let Some(polled) = self.work.deliver(&mut state) {
                return polled;
            }
            let task = if self.threads > 0 {
                // The threads may be busy with what comes later.
                self.work.take_end(&mut state, 0)
            } else {
                self.work.take(&mut state)
            };
            let Some(task) = task else { break };
            drop(state);
            let is_end = matches!(task, Task::End(..));
            self.work.perform(task, self.threads);
            if !is_end {
                return Ok(Polled::Pending);
            }
            state = locked(&self.work.state);
        }
        if self.threads > 0 {
            drop(self.work.ready.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner));
        }
        Ok(Polled::Pending)
    }

    /// What others may see of it, at any time.
    #[must_use]
    pub fn view(&self) -> View {
        View { activity: Arc::clone(&self.work.activity), work: Arc::downgrade(&self.work) }
    }

    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn check_process(&self) -> Result<()> {
        if self.threads > 0 && self.is_forked() {
            return Err(Error::State(format!(
                "this iterator was made in process {}, before it forked: make a new one in process {}",
                self.process,
                std::process::id()
            )));
        }
        Ok(())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let running = std::mem::take(&mut self.running);
        if self.is_forked() {
            // The threads are the parent's; so may be the locks.
            running.into_iter().for_each(std::mem::forget);
            return;
        }
        self.work.stop.store(true, Ordering::Relaxed);
        // With the lock held, so that no thread misses it between its check and its wait.
        drop(locked(&self.work.state));
        self.work.room.notify_all();
        for thread in running {
            drop(thread.join());
        }
    }
}

impl Work {
    /// A decoding thread.
    fn run(&self, thread: usize) {
        loop {
            let mut state = locked(&self.state);
            let task = loop {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(task) = self.take(&mut state) {
                    break task;
                }
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            self.perform(task, thread);
        }
    }

    /// The front batch if it is complete, its error, or the end; none if it is still coming.
    fn deliver(&self, state: &mut State) -> Option<Result<Polled>> {
        let batch = state.front;
        if batch >= self.pass.batches() {
            return Some(Ok(Polled::End));
        }
        if let Some(slots) = state.filling.take_ready(batch) {
            state.front += self.reader.workers;
            self.room.notify_all();
            return Some(self.delivered(batch, slots).map(|delivered| Polled::Batch(Box::new(delivered))));
        }
        match &state.failed {
            Some((first, error)) if *first <= batch => Some(Err(error.clone())),
            _ => None,
        }
    }

    fn delivered(&self, batch: u64, slots: Slots) -> Result<Delivered> {
        let shape = self.pass.shape(batch, self.reader.rank);
        let (fields, written) = slots.into_parts(self.filler.layout());
        Ok(Delivered {
            rows: to_usize(shape.rows)?,
            valid_rows: to_usize(shape.valid)?,
            fields,
            written,
            cursor: self.pass.cursor_after(batch + 1),
            pass: Arc::clone(&self.pass),
            batch,
        })
    }

    /// What to do next, if there is something: batches of which all is there come first, then the next segment, if
    /// its batches fit the budget.
    ///
    /// What the front batch needs is taken whatever the budget says, so something always moves.
    fn take(&self, state: &mut State) -> Option<Task> {
        if let Some(end) = self.take_end(state, ENDED_AHEAD) {
            return Some(end);
        }
        // What batches before a failed one need is still decoded: these are delivered.
        let end = state.failed.as_ref().map_or(u64::MAX, |(first, _)| *first);
        let front = state.front;
        let is_full = state.filling.bytes() >= self.budget_bytes;
        let may_go = |segment: &Segment| {
            let first = segment.first_batch();
            first < end && (!is_full || first <= front)
        };
        let divided = state.divided.iter().enumerate().filter(|(_, task)| may_go(&task.segment));
        if let Some((at, _)) = divided.min_by_key(|(_, task)| task.segment.first_batch()) {
            return Some(Task::Decode(state.divided.swap_remove(at)));
        }
        let segment = state.waiting.take().or_else(|| state.schedule.next_segment())?;
        if !may_go(&segment) {
            state.waiting = Some(segment);
            return None;
        }
        match self.slots_for(&segment, state) {
            Ok(slots) => Some(Task::Decode(Decoding { segment, slots })),
            Err(error) => {
                state.fail(segment.first_batch(), error);
                self.ready.notify_all();
                None
            }
        }
    }

    /// A batch to end, of the front one and so many behind it.
    fn take_end(&self, state: &mut State, behind: u64) -> Option<Task> {
        let last = state.front + behind * self.reader.workers;
        let (batch, slots) = state.filling.take_complete(state.front..=last)?;
        Some(Task::End(batch, slots))
    }

    /// What a batch of so many rows is expected to take beside its rows of one length.
    fn other_bytes(&self, rows: u64, is_shuffled: bool) -> u64 {
        let jagged = rows.saturating_mul(self.filler.layout().jagged_row_bytes() as u64);
        let numbers = rows.saturating_mul(size_of::<u64>() as u64);
        let bytes = if is_shuffled { waiting(jagged).saturating_add(numbers) } else { jagged };
        bytes.saturating_add(BATCH_OVERHEAD_BYTES)
    }

    /// The memory of each batch that a segment goes to, new for batches that are new.
    fn slots_for(&self, segment: &Segment, state: &mut State) -> Result<Arc<BatchSlots>> {
        match &segment.places {
            Places::Pieces(pieces) => {
                let slots = self.slots_of(pieces.iter().map(|piece| piece.batch), state)?;
                Ok(Arc::new(slots))
            }
            Places::Scattered { part, .. } => {
                if let Some((open, slots)) = &state.window
                    && Arc::ptr_eq(open, part)
                {
                    return Ok(Arc::clone(slots));
                }
                let slots = Arc::new(self.slots_of(part.batches().iter().copied(), state)?);
                state.window = Some((Arc::clone(part), Arc::clone(&slots)));
                Ok(slots)
            }
        }
    }

    fn slots_of(&self, batches: impl Iterator<Item = u64>, state: &mut State) -> Result<BatchSlots> {
        let is_shuffled = state.schedule.is_shuffled();
        state.filling.slots_of(batches, |batch| {
            let shape = self.pass.shape(batch, self.reader.rank);
            let (layout, rows) = (self.filler.layout(), to_usize(shape.rows)?);
            let scattered = if is_shuffled { Some(to_usize(shape.distinct)?) } else { None };
            let slots = Slots::new(layout, rows, &self.pool, scattered)?;
            let bytes = slots.bytes().saturating_add(self.other_bytes(shape.rows, is_shuffled));
            Ok((slots, shape, bytes))
        })
    }

    /// Does a task in the thread of this number, and notes what came of it, or why it failed.
    fn perform(&self, task: Task, thread: usize) {
        // A thread that dies would leave its batches missing, and the consumer waiting, for ever.
        match task {
            Task::Decode(Decoding { segment, slots }) => {
                let fill = || self.filler.fill(&segment, |batch| slots.get(&batch), &self.stop);
                let filled = self.activity.during(thread, Doing::Decoding(segment.group), || caught(fill));
                let mut state = locked(&self.state);
                match filled {
                    Ok(Filled { rows, left }) => {
                        state.filling.count(&rows);
                        state.divided.extend(left.map(|segment| Decoding { segment, slots }));
                    }
                    Err(error) => state.fail(segment.first_batch(), error),
                }
                drop(state);
                self.room.notify_all();
            }
            Task::End(batch, slots) => {
                let shape = self.pass.shape(batch, self.reader.rank);
                let layout = self.filler.layout();
                let finish =
                    || locked(&slots).finish(layout, to_usize(shape.distinct)?, to_usize(shape.rows)?);
                let ended = self.activity.during(thread, Doing::Ending(batch), || caught(finish));
                let mut state = locked(&self.state);
                match ended {
                    Ok(()) => state.filling.end(batch),
                    Err(error) => state.fail(batch, error),
                }
            }
        }
        self.ready.notify_all();
    }
}

/// What others may see of a pipeline, which it does not keep alive.
pub struct View {
    /// Of its threads, and of its consumer, which comes last.
    pub activity: Arc<Activity>,
    work: Weak<Work>,
}

impl View {
    /// How many batches are ready, and their bytes; none once the pipeline is gone. Not to be called after a fork.
    #[must_use]
    pub fn queued(&self) -> (u64, u64) {
        self.work.upgrade().map_or((0, 0), |work| locked(&work.state).filling.queued())
    }
}
