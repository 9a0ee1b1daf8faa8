//! Sequences of one length, cut from rows of lists, as Python classes.

use std::sync::Arc;

use fastresume::vectors::collected;
use fastresume::{Chunks, Error, Packing, SequenceReader as CoreReader, SequenceSource, Sequences};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::error::to_python;
use crate::gate;
use crate::intervals;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::process_lock::ProcessLock;
use crate::tensor::Memory;
use crate::unit_table::UnitTable;

/// How lists are packed.
type Packed = (Vec<String>, u32, Option<Vec<Vec<u8>>>);

/// Makes sequences, of documents that are decoded many at a time.
#[pyclass(frozen, module = "fastresume._core")]
pub struct SequenceReader {
    reader: ProcessLock<CoreReader>,
}

#[pymethods]
impl SequenceReader {
    /// `table` says how lists are packed, and which rows each sequence is cut from. Of the packing the names of the tensors, the
    /// length of a sequence, and the bytes of the element behind each list, of each tensor.
    /// `chunks` are how many sequences are decoded in one go, and how many such chunks are kept; `None` where nothing is
    /// decoded but what is asked for. `stated` bytes of batches are in use at a time.
    #[new]
    #[pyo3(signature = (files, table, chunks, stated))]
    fn new(
        py: Python<'_>,
        files: (Py<Manifest>, Py<Layout>),
        table: (Packed, Py<UnitTable>),
        chunks: Option<(u64, usize)>,
        stated: usize,
    ) -> PyResult<Self> {
        let ((names, length, separators), table) = table;
        let table = Arc::clone(table.get().sequences()?);
        let packing = Arc::new(Packing { names, length: length as usize, separators });
        let chunks = chunks.map(|(sequences, most_kept)| Chunks { sequences, most_kept });
        gate::run(py, || {
            let (manifest, layout) = (files.0.get(), files.1.get());
            let source = SequenceSource {
                manifest: Arc::clone(&manifest.inner),
                selection: Arc::clone(&manifest.selection),
                layout: layout.inner.clone(),
                packing,
                table,
            };
            Ok(Self { reader: ProcessLock::new(CoreReader::new(source, chunks, stated)) })
        })
    }

    /// The sequences in runs, over and over until there are `count`; the row numbers of their documents, as runs of one, and
    /// where those of each sequence begin.
    fn sequences(
        &self,
        py: Python<'_>,
        runs: PyBuffer<i64>,
        count: usize,
    ) -> PyResult<(Memory, Buffer, Buffer)> {
        let runs = intervals::read(py, &runs)?;
        let runs = runs.iter().map(|run| run.start.cast_unsigned()..run.end.cast_unsigned());
        let runs = collected(runs).map_err(|error| to_python(py, &error))?;
        let made = match gate::run(py, || self.reader.lock()?.sequences(&runs, count, None))? {
            Some(made) => made,
            None => gate::run_stoppable(py, |stop| {
                let made = self.reader.lock()?.sequences(&runs, count, Some(stop))?;
                made.ok_or_else(|| Error::data("sequences were not decoded"))
            })?,
        };
        let Sequences { fields, rows, offsets } = made;
        let rows = Buffer::of_ranges(rows.into_iter().map(|row| row..row + 1));
        Ok((fields.into(), rows.map_err(|error| to_python(py, &error))?, Buffer::of_words(offsets)))
    }

    /// One sequence of padding alone, which has no documents.
    fn padding(&self, py: Python<'_>) -> PyResult<Memory> {
        Ok(gate::run(py, || self.reader.lock()?.padding())?.fields.into())
    }

    /// Gives back what is kept for the next batches.
    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        gate::run(py, || {
            self.reader.lock()?.forget();
            Ok(())
        })
    }
}
