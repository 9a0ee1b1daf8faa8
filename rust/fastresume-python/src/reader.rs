//! The reader of one rank's (or worker's) share of a pass, as a Python class.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use fastresume::vectors::collected;
use fastresume::{
    BatchReader, BinRows, Bins, Counted, Delivered as CoreDelivered, DeliveredUnits, Error, FileSource,
    MixedOrder, PackedRows, Packing, PageLock as CorePageLock, Pass as CorePass, PassOrder, Polled,
    ReadSource, Selection, SequencePass, Sources, ThreadPool, UnitOrder, UnitTable as CoreTable, WorkerId,
};
use pyo3::prelude::*;

use crate::activity::Activity;
use crate::buffer::Buffer;
use crate::cursor::Cursor;
use crate::error::to_python;
use crate::gate;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::order;
use crate::page_lock::PageLock;
use crate::pass::Pass;
use crate::process_lock::ProcessLock;
use crate::stores::Stores;
use crate::tensor::Memory;
use crate::unit_table::UnitTable;
use crate::units::Units;
use crate::values::{Damaged, MemoryBound, Written};

/// One batch, in its parts.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Delivered {
    /// The memory of each field of the layout.
    #[pyo3(get)]
    memory: Py<Memory>,
    #[pyo3(get)]
    num_rows: usize,
    /// The bytes of all fields together.
    #[pyo3(get)]
    num_bytes: usize,
    /// The number of valid rows. They come first; the rows after them are padding.
    #[pyo3(get)]
    valid_rows: usize,
    /// The rows that the batch holds.
    #[pyo3(get)]
    written: Py<Written>,
    /// The cursor after the batch.
    #[pyo3(get)]
    cursor: Py<Cursor>,
    #[pyo3(get)]
    ends_pass: bool,
    /// The batch's number within its cut.
    #[pyo3(get)]
    number: u64,
    pass: Arc<CorePass>,
    rank: u64,
    units: Option<DeliveredUnits>,
    of: Arc<BatchReader>,
}

#[pymethods]
impl Delivered {
    #[getter]
    fn epoch(&self) -> u64 {
        self.pass.epoch()
    }

    #[getter]
    fn step(&self) -> u64 {
        self.pass.step_of(self.number)
    }

    /// Rows that could not be decoded, some of which may be other batches': `[start, end)`, and why.
    #[getter]
    fn damage(&self) -> Vec<Damaged> {
        self.written.get().damaged_rows()
    }

    /// The row numbers of the valid rows, in the batch's order, as `[start, end)` pairs.
    #[getter]
    fn runs(&self, py: Python<'_>) -> PyResult<Buffer> {
        gate::run(py, || {
            let all = self.written.get().rows()?;
            let mut left = self.valid_rows as u64;
            if let Some(of) = self.units.as_ref().filter(|of| of.are_documents) {
                left = of.offsets.get(self.valid_rows).copied().unwrap_or(0);
            }
            let valid = all.into_iter().map_while(|run| {
                let end = run.end.min(run.start + left);
                left -= end - run.start;
                (run.start < end).then_some(run.start..end)
            });
            Buffer::of_ranges(valid)
        })
    }

    /// Where the rows of each unit begin, then their number, and whether these are documents; `None` where rows are counted.
    fn unit_offsets(&self, py: Python<'_>) -> PyResult<Option<(Buffer, bool)>> {
        let Some(of) = &self.units else { return Ok(None) };
        let offsets = collected(of.offsets.iter().copied()).map_err(|error| to_python(py, &error))?;
        Ok(Some((Buffer::of_words(offsets), of.are_documents)))
    }

    /// The numbers of the valid units, in the batch's order, as `[start, end)` pairs, and the source of each pair.
    fn unit_numbers(&self, py: Python<'_>) -> PyResult<(Buffer, Buffer)> {
        gate::run(py, || {
            let standing = self.of.standing(self.number)?;
            let sources = collected(standing.iter().map(|of| of.source as u64))?;
            Ok((Buffer::of_ranges(standing.into_iter().map(|of| of.numbers))?, Buffer::of_words(sources)))
        })
    }

    /// The positions of the valid rows, in the batch's order, as `[start, end)` pairs.
    #[getter]
    fn positions(&self, py: Python<'_>) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.pass.valid_positions(self.number, self.rank)?.into_iter()))
    }

    /// The dropped positions, if this is the last batch of the pass.
    #[getter]
    fn dropped(&self, py: Python<'_>) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.pass.dropped_with(self.number).ranges().iter().cloned()))
    }
}

