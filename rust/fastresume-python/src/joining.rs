//! Rows of several chunks as one batch, as a Python class.

use fastresume::vectors::{collected, collected_results};
use fastresume::{Error, Joiner, Pool, RowParts, Stretch};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::gate;
use crate::intervals;
use crate::layout::Layout;
use crate::tensor::Memory;

/// Puts rows of chunks together to batches. No tensor may be made of a chunk's memory.
#[pyclass(frozen, module = "fastresume._core")]
pub struct RowJoiner {
    pub inner: Joiner,
}

#[pymethods]
impl RowJoiner {
    /// For rows of a layout, or for tensors whose rows have so many bytes. `stated_bytes` of batches are in use at a time.
    #[new]
    fn new(layout: Option<&Layout>, widths: Vec<usize>, stated_bytes: usize) -> Self {
        let flat = widths.into_iter().map(RowParts::Flat);
        let parts = layout.map_or_else(|| flat.collect(), |layout| RowParts::of(&layout.inner));
        Self { inner: Joiner { parts, pool: Pool::new(stated_bytes) } }
    }

    /// The rows of stretches `(chunk, start, end)`, one behind another, each at its place among them; over and over until
    /// there are `count`.
    fn joined(
        &self,
        py: Python<'_>,
        stretches: Vec<(Py<Memory>, usize, usize)>,
        places: PyBuffer<i64>,
        count: usize,
    ) -> PyResult<Memory> {
        let places = intervals::each(py, &places, u32::try_from)?;
        let found = gate::run(py, || {
            let beyond = |_| Error::Argument("a batch has too many rows".into());
            let places = collected_results(places.into_iter().map(|place| place.map_err(beyond)))?;
            let stretches = collected(
                stretches
                    .iter()
                    .map(|(chunk, start, end)| Stretch { memory: chunk.get().bytes(), rows: *start..*end }),
            )?;
            self.inner.join(&stretches, &places, count)
        })?;
        Ok(found.into())
    }
}
