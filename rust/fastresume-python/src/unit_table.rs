//! The index of units, as Python classes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fastresume::{CostSource, Making, Progress, Rule, SequenceTable, UnitRows, UnitTable as CoreTable};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};

use crate::buffer::Buffer;
use crate::columns::RuleArgument;
use crate::error::to_python;
use crate::gate;
use crate::layout::Layout;
use crate::manifest::Manifest;

/// Which rows each unit of a dataset is made of: of sequences by an index with anchors, of bins by their first rows.
#[pyclass(frozen, module = "fastresume._core")]
pub struct UnitTable {
    pub inner: CoreTable,
}

/// How an index is made: the manifest's cache, threads, and how many rows may be left out, if any.
type How = (Option<PathBuf>, usize, Option<u64>);

/// What is made of rows: the name of a rule, and what it says.
type Unit = (String, RuleArgument);

/// A table; the rows that can't be read, and why; how many files were read; why it could not be kept, if so.
type Index = (UnitTable, Vec<(u64, u64, String)>, usize, Option<String>);

#[pymethods]
impl UnitTable {
    #[new]
    fn new(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        gate::run(py, || Ok(Self { inner: CoreTable::from_bytes(data)? }))
    }

    /// The table of a dataset's selected rows. A row costs the length of its lists in the columns of these names; or, where there
    /// is a layout, the number in the only column of that. `tell` is called now and then with how many row groups are read,
    /// of how many. Sequences are cut from these tokens of each file, from all where none are named.
    #[staticmethod]
    #[pyo3(signature = (manifest, costs, unit, how, tell, cut = Vec::new()))]
    fn of(
        py: Python<'_>,
        manifest: &Manifest,
        costs: (Vec<String>, Option<Py<Layout>>),
        unit: Unit,
        how: How,
        tell: &Bound<'_, PyAny>,
        cut: Vec<(u64, u64)>,
    ) -> PyResult<Index> {
        let (names, layout) = costs;
        let source = match layout {
            Some(layout) => CostSource::Numbers(layout.get().inner.clone()),
            None => CostSource::Lists(names),
        };
        let rule = Rule::of(&unit.0, unit.1.0).map_err(|error| to_python(py, &error))?;
        let (cache, threads, most_bad) = how;
        let cut: Vec<_> = cut.into_iter().map(|(start, end)| start..end).collect();
        let progress = Progress::default();
        let rows = UnitRows { manifest: &manifest.inner, selection: &manifest.selection, source: &source };
        let making = Making { rule, threads, most_bad, cache: cache.as_deref() };
        let work = |stop: &_| {
            let index = rows.index(making, &progress, stop)?;
            Ok((rule.table(&cut, &index.files)?, index))
        };
        let (inner, index) = gate::run_telling(py, work, |_| {
            let [done, total] = [&progress.done, &progress.total].map(|of| of.load(Ordering::Relaxed));
            tell.call1((done, total)).map(drop)
        })?;
        let bad = index.bad.into_iter().map(|(rows, cause)| (rows.start, rows.end, cause)).collect();
        Ok((Self { inner }, bad, index.read, index.kept.err().map(|cause| cause.to_string())))
    }

    /// The first unit of each stretch of consecutive rows that no unit reaches out of, then the number of units: of each file,
    /// or of each row group if they are bins. And the ordinal of the first row of each file, or of each bin, then the number of
    /// rows.
    fn arrays(&self) -> (Buffer, Buffer) {
        let of_words = |words: &[u64]| Buffer::of_words(words.to_vec());
        (of_words(self.inner.starts()), of_words(self.inner.first_ordinals()))
    }

    /// The tokens of each file that sequences are cut from, as pairs of numbers; none of bins.
    fn cut(&self) -> Buffer {
        let CoreTable::Sequences(table) = &self.inner else { return Buffer::of_words(Vec::new()) };
        Buffer::of_words(table.cut.iter().flat_map(|own| [own.start, own.end]).collect())
    }

    /// The bytes of the table.
    fn num_bytes(&self) -> usize {
        self.inner.num_bytes()
    }

    /// How many tokens of all files are in no unit.
    fn dropped_tokens(&self) -> u64 {
        self.inner.dropped_tokens()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let inner = &slf.get().inner;
        let bytes = gate::run(py, || inner.to_bytes())?;
        let class: Bound<'py, PyType> = slf.get_type();
        Ok((class.into_any(), (PyBytes::new(py, &bytes),).into_pyobject(py)?))
    }
}

impl UnitTable {
    /// The table, if it is one of sequences.
    pub fn sequences(&self) -> PyResult<&Arc<SequenceTable>> {
        match &self.inner {
            CoreTable::Sequences(table) => Ok(table),
            CoreTable::Bins(_) => Err(PyTypeError::new_err("bins are no sequences")),
        }
    }
}

/// The lengths of the lists of these columns in the selected rows of row groups `[start, end)`, one after another, and how many
/// these are of each.
#[pyfunction]
pub fn list_lengths(
    py: Python<'_>,
    manifest: &Manifest,
    names: Vec<String>,
    groups: (usize, usize),
    threads: usize,
) -> PyResult<(Buffer, Buffer)> {
    let source = CostSource::Lists(names);
    let rows = UnitRows { manifest: &manifest.inner, selection: &manifest.selection, source: &source };
    let (start, end) = groups;
    let starts = manifest.selection.group_starts().get(start..=end).unwrap_or(&[]);
    let counts = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let lengths = gate::run_stoppable(py, |stop| rows.costs(start..end, threads, stop))?;
    Ok((Buffer::of_words(lengths), Buffer::of_words(counts)))
}