/// The rank, the number of ranks, the worker, and the number of workers.
type Place = (u64, u64, u64, u64);

/// How many threads decode ahead, how many bytes, and what locks the pages of batches, if anything does.
type Ahead<'py> = (usize, u64, Option<PyRef<'py, PageLock>>);

/// The units, the table of them, and of sequences how lists are packed: the names of the tensors, and the bytes of the element
/// behind each list, of each tensor.
type Counting<'py> = (PyRef<'py, Units>, PyRef<'py, UnitTable>, Vec<String>, Option<Vec<Vec<u8>>>);

/// The name of a source of a mixture, its files and their layout, and its units.
type Source<'py> = (String, (PyRef<'py, Manifest>, PyRef<'py, Layout>), Option<Counting<'py>>);

/// What units are made of: a table, the selected rows, and of sequences how lists are packed.
type MadeOf = (CoreTable, Arc<Selection>, Vec<String>, Option<Vec<Vec<u8>>>);

/// What decodes the batches from the next one on: who reads single ones needs none.
enum Decoding {
    Due,
    Begun(Box<ThreadPool>),
    Closed,
}

/// Returns the batches of what is left of a pass, in order.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Reader {
    decoding: ProcessLock<Decoding>,
    front: Mutex<Option<Py<Delivered>>>,
    activity: OnceLock<Py<Activity>>,
    stores: Vec<Arc<Py<Stores>>>,
    of: Arc<BatchReader>,
    is_mixed: bool,
    place: WorkerId,
    threads: usize,
    prefetch_bytes: u64,
    page_lock: Option<&'static dyn CorePageLock>,
}

#[pymethods]
impl Reader {
    #[new]
    fn new(
        py: Python<'_>,
        manifest: &Manifest,
        layout: &Layout,
        cursor: &Cursor,
        pass_: &Pass,
        place: Place,
        ahead: Ahead<'_>,
    ) -> PyResult<Self> {
        let order = |_: &_, _: &_| Ok(PassOrder::of_rows(order::of_cursor(cursor, &manifest.selection)?));
        Self::of_files(py, (manifest, layout), pass_, order, (place, ahead))
    }

    /// The batches of what is left of a stage of a mixture, of these sources: the name, the files and the layout of each, and
    /// its units if these are counted in the place of rows: in all sources, or in none.
    #[staticmethod]
    fn of_mixture(
        py: Python<'_>,
        sources: Vec<Source<'_>>,
        pass_: &Pass,
        place: Place,
        ahead: Ahead<'_>,
    ) -> PyResult<Self> {
        let stores = sources.iter().map(|(_, (manifest, _), _)| Arc::clone(&manifest.stores)).collect();
        let named: Vec<ReadSource> = sources
            .iter()
            .map(|(name, (manifest, _), units)| {
                let selection = units.as_ref().map_or(&manifest.selection, |(units, ..)| units.selection());
                ReadSource { name: name.clone(), selection: Arc::clone(selection) }
            })
            .collect();
        let each = sources.iter().map(|(_, (manifest, layout), _)| file_source(manifest, layout)).collect();
        let units =
            sources.iter().filter_map(|(_, (manifest, _), units)| Some(made_of(manifest, units.as_ref()?)));
        let units: Vec<MadeOf> = units.collect();
        let order = |sources: &Sources, pass: &Arc<CorePass>| {
            let order = MixedOrder::new(&pass.cursor_after(pass.done()), &named)?;
            pass_order(sources, units, UnitOrder::Mixed(Box::new(order)), (pass, place.0))
        };
        Self::of(py, (|| Sources::new(each), stores), pass_, order, (place, ahead))
    }

    /// The batches of what is left of a pass of units.
    #[staticmethod]
    fn of_units(
        py: Python<'_>,
        files: (PyRef<'_, Manifest>, PyRef<'_, Layout>),
        units: Counting<'_>,
        cursor: &Cursor,
        pass_: &Pass,
        place: Place,
        ahead: Ahead<'_>,
    ) -> PyResult<Self> {
        let (manifest, layout) = files;
        let (selection, made) = (Arc::clone(units.0.selection()), made_of(&manifest, &units));
        let order = |sources: &Sources, pass: &Arc<CorePass>| {
            let order = order::of_cursor(cursor, &selection)?;
            pass_order(sources, vec![made], UnitOrder::One(Box::new(order)), (pass, place.0))
        };
        Self::of_files(py, (&manifest, &layout), pass_, order, (place, ahead))
    }

