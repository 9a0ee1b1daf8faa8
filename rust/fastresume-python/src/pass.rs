//! The rest of a pass under one cut, as a Python class.

use std::sync::Arc;

use fastresume::{Cut, Pass as CorePass, Result, Tail, decode_cost};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::cursor::Cursor;
use crate::gate;
use crate::intervals;
use crate::order::Order;

/// Lanes, groups, and rows per lane and batch.
pub type CutNumbers = (u64, u64, u64);

fn to_cut((lanes, groups, rows): CutNumbers) -> Result<Cut> {
    Cut::new(lanes, groups, rows)
}

/// The rest of the pass that a cursor is in, under one cut.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Pass {
    pub inner: Arc<CorePass>,
}

#[pymethods]
impl Pass {
    #[new]
    fn new(py: Python<'_>, cursor: &Cursor, cut: CutNumbers, tail: &str, world_size: u64) -> PyResult<Self> {
        gate::run(py, || {
            let inner = CorePass::new(&cursor.inner, to_cut(cut)?, Tail::named(tail)?, world_size)?;
            Ok(Self { inner: Arc::new(inner) })
        })
    }

    /// The pass at the cut, among a cursor's cuts, that held batch `step`; and the batch's number in that
    /// cut.
    #[staticmethod]
    fn at_step(
        py: Python<'_>,
        cursor: &Cursor,
        step: u64,
        cut: CutNumbers,
        tail: &str,
        world_size: u64,
    ) -> PyResult<(Self, u64)> {
        gate::run(py, || {
            let (inner, batch) =
                CorePass::at_step(&cursor.inner, step, to_cut(cut)?, Tail::named(tail)?, world_size)?;
            Ok((Self { inner: Arc::new(inner) }, batch))
        })
    }

    /// The cut: lanes, groups, and rows per lane and batch.
    #[getter]
    fn cut(&self) -> CutNumbers {
        let cut = self.inner.division().cut();
        (cut.lanes(), cut.groups(), cut.rows())
    }

    #[getter]
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    /// The number of batches of the cut, delivered ones included.
    #[getter]
    fn batches(&self) -> u64 {
        self.inner.batches()
    }

    #[getter]
    fn batches_left(&self) -> u64 {
        self.inner.batches_left()
    }

    /// The number of rows after the last whole global batch.
    #[getter]
    fn rest(&self) -> u64 {
        self.inner.division().rest()
    }

    /// The number of padding rows, over all ranks, in the last global batch.
    #[getter]
    fn padded_rows(&self) -> u64 {
        self.inner.padded_rows()
    }

    fn step_of(&self, batch: u64) -> u64 {
        self.inner.step_of(batch)
    }

    fn global_step_of(&self, batch: u64) -> u64 {
        self.inner.global_step_of(batch)
    }

    fn cursor_after(&self, done: u64) -> Cursor {
        self.inner.cursor_after(done).into()
    }

    /// The start of the next pass.
    fn next_pass(&self) -> Cursor {
        self.inner.next_pass().into()
    }

    /// The numbers of rows of a rank's batch: all, valid, and read. Each range begins at 0.
    fn shape(&self, batch: u64, rank: u64) -> (u64, u64, u64) {
        let shape = self.inner.shape(batch, rank);
        (shape.rows, shape.valid, shape.distinct)
    }

    /// The positions of the rows that are read for a rank's batch, in the batch's order.
    fn positions(&self, py: Python<'_>, batch: u64, rank: u64) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.inner.positions(batch, rank)?.into_iter()))
    }

    /// The row numbers of a rank's batch by an order, in the batch's order, as `[start, end)` runs.
    fn rows(&self, py: Python<'_>, order: &Order, batch: u64, rank: u64) -> PyResult<Buffer> {
        gate::run(py, || {
            let positions = self.inner.positions(batch, rank)?;
            let rows = positions.into_iter().flat_map(|range| order.inner.rows(range).collect::<Vec<_>>());
            Buffer::of_ranges(rows)
        })
    }

    /// The batch of the cut that delivers a position, its rank, and the row in it; `None` if none does.
    fn slot_of(&self, py: Python<'_>, position: u64) -> PyResult<Option<(u64, u64, u64)>> {
        gate::run(py, || self.inner.slot_of(position))
    }

    /// The positions of the valid rows of a rank's batch, in the batch's order.
    fn valid_positions(&self, py: Python<'_>, batch: u64, rank: u64) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.inner.valid_positions(batch, rank)?.into_iter()))
    }

    /// The valid ones among all rows of a rank's batch, as `[start, end)` pairs in the batch's order.
    fn valid_runs(&self, py: Python<'_>, batch: u64, rank: u64, runs: PyBuffer<i64>) -> PyResult<Buffer> {
        let runs = intervals::read(py, &runs)?;
        gate::run(py, || {
            let runs = runs.iter().map(|run| run.start.cast_unsigned()..run.end.cast_unsigned()).collect();
            Buffer::of_ranges(self.inner.valid_of(batch, rank, runs).into_iter())
        })
    }

    /// The positions that no rank gets (the tail that is dropped).
    fn dropped(&self, py: Python<'_>) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.inner.dropped().ranges().iter().cloned()))
    }

    /// The same if this is the last batch of the pass; empty for another one.
    fn dropped_with(&self, py: Python<'_>, batch: u64) -> PyResult<Buffer> {
        gate::run(py, || Buffer::of_ranges(self.inner.dropped_with(batch).ranges().iter().cloned()))
    }

    /// The number of rows that all readers of all ranks decode.
    fn rows_decoded(&self, py: Python<'_>, order: &Order, world_size: u64, workers: u64) -> PyResult<u64> {
        gate::run_stoppable(py, |stop| {
            decode_cost::rows_decoded(&self.inner, &order.inner, world_size, workers, stop)
        })
    }
}
