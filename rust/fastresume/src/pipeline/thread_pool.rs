//! The decoding threads: they decode segments ahead, bounded by bytes, and batches come out in order. No
//! other file has threads that outlive a call.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
#[cfg(not(all(test, shuttle)))]
use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Builder, JoinHandle},
};

// What waits here is tried in many orders by models: see `thread_pool_models.rs`.
#[cfg(all(test, shuttle))]
use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{Builder, JoinHandle},
};

use crate::batch::bin_rows::BinRows;
use crate::batch::filler::Filler;
use crate::batch::segment::to_usize;
use crate::batch::slots::row_ids::RowIds;
use crate::batch::sources::Sources;
use crate::error::{Error, Result, Stop, caught, locked, stopped_by};
use crate::memory::pool::Memory;
use crate::memory::vectors::{check_reserve, collected};
use crate::pipeline::activity::{Activity, Doing};
use crate::pipeline::schedule::PassOrder;
use crate::pipeline::sequence_pass::SequencePass;
use crate::pipeline::task::{Decoding, Front, Task};
use crate::pipeline::task_queue::TaskQueue;
use crate::projection::layout::Layout;
use crate::resume::cursor::Cursor;
use crate::resume::lanes::WorkerId;
use crate::resume::pass::Pass;
use crate::resume::tail::Shape;
use crate::resume::unit_order::UnitOrder;

/// A batch, ready for its consumer.
#[derive(Debug)]
pub struct Delivered {
    /// The number of rows.
    pub rows: usize,
    /// The number of valid rows. They come first; the rows after them are padding.
    pub valid_rows: usize,
    /// The memory of each field of the layout.
    pub fields: Vec<Memory>,
    /// The numbers of its rows.
    pub written: RowIds,
    /// The cursor after this batch.
    pub cursor: Cursor,
    /// The pass that it belongs to.
    pub pass: Arc<Pass>,
    /// Its number within the current cut.
    pub batch: u64,
    /// Which rows its units have, where units are counted in the place of rows.
    pub units: Option<DeliveredUnits>,
}

/// Which rows the units of a batch have.
#[derive(Debug)]
pub struct DeliveredUnits {
    /// Where those of each unit begin, copies among them, then their number.
    pub offsets: Vec<u64>,
    /// Whether they are documents, of which units are parts, and not the rows of the batch.
    pub are_documents: bool,
}

impl Delivered {
    /// A batch of this shape. `bins` says where the rows of each of its bins begin, if it has bins.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(
        pass: &Arc<Pass>,
        batch: u64,
        (fields, written): (Vec<Memory>, RowIds),
        shape: Shape,
        bins: Option<Vec<u64>>,
    ) -> Result<Self> {
        let rows = to_usize(shape.rows)?;
        let units = match bins {
            Some(offsets) => Some(DeliveredUnits { offsets, are_documents: false }),
            None => {
                written.document_offsets(rows)?.map(|offsets| DeliveredUnits { offsets, are_documents: true })
            }
        };
        Ok(Self {
            rows,
            valid_rows: to_usize(shape.valid)?,
            fields,
            written,
            cursor: pass.cursor_after(batch + 1),
            pass: Arc::clone(pass),
            batch,
            units,
        })
    }

    /// Whether it is the last batch of the pass.
    #[must_use]
    pub fn ends_pass(&self) -> bool {
        self.batch + 1 == self.pass.batches()
    }
}

/// The result of a poll of the pipeline.
#[derive(Debug)]
pub enum Polled {
    /// The next batch.
    Batch(Box<Delivered>),
    /// Nothing yet: poll again.
    Pending,
    /// The pass is over for this reader.
    End,
}

/// What the threads share. Only `state` changes.
struct Work {
    filler: Filler,
    pass: Arc<Pass>,
    bins: Option<Arc<BinRows>>,
    sequences: Option<Arc<SequencePass>>,
    rank: u64,
    stop: Stop,
    /// The activity of the threads, then of the consumer.
    activity: Arc<Activity>,
    state: Mutex<State>,
    room: Condvar,
    ready: Condvar,
}

struct State {
    agenda: TaskQueue,
    /// The number of threads that wait for a task, and whether one of them was woken and has not run yet.
    idle: usize,
    is_one_called: bool,
}

