//! Sequences of one length, cut from rows of lists, as Python classes.

use std::sync::Arc;

use fastresume::vectors::collected;
use fastresume::{
    Chunks, Error, Packing, SequenceReader as CoreReader, SequenceSource, SequenceTable as CoreTable,
    Sequences,
};
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

/// How lists are packed, and which rows each sequence is cut from.
#[pyclass(frozen, module = "fastresume._core")]
pub struct SequenceTable {
    packing: Arc<Packing>,
    inner: Arc<CoreTable>,
}

#[pymethods]
impl SequenceTable {
    /// How lists are packed: the names of their tensors, the length of a sequence, and the bytes of the element behind each
    /// list, of each tensor. Of `files` the first sequence of each and its first selected row, both with their number behind,
    /// and its tokens; `index` has its tokens before every `stride`-th of its rows.
    #[new]
    fn new(
        py: Python<'_>,
        packing: (Vec<String>, u32, Option<Vec<Vec<u8>>>),
        files: (PyBuffer<i64>, PyBuffer<i64>, PyBuffer<i64>),
        index: Vec<PyBuffer<i64>>,
        stride: u64,
    ) -> PyResult<Self> {
        let (names, length, separators) = packing;
        let (starts, first_ordinals, tokens) = files;
        let packing = Packing { names, length: length as usize, separators };
        let words = |buffer: &PyBuffer<i64>| intervals::each(py, buffer, i64::cast_unsigned);
        let inner = CoreTable {
            length: length.into(),
            starts: words(&starts)?,
            first_ordinals: words(&first_ordinals)?,
            tokens: words(&tokens)?,
            index: index.iter().map(words).collect::<PyResult<_>>()?,
            stride,
        };
        Ok(Self { packing: Arc::new(packing), inner: Arc::new(inner) })
    }

    /// The rows that the sequences `[start, end)`, which are of one file, are cut from: which of the selected ones.
    fn rows(&self, start: u64, end: u64) -> (u64, u64) {
        let ordinals = self.inner.rows(&(start..end)).ordinals;
        (ordinals.start, ordinals.end)
    }
}

/// Makes sequences, of documents that are decoded many at a time.
#[pyclass(frozen, module = "fastresume._core")]
pub struct SequenceReader {
    reader: ProcessLock<CoreReader>,
}

#[pymethods]
impl SequenceReader {
    /// `chunks` are how many sequences are decoded in one go, and how many such chunks are kept; `None` where nothing is
    /// decoded but what is asked for. `stated` bytes of batches are in use at a time.
    #[new]
    #[pyo3(signature = (files, table, chunks, stated))]
    fn new(
        py: Python<'_>,
        files: (Py<Manifest>, Py<Layout>),
        table: &SequenceTable,
        chunks: Option<(u64, usize)>,
        stated: usize,
    ) -> PyResult<Self> {
        let chunks = chunks.map(|(sequences, most_kept)| Chunks { sequences, most_kept });
        gate::run(py, || {
            let (manifest, layout) = (files.0.get(), files.1.get());
            let source = SequenceSource {
                manifest: Arc::clone(&manifest.inner),
                selection: Arc::clone(&manifest.selection),
                layout: layout.inner.clone(),
                packing: Arc::clone(&table.packing),
                table: Arc::clone(&table.inner),
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
