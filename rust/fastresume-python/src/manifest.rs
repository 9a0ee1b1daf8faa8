//! The manifest with the selected rows, as a Python class.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fastresume::{
    CachedRows, Error, Intervals, Kind, Manifest as CoreManifest, ManifestCache, PageChecks, Result, RowPart,
    Selection, arrays, hive_partition, patterns, row_group_stats, schemas,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::buffer::Buffer;
use crate::gate;
use crate::intervals;
use crate::rows::Rows;
use crate::stores::Stores;
use crate::table::TableArgument;
use crate::values::Value;

/// The immutable table of a dataset's files, and the selection of their rows.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Manifest {
    pub inner: Arc<CoreManifest>,
    pub selection: Arc<Selection>,
    pub stores: Arc<Py<Stores>>,
    rows: Option<Arc<Py<Rows>>>,
    not_cached: Option<String>,
    files: PyOnceLock<Py<PyTuple>>,
}

/// Where the rows are kept that a filter keeps, and all that they depend on.
#[pyclass(frozen, module = "fastresume._core")]
pub struct FilterCache {
    inner: CachedRows,
}

#[allow(clippy::disallowed_methods, reason = "it decides what is cached, and no result")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl Manifest {
    fn of(inner: CoreManifest, stores: Arc<Py<Stores>>, cached: Result<()>) -> Self {
        let not_cached = cached.err().map(|cause| cause.to_string());
        let selection = Arc::new(Selection::everything(inner.group_starts()));
        let inner = Arc::new(inner);
        Self { inner, selection, stores, rows: None, not_cached, files: PyOnceLock::new() }
    }

    /// The same, whose rows this source has.
    fn in_rows(self, rows: Option<Arc<Py<Rows>>>) -> Self {
        Self { rows, ..self }
    }

    fn selecting(&self, rows: Intervals) -> Result<Self> {
        let selection = Arc::new(Selection::new(self.inner.group_starts(), rows)?);
        let (inner, stores, not_cached) =
            (Arc::clone(&self.inner), Arc::clone(&self.stores), self.not_cached.clone());
        let rows = self.rows.clone();
        Ok(Self { inner, selection, stores, rows, not_cached, files: PyOnceLock::new() })
    }
}

/// The name of a part, the rows of its row groups, and what differs if its content does.
type Part = (PathBuf, Vec<u64>, [u8; 16]);

#[pymethods]
impl Manifest {
    #[staticmethod]
    #[pyo3(signature = (paths, stores, cache=None, verify_checksums=true, max_page_bytes=1 << 30, table=None))]
    fn open(
        py: Python<'_>,
        paths: Vec<Vec<PathBuf>>,
        stores: Py<Stores>,
        cache: Option<PathBuf>,
        verify_checksums: bool,
        max_page_bytes: u64,
        table: Option<TableArgument>,
    ) -> PyResult<Self> {
        let table = table.map(TableArgument::snapshot);
        let files = stores.get().file_system();
        let cache = cache.map(|path| ManifestCache { path, now: now() });
        let (inner, cached) = gate::run_stoppable(py, |stop| {
            let (inner, cached) = match cache {
                Some(cache) => CoreManifest::open_cached(files, &paths, table.as_ref(), &cache, stop)?,
                None => (CoreManifest::open_in(files, &paths, table.as_ref(), stop)?, Ok(())),
            };
            let checks = PageChecks { verifies_checksums: verify_checksums, max_page_bytes };
            Ok((inner.with_page_checks(checks), cached))
        })?;
        stores.get().tell(py)?;
        Ok(Self::of(inner, Arc::new(stores), cached))
    }

    /// The parts of a source of rows that lie in no Parquet file. Of columns that none of `wanted` means it is not asked how large
    /// they are; of all if it is None.
    #[staticmethod]
    #[pyo3(signature = (rows, parts, stores, wanted=None))]
    fn of_rows(
        py: Python<'_>,
        rows: Py<Rows>,
        parts: Vec<Part>,
        stores: Py<Stores>,
        wanted: Option<Vec<Vec<String>>>,
    ) -> PyResult<Self> {
        let source = Arc::clone(&rows.get().source);
        let parts: Vec<RowPart> =
            parts.into_iter().map(|(name, group_rows, hash)| RowPart { name, group_rows, hash }).collect();
        let files = stores.get().file_system();
        let chosen = |names: &[&str]| {
            let mut chosen = HashSet::new();
            let Some(wanted) = &wanted else {
                return Ok(names.iter().map(|name| (*name).to_owned()).collect());
            };
            for texts in wanted {
                chosen.extend(patterns::pick(names, texts, true)?.into_iter().map(str::to_owned));
            }
            Ok(chosen)
        };
        let inner = gate::run_stoppable(py, |_| {
            Ok(CoreManifest::of_rows(source, &parts, chosen)?.in_file_system(files))
        })?;
        Ok(Self::of(inner, Arc::new(stores), Ok(())).in_rows(Some(Arc::new(rows))))
    }