/// Decodes what one reader delivers in the rest of a pass.
///
/// With no threads, polling decodes in the caller's thread. Otherwise threads start at the first poll (or at
/// [`ThreadPool::start`]). They decode ahead until `budget_bytes` of batches are in memory, and end when the
/// pipeline is dropped. After a fork the child's copy has no threads: polling it says so.
pub struct ThreadPool {
    work: Arc<Work>,
    threads: usize,
    running: Vec<JoinHandle<()>>,
    process: u32,
}

impl ThreadPool {
    /// A pipeline over the rest of `pass` for `reader`.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut, or batches have 2^32 rows or more.
    pub fn new(
        sources: Arc<Sources>,
        order: PassOrder,
        pass: Arc<Pass>,
        reader: WorkerId,
        threads: usize,
        budget_bytes: u64,
    ) -> Result<Self> {
        if pass.rank_rows() > u64::from(u32::MAX) {
            return Err(Error::Argument(format!("no memory for batches of {} rows", pass.rank_rows())));
        }
        let (bins, sequences) = (order.counted.bins().cloned(), order.counted.sequences().cloned());
        // Each source of a mixture is in a row group of its own, in each lane.
        let streams = match &order.units {
            UnitOrder::Mixed(_) => pass.streams(reader)?.len() * sources.each().len(),
            UnitOrder::One(_) => 1,
        };
        let agenda = TaskQueue::new(Arc::clone(&sources), order, Arc::clone(&pass), reader, budget_bytes)?;
        let work = Work {
            filler: Filler::new(sources, streams),
            pass,
            bins,
            sequences,
            rank: reader.rank,
            stop: Stop::default(),
            activity: Arc::new(Activity::new(threads + 1)),
            state: Mutex::new(State { agenda, idle: 0, is_one_called: false }),
            room: Condvar::new(),
            ready: Condvar::new(),
        };
        Ok(Self { work: Arc::new(work), threads, running: Vec::new(), process: std::process::id() })
    }

    /// Starts the threads, if there should be any and they do not run yet.
    ///
    /// # Errors
    /// `Source` if the system gives no thread; `Argument` if no memory is held back for them; `State` in a forked child.
    pub fn start(&mut self) -> Result<()> {
        self.check_process()?;
        if self.running.len() < self.threads {
            check_reserve()?;
        }
        while self.running.len() < self.threads {
            let work = Arc::clone(&self.work);
            let number = self.running.len();
            let name = format!("fastresume-{number}");
            let thread = Builder::new().name(name).spawn(move || {
                stopped_by(Some(Arc::clone(&work.stop)), || work.run(number));
            });
            self.running.push(
                thread.map_err(|cause| Error::Source(format!("can't start a decoding thread: {cause}")))?,
            );
        }
        Ok(())
    }

