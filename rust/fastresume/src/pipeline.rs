//! The only place with threads: segments are decoded ahead, bounded by bytes, and batches come out in
//! order.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::batch::{Layout, Memory, Slots};
use crate::cursor::{Cursor, Pass};
use crate::decode::OpenFile;
use crate::error::{Error, Result, caught};
use crate::lanes::Reader;
use crate::manifest::Manifest;
use crate::order::Order;
use crate::schedule::{Schedule, Segment};
use crate::schema::Column;

/// Files that stay open between segments.
const OPEN_FILES: usize = 8;

/// What a batch takes beside its values.
const BATCH_OVERHEAD_BYTES: u64 = 1 << 10;

/// A batch, ready for its consumer.
#[derive(Debug, Clone)]
pub struct Delivered {
    /// The number of rows.
    pub rows: usize,
    /// The memory of each field of the layout.
    pub fields: Vec<Memory>,
    /// The row numbers, in the batch's order, as runs.
    pub runs: Vec<Range<u64>>,
    /// The cursor after this batch.
    pub cursor: Cursor,
    /// The pass that it belongs to.
    pub epoch: u64,
    /// Global batches of the pass before it.
    pub step: u64,
    /// Whether it is the last batch of the pass.
    pub ends_pass: bool,
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
    manifest: Arc<Manifest>,
    layout: Layout,
    pass: Arc<Pass>,
    batch_rows: u64,
    /// From one batch of this reader to its next.
    stride: u64,
    budget_bytes: u64,
    files: Mutex<VecDeque<(usize, Arc<OpenFile>)>>,
    stop: AtomicBool,
    state: Mutex<State>,
    room: Condvar,
    ready: Condvar,
}

/// A batch whose rows are still coming in.
struct Filling {
    slots: Arc<Mutex<Slots>>,
    missing_rows: u64,
    runs: Vec<(u64, Range<u64>)>,
}

struct State {
    schedule: Schedule,
    /// A segment that waits for room.
    waiting: Option<Segment>,
    filling: BTreeMap<u64, Filling>,
    /// The next batch to deliver.
    front: u64,
    /// The least batch that can't be had, and why.
    failed: Option<(u64, Error)>,
}

struct Task {
    segment: Segment,
    slots: Vec<Arc<Mutex<Slots>>>,
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds a lock; if something did, the state is still whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pipeline {
    /// A pipeline over what is left of `pass` for `reader`.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(
        manifest: Arc<Manifest>,
        layout: Layout,
        order: Order,
        pass: Pass,
        reader: Reader,
        threads: usize,
        budget_bytes: u64,
    ) -> Result<Self> {
        let pass = Arc::new(pass);
        let schedule = Schedule::new(Arc::clone(&manifest), &layout, order, Arc::clone(&pass), reader)?;
        let state = State {
            schedule,
            waiting: None,
            filling: BTreeMap::new(),
            front: pass.done() + reader.worker,
            failed: None,
        };
        let work = Work {
            manifest,
            layout,
            batch_rows: pass.division().cut().global_batch_rows() / reader.world_size,
            pass,
            stride: reader.workers,
            budget_bytes,
            files: Mutex::default(),
            stop: AtomicBool::new(false),
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
            let name = format!("fastresume-{}", self.running.len());
            let thread = std::thread::Builder::new().name(name).spawn(move || work.run());
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
        if let Some(polled) = self.work.deliver(&mut state) {
            return polled;
        }
        if self.threads > 0 {
            drop(self.work.ready.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner));
        } else {
            let task = self.work.take(&mut state);
            drop(state);
            if let Some(task) = task {
                self.work.perform(task);
            }
        }
        Ok(Polled::Pending)
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
    fn run(&self) {
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
            self.perform(task);
        }
    }

    /// The front batch if it is complete, its error, or the end; none if it is still coming.
    fn deliver(&self, state: &mut State) -> Option<Result<Polled>> {
        let batch = state.front;
        let batches = self.pass.division().batches();
        if batch >= batches {
            return Some(Ok(Polled::End));
        }
        if state.filling.get(&batch).is_some_and(|filling| filling.missing_rows == 0) {
            let mut filling = state.filling.remove(&batch)?;
            state.front += self.stride;
            self.room.notify_all();
            filling.runs.sort_unstable_by_key(|(slot_row, _)| *slot_row);
            return Some(Ok(Polled::Batch(Box::new(Delivered {
                rows: usize::try_from(self.batch_rows).unwrap_or(usize::MAX),
                fields: locked(&filling.slots).taken().into_fields(),
                runs: filling.runs.into_iter().map(|(_, run)| run).collect(),
                cursor: self.pass.cursor_after(batch + 1),
                epoch: self.pass.epoch(),
                step: self.pass.step_of(batch),
                ends_pass: batch + 1 == batches,
            }))));
        }
        match &state.failed {
            Some((first, error)) if *first <= batch => Some(Err(error.clone())),
            _ => None,
        }
    }