    /// Whether page checksums (CRC) are verified where pages have one.
    #[getter]
    fn verifies_checksums(&self) -> bool {
        self.inner.page_checks().verifies_checksums
    }

    /// Whether a page was decoded that has no checksum, in this process.
    #[getter]
    fn lacks_checksums(&self) -> bool {
        self.inner.lacks_checksums().load(Ordering::Relaxed)
    }

    /// Whether the rows lie in files.
    #[getter]
    fn has_files(&self) -> bool {
        self.rows.is_none()
    }

    /// Why the cache could not be written, if so.
    fn not_cached(&self) -> Option<&str> {
        self.not_cached.as_deref()
    }

    /// Where the rows are kept that a filter keeps of the selected ones; see the core.
    fn cached_rows(
        &self,
        py: Python<'_>,
        path: PathBuf,
        wanted: Vec<u8>,
        names: Option<Vec<String>>,
        of_paths: Vec<String>,
    ) -> PyResult<FilterCache> {
        let of = (self.inner.as_ref(), self.selection.as_ref());
        gate::run(py, || CachedRows::new(path, of, &wanted, (names.as_deref(), &of_paths)))
            .map(|inner| FilterCache { inner })
    }

    /// The same files with the rows selected that a filter's cache has; `None` if it has none.
    fn select_cached(&self, py: Python<'_>, cache: &FilterCache) -> PyResult<Option<Self>> {
        gate::run_stoppable(py, |stop| {
            let rows = cache.inner.rows(&self.inner, stop)?;
            Ok(rows.and_then(|rows| self.selecting(rows).ok()))
        })
    }

    /// Keeps the selected rows in a filter's cache.
    fn keep_selected(&self, py: Python<'_>, cache: &FilterCache) -> PyResult<()> {
        gate::run_stoppable(py, |stop| cache.inner.keep(&self.inner, &self.selection, stop))
    }

    /// The same files in another order, with all rows selected, if the first ones, or all of them, have a fingerprint by
    /// themselves.
    fn beginning_with(&self, py: Python<'_>, fingerprint: &str, order: Vec<usize>) -> PyResult<Option<Self>> {
        let stores = Arc::clone(&self.stores);
        gate::run(py, || {
            let begins = self.inner.begins_with(&order, fingerprint)?;
            let found = begins.then(|| self.inner.reordered(&order)).transpose()?;
            Ok(found.map(|found| Self::of(found, stores, Ok(())).in_rows(self.rows.clone())))
        })
    }

    /// The first file in which names of columns do not mean what they mean in the table, if the files are one's.
    fn renamed_file(&self) -> Option<PathBuf> {
        self.inner.renamed_file().map(std::path::Path::to_owned)
    }

    /// What is to be said of files that were found under two names, if there are.
    fn second_names(&self) -> Option<&str> {
        self.inner.second_names()
    }

    /// The stores that objects are read from, if files are objects.
    #[getter]
    fn stores(&self, py: Python<'_>) -> Py<Stores> {
        self.stores.clone_ref(py)
    }

    #[staticmethod]
    #[pyo3(signature = (data, stores, rows=None))]
    fn from_bytes(py: Python<'_>, data: &[u8], stores: Py<Stores>, rows: Option<Py<Rows>>) -> PyResult<Self> {
        let files = stores.get().file_system();
        let source = rows.as_ref().map(|rows| Arc::clone(&rows.get().source));
        gate::run(py, || {
            let (inner, selected): (CoreManifest, Option<Vec<Range<u64>>>) = postcard::from_bytes(data)
                .map_err(|cause| Error::State(format!("a pickled dataset is damaged: {cause}")))?;
            let inner = inner.in_file_system(files);
            let inner = match source {
                Some(source) => inner.in_rows(source),
                None => inner,
            };
            let everything = Self::of(inner, Arc::new(stores), Ok(())).in_rows(rows.map(Arc::new));
            match selected {
                Some(rows) => everything.selecting(Intervals::new(rows)?),
                None => Ok(everything),
            }
        })
    }

