//! The manifest, and the layout of a batch of its rows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use fastresume::cache::Cache;
use fastresume::error::{Error, Result};
use fastresume::manifest::Manifest as CoreManifest;
use fastresume::rows;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::buffer::Buffer;
use crate::gate;
use crate::intervals;
use crate::layout::Layout;

/// The immutable table of a dataset's files.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Manifest {
    pub inner: Arc<CoreManifest>,
    not_cached: Option<String>,
    files: PyOnceLock<Py<PyTuple>>,
}

#[allow(clippy::disallowed_methods, reason = "it decides what is cached, and no result")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl Manifest {
    fn of(inner: CoreManifest, cached: Result<()>) -> Self {
        let not_cached = cached.err().map(|cause| cause.to_string());
        Self { inner: Arc::new(inner), not_cached, files: PyOnceLock::new() }
    }
}

#[pymethods]
impl Manifest {
    #[staticmethod]
    #[pyo3(signature = (paths, cache=None))]
    fn open(py: Python<'_>, paths: Vec<PathBuf>, cache: Option<PathBuf>) -> PyResult<Self> {
        let cache = cache.map(|path| Cache { path, now: now() });
        gate::run_stoppable(py, |stop| {
            let (inner, cached) = match cache {
                Some(cache) => CoreManifest::open_cached(&paths, &cache, stop)?,
                None => (CoreManifest::open(&paths, stop)?, Ok(())),
            };
            Ok(Self::of(inner, cached))
        })
    }

    /// Why the cache could not be written, if so.
    #[getter]
    fn not_cached(&self) -> Option<&str> {
        self.not_cached.as_deref()
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        gate::run(py, || {
            let inner = postcard::from_bytes(data)
                .map_err(|cause| Error::State(format!("a pickled dataset is damaged: {cause}")))?;
            Ok(Self::of(inner, Ok(())))
        })
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.inner.num_rows()
    }

    /// The rows `[first, end)` of the files that a path names.
    fn rows_of(&self, py: Python<'_>, path: PathBuf) -> PyResult<(u64, u64)> {
        let rows = gate::run_stoppable(py, |stop| self.inner.rows_of(path, stop))?;
        Ok((rows.start, rows.end))
    }

    #[getter]
    fn num_row_groups(&self) -> usize {
        self.inner.num_groups()
    }

    /// The first row of every row group, and the number of rows.
    #[getter]
    fn group_starts(&self) -> Buffer {
        Buffer::of_words(self.inner.group_starts().to_vec())
    }

    /// The first row group of every file, and the number of row groups.
    #[getter]
    fn file_groups(&self) -> Buffer {
        Buffer::of_words(self.inner.file_groups().map(|group| group as u64).collect())
    }

    /// The files' rows that runs of ascending row numbers name, as tensors' memory.
    fn read_rows(&self, py: Python<'_>, layout: &Layout, runs: PyBuffer<i64>) -> PyResult<Vec<Buffer>> {
        let runs = intervals::read(py, &runs)?;
        let runs: Vec<_> =
            runs.iter().map(|run| run.start.cast_unsigned()..run.end.cast_unsigned()).collect();
        let (manifest, layout) = (&self.inner, &layout.inner);
        let fields =
            gate::run_stoppable(py, |stop| rows::read(Arc::clone(manifest), layout.clone(), &runs, stop))?;
        Ok(fields.into_iter().map(Buffer::from).collect())
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    /// The paths, made once: a hundred thousand of them take milliseconds.
    #[getter]
    fn files(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let paths = || self.inner.files().iter().map(|file| file.path.to_string_lossy());
        let made = self.files.get_or_try_init(py, || Ok::<_, PyErr>(PyTuple::new(py, paths())?.unbind()))?;
        Ok(made.clone_ref(py))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let inner = &slf.get().inner;
        let bytes = gate::run(py, || {
            postcard::to_allocvec(inner.as_ref())
                .map_err(|cause| Error::Argument(format!("the dataset can't be pickled: {cause}")))
        })?;
        let class: Bound<'py, PyType> = slf.get_type();
        Ok((class.getattr("from_bytes")?, PyTuple::new(py, [PyBytes::new(py, &bytes)])?))
    }
}
