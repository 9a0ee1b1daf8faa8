//! A source of rows that lie in no Parquet file, as a Python class.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};

use fastresume::error::check_thread;
use fastresume::{
    ArrowField, Error, HeldRows, Reach, Result, RowBatch, RowGroup, RowSource, Waiting, digests,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrow::{batches_of, fields_of};
use crate::error::to_python;
use crate::gate;
use crate::raised;

/// What has the rows of a dataset. It is pickled as what it was made of.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Rows {
    pub source: Arc<dyn RowSource>,
    /// What it was made of, and the function that makes it again.
    made_of: Option<(Py<PyAny>, Py<PyAny>)>,
}

impl Rows {
    /// Rows of a source, and what it is pickled as.
    pub fn new(source: Arc<dyn RowSource>, made_of: Option<(Py<PyAny>, Py<PyAny>)>) -> Self {
        Self { source, made_of }
    }
}

#[pymethods]
impl Rows {
    /// Rows in memory: of each part what has `__arrow_c_stream__`.
    #[staticmethod]
    #[pyo3(signature = (schema, footer, parts, part_rows, made_of=None))]
    fn held(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        footer: Vec<u8>,
        parts: Vec<Bound<'_, PyAny>>,
        part_rows: Vec<Vec<usize>>,
        made_of: Option<(Py<PyAny>, Py<PyAny>)>,
    ) -> PyResult<Self> {
        let fields = raising(py, fields_of(schema)?)?;
        let numbers: Vec<usize> = (0..fields.len()).collect();
        let each = parts.iter().map(|part| raising(py, batches_of(part, &fields, &numbers)?));
        let parts = each.collect::<PyResult<Vec<_>>>()?;
        let source = Arc::new(HeldRows::new(fields, footer, parts, &part_rows));
        Ok(Self { source, made_of })
    }

    /// Rows that a function gives: `read(part, group, columns, most)` returns what has `__arrow_c_stream__`, of at least `most` rows
    /// if that is not 0.
    #[staticmethod]
    #[pyo3(signature = (schema, footer, part_rows, read, made_of=None))]
    fn called(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        footer: Vec<u8>,
        part_rows: Vec<Vec<usize>>,
        read: Py<PyAny>,
        made_of: Option<(Py<PyAny>, Py<PyAny>)>,
    ) -> PyResult<Self> {
        let fields = raising(py, fields_of(schema)?)?.into();
        let ask = py.import("fastresume.sources.askers")?.getattr("ASKERS")?.getattr("ask")?.unbind();
        let source = Arc::new(CalledRows { fields, footer, part_rows, read, ask });
        Ok(Self { source, made_of })
    }

    /// A hash of what the rows of each part hold, where parts have so many row groups.
    fn digests<'py>(&self, py: Python<'py>, part_groups: Vec<usize>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let found = gate::run_stoppable(py, |stop| digests(self.source.as_ref(), &part_groups, stop))?;
        Ok(found.iter().map(|hash| PyBytes::new(py, hash)).collect())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Py<PyAny>, Bound<'py, PyTuple>)> {
        let Some((make, of)) = &self.made_of else {
            let message = "the rows of this dataset can't be pickled: they are of no known source";
            return Err(to_python(py, &Error::Argument(message.into())));
        };
        Ok((make.clone_ref(py), PyTuple::new(py, [of])?))
    }
}

fn raising<T>(py: Python<'_>, found: Result<T>) -> PyResult<T> {
    found.map_err(|error| to_python(py, &error))
}

/// Rows that a function of Python's gives.
struct CalledRows {
    fields: Arc<[ArrowField]>,
    footer: Vec<u8>,
    /// Of each part the rows of its row groups.
    part_rows: Vec<Vec<usize>>,
    read: Py<PyAny>,
    /// Lets a thread of Python's own call it.
    ask: Py<PyAny>,
}

impl fmt::Debug for CalledRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CalledRows").field("fields", &self.fields).finish_non_exhaustive()
    }
}

type Given = Result<Vec<RowBatch>>;

