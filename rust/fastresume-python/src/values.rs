//! Plain values that the core gives to Python: frozen, and with a name for each part.

use std::ops::Range;

use fastresume::{
    Bound as CoreBound, Details, Facts, Field as CoreField, MemoryBound as CoreMemoryBound,
    Written as CoreWritten,
};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::gate;

/// One tensor of a batch.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct Field {
    /// The key of the tensor.
    name: String,
    /// The type of its numbers, as torch and numpy spell it.
    dtype: &'static str,
    /// The columns of the files that it holds.
    columns: Vec<String>,
    /// Whether several columns, or one that was named so, are the columns of a matrix.
    is_stacked: bool,
    /// What its rows are: "scalar", "list", "string", "binary", "mask", "length", or a list of one of these.
    kind: &'static str,
    /// Whether a mask marks its nulls.
    is_masked: bool,
    /// The shape of a row of its one column; empty where a row is a number, or of any length.
    shape: Vec<usize>,
    /// What its numbers count, where their type alone does not say it.
    unit: Option<String>,
    /// What the user wrote of it, if anything.
    expression: Option<String>,
}

impl From<&CoreField> for Field {
    fn from(field: &CoreField) -> Self {
        Self {
            name: field.name.clone(),
            dtype: field.dtype.name(),
            columns: field.columns.clone(),
            is_stacked: field.is_stacked,
            kind: field.kind.name(),
            is_masked: field.is_masked(),
            shape: field.row_shape(),
            unit: field.unit.clone(),
            expression: field.text.as_deref().map(str::to_owned),
        }
    }
}

/// A value of a column.
#[derive(Clone, IntoPyObject, FromPyObject)]
pub enum Value {
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl From<CoreBound> for Value {
    fn from(bound: CoreBound) -> Self {
        match bound {
            CoreBound::Integer(value) => Self::Integer(value),
            CoreBound::Float(value) => Self::Float(value),
            CoreBound::Bytes(value) => Self::Bytes(value),
        }
    }
}

impl From<Value> for CoreBound {
    fn from(value: Value) -> Self {
        match value {
            Value::Integer(value) => Self::Integer(value),
            Value::Float(value) => Self::Float(value),
            Value::Bytes(value) => Self::Bytes(value),
        }
    }
}

/// What is told of the values of a column in some rows.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct Statistics {
    /// No value is less; None if that is not known.
    min: Option<Value>,
    /// No value is greater; None if that is not known.
    max: Option<Value>,
    /// How many are null; None if that is not known.
    null_count: Option<u64>,
}

impl From<Facts> for Statistics {
    fn from(facts: Facts) -> Self {
        let (min, max) = facts.bounds.unzip();
        Self { min: min.map(Value::from), max: max.map(Value::from), null_count: facts.nulls }
    }
}

/// What is told of a column chunk beyond its statistics.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct ChunkDetails {
    /// The first row of each page, counted within the row group; nothing if no index tells of pages.
    first_rows: Vec<u64>,
    /// The statistics of each page.
    pages: Vec<Py<Statistics>>,
    /// Which of the values that were asked for are surely not there, by their numbers.
    absent: Vec<usize>,
}

impl ChunkDetails {
    pub fn new(py: Python<'_>, Details { pages, absent }: Details) -> PyResult<Self> {
        let (first_rows, pages): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
        let pages = pages.into_iter().map(|facts| Py::new(py, Statistics::from(facts)));
        Ok(Self { first_rows, pages: pages.collect::<PyResult<_>>()?, absent })
    }
}

/// What a thread is at.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct ThreadActivity {
    /// "waiting", "decoding" a row group of a file, or "ending" a batch.
    pub doing: &'static str,
    /// The file whose row group is decoded, else None.
    pub file: Option<String>,
    /// The number of the row group in its file, or of the batch in its cut; 0 of a thread that waits.
    pub number: u64,
    /// For how many seconds.
    pub seconds: f64,
}

/// The most that reading what is left of a pass takes, in bytes, as near as footers tell.
#[pyclass(frozen, get_all, module = "fastresume._core")]
#[allow(clippy::struct_field_names, reason = "names say their units")]
pub struct MemoryBound {
    /// What a rank holds in decoded rows, dictionaries and footers, over all its readers.
    rank_bytes: u64,
    /// What each thread that decodes adds to that.
    thread_bytes: u64,
    /// What one reader keeps of footers, which is in `rank_bytes`.
    footer_bytes: u64,
    /// What a thread has while it opens a file, which is in `thread_bytes`.
    opening_bytes: u64,
}

impl From<CoreMemoryBound> for MemoryBound {
    fn from(bound: CoreMemoryBound) -> Self {
        let CoreMemoryBound { rank_bytes, thread_bytes, footer_bytes, opening_bytes } = bound;
        Self { rank_bytes, thread_bytes, footer_bytes, opening_bytes }
    }
}

/// Which rows a batch has: told when somebody asks.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Written {
    inner: CoreWritten,
    num_rows: u64,
}

impl Written {
    pub fn new(inner: CoreWritten, num_rows: u64) -> Self {
        Self { inner, num_rows }
    }

    /// The row numbers, valid or not.
    pub fn rows(&self) -> Vec<Range<u64>> {
        self.inner.runs(self.num_rows)
    }
}

#[pymethods]
impl Written {
    /// The row numbers as `[start, end)` pairs.
    pub fn runs(&self, py: Python<'_>) -> PyResult<Buffer> {
        gate::run(py, || Ok(Buffer::of_ranges(self.rows().into_iter())))
    }
}