    /// The next segment to decode, if there is one and its batches fit the budget.
    ///
    /// What the front batch needs is taken whatever the budget says, so something always moves.
    fn take(&self, state: &mut State) -> Option<Task> {
        if state.failed.is_some() {
            return None;
        }
        let segment = state.waiting.take().or_else(|| state.schedule.next_segment())?;
        let row_bytes = self.layout.row_bytes() as u64;
        let batch_bytes = self.batch_rows.saturating_mul(row_bytes).saturating_add(BATCH_OVERHEAD_BYTES);
        let held = (state.filling.len() as u64).saturating_mul(batch_bytes);
        if held >= self.budget_bytes && segment.first_batch() > state.front {
            state.waiting = Some(segment);
            return None;
        }
        match self.slots_for(&segment, state) {
            Ok(slots) => Some(Task { segment, slots }),
            Err(error) => {
                state.failed = Some((segment.first_batch(), error));
                self.ready.notify_all();
                None
            }
        }
    }

    /// The memory that each piece of a segment goes to, new for batches that are new.
    fn slots_for(&self, segment: &Segment, state: &mut State) -> Result<Vec<Arc<Mutex<Slots>>>> {
        let group_start = self.manifest.group_rows(segment.group).start;
        let mut slots = Vec::with_capacity(segment.pieces.len());
        for piece in &segment.pieces {
            let filling = match state.filling.entry(piece.batch) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Filling {
                    slots: Arc::new(Mutex::new(Slots::new(&self.layout, to_usize(self.batch_rows)?)?)),
                    missing_rows: self.batch_rows,
                    runs: Vec::new(),
                }),
            };
            let run = group_start + piece.rows.start..group_start + piece.rows.end;
            filling.runs.push((piece.slot_row, run));
            slots.push(Arc::clone(&filling.slots));
        }
        Ok(slots)
    }

    /// Decodes a segment and marks what it filled, or notes its failure.
    fn perform(&self, task: Task) {
        // A thread that dies would leave its batches missing, and the consumer waiting, for ever.
        let decoded = caught(|| self.decode(&task));
        let Task { segment, slots } = task;
        drop(slots);
        let mut state = locked(&self.state);
        match decoded {
            Ok(()) => {
                for piece in &segment.pieces {
                    if let Some(filling) = state.filling.get_mut(&piece.batch) {
                        filling.missing_rows -= piece.rows.end - piece.rows.start;
                    }
                }
            }
            Err(error) => {
                let first = segment.first_batch();
                if state.failed.as_ref().is_none_or(|(batch, _)| first < *batch) {
                    state.failed = Some((first, error));
                }
            }
        }
        drop(state);
        self.ready.notify_all();
    }

    /// Column by column over the segment, so that one dictionary at a time is live.
    fn decode(&self, task: &Task) -> Result<()> {
        let place = self.manifest.place_of(task.segment.group);
        let file = self.open(place.file)?;
        let schema = self.manifest.schema_of(place.file);
        for (field, column, in_schema) in self.layout.columns(schema) {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let source = &self.manifest.columns(schema)[in_schema];
            self.decode_column(task, &file, place.index, source, (field, column)).map_err(|error| {
                let path = &self.manifest.files()[place.file].path;
                error.in_column(&source.name).in_row_group(place.index).in_file(path)
            })?;
        }
        Ok(())
    }

    fn decode_column(
        &self,
        task: &Task,
        file: &OpenFile,
        row_group: usize,
        source: &Column,
        target: (usize, usize),
    ) -> Result<()> {
        let mut decoder = file.decoder(row_group, source)?;
        let mut row = 0;
        for (piece, slots) in task.segment.pieces.iter().zip(&task.slots) {
            decoder.skip(to_usize(piece.rows.start - row)?)?;
            let rows = to_usize(piece.rows.end - piece.rows.start)?;
            let slot_row = to_usize(piece.slot_row)?;
            let mut slots = locked(slots);
            decoder.read(slots.target(&self.layout, target, slot_row, rows))?;
            row = piece.rows.end;
        }
        Ok(())
    }

    fn open(&self, index: usize) -> Result<Arc<OpenFile>> {
        if let Some((_, file)) = locked(&self.files).iter().find(|(open, _)| *open == index) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(OpenFile::open(&self.manifest.files()[index])?);
        let mut files = locked(&self.files);
        files.push_front((index, Arc::clone(&file)));
        files.truncate(OPEN_FILES);
        Ok(file)
    }
}

fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("{count} rows do not fit the address space")))
}
