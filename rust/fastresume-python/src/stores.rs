//! The stores that a dataset reads from, as a Python class.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use fastresume::{Error, FileSystem};
use fastresume_stores::{Cache, CredentialsOf, Options, Stores as CoreStores};
use pyo3::exceptions::{PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PyType};

use crate::gate;
use crate::raised;

/// Stores of objects that are reached with these options. It is pickled with them: they are secrets.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Stores {
    inner: CoreStores,
    options: BTreeMap<String, String>,
    credentials: Option<Py<PyAny>>,
    read_bytes: u64,
    cache: Option<(PathBuf, Option<u64>)>,
}

impl Stores {
    /// Warns of what went wrong with the cache, once.
    pub fn tell(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(weakness) = self.inner.take_weakness() {
            py.import("logging")?
                .call_method1("getLogger", ("fastresume",))?
                .call_method1("warning", ("%s", weakness))?;
        }
        let Some(trouble) = self.inner.take_trouble() else { return Ok(()) };
        let Ok(trouble) = CString::new(trouble) else { return Ok(()) };
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &trouble, 1)
    }

    /// Local disks, and these stores.
    pub fn file_system(&self) -> FileSystem {
        FileSystem::with_store(Arc::new(self.inner.clone()), self.read_bytes)
    }
}

/// What was asked of stores until now, in this process.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct StoreCounts {
    requests: u64,
    retries: u64,
    bytes_asked: u64,
    bytes_needed: u64,
    bytes_from_cache: u64,
    wait_for_bytes_seconds: f64,
}

#[pymethods]
impl Stores {
    #[new]
    #[pyo3(signature = (options=BTreeMap::new(), credentials=None, read_bytes=256 << 20, cache=None))]
    fn new(
        py: Python<'_>,
        options: BTreeMap<String, String>,
        credentials: Option<Py<PyAny>>,
        read_bytes: u64,
        cache: Option<(PathBuf, Option<u64>)>,
    ) -> PyResult<Self> {
        let asked = credentials.as_ref().map(|function| credentials_of(py, function)).transpose()?;
        let kept = cache.clone().map(|(directory, limit)| Cache::new(directory, limit));
        let inner = CoreStores::new(Options { named: options.clone(), credentials: asked }, kept);
        Ok(Self { inner, options, credentials, read_bytes, cache })
    }

    /// What was asked of them until now, in this process.
    fn counts(&self) -> StoreCounts {
        let counts = self.inner.counts().snapshot();
        StoreCounts {
            requests: counts.requests,
            retries: counts.retries,
            bytes_asked: counts.bytes_asked,
            bytes_needed: counts.bytes_needed,
            bytes_from_cache: counts.bytes_from_cache,
            wait_for_bytes_seconds: counts.wait.as_secs_f64(),
        }
    }

    /// The bytes of the objects of these names in a directory, which is listed once; None for those that it lacks.
    fn contents<'py>(
        &self,
        py: Python<'py>,
        directory: PathBuf,
        names: Vec<String>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let found = gate::run_stoppable(py, |stop| self.inner.contents(&directory, &names, stop))?;
        Ok(found.into_iter().map(|bytes| bytes.map(|bytes| PyBytes::new(py, &bytes))).collect())
    }

    #[allow(clippy::type_complexity, reason = "what pickle wants: a class and its arguments")]
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> (
        Bound<'py, PyType>,
        (BTreeMap<String, String>, Option<Py<PyAny>>, u64, Option<(PathBuf, Option<u64>)>),
    ) {
        let Self { options, credentials, read_bytes, cache, .. } = slf.get();
        let credentials = credentials.as_ref().map(|function| function.clone_ref(slf.py()));
        (slf.get_type(), (options.clone(), credentials, *read_bytes, cache.clone()))
    }
}

type Given = fastresume::Result<BTreeMap<String, String>>;

/// Takes what a function of the user's gave, or what it failed with.
#[pyclass(frozen)]
struct Answer(Sender<Given>);

#[pymethods]
impl Answer {
    fn __call__(&self, py: Python<'_>, given: &Bound<'_, PyAny>, error: Option<Bound<'_, PyAny>>) {
        let given = match error {
            Some(error) => Err(PyErr::from_value(error)),
            None => texts(given),
        };
        let given = given.map_err(|error| {
            let failure = failed(&error);
            raised::note(&failure, error.into_value(py).into_any());
            failure
        });
        // Nobody waits any more where a pass was closed.
        drop(self.0.send(given));
    }
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::Source(format!("credentials() failed: {cause}"))
}

/// Calls a function of the user's, in a thread of Python's own, and waits for what it gives.
///
/// An interpreter that ends unwinds threads that are amid Python code: one of Rust's would end the process by a signal.
fn credentials_of(py: Python<'_>, function: &Py<PyAny>) -> PyResult<CredentialsOf> {
    let start = py.import("_thread")?.getattr("start_new_thread")?.unbind();
    let ask = py.import("fastresume.options.stores")?.getattr("ask")?.unbind();
    let function = function.clone_ref(py);
    Ok(Arc::new(move || {
        let (sender, answered) = channel();
        let started = Python::attach(|py| start.call1(py, (&ask, (&function, Answer(sender)))).map(drop));
        started.map_err(failed)?;
        answered.recv().unwrap_or_else(|_| Err(failed("its thread has ended")))
    }))
}

/// The names and values of a mapping. What is None is not there, and when they expire is nobody's concern.
fn texts(given: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, String>> {
    let kind = |found: &Bound<'_, PyAny>| -> PyResult<String> { Ok(found.get_type().name()?.to_string()) };
    let Ok(mapping) = given.cast::<PyMapping>() else {
        let message = format!("it must return a dict of strings, found {}", kind(given)?);
        return Err(PyTypeError::new_err(message));
    };
    let mut texts = BTreeMap::new();
    for pair in mapping.items()?.iter() {
        let (name, value): (String, Bound<'_, PyAny>) = pair.extract()?;
        if value.is_none() || name.to_ascii_lowercase().contains("expir") {
            continue;
        }
        let Ok(text) = value.extract() else {
            let message = format!("it must return a dict of strings, found {} at '{name}'", kind(&value)?);
            return Err(PyTypeError::new_err(message));
        };
        texts.insert(name, text);
    }
    Ok(texts)
}