    /// The next batch, if it is ready within `patience` (or, without threads, after one segment).
    ///
    /// # Errors
    /// Why the next batch failed. All batches before it were delivered; the error stays.
    pub fn poll(&mut self, patience: Duration) -> Result<Polled> {
        self.start()?;
        let mut state = self.work.state();
        loop {
            if let Some(front) = state.agenda.take_front(self.work.layout()) {
                self.work.call_one(state);
                return match front? {
                    Front::Batch(batch, slots) => {
                        self.work.delivered(batch, |_, layout| Ok(slots.into_parts(layout)))
                    }
                    Front::OfBunch(batch, bunch, row) => {
                        let parts = |shape: Shape, layout: &Layout| bunch.batch(layout, row, shape);
                        self.work.delivered(batch, parts).inspect_err(|error| {
                            self.work.state().agenda.note_not_delivered(batch, error.clone());
                        })
                    }
                    Front::End => Ok(Polled::End),
                };
            }
            let task = if self.threads > 0 {
                // The threads may be busy with later batches.
                state.agenda.take_front_end(self.work.layout())
            } else {
                self.work.take(&mut state)
            };
            let Some(task) = task else { break };
            drop(state);
            let is_end = matches!(task, Task::End(..));
            self.work.perform(&task, self.threads);
            if !is_end {
                return Ok(Polled::Pending);
            }
            state = self.work.state();
        }
        if self.threads > 0 {
            drop(self.work.ready.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner));
        }
        Ok(Polled::Pending)
    }

    /// What monitoring may see of it, at any time.
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

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let running = std::mem::take(&mut self.running);
        if self.is_forked() {
            // The threads are the parent's; its threads may hold the locks.
            running.into_iter().for_each(std::mem::forget);
            return;
        }
        self.work.stop.store(true, Ordering::Relaxed);
        // With the lock held, so that no thread misses it between its check and its wait.
        drop(self.work.state());
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
            let mut state = self.state();
            let task = loop {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                if let Some(task) = self.take(&mut state) {
                    break task;
                }
                state.idle += 1;
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                state.is_one_called = false;
            };
            self.call_one(state);
            self.perform(&task, thread);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unlocks the state, and wakes one thread if there is a task. That thread does the same when it has
    /// taken its task. Waking all of them for one batch costs more than finishing it, and the consumer would
    /// have to do that.
    fn call_one(&self, mut state: MutexGuard<'_, State>) {
        let calls_one = state.idle > 0 && !state.is_one_called && state.agenda.has_task();
        state.is_one_called |= calls_one;
        drop(state);
        if calls_one {
            self.room.notify_one();
        }
    }

    /// The tensors of batches.
    fn layout(&self) -> &Layout {
        self.sequences.as_ref().map_or_else(|| self.filler.layout(), |sequences| &sequences.layout)
    }

    fn delivered(
        &self,
        batch: u64,
        parts: impl FnOnce(Shape, &Layout) -> Result<(Vec<Memory>, RowIds)>,
    ) -> Result<Polled> {
        let bins = self.bins.as_ref().map(|bins| bins.delivered(batch)).transpose()?;
        let shape = bins.as_ref().map_or_else(|| self.pass.shape(batch, self.rank), |bins| bins.shape);
        let parts = parts(shape, self.layout())?;
        let offsets = bins.map(|bins| collected(bins.offsets.iter().copied())).transpose()?;
        Ok(Polled::Batch(Box::new(Delivered::new(&self.pass, batch, parts, shape, offsets)?)))
    }

    /// The next task, if there is one.
    fn take(&self, state: &mut State) -> Option<Task> {
        let task = state.agenda.take(self.layout());
        // There may be no memory for the front batch.
        if task.is_none() && state.agenda.has_front() {
            self.ready.notify_one();
        }
        task
    }

    /// Does a task in the thread of this number, notes its result or error, and tells the consumer.
    fn perform(&self, task: &Task, thread: usize) {
        // If a thread died, its batches would be missing, and the consumer would wait for ever.
        let has_front = match task {
            Task::Decode(decoding) => {
                let Decoding { segment, slots, .. } = decoding;
                let fill = || {
                    check_reserve()?;
                    self.filler.look_ahead(|| self.state().agenda.soon(segment.group), &self.stop);
                    self.filler.fill(segment, |batch| slots.get(&batch), &self.stop)
                };
                let filled = self.activity.during(thread, Doing::Decoding(segment.group), || caught(fill));
                let filled = filled.map_err(|error| {
                    let first = caught(|| Ok(segment.first_needing_batch()));
                    (first.unwrap_or_else(|_| segment.first_batch()), error)
                });
                self.note(|agenda| agenda.note_decoded(decoding, filled))
            }
            Task::End(batch, slots, shape, shares) => {
                let layout = self.layout();
                let finish = || {
                    let mut slots = locked(slots);
                    let mut placed = Vec::new();
                    shares.iter().try_for_each(|share| share.hand_over(&mut slots, &mut placed))?;
                    slots.finish(layout, (to_usize(shape.distinct)?, to_usize(shape.rows)?), &placed)
                };
                let ended = self.activity.during(thread, Doing::Ending(*batch), || caught(finish));
                self.note(|agenda| match ended {
                    Ok(()) => agenda.note_ended(*batch),
                    Err(error) => agenda.note_failed(*batch, error),
                })
            }
        };
        if has_front {
            self.ready.notify_one();
        }
    }

    /// Notes the result of a task, and returns whether there is something for the consumer then.
    fn note(&self, came: impl FnOnce(&mut TaskQueue)) -> bool {
        let mut state = self.state();
        came(&mut state.agenda);
        state.agenda.has_front()
    }
}

/// What monitoring sees of a pipeline. It does not keep the pipeline alive.
pub struct View {
    /// The activity of its threads, and of its consumer, which comes last.
    pub activity: Arc<Activity>,
    work: Weak<Work>,
}

impl View {
    /// The number of batches that are ready, and their bytes; 0 once the pipeline is gone. Must not be called
    /// after a fork.
    #[must_use]
    pub fn queued(&self) -> (u64, u64) {
        self.work.upgrade().map_or((0, 0), |work| work.state().agenda.queued())
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
#[path = "thread_pool_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(shuttle)]
#[path = "thread_pool_models.rs"]
mod models;
