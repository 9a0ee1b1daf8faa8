//! Sequences of one length, cut from rows of lists, as Python classes.

use std::sync::Arc;

use fastresume::{Documents as CoreDocuments, Packing, Part, Pool, ReadRows, random_access, sequences};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::buffer::Buffer;
use crate::gate;
use crate::intervals;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::tensor::Memory;

/// Rows of lists, from which sequences are cut.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Documents {
    inner: CoreDocuments,
}

/// Cuts rows of lists into sequences of one length.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Packer {
    packing: Packing,
    pool: Pool,
}

#[pymethods]
impl Packer {
    /// For the tensors of these names. `separators` are the bytes of the element behind each list, of each tensor;
    /// `stated_bytes` of batches are in use at a time.
    #[new]
    fn new(names: Vec<String>, length: usize, separators: Option<Vec<Vec<u8>>>, stated_bytes: usize) -> Self {
        Self { packing: Packing { names, length, separators }, pool: Pool::new(stated_bytes) }
    }

    /// The documents in ascending runs of row numbers, decoded now. Refuses damaged ones, also where the layout masks
    /// damage: where tokens of theirs would be can't be known.
    fn documents(
        &self,
        py: Python<'_>,
        manifest: &Manifest,
        layout: &Layout,
        runs: PyBuffer<i64>,
    ) -> PyResult<Documents> {
        let runs = intervals::read(py, &runs)?;
        let runs: Vec<_> =
            runs.iter().map(|run| run.start.cast_unsigned()..run.end.cast_unsigned()).collect();
        let (manifest, layout) = (&manifest.inner, &layout.inner);
        let inner = gate::run_stoppable(py, |stop| {
            let ReadRows { fields, written } =
                random_access::read_into(&self.pool, (Arc::clone(manifest), layout.clone()), &runs, 0, stop)?;
            written.check_undamaged(&runs)?;
            CoreDocuments::new(fields, layout, &self.packing, &runs)
        })?;
        Ok(Documents { inner })
    }

    /// The sequences of parts `(documents, tokens before the first one, number of sequences)`, over and over until there
    /// are `count`; the row numbers of their documents, as runs of one, and where those of each sequence begin.
    fn sequences(
        &self,
        py: Python<'_>,
        parts: Vec<(Py<Documents>, u64, usize)>,
        count: usize,
    ) -> PyResult<(Memory, Buffer, Buffer)> {
        let made = gate::run(py, || {
            let parts: Vec<_> = parts
                .iter()
                .map(|(documents, skipped, count)| Part {
                    documents: &documents.get().inner,
                    skipped: *skipped,
                    count: *count,
                })
                .collect();
            sequences::cut(&self.packing, &parts, count, &self.pool)
        })?;
        let rows = made.rows.into_iter().map(|row| row..row + 1);
        Ok((made.fields.into(), Buffer::of_ranges(rows), Buffer::of_words(made.offsets)))
    }
}
