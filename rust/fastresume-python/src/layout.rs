//! Which columns are read, and which tensor of a batch each is a part of.

use std::collections::HashMap;
use std::sync::Arc;

use fastresume::filter_layout::{self, FilterColumns};
use fastresume::vectors::collected;
use fastresume::{
    Bound as CoreBound, Layout as CoreLayout, PageStats, ReadRows, Request, Result, Sources, Vocabulary,
    page_stats, read_rows, row_group_stats,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{EntryArgument, RuleArgument};
use crate::error::to_python;
use crate::gate;
use crate::intervals;
use crate::manifest::Manifest;
use crate::tensor::Memory;
use crate::values::{ChunkDetails, Field, Statistics, Value, Written};

/// Which columns are read, and which tensor of a batch each is a part of.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Layout {
    pub inner: CoreLayout,
}

#[pymethods]
impl Layout {
    #[new]
    #[pyo3(signature = (manifest, *, columns, nulls, known))]
    fn new(
        py: Python<'_>,
        manifest: &Manifest,
        columns: Option<Vec<EntryArgument>>,
        nulls: RuleArgument,
        known: Vec<(usize, Vec<u8>)>,
    ) -> PyResult<Self> {
        let entries = columns.map(|entries| entries.into_iter().map(EntryArgument::entry).collect());
        let request = Request {
            columns: entries.transpose()?,
            nulls: nulls.0.read().map_err(|error| to_python(py, &error))?,
        };
        let resolve = || {
            let known = known.into_iter().map(|(column, data)| Ok((column, Vocabulary::from_bytes(&data)?)));
            let known = known.collect::<Result<HashMap<_, _>>>()?;
            let inner = CoreLayout::of_rows(&manifest.inner, &request, Some(&manifest.selection))?;
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
        let asked = FilterColumns { compared: columns, present: asked, optional, of_paths: partitions };
        gate::run(py, || Ok(Self { inner: filter_layout::layout(&manifest.inner, &asked)? }))
    }

    /// The same, by which damaged rows are delivered as such, or are an error.
    fn masking_damage(&self, masks_damage: bool) -> Self {
        Self { inner: self.inner.clone().masking_damage(masks_damage) }
    }

    /// The tensors of a batch, in its order.
    #[getter]
    fn fields(&self) -> Vec<Field> {
        self.inner.fields().iter().map(Field::from).collect()
    }

    /// What footers show of integers that casts do not hold: a text for each column.
    #[getter]
    fn misfits(&self) -> &[String] {
        self.inner.misfits()
    }

    /// Of each column of which codes are delivered its number, the name of its tensor, and its dictionary for `known`.
    #[getter]
    fn dictionaries<'py>(&self, py: Python<'py>) -> PyResult<Vec<(usize, &str, Bound<'py, PyBytes>)>> {
        let each = self.inner.dictionaries().map(|(number, name, values, _)| {
            let bytes = values.to_bytes().map_err(|error| to_python(py, &error))?;
            Ok((number, name, PyBytes::new(py, &bytes)))
        });
        each.collect()
    }

    /// The values of the dictionary of a tensor, by their codes, and whether they are text.
    fn dictionary<'py>(&self, py: Python<'py>, name: &str) -> Option<(Vec<Bound<'py, PyBytes>>, bool)> {
        let (_, _, dictionary, is_text) = self.inner.dictionaries().find(|(_, of, ..)| *of == name)?;
        Some((dictionary.values().into_iter().map(|value| PyBytes::new(py, value)).collect(), is_text))
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
            |columns: Vec<PageStats>| columns.into_iter().map(|of| ChunkDetails::new(py, of)).collect();
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
        let runs = runs.iter().map(|run| run.start.cast_unsigned()..run.end.cast_unsigned());
        let runs = collected(runs).map_err(|error| to_python(py, &error))?;
        let sources = || Arc::new(Sources::one(Arc::clone(&manifest.inner), self.inner.clone()));
        let ReadRows { fields, written } =
            gate::run_stoppable(py, |stop| read_rows::read(&sources(), &runs, count, stop))?;
        Ok((fields.into(), Written::new(written, count, None)))
    }
}
