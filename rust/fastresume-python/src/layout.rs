//! Which columns are read, and which tensor of a batch each is a part of.

use std::collections::HashMap;
use std::sync::Arc;

use fastresume::{
    Bound as CoreBound, Buckets, Decimals, Details, Dtype, End, Fill, Layout as CoreLayout,
    MemoryBound as CoreMemoryBound, NullPolicy, Pad, Policy, ReadRows, Request, Result, Rule, Shapes, Stack,
    Vocabulary, filter_layout, missing_columns, page_stats, random_access, row_group_stats,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::gate;
use crate::intervals;
use crate::manifest::Manifest;
use crate::order::Order;
use crate::pass::Pass;
use crate::tensor::Memory;
use crate::values::{ChunkDetails, Field, MemoryBound, Statistics, Value, Written};

/// What is to become of nulls: "error", "mask", or a number.
#[derive(FromPyObject)]
pub enum NullArgument {
    Word(String),
    Truth(bool),
    Integer(i64),
    Large(u64),
    Float(f64),
}

impl NullArgument {
    fn policy(&self) -> PyResult<Policy> {
        Ok(match self {
            Self::Word(word) if word == "error" => Policy::Refuse,
            Self::Word(word) if word == "mask" => Policy::Mask,
            Self::Word(word) => {
                let reason = format!("nulls must be 'error', 'mask' or a number, found '{word}'");
                return Err(PyValueError::new_err(reason));
            }
            Self::Truth(value) => Policy::Fill(Fill::Truth(*value)),
            Self::Integer(value) => Policy::Fill(Fill::Integer((*value).into())),
            Self::Large(value) => Policy::Fill(Fill::Integer((*value).into())),
            Self::Float(value) => Policy::Fill(Fill::Float(*value)),
        })
    }
}

/// What is to become of decimals: "int64", "float64" or "bytes".
#[derive(FromPyObject)]
#[pyo3(transparent)]
pub struct DecimalArgument(String);

impl DecimalArgument {
    fn decimals(&self) -> PyResult<Decimals> {
        match self.0.as_str() {
            "int64" => Ok(Decimals::Integers),
            "float64" => Ok(Decimals::Floats),
            "bytes" => Ok(Decimals::Bytes),
            word => Err(PyValueError::new_err(format!(
                "decimals must be 'int64', 'float64' or 'bytes', found '{word}'"
            ))),
        }
    }
}

/// The type that numbers are cast to, by its name.
#[derive(FromPyObject)]
#[pyo3(transparent)]
pub struct CastArgument(String);

impl CastArgument {
    fn dtype(&self) -> PyResult<Dtype> {
        Dtype::of_name(&self.0).ok_or_else(|| {
            PyValueError::new_err(format!("cast must be a type of numbers, found '{}'", self.0))
        })
    }
}

/// How rows are filled up: to how many elements, with which number, at which side.
type PadArgument = (usize, NullArgument, String);

fn pad_of((size, value, place): &PadArgument) -> PyResult<Pad> {
    let Policy::Fill(value) = value.policy()? else {
        return Err(PyValueError::new_err("a pad value must be a number"));
    };
    Ok(Pad { size: *size, value, at: end_of(place, ("left", "right"))? })
}

/// The end that one of two words names.
fn end_of(word: &str, (head, tail): (&str, &str)) -> PyResult<End> {
    match word {
        word if word == head => Ok(End::Head),
        word if word == tail => Ok(End::Tail),
        _ => Err(PyValueError::new_err(format!("expected '{head}' or '{tail}', found '{word}'"))),
    }
}

/// Which columns are read, and which tensor of a batch each is a part of.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Layout {
    pub inner: CoreLayout,
}

