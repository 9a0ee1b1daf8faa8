//! Plain values that the core returns to Python: frozen classes with named attributes.

use std::ops::Range;
use std::sync::Arc;

use fastresume::vectors::collected;
use fastresume::{
    Bound as CoreBound, Damage, Field as CoreField, MemoryBound as CoreMemoryBound, PageStats, Result,
    RowGroupStats, RowIds, Sources,
};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::gate;

/// One tensor of a batch.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct Field {
    /// The key of the tensor.
    name: String,
    /// The dtype, as torch and numpy spell it.
    dtype: &'static str,
    /// The columns of the files that the tensor holds.
    columns: Vec<String>,
    /// Whether the tensor is a matrix of stacked columns (one column is enough, if it is named so).
    is_stacked: bool,
    /// The kind of its rows: "scalar", "list", "string", "binary", "mask", "length", or a list of one of
    /// these.
    kind: String,
    /// Whether a mask marks its nulls.
    is_masked: bool,
    /// The shape of the bytes that tell which numbers of an element of its lists are null, if they do.
    mark_shape: Option<Vec<usize>>,
    /// The shape of a row of a single column; empty where a row is one number, or of any length.
    shape: Vec<usize>,
    /// The unit of its numbers, where the type alone does not give it.
    unit: Option<String>,
    /// How many nulls its columns have in all files, if all are counted before they are read.
    null_count: Option<u64>,
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
            kind: field.kind.name(field.depth),
            is_masked: field.is_masked(),
            mark_shape: field.mark_shape().map(<[usize]>::to_vec),
            shape: field.row_shape(),
            unit: field.unit.clone(),
            null_count: field.null_count,
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

/// Statistics of a column in some rows.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct Statistics {
    /// A lower bound of the values; None if it is not known.
    min: Option<Value>,
    /// An upper bound of the values; None if it is not known.
    max: Option<Value>,
    /// The number of nulls; None if it is not known.
    null_count: Option<u64>,
}

impl From<RowGroupStats> for Statistics {
    fn from(facts: RowGroupStats) -> Self {
        let (min, max) = facts.bounds.unzip();
        Self { min: min.map(Value::from), max: max.map(Value::from), null_count: facts.nulls }
    }
}

/// What page indexes and bloom filters say of a column chunk.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct ChunkDetails {
    /// The first row of each page, counted within the row group; empty without a page index.
    first_rows: Vec<u64>,
    /// The statistics of each page.
    pages: Vec<Py<Statistics>>,
    /// The indices of those sought values that are surely not in the chunk.
    absent: Vec<usize>,
}

impl ChunkDetails {
    pub fn new(py: Python<'_>, PageStats { pages, absent }: PageStats) -> PyResult<Self> {
        let (first_rows, pages): (Vec<_>, Vec<_>) = pages.into_iter().unzip();
        let pages = pages.into_iter().map(|facts| Py::new(py, Statistics::from(facts)));
        Ok(Self { first_rows, pages: pages.collect::<PyResult<_>>()?, absent })
    }
}

/// What a thread is doing.
#[pyclass(frozen, get_all, module = "fastresume._core")]
pub struct ThreadActivity {
    /// "waiting", "decoding" a row group of a file, or "ending" (finishing) a batch.
    pub doing: &'static str,
    /// The file whose row group is decoded, else None.
    pub file: Option<String>,
    /// The index of the row group in its file, or the number of the batch in its cut; 0 for a thread that
    /// waits.
    pub number: u64,
    /// For how many seconds it has been doing that.
    pub seconds: f64,
}

/// Upper bounds, in bytes, of the memory that reading the rest of a pass takes, as near as footers tell.
#[pyclass(frozen, get_all, module = "fastresume._core")]
#[allow(clippy::struct_field_names, reason = "names say their units")]
pub struct MemoryBound {
    /// What a rank holds in decoded rows, dictionaries and footers, over all its readers.
    rank_bytes: u64,
    /// What each decoding thread adds to that.
    thread_bytes: u64,
    /// What one reader keeps of footers (part of `rank_bytes`).
    footer_bytes: u64,
    /// What a thread holds while it opens a file (part of `thread_bytes`).
    opening_bytes: u64,
}

impl From<CoreMemoryBound> for MemoryBound {
    fn from(bound: CoreMemoryBound) -> Self {
        let CoreMemoryBound { rank_bytes, thread_bytes, footer_bytes, opening_bytes } = bound;
        Self { rank_bytes, thread_bytes, footer_bytes, opening_bytes }
    }
}

/// Rows that could not be decoded: `[start, end)`, and why; of a mixture, their source as well.
#[derive(IntoPyObject)]
pub enum Damaged {
    One((u64, u64, String)),
    OfSource((u64, u64, String, usize)),
}

/// The rows of a batch, worked out on request.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Written {
    inner: RowIds,
    num_rows: u64,
    /// The sources of a mixture, over which its rows are numbered.
    sources: Option<Arc<Sources>>,
}

impl Written {
    pub fn new(inner: RowIds, num_rows: u64, sources: Option<Arc<Sources>>) -> Self {
        Self { inner, num_rows, sources }
    }

    /// Rows that could not be decoded, and others beside them.
    pub fn damaged_rows(&self) -> Vec<Damaged> {
        let damaged = |of: &Damage| {
            let (cause, length) = (of.cause.to_string(), of.rows.end - of.rows.start);
            let Some(sources) = &self.sources else {
                return Damaged::One((of.rows.start, of.rows.end, cause));
            };
            let (source, start) = sources.row(of.rows.start);
            Damaged::OfSource((start, start + length, cause, source))
        };
        self.inner.damage().iter().map(damaged).collect()
    }

    /// The row numbers of all rows, valid or not, each in its source.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn rows(&self) -> Result<Vec<Range<u64>>> {
        let mut runs = self.inner.runs(self.num_rows)?;
        if let Some(sources) = &self.sources {
            for run in &mut runs {
                let (_, start) = sources.row(run.start);
                *run = start..start + (run.end - run.start);
            }
        }
        Ok(runs)
    }
}

#[pymethods]
impl Written {
    /// Rows that could not be decoded, some of which may be other batches': `[start, end)`, and why.
    #[getter]
    pub fn damage(&self) -> Vec<Damaged> {
        self.damaged_rows()
    }

    /// The row numbers as `[start, end)` pairs.
    pub fn runs(&self, py: Python<'_>) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.rows()?.into_iter()))
    }

    /// The number of the source of each row; `None` of rows of one dataset.
    pub fn row_sources(&self, py: Python<'_>) -> PyResult<Option<Buffer>> {
        let Some(sources) = &self.sources else { return Ok(None) };
        gate::run(py, || {
            let runs = self.inner.runs(self.num_rows)?;
            let each = runs.into_iter().flatten().map(|row| sources.row(row).0 as u64);
            Ok(Some(Buffer::of_words(collected(each)?)))
        })
    }
}