    /// What the reader's threads are doing.
    #[getter]
    fn activity(&self, py: Python<'_>) -> PyResult<Py<Activity>> {
        if let Some(activity) = self.activity.get() {
            return Ok(activity.clone_ref(py));
        }
        let view = gate::run(py, || self.with(|pipeline| Ok(pipeline.view())))?;
        let activity = Py::new(py, Activity::new(view, Arc::clone(self.of.sources())))?;
        Ok(self.activity.get_or_init(|| activity).clone_ref(py))
    }

    /// Starts the threads before the first batch is asked for.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        gate::run(py, || self.with(ThreadPool::start))
    }

    /// The front batch, or `None` at the end: the same one until `advance` is called.
    ///
    /// A signal handler may raise between any two steps of Python code. So taking a batch must not move the
    /// reader.
    fn front(&self, py: Python<'_>) -> PyResult<Option<Py<Delivered>>> {
        if let Some(front) = locked(&self.front).as_ref() {
            return Ok(Some(front.clone_ref(py)));
        }
        let delivered = gate::poll(py, || {
            self.with(|pipeline| {
                Ok(match pipeline.poll(gate::PATIENCE)? {
                    Polled::Batch(mut delivered) => {
                        if let Some(lock) = self.page_lock {
                            delivered.fields.iter_mut().for_each(|memory| _ = memory.lock(lock));
                        }
                        Some(Some(delivered))
                    }
                    Polled::Pending => None,
                    Polled::End => Some(None),
                })
            })
        })?;
        let Some(delivered) = delivered else { return Ok(None) };
        let front = Py::new(py, self.wrapped(py, *delivered)?)?;
        *locked(&self.front) = Some(front.clone_ref(py));
        // Where warnings are errors, the next call gives the batch.
        for stores in &self.stores {
            stores.get().tell(py)?;
        }
        Ok(Some(front))
    }

    /// The batch with this number in the cut, which need not come next: only its rows are decoded. The reader stays where it is.
    fn batch(&self, py: Python<'_>, number: u64) -> PyResult<Delivered> {
        let delivered = gate::run_stoppable(py, |stop| self.of.read(number, stop))?;
        self.wrapped(py, delivered)
    }

    /// The most memory that reading what is left of the pass takes on this rank, with so many workers.
    fn memory_bound(&self, py: Python<'_>, workers: u64) -> PyResult<MemoryBound> {
        gate::run(py, || Ok(self.of.memory_bound(workers)?.into()))
    }

    /// The number of rows that this rank decodes of what is left of the pass, with so many workers.
    fn rows_decoded(&self, py: Python<'_>, workers: u64) -> PyResult<u64> {
        gate::run_stoppable(py, |stop| self.of.rows_decoded(workers, stop))
    }

    /// Releases the front batch.
    fn advance(&self) {
        let front = locked(&self.front).take();
        drop(front);
    }

    /// Stops the threads and closes the files.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            if let Ok(mut decoding) = self.decoding.lock() {
                *decoding = Decoding::Closed;
            }
        });
    }
}

