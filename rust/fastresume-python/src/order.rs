//! The order of one pass, as a Python class.

use std::sync::Arc;

use fastresume::{Order as CoreOrder, OrderKind, Result, Selection, arrays};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::cursor::Cursor;
use crate::gate;
use crate::intervals;
use crate::manifest::Manifest;

/// The row at each position of the pass that a cursor is in.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Order {
    pub inner: CoreOrder,
}

/// The order of the pass that a cursor is in, of rows or units that are selected.
pub fn of_cursor(cursor: &Cursor, selection: &Arc<Selection>) -> Result<CoreOrder> {
    let (cursor, ends) = (&cursor.inner, cursor.inner.generation_ends());
    CoreOrder::of_generations(&cursor.identity().order, cursor.epoch(), Arc::clone(selection), &ends)
}

#[pymethods]
impl Order {
    #[new]
    fn new(py: Python<'_>, cursor: &Cursor, manifest: &Manifest) -> PyResult<Self> {
        gate::run(py, || Ok(Self { inner: of_cursor(cursor, &manifest.selection)? }))
    }

    /// The selected rows in the order of the files.
    #[staticmethod]
    fn of_files(py: Python<'_>, manifest: &Manifest) -> PyResult<Self> {
        gate::run(py, || {
            let selection = Arc::clone(&manifest.selection);
            Ok(Self { inner: CoreOrder::of_generations(&OrderKind::Sequential, 0, selection, &[])? })
        })
    }

    /// The row numbers at these positions, in their order, as `[start, end)` runs.
    fn rows(&self, py: Python<'_>, positions: PyBuffer<i64>) -> PyResult<Buffer> {
        let positions = intervals::read(py, &positions)?;
        gate::run(py, || {
            let ranges =
                positions.into_iter().map(|range| range.start.cast_unsigned()..range.end.cast_unsigned());
            Buffer::of_ranges(ranges.flat_map(|range| self.inner.rows(range).collect::<Vec<_>>()))
        })
    }

    /// The row numbers at a set of positions, as a set.
    fn row_set(&self, py: Python<'_>, positions: PyBuffer<i64>) -> PyResult<Buffer> {
        let positions = intervals::read(py, &positions)?;
        gate::run(py, || {
            let rows = self.inner.row_set(&arrays::to_set(&positions)?)?;
            Buffer::of_ranges(rows.ranges().iter().cloned())
        })
    }

    /// The position of a row; `None` if the row is not selected.
    fn position_of(&self, row: u64) -> Option<u64> {
        self.inner.position_of(row)
    }

    /// The numbers of blocks and windows, and the rows of the largest window; `None` for a sequential order.
    #[getter]
    fn sizes(&self) -> Option<(usize, usize, u64)> {
        let (blocks, windows) = self.inner.sizes()?;
        Some((blocks, windows, self.inner.largest_window()))
    }
}
