//! Batches of rows of several sources, as a Python class.

use fastresume::{Cause, Chunk, Fields, Mixed, Mixer as CoreMixer};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::gate;
use crate::intervals;
use crate::joining::RowJoiner;
use crate::mixture::Axes;
use crate::pass::Pass;
use crate::process_lock::ProcessLock;
use crate::tensor::Memory;

impl Fields for Memory {
    fn fields(&self) -> Vec<&[u8]> {
        self.bytes()
    }
}

type Words = PyBuffer<i64>;

/// A chunk: its memory, row numbers, offsets and damage, and the numbers of units.
type ChunkArguments = (Py<Memory>, Words, Option<Words>, Vec<Cause>, Option<Words>);

/// A batch: its memory, row numbers as runs of one, sources, offsets of units and their numbers, and damage.
type Batch = (Memory, Buffer, Buffer, Option<Buffer>, Option<Buffer>, Vec<(u64, u64, String, u64)>);

/// Keeps decoded rows of the sources of a stage until batches need them. No tensor may be made of a chunk's memory.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Mixer {
    inner: ProcessLock<CoreMixer<Memory>>,
}

#[pymethods]
impl Mixer {
    /// Of the sources on these axes, for which these numbers stand in a batch.
    #[new]
    fn new(axes: &Axes, numbers: Vec<i64>) -> Self {
        let numbers = numbers.into_iter().map(i64::cast_unsigned).collect();
        Self { inner: ProcessLock::new(CoreMixer::new(axes.inner.clone(), numbers)) }
    }

    /// The first ordinals that a rank's batch needs and that are not kept, as `(source, start, end)`.
    fn lacking(
        &self,
        py: Python<'_>,
        pass_: &Pass,
        batch: u64,
        rank: u64,
    ) -> PyResult<Option<(usize, u64, u64)>> {
        gate::run(py, || {
            let found = self.inner.lock()?.lacking(&pass_.inner.positions(batch, rank)?);
            Ok(found.map(|(source, range)| (source, range.start, range.end)))
        })
    }

    /// Keeps a chunk of a source from an ordinal on.
    fn put(&self, py: Python<'_>, source: usize, ordinal: u64, chunk: ChunkArguments) -> PyResult<()> {
        let (memory, rows, offsets, damage, units) = chunk;
        let words = |buffer: &Words| intervals::each(py, buffer, i64::cast_unsigned);
        let chunk = Chunk {
            memory: memory.get().clone(),
            rows: words(&rows)?,
            offsets: offsets.as_ref().map(words).transpose()?,
            units: units.as_ref().map(words).transpose()?,
            damage,
        };
        gate::run(py, || {
            self.inner.lock()?.put(source, ordinal, chunk);
            Ok(())
        })
    }

    /// A rank's batch, of which nothing is lacking.
    fn batch(
        &self,
        py: Python<'_>,
        pass_: &Pass,
        batch: u64,
        rank: u64,
        joiner: &RowJoiner,
    ) -> PyResult<Batch> {
        gate::run(py, || {
            let positions = pass_.inner.positions(batch, rank)?;
            let count = pass_.inner.shape(batch, rank).rows;
            let made = self.inner.lock()?.batch(&positions, count, &joiner.inner)?;
            let Mixed { fields, rows, sources, offsets, units, damage } = made;
            let words = |words: Option<Vec<u64>>| words.map(Buffer::of_words);
            let damage = damage.into_iter().map(|((start, end, cause), source)| (start, end, cause, source));
            let runs = Buffer::of_ranges(rows.into_iter().map(|row| row..row + 1))?;
            let sources = Buffer::of_words(sources);
            Ok((fields.into(), runs, sources, words(offsets), words(units), damage.collect()))
        })
    }

    /// Keeps nothing any more.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        gate::run(py, || {
            self.inner.lock()?.forget();
            Ok(())
        })
    }
}