impl Drop for Reader {
    /// Ends the threads without the GIL: one of them may want it, to ask a source of rows.
    fn drop(&mut self) {
        Python::try_attach(|py| self.close(py));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn to_reader((rank, world_size, worker, workers): Place) -> WorkerId {
    WorkerId { rank, world_size, worker, workers }
}

fn made_of(manifest: &Manifest, (_, table, names, separators): &Counting<'_>) -> MadeOf {
    (table.inner.clone(), Arc::clone(&manifest.selection), names.clone(), separators.clone())
}

/// What stands at positions, in an order: rows where nothing is given that units are made of, else those of each source.
fn pass_order(
    sources: &Sources,
    made_of: Vec<MadeOf>,
    units: UnitOrder,
    (pass, rank): (&Arc<CorePass>, u64),
) -> Result<PassOrder, Error> {
    let mixed = || Error::Argument("the sources of a mixture count the same: rows, sequences or bins".into());
    let (mut bins, mut packed) = (Vec::new(), Vec::new());
    for (table, rows, names, separators) in made_of {
        match table {
            CoreTable::Bins(table) => bins.push(Bins { table, rows }),
            CoreTable::Sequences(table) => {
                let length = usize::try_from(table.length)
                    .map_err(|_| Error::Argument("no memory for sequences as long as these".into()))?;
                let packing = Arc::new(Packing { names, length, separators });
                packed.push(PackedRows { packing, table, rows });
            }
        }
    }
    let counted = match (bins.len(), packed.len(), sources.each().len()) {
        (0, 0, _) => Counted::Rows,
        (own, 0, all) if own == all => {
            Counted::Bins(Arc::new(BinRows::new(bins, units.clone(), Arc::clone(pass), rank)))
        }
        (0, own, all) if own == all => {
            let whose = (Arc::clone(pass), rank);
            Counted::Sequences(Arc::new(SequencePass::new(sources, packed, units.clone(), whose)?))
        }
        _ => return Err(mixed()),
    };
    Ok(PassOrder { units, counted })
}

fn file_source(manifest: &Manifest, layout: &Layout) -> FileSource {
    FileSource { manifest: Arc::clone(&manifest.inner), layout: layout.inner.clone() }
}

impl Reader {
    /// The batches of the files of one dataset.
    fn of_files(
        py: Python<'_>,
        (manifest, layout): (&Manifest, &Layout),
        pass_: &Pass,
        order: impl FnOnce(&Sources, &Arc<CorePass>) -> Result<PassOrder, Error> + Send,
        own: (Place, Ahead<'_>),
    ) -> PyResult<Self> {
        let files = file_source(manifest, layout);
        let sources = || Ok(Sources::one(files.manifest, files.layout));
        Self::of(py, (sources, vec![Arc::clone(&manifest.stores)]), pass_, order, own)
    }

    /// The batches of sources, which lie in these stores, in an order.
    fn of(
        py: Python<'_>,
        (sources, stores): (impl FnOnce() -> Result<Sources, Error> + Send, Vec<Arc<Py<Stores>>>),
        pass_: &Pass,
        order: impl FnOnce(&Sources, &Arc<CorePass>) -> Result<PassOrder, Error> + Send,
        (place, (threads, prefetch_bytes, page_lock)): (Place, Ahead<'_>),
    ) -> PyResult<Self> {
        let (of, is_mixed) = gate::run(py, || {
            let (sources, pass) = (Arc::new(sources()?), Arc::clone(&pass_.inner));
            let order = order(&sources, &pass)?;
            let is_mixed = matches!(order.units, UnitOrder::Mixed(_));
            Ok((Arc::new(BatchReader::new(sources, order, pass, place.0)), is_mixed))
        })?;
        Ok(Self {
            decoding: ProcessLock::new(Decoding::Due),
            front: Mutex::new(None),
            activity: OnceLock::new(),
            stores,
            of,
            is_mixed,
            place: to_reader(place),
            threads,
            prefetch_bytes,
            page_lock: page_lock.as_deref().map(PageLock::of_core),
        })
    }

    /// Call this only without the GIL: another thread may hold the lock and want the GIL.
    fn with<T>(&self, work: impl FnOnce(&mut ThreadPool) -> Result<T, Error>) -> Result<T, Error> {
        let mut decoding = self.decoding.lock()?;
        if matches!(*decoding, Decoding::Due) {
            let pipeline = self.of.pipeline(self.place, self.threads, self.prefetch_bytes)?;
            *decoding = Decoding::Begun(Box::new(pipeline));
        }
        match &mut *decoding {
            Decoding::Begun(pipeline) => work(pipeline),
            _ => Err(Error::State("the reader is closed".into())),
        }
    }

    fn wrapped(&self, py: Python<'_>, delivered: CoreDelivered) -> PyResult<Delivered> {
        let ends_pass = delivered.ends_pass();
        let documents = delivered.units.as_ref().filter(|of| of.are_documents);
        let num_numbers =
            documents.and_then(|of| of.offsets.last().copied()).unwrap_or(delivered.rows as u64);
        let num_bytes = delivered.fields.iter().map(|memory| memory.bytes().len()).sum();
        let sources = self.is_mixed.then(|| Arc::clone(self.of.sources()));
        Ok(Delivered {
            memory: Py::new(py, Memory::from(delivered.fields))?,
            num_rows: delivered.rows,
            num_bytes,
            valid_rows: delivered.valid_rows,
            written: Py::new(py, Written::new(delivered.written, num_numbers, sources))?,
            cursor: Py::new(py, Cursor::from(delivered.cursor))?,
            ends_pass,
            pass: delivered.pass,
            number: delivered.batch,
            rank: self.place.rank,
            units: delivered.units,
            of: Arc::clone(&self.of),
        })
    }
}