#[pymethods]
impl Layout {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "one caller, which passes what the dataset was given")]
    #[pyo3(signature = (manifest, *, columns, stacks, nulls, decimals, fixed, pads, truncations, optional, partitions, casts, hashes, names, codes, known))]
    fn new(
        py: Python<'_>,
        manifest: &Manifest,
        columns: Option<Vec<String>>,
        stacks: Vec<Stack>,
        nulls: Vec<(Option<String>, NullArgument)>,
        decimals: Vec<(Option<String>, DecimalArgument)>,
        fixed: Vec<(String, Option<Vec<usize>>)>,
        pads: Vec<(String, PadArgument)>,
        truncations: Vec<(String, String)>,
        optional: Vec<String>,
        partitions: Vec<String>,
        casts: Vec<(Option<String>, CastArgument)>,
        hashes: Vec<(String, u64, u64)>,
        names: Vec<(String, String)>,
        codes: Vec<String>,
        known: Vec<(String, Vec<u8>)>,
    ) -> PyResult<Self> {
        let decimals = decimals.into_iter().map(|(key, argument)| Ok((key, argument.decimals()?)));
        let decimals = decimals.collect::<PyResult<_>>()?;
        let fixed = fixed.into_iter().map(|(key, sizes)| (Some(key), sizes.unwrap_or_default())).collect();
        let pads = pads.into_iter().map(|(key, pad)| Ok((Some(key), pad_of(&pad)?)));
        let pads = pads.collect::<PyResult<_>>()?;
        let truncations =
            truncations.into_iter().map(|(key, end)| Ok((Some(key), end_of(&end, ("head", "tail"))?)));
        let truncations = truncations.collect::<PyResult<_>>()?;
        let request = Request { columns, decimals, fixed, pads, truncations, optional, partitions };
        let nulls = nulls.into_iter().map(|(key, argument)| Ok((key, argument.policy()?)));
        let nulls: Vec<NullPolicy> = nulls.collect::<PyResult<_>>()?;
        let casts = casts.into_iter().map(|(key, argument)| Ok((key, argument.dtype()?)));
        let casts: Vec<Rule<Dtype>> = casts.collect::<PyResult<_>>()?;
        let hashes = hashes.into_iter().map(|(key, count, seed)| (Some(key), Buckets { count, seed }));
        let codes = codes.into_iter().map(|key| (Some(key), ())).collect();
        let shapes = Shapes { casts, hashes: hashes.collect(), codes, names };
        let resolve = || {
            let known = known.into_iter().map(|(name, data)| Ok((name, Vocabulary::from_bytes(&data)?)));
            let known = known.collect::<Result<HashMap<_, _>>>()?;
            let inner = CoreLayout::resolve(&manifest.inner, &request, &stacks, &nulls, &shapes)?;
            missing_columns::check(&inner, &manifest.inner, &manifest.selection)?;
            Ok((inner, known))
        };
        let (inner, known) = gate::run(py, resolve)?;
        if !inner.needs_dictionaries() {
            return Ok(Self { inner });
        }
        let inner = gate::run_stoppable(py, |stop| inner.with_dictionaries(&manifest.inner, known, stop))?;
        Ok(Self { inner })
    }

    /// The layout by which a filter reads: `columns` for their values, and whether each of `asked` is there.
    #[staticmethod]
    fn of_filter(
        py: Python<'_>,
        manifest: &Manifest,
        columns: Vec<String>,
        asked: Vec<String>,
        optional: Vec<String>,
        partitions: Vec<String>,
    ) -> PyResult<Self> {
        let request = Request { columns: Some(columns), optional, partitions, ..Request::default() };
        gate::run(py, || Ok(Self { inner: filter_layout::layout(&manifest.inner, &request, &asked)? }))
    }

    /// The tensors of a batch, in its order.
    #[getter]
    fn fields(&self) -> Vec<Field> {
        self.inner.fields().iter().map(Field::from).collect()
    }

    /// Of each column of which codes are delivered the name, and its dictionary for `known`.
    #[getter]
    fn dictionaries<'py>(&self, py: Python<'py>) -> Vec<(&str, Bound<'py, PyBytes>)> {
        let each = self.inner.dictionaries();
        each.map(|(name, dictionary, _)| (name, PyBytes::new(py, &dictionary.to_bytes()))).collect()
    }

    /// The values of the dictionary of a column, by their codes, and whether they are text.
    fn dictionary<'py>(&self, py: Python<'py>, column: &str) -> Option<(Vec<Bound<'py, PyBytes>>, bool)> {
        let (_, dictionary, is_text) = self.inner.dictionaries().find(|(name, ..)| *name == column)?;
        Some((dictionary.values().map(|value| PyBytes::new(py, value)).collect(), is_text))
    }

    #[getter]
    fn row_bytes(&self) -> usize {
        self.inner.row_bytes()
    }

    /// What footers and paths tell of the columns: of each those of every row group.
    fn statistics(&self, py: Python<'_>, manifest: &Manifest) -> PyResult<Vec<Vec<Statistics>>> {
        let found =
            gate::run_stoppable(py, |stop| row_group_stats::read(&manifest.inner, &self.inner, stop))?;
        Ok(found.into_iter().map(|groups| groups.into_iter().map(Statistics::from).collect()).collect())
    }

    /// What page indexes and bloom filters tell of row groups, of each that of every column. `sought` are the values
    /// that are asked for of each column.
    fn details(
        &self,
        py: Python<'_>,
        manifest: &Manifest,
        groups: Vec<usize>,
        sought: Vec<Vec<Value>>,
    ) -> PyResult<Vec<Vec<ChunkDetails>>> {
        let sought: Vec<Vec<CoreBound>> =
            sought.into_iter().map(|values| values.into_iter().map(CoreBound::from).collect()).collect();
        let found = gate::run_stoppable(py, |stop| {
            page_stats::read(&manifest.inner, &self.inner, &groups, &sought, stop)
        })?;
        let of_group =
            |columns: Vec<Details>| columns.into_iter().map(|of| ChunkDetails::new(py, of)).collect();
        found.into_iter().map(of_group).collect()
    }

    /// The files' rows that runs of row numbers name, in any order, as tensors' memory, and which these are; over and over
    /// until there are `count` rows.
    fn read_rows(
        &self,
        py: Python<'_>,
        manifest: &Manifest,
        runs: PyBuffer<i64>,
        count: u64,
    ) -> PyResult<(Memory, Written)> {
        let runs = intervals::read(py, &runs)?;
        let runs: Vec<_> =
            runs.iter().map(|run| run.start.cast_unsigned()..run.end.cast_unsigned()).collect();
        let (manifest, layout) = (&manifest.inner, &self.inner);
        let ReadRows { fields, written } = gate::run_stoppable(py, |stop| {
            random_access::read(Arc::clone(manifest), layout.clone(), &runs, count, stop)
        })?;
        Ok((fields.into(), Written::new(written, count)))
    }

    /// The most memory that reading what is left of a pass takes, with so many workers of each rank (0 without any).
    fn memory_bound(
        &self,
        py: Python<'_>,
        manifest: &Manifest,
        order: &Order,
        pass_: &Pass,
        workers: u64,
    ) -> PyResult<MemoryBound> {
        gate::run(py, || {
            let (manifest, order, pass) = (&manifest.inner, &order.inner, &pass_.inner);
            Ok(CoreMemoryBound::new(manifest, &self.inner, order, pass, workers).into())
        })
    }
}
