//! Mixtures of several sources, as Python classes.

use std::sync::Arc;

use fastresume::{
    Axes as CoreAxes, Axis, Cursor as CoreCursor, Error, Grows, Identity, Mixture as CoreMixture,
    MixtureStop, NamedMixture, NamedSource, NamedStop, Period as CorePeriod, Result, SourceFiles, Weights,
    order_of, whole_weights,
};
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::cursor::{ChoiceNumbers, Cursor, to_choice};
use crate::gate;
use crate::manifest::Manifest;
use crate::units::Units;

/// "first", "all", a number of rows, or the name of the source whose round a pass is.
#[derive(FromPyObject)]
enum StopArgument {
    Rows(u64),
    Name(String),
    Round((String,)),
}

impl StopArgument {
    fn to_core(&self) -> Result<MixtureStop> {
        match self {
            Self::Rows(rows) => Ok(MixtureStop::Rows(*rows)),
            Self::Round((round,)) => Ok(MixtureStop::Round { round: round.clone() }),
            Self::Name(name) => match name.as_str() {
                "first" => Ok(MixtureStop::Named(NamedStop::First)),
                "all" => Ok(MixtureStop::Named(NamedStop::All)),
                _ => Err(Error::Argument(format!(
                    "stop must be 'first', 'all' or a number of rows, found '{name}'"
                ))),
            },
        }
    }
}

/// What may be more than it was: files, or the units of files.
#[derive(FromPyObject)]
enum FilesArgument<'py> {
    Rows(PyRef<'py, Manifest>),
    Units(PyRef<'py, Units>),
}

impl FilesArgument<'_> {
    fn to_core(&self) -> Arc<dyn Grows> {
        Arc::new(match self {
            Self::Rows(files) => SourceFiles {
                manifest: Arc::clone(&files.inner),
                selection: Arc::clone(&files.selection),
                units: None,
            },
            Self::Units(units) => units.files(),
        })
    }
}

/// A source: its name, the cursor of its start, and what was named of its order. Then its files, where a state can be of
/// the first of them, and whether such a state fits.
type SourceArguments<'py> = (String, PyRef<'py, Cursor>, ChoiceNumbers, Option<FilesArgument<'py>>, bool);

fn source((name, start, choice, files, appends): SourceArguments<'_>) -> NamedSource {
    let identity = start.inner.identity();
    let files = files.map(|files| files.to_core());
    NamedSource {
        name,
        fingerprint: identity.short_hash(),
        rows: identity.num_rows,
        order: identity.order.clone(),
        choice: to_choice(choice),
        files,
        appends,
    }
}

/// What a user asks of a mixture: the sources of a pass, their weights, and where it ends; the sources of other passes; and
/// the names that sources had, with those of now.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Mixture {
    inner: NamedMixture,
}

#[pymethods]
impl Mixture {
    #[new]
    fn new(
        py: Python<'_>,
        sources: Vec<SourceArguments<'_>>,
        weights: Vec<f64>,
        stop: StopArgument,
        others: Vec<SourceArguments<'_>>,
        renamed: Vec<(String, Option<String>)>,
    ) -> PyResult<Self> {
        let named = sources.into_iter().map(source).collect();
        let others = others.into_iter().map(source).collect();
        gate::run(py, || {
            let inner = NamedMixture {
                sources: named,
                weights: whole_weights(&weights)?.into(),
                stop: stop.to_core()?,
                others,
                renamed,
            };
            Ok(Self { inner })
        })
    }

    /// The weights as integers without a common divisor.
    #[getter]
    fn weights(&self) -> Vec<u64> {
        self.inner.weights.to_vec()
    }

    /// The first cursor of a job whose passes end by global batches of so many rows.
    fn start(&self, py: Python<'_>, least: u64) -> PyResult<Cursor> {
        gate::run(py, || CoreCursor::start_of_mixture(&self.inner, least).map(Cursor::from))
    }