/// Takes what the function gave, or what it failed with.
#[pyclass(frozen)]
struct Taker {
    sender: Mutex<Sender<Given>>,
    fields: Arc<[ArrowField]>,
    columns: Vec<usize>,
}

#[pymethods]
impl Taker {
    /// `raised` is the cause of a failure; rows that are not what was stated have none.
    fn __call__(&self, given: &Bound<'_, PyAny>, error: Option<String>, raised: Option<Py<PyAny>>) {
        let taken = match error {
            Some(message) => Err(match raised {
                Some(raised) => {
                    let failure = Error::Source(message);
                    raised::note(&failure, raised);
                    failure
                }
                None => Error::data(message).of_several_columns(), // it names its own
            }),
            None => match batches_of(given, &self.fields, &self.columns) {
                Ok(taken) => taken,
                Err(error) => Err(Error::Source(format!("read() returned what is no Arrow stream: {error}"))),
            },
        };
        // Nobody waits any more where a pass was closed.
        if let Ok(sender) = self.sender.lock() {
            drop(sender.send(taken));
        }
    }
}

impl RowSource for CalledRows {
    fn fields(&self) -> &[ArrowField] {
        &self.fields
    }

    fn footer(&self) -> &[u8] {
        &self.footer
    }

    fn reach(&self) -> Reach {
        Reach::Far
    }

    fn ask(self: Arc<Self>, part: usize, group: usize, columns: Vec<usize>) -> Waiting {
        let rows = self.rows_of(part, group);
        if rows == 0 || columns.is_empty() {
            return Box::new(move || self.read(part, group, &columns));
        }
        let begun = self.begun(part, group, &columns, 0);
        Box::new(move || Ok(Arc::new(RowGroup::new(waited_for(&begun?)?, rows)?)))
    }

    /// Calls the function in a thread of Python's own, and waits for what it gives.
    ///
    /// An interpreter that ends unwinds threads that are amid Python code: one of Rust's would end the process by a signal.
    fn read(&self, part: usize, group: usize, columns: &[usize]) -> Result<Arc<RowGroup>> {
        let rows = self.rows_of(part, group);
        if rows == 0 || columns.is_empty() {
            let none = RowBatch { rows, columns: vec![None; self.fields.len()] };
            return Ok(Arc::new(RowGroup::new([none], rows)?));
        }
        Ok(Arc::new(RowGroup::new(waited_for(&self.begun(part, group, columns, 0)?)?, rows)?))
    }

    fn first(&self, part: usize, group: usize, columns: &[usize], most: usize) -> Result<Arc<RowGroup>> {
        let batches = waited_for(&self.begun(part, group, columns, most)?)?;
        let rows = batches.iter().map(|batch| batch.rows).sum();
        Ok(Arc::new(RowGroup::new(batches, rows)?))
    }
}

impl CalledRows {
    fn rows_of(&self, part: usize, group: usize) -> usize {
        self.part_rows.get(part).and_then(|groups| groups.get(group)).copied().unwrap_or(0)
    }

    /// Begins to call the function: what it gives comes here.
    fn begun(&self, part: usize, group: usize, columns: &[usize], most: usize) -> Result<Receiver<Given>> {
        let (sender, answered) = channel();
        let taker =
            Taker { sender: Mutex::new(sender), fields: Arc::clone(&self.fields), columns: columns.to_vec() };
        let started = Python::attach(|py| {
            let arguments = (&self.read, (part, group, columns.to_vec(), most), taker);
            self.ask.call1(py, arguments).map(drop)
        });
        started.map_err(|error| failed(&error))?;
        Ok(answered)
    }
}

fn failed(cause: &dyn fmt::Display) -> Error {
    Error::Source(format!("can't call read(): {cause}"))
}

/// What the function gives, once it has.
fn waited_for(answered: &Receiver<Given>) -> Given {
    loop {
        match answered.recv_timeout(gate::PATIENCE) {
            Ok(given) => return given,
            Err(RecvTimeoutError::Timeout) => check_thread()?,
            Err(RecvTimeoutError::Disconnected) => return Err(failed(&"its thread has ended")),
        }
    }
}