    /// The same files with only these rows selected.
    fn select(&self, py: Python<'_>, rows: PyBuffer<i64>) -> PyResult<Self> {
        let rows = intervals::read(py, &rows)?;
        gate::run(py, || self.selecting(arrays::to_set(&rows)?))
    }

    /// The number of selected rows.
    #[getter]
    fn num_selected(&self) -> u64 {
        self.selection.count()
    }

    /// The hash of the selection; `None` if all rows are selected.
    #[getter]
    fn selection(&self) -> Option<&str> {
        self.selection.hash()
    }

    /// The selected rows; `None` if all are.
    #[getter]
    fn selected(&self, py: Python<'_>) -> PyResult<Option<Buffer>> {
        let ranges = self.selection.intervals().map(|of| of.ranges().iter().cloned());
        gate::run(py, || ranges.map(Buffer::of_ranges).transpose())
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.inner.num_rows()
    }

    /// The files that a path names, by their numbers, ascending.
    fn files_of(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<usize>> {
        gate::run_stoppable(py, |stop| self.inner.files_of(path, stop))
    }

    #[getter]
    fn num_row_groups(&self) -> usize {
        self.inner.num_groups()
    }

    /// The first row of every row group, then the number of rows.
    #[getter]
    fn group_starts(&self) -> Buffer {
        Buffer::of_words(self.inner.group_starts().to_vec())
    }

    /// The first row group of every file, then the number of row groups.
    #[getter]
    fn file_groups(&self) -> Buffer {
        Buffer::of_words(self.inner.file_groups().map(|group| group as u64).collect())
    }

    /// The values of a hive partition column: whether they are strings, and the value of each file.
    fn path_values(
        &self,
        py: Python<'_>,
        name: String,
        optional: Vec<String>,
    ) -> PyResult<(bool, Vec<Option<Value>>)> {
        gate::run(py, || {
            let may_miss = patterns::is_meant(&optional, &name)?;
            let column = hive_partition::column(&self.inner, &name, may_miss)?;
            let files = 0..self.inner.files().len();
            let values = files.map(|file| row_group_stats::of_file(&self.inner, file, &column));
            Ok((column.kind != Kind::Scalar, values.map(|value| value.map(Value::from)).collect()))
        })
    }

    /// The names of the columns of all files, in the order of the first schemas that have them.
    #[getter]
    fn column_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        gate::run(py, || {
            let schemas = schemas::Schemas::new(self.inner.schemas().collect())?;
            Ok(schemas.names(false).into_iter().map(str::to_owned).collect())
        })
    }

    /// The types of these columns in the files, for people: each as in the first file that has it.
    #[getter]
    fn column_types(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        gate::run(py, || {
            let schemas = schemas::Schemas::new(self.inner.schemas().collect())?;
            Ok(schemas.types().into_iter().map(Cow::into_owned).collect())
        })
    }

    /// The columns that files may lack, and that some do: of each its name, and a file that has it.
    fn lacked_columns(&self, py: Python<'_>, optional: Vec<String>) -> PyResult<Vec<(String, PathBuf)>> {
        gate::run(py, || {
            let schemas: Vec<_> = self.inner.schemas().collect();
            let found = schemas::lacked(&schemas, &optional)?;
            Ok(found.into_iter().map(|(name, file)| (name.to_owned(), file.to_owned())).collect())
        })
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        self.inner.fingerprint()
    }

    /// The paths, made once: a hundred thousand of them take milliseconds. Bytes that are no text are those of
    /// `os.fsdecode`.
    #[getter]
    fn files(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let paths = || self.inner.files().iter().map(|file| file.path.as_os_str());
        let made = self.files.get_or_try_init(py, || Ok::<_, PyErr>(PyTuple::new(py, paths())?.unbind()))?;
        Ok(made.clone_ref(py))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let Self { inner, selection, stores, rows, .. } = slf.get();
        let bytes = gate::run(py, || {
            postcard::to_allocvec(&(inner.as_ref(), selection.intervals().map(Intervals::ranges)))
                .map_err(|cause| Error::Argument(format!("the dataset can't be pickled: {cause}")))
        })?;
        let class: Bound<'py, PyType> = slf.get_type();
        let stores = stores.clone_ref(py);
        let rows = rows.as_ref().map(|rows| rows.clone_ref(py));
        Ok((class.getattr("from_bytes")?, (PyBytes::new(py, &bytes), stores, rows).into_pyobject(py)?))
    }
}
