//! The cursor as a frozen Python value.

use std::collections::BTreeMap;

use fastresume::{Cursor as CoreCursor, Error, Identity, Intervals, OrderChoice, OrderKind, Read};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use crate::buffer::Buffer;
use crate::gate;
use crate::json;
use crate::manifest::Manifest;

/// Seed, rows of a block and rows of a window, each `None` unless the user named it; `None` for a sequential
/// order.
pub type ChoiceNumbers = Option<(Option<u64>, Option<u64>, Option<u64>)>;

pub fn to_choice(numbers: ChoiceNumbers) -> OrderChoice {
    numbers.map_or(OrderChoice::Sequential, |(seed, block_rows, window_rows)| OrderChoice::Shuffled {
        seed,
        block_rows,
        window_rows,
    })
}

/// The resume state: which rows of the pass were delivered, and under which cuts.
#[pyclass(frozen, eq, module = "fastresume._core")]
#[derive(Clone, PartialEq, Eq)]
pub struct Cursor {
    pub inner: CoreCursor,
}

fn identity(manifest: &Manifest, order: OrderKind) -> Identity {
    Identity::of(&manifest.inner, &manifest.selection, order)
}

impl From<CoreCursor> for Cursor {
    fn from(inner: CoreCursor) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Cursor {
    /// The first cursor of a job with this choice of order.
    #[staticmethod]
    #[pyo3(signature = (manifest, choice))]
    fn start(py: Python<'_>, manifest: &Manifest, choice: ChoiceNumbers) -> PyResult<Self> {
        gate::run(py, || {
            let selection = &manifest.selection;
            let row_bytes = manifest.inner.row_bytes();
            let order = to_choice(choice).resolve(selection.count(), row_bytes, selection.largest_group())?;
            Ok(CoreCursor::start(identity(manifest, order)).into())
        })
    }

    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        gate::run(py, || CoreCursor::parse(text).map(Self::from))
    }

    /// A cursor from `(start, last)` row numbers per slice, counted over all rows of the files, after `epoch`
    /// complete passes.
    #[staticmethod]
    fn from_offsets(
        py: Python<'_>,
        manifest: &Manifest,
        epoch: u64,
        offsets: BTreeMap<String, (i64, i64)>,
    ) -> PyResult<Self> {
        gate::run(py, || {
            let num_rows = manifest.inner.num_rows();
            let mut ranges = Vec::with_capacity(offsets.len());
            for (key, &(start, last)) in &offsets {
                let set = Intervals::from_last_offsets(&[(start, last)])
                    .map_err(|error| Error::State(format!("key '{key}': {error}")))?;
                if set.end() > num_rows || u64::try_from(start).is_ok_and(|start| start > num_rows) {
                    return Err(Error::State(format!(
                        "key '{key}': offset {last} is out of range for a dataset of {num_rows} rows"
                    )));
                }
                ranges.extend(set.ranges().iter().map(|rows| manifest.selection.ordinals(rows.clone())));
            }
            let consumed = Intervals::new(ranges)?;
            CoreCursor::from_consumed(identity(manifest, OrderKind::Sequential), epoch, consumed)
                .map(Self::from)
        })
    }

    fn to_json(&self) -> String {
        self.inner.to_json()
    }

    fn json_of_consumed(&self) -> String {
        self.inner.json_of_consumed()
    }

    fn json_around_consumed(&self) -> (String, String) {
        self.inner.json_around_consumed()
    }

    /// What the text says, by name, as `json.loads` reads it.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.inner.values())
    }

    /// The order, as the text says it.
    #[getter]
    fn order<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.inner.values_of_order())
    }

    /// The cuts of the pass: lanes, groups, rows per lane and batch, and the batches done in each.
    #[getter]
    fn cuts(&self) -> Vec<(u64, u64, u64, u64)> {
        let cuts = self.inner.cuts().iter();
        cuts.map(|(cut, done)| (cut.lanes(), cut.groups(), cut.rows(), *done)).collect()
    }

    fn shares_consumed(&self, other: &Self) -> bool {
        self.inner.shares_consumed(&other.inner)
    }

    #[getter]
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    #[getter]
    fn first_epoch(&self) -> u64 {
        self.inner.first_epoch()
    }

    #[getter]
    fn steps(&self) -> u64 {
        self.inner.steps()
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.inner.identity().num_rows
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        &self.inner.identity().fingerprint
    }

    fn consumed_rows(&self) -> u64 {
        self.inner.consumed_rows()
    }

    fn remaining(&self, py: Python<'_>) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.inner.remaining()?.ranges().iter().cloned()))
    }

    #[staticmethod]
    #[pyo3(signature = (states, world_size = None))]
    fn merge(py: Python<'_>, states: Vec<PyRef<'_, Self>>, world_size: Option<u64>) -> PyResult<Self> {
        let states: Vec<CoreCursor> = states.iter().map(|state| state.inner.clone()).collect();
        gate::run(py, || fastresume::merge::merge(&states, world_size).map(Self::from))
    }

    /// The same place in a dataset, which may have grown if that is allowed. Refuses a cursor of another dataset or
    /// selection, and one whose order contradicts the choice.
    #[pyo3(signature = (manifest, choice, appends))]
    fn fitted(
        &self,
        py: Python<'_>,
        manifest: &Manifest,
        choice: ChoiceNumbers,
        appends: bool,
    ) -> PyResult<Self> {
        let own = identity(manifest, OrderKind::Sequential);
        let read = Read { manifest: &manifest.inner, selection: &manifest.selection, units: None };
        gate::run(py, || {
            let fitted = self.inner.fitted(read, appends)?;
            fitted.check_identity(&own, &to_choice(choice))?;
            Ok(fitted.into())
        })
    }

    /// The round of a stream that the dataset is, as JSON text; None of other datasets.
    #[getter]
    fn round(&self) -> Option<String> {
        self.inner.round()
    }

    /// The same place in a round of a stream.
    fn with_round(&self, py: Python<'_>, round_: &str) -> PyResult<Self> {
        gate::run(py, || self.inner.clone().with_round(round_).map(Self::from))
    }

    /// The start of a pass over another dataset that follows in the same job.
    fn followed_by(&self, start: &Self) -> Self {
        self.inner.followed_by(&start.inner).into()
    }

    fn at_epoch(&self, epoch: u64) -> Self {
        self.inner.at_epoch(epoch).into()
    }

    fn restarted(&self) -> Self {
        self.inner.restarted().into()
    }

    fn with_epochs_reset(&self) -> Self {
        self.inner.with_epochs_reset().into()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let class: Bound<'py, PyType> = slf.get_type();
        Ok((class.getattr("parse")?, PyTuple::new(slf.py(), [slf.get().to_json()])?))
    }

    fn __repr__(&self) -> String {
        format!("Cursor({})", self.inner.to_json())
    }
}
