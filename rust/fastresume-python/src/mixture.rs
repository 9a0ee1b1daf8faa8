//! Mixtures of several sources, as Python classes.

use fastresume::{
    Axes as CoreAxes, Cursor as CoreCursor, Error, Identity, Intervals, Mixture as CoreMixture, NamedMixture,
    NamedSource, NamedStop, Result, Stop, order_of, whole_weights,
};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::cursor::{ChoiceNumbers, Cursor, to_choice};
use crate::gate;
use crate::intervals;

/// "first", "all", or a number of rows.
#[derive(FromPyObject)]
enum StopArgument {
    Rows(u64),
    Name(String),
}

impl StopArgument {
    fn to_core(&self) -> Result<Stop> {
        match self {
            Self::Rows(rows) => Ok(Stop::Rows(*rows)),
            Self::Name(name) => match name.as_str() {
                "first" => Ok(Stop::Named(NamedStop::First)),
                "all" => Ok(Stop::Named(NamedStop::All)),
                _ => Err(Error::Argument(format!(
                    "stop must be 'first', 'all' or a number of rows, found '{name}'"
                ))),
            },
        }
    }
}

fn source(name: String, start: &Cursor, choice: ChoiceNumbers) -> NamedSource {
    let identity = start.inner.identity();
    NamedSource {
        name,
        fingerprint: identity.short_hash(),
        rows: identity.num_rows,
        order: identity.order.clone(),
        choice: to_choice(choice),
    }
}

/// What a user asks of a mixture: its sources, their weights, and where a pass ends.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Mixture {
    inner: NamedMixture,
}

#[pymethods]
impl Mixture {
    /// Of each source its name, the cursor of its start, and what was named of its order.
    #[new]
    fn new(
        py: Python<'_>,
        sources: Vec<(String, PyRef<'_, Cursor>, ChoiceNumbers)>,
        weights: Vec<f64>,
        stop: StopArgument,
    ) -> PyResult<Self> {
        let named = sources.into_iter().map(|(name, start, choice)| source(name, &start, choice)).collect();
        gate::run(py, || {
            let inner =
                NamedMixture { sources: named, weights: whole_weights(&weights)?, stop: stop.to_core()? };
            Ok(Self { inner })
        })
    }

    /// The weights as integers without a common divisor.
    #[getter]
    fn weights(&self) -> Vec<u64> {
        self.inner.weights.clone()
    }

    /// The first cursor of a job whose passes end by global batches of so many rows.
    fn start(&self, py: Python<'_>, least: u64) -> PyResult<Cursor> {
        gate::run(py, || CoreCursor::start_of_mixture(&self.inner, least).map(Cursor::from))
    }

    /// The same place, where a new stage begins if the cursor's has other sources, weights or another end.
    fn fitted(&self, py: Python<'_>, cursor: &Cursor, least: u64) -> PyResult<Cursor> {
        gate::run(py, || cursor.inner.fitted_to_mixture(&self.inner, least).map(Cursor::from))
    }
}

/// Which ordinals of which source stand at the positions of the stage that a cursor is in.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Axes {
    inner: CoreAxes,
    mixture: CoreMixture,
}

#[pymethods]
impl Axes {
    #[new]
    fn new(py: Python<'_>, cursor: &Cursor) -> PyResult<Self> {
        gate::run(py, || {
            let mixture = cursor.inner.mixture().cloned();
            let mixture = mixture.ok_or_else(|| Error::State("the state is not of a mixture".into()))?;
            Ok(Self { inner: cursor.inner.axes()?, mixture })
        })
    }

    /// The names of the sources, in the state's order: also of those that are not read any more.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.mixture.sources.iter().map(|source| source.0.clone()).collect()
    }

    /// The places of the sources' weights that sum to one period.
    #[getter]
    fn weights(&self) -> Vec<u64> {
        self.mixture.weights.clone()
    }

    /// The source at each of these positions, by its place among the names.
    fn sources(&self, py: Python<'_>, positions: PyBuffer<i64>) -> PyResult<Buffer> {
        let positions = intervals::read(py, &positions)?;
        gate::run(py, || {
            let each = positions.into_iter().flatten();
            let sources = each.map(|position| self.inner.period().source_at(position.cast_unsigned()) as u64);
            Ok(Buffer::of_words(sources.collect()))
        })
    }

    /// The ordinals of a source at the positions `[start, end)`, in their order, as ranges of which none passes the end
    /// of a pass of the source.
    fn ordinals(&self, py: Python<'_>, source: usize, start: u64, end: u64) -> PyResult<Buffer> {
        let rows = self.rows(source)?;
        gate::run(py, || {
            let mut pieces = Vec::new();
            for range in self.inner.ordinals(source, &(start..end)) {
                let mut start = range.start;
                while start < range.end {
                    let end = range.end.min((start / rows + 1) * rows);
                    pieces.push(start..end);
                    start = end;
                }
            }
            Ok(Buffer::of_ranges(pieces.into_iter()))
        })
    }

    /// The cursor of the pass of a source that holds an ordinal: before that row. `start` is that of the source's start.
    fn stretch(&self, py: Python<'_>, source: usize, start: &Cursor, ordinal: u64) -> PyResult<Cursor> {
        let rows = self.rows(source)?;
        let order = order_of(&self.mixture.sources[source]);
        gate::run(py, || {
            let identity = Identity { order, ..start.inner.identity().clone() };
            let consumed = Intervals::full(ordinal % rows);
            CoreCursor::from_consumed(identity, ordinal / rows, consumed).map(Cursor::from)
        })
    }
}

impl Axes {
    fn rows(&self, source: usize) -> PyResult<u64> {
        let found = self.mixture.sources.get(source).map(|source| source.2.max(1));
        found.ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("there is no such source"))
    }
}
