//! The reader of one rank's (or worker's) share of a pass.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use fastresume::error::Error;
use fastresume::lanes::Reader as ReaderPlace;
use fastresume::order::Order;
use fastresume::pipeline::{Delivered as CoreDelivered, Pipeline, Polled};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::cursor::{Cursor, CutNumbers, to_cut};
use crate::gate;
use crate::manifest::{Layout, Manifest};

/// One batch, taken apart.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct Delivered {
    /// The memory of each field of the layout.
    memory: Vec<Py<Buffer>>,
    num_rows: usize,
    /// The row numbers as `[start, end)` pairs.
    runs: Py<Buffer>,
    /// The cursor after the batch.
    cursor: Py<Cursor>,
    epoch: u64,
    step: u64,
    ends_pass: bool,
}

/// Gives the batches of what is left of a pass, in order.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Reader {
    pipeline: Mutex<Option<Pipeline>>,
    front: Mutex<Option<Py<Delivered>>>,
    process: u32,
}

#[pymethods]
impl Reader {
    #[new]
    #[expect(
        clippy::too_many_arguments,
        reason = "one caller, which passes what the dataset and the loader hold"
    )]
    #[pyo3(signature = (manifest, layout, cursor, cut, place, threads, prefetch_bytes))]
    fn new(
        py: Python<'_>,
        manifest: &Manifest,
        layout: &Layout,
        cursor: &Cursor,
        cut: CutNumbers,
        place: (u64, u64, u64, u64),
        threads: usize,
        prefetch_bytes: u64,
    ) -> PyResult<Self> {
        let (rank, world_size, worker, workers) = place;
        let place = ReaderPlace { rank, world_size, worker, workers };
        gate::run(py, || {
            let order = Order::new(cursor.inner.identity().order.clone(), manifest.inner.num_rows());
            let pass = cursor.inner.pass(to_cut(cut)?)?;
            let manifest = Arc::clone(&manifest.inner);
            let pipeline =
                Pipeline::new(manifest, layout.inner.clone(), order, pass, place, threads, prefetch_bytes)?;
            Ok(Self {
                pipeline: Mutex::new(Some(pipeline)),
                front: Mutex::new(None),
                process: std::process::id(),
            })
        })
    }

    /// Starts the threads before the first batch is asked for.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        gate::run(py, || self.with(Pipeline::start))
    }

    /// The front batch, or none at the end: the same one until `advance` is called.
    ///
    /// A signal handler may raise between any two steps of Python code, so that taking a batch must not be
    /// what moves the reader.
    fn front(&self, py: Python<'_>) -> PyResult<Option<Py<Delivered>>> {
        if let Some(front) = locked(&self.front).as_ref() {
            return Ok(Some(front.clone_ref(py)));
        }
        let delivered = gate::poll(py, || {
            self.with(|pipeline| {
                Ok(match pipeline.poll(gate::PATIENCE)? {
                    Polled::Batch(delivered) => Some(Some(delivered)),
                    Polled::Pending => None,
                    Polled::End => Some(None),
                })
            })
        })?;
        let Some(delivered) = delivered else { return Ok(None) };
        let front = Py::new(py, wrapped(py, *delivered)?)?;
        *locked(&self.front) = Some(front.clone_ref(py));
        Ok(Some(front))
    }

    /// Lets go of the front batch.
    fn advance(&self) {
        let front = locked(&self.front).take();
        drop(front);
    }

    /// Ends the threads and closes the files.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if let Ok(mut pipeline) = self.pipeline() {
                drop(pipeline.take());
            }
        });
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    /// The lock; in a forked child nobody would ever let go of it who holds it.
    fn pipeline(&self) -> Result<MutexGuard<'_, Option<Pipeline>>, Error> {
        if self.process == std::process::id() {
            return Ok(locked(&self.pipeline));
        }
        match self.pipeline.try_lock() {
            Ok(pipeline) => Ok(pipeline),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::State(format!(
                "this iterator was in use in process {} when it forked: make a new one in process {}",
                self.process,
                std::process::id()
            ))),
        }
    }

    /// Without the GIL only: another thread may hold the lock and want the GIL.
    fn with<T>(&self, work: impl FnOnce(&mut Pipeline) -> Result<T, Error>) -> Result<T, Error> {
        match self.pipeline()?.as_mut() {
            Some(pipeline) => work(pipeline),
            None => Err(Error::State("the reader is closed".into())),
        }
    }
}

fn wrapped(py: Python<'_>, delivered: CoreDelivered) -> PyResult<Delivered> {
    let memory = delivered.fields.into_iter().map(|memory| Py::new(py, Buffer::from(memory)));
    Ok(Delivered {
        memory: memory.collect::<PyResult<_>>()?,
        num_rows: delivered.rows,
        runs: Py::new(py, Buffer::of_ranges(delivered.runs.into_iter()))?,
        cursor: Py::new(py, Cursor::from(delivered.cursor))?,
        epoch: delivered.epoch,
        step: delivered.step,
        ends_pass: delivered.ends_pass,
    })
}