    /// The same place, where a new stage begins if the cursor's has other sources, weights or another end.
    fn fitted(&self, py: Python<'_>, cursor: &Cursor, least: u64) -> PyResult<Cursor> {
        gate::run(py, || cursor.inner.fitted_to_mixture(&self.inner, least).map(Cursor::from))
    }

    /// The start of a pass in which a source that has given all its rows is the one of this name here.
    fn with_next_round(&self, py: Python<'_>, cursor: &Cursor, name: &str) -> PyResult<Cursor> {
        gate::run(py, || {
            let next = self.inner.sources.iter().find(|source| source.name == name);
            let next = next.ok_or_else(|| Error::State(format!("there is no source '{name}'")))?;
            cursor.inner.with_next_round(next).map(Cursor::from)
        })
    }
}

/// The places of the sources of a mixture in one period.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Period {
    inner: Arc<CorePeriod>,
}

#[pymethods]
impl Period {
    #[new]
    fn new(py: Python<'_>, weights: Vec<u64>) -> PyResult<Self> {
        gate::run(py, || Ok(Self { inner: Weights::from(weights).period()? }))
    }

    /// How many rows a source gives to whole batches of `of_batch` places: as many as `most` rows of it allow.
    fn rows_in_batches(&self, source: usize, most: u64, of_batch: u64) -> PyResult<u64> {
        if source >= self.inner.num_sources() {
            return Err(pyo3::exceptions::PyIndexError::new_err("there is no such source"));
        }
        Ok(self.inner.rows_in_batches(source, most, of_batch))
    }
}

/// Which points of which source stand at the positions of the stage that a cursor is in.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Axes {
    pub inner: CoreAxes,
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
        self.mixture.sources.iter().map(|source| source.name.clone()).collect()
    }

    /// The places of the sources' weights that sum to one period.
    #[getter]
    fn weights(&self) -> Vec<u64> {
        self.mixture.weights.to_vec()
    }

    /// The points of a source at the positions `[start, end)`, in their order, as ranges of which none passes the end
    /// of a pass of the source.
    fn points(&self, py: Python<'_>, source: usize, start: u64, end: u64) -> PyResult<Buffer> {
        self.axis(source)?;
        let positions = start..end;
        let found = self.inner.stretches_of(source, std::slice::from_ref(&positions));
        gate::run(py, || Buffer::of_ranges(found))
    }

    /// The cursor of the pass of a source that holds a point: before that row. `start` is that of the source's start,
    /// which may have rows that came later: these stand behind all others.
    fn stretch(&self, py: Python<'_>, source: usize, start: &Cursor, point: u64) -> PyResult<Cursor> {
        let axis = self.axis(source)?;
        let order = order_of(&self.mixture.sources[source]);
        gate::run(py, || {
            let identity = Identity { order, ..start.inner.identity().clone() };
            let (epoch, position, mut ends) = axis.place(point);
            ends.extend([axis.rows()].into_iter().filter(|&rows| rows < identity.num_rows));
            Ok(CoreCursor::at_position(identity, epoch, position, &ends).into())
        })
    }

    /// The rows that a cursor says were taken of each source, over all its passes.
    #[staticmethod]
    fn rows_taken(py: Python<'_>, cursor: &Cursor) -> PyResult<Vec<u64>> {
        gate::run(py, || Ok(cursor.inner.taken()?.iter().map(Axis::rows_taken).collect()))
    }

    /// The rows of a pass of each source in this stage.
    #[getter]
    fn rows(&self) -> Vec<u64> {
        self.mixture.sources.iter().map(|source| source.rows).collect()
    }
}

impl Axes {
    fn axis(&self, source: usize) -> PyResult<&Axis> {
        let found = self.inner.axis(source);
        found.ok_or_else(|| pyo3::exceptions::PyIndexError::new_err("there is no such source"))
    }
}
