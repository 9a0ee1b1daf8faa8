//! What the threads of a reader are at, for whoever watches.

use std::sync::Arc;

use fastresume::activity::Doing;
use fastresume::error::shown;
use fastresume::manifest::Manifest;
use fastresume::pipeline::View;
use pyo3::prelude::*;

/// What a reader's threads are at, while it is there and afterwards. Does not keep the reader alive.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Activity {
    view: View,
    manifest: Arc<Manifest>,
    process: u32,
}

impl Activity {
    pub fn new(view: View, manifest: Arc<Manifest>) -> Self {
        Self { view, manifest, process: std::process::id() }
    }
}

#[pymethods]
impl Activity {
    /// How long the threads have read and decoded, all together.
    #[getter]
    fn seconds(&self) -> f64 {
        self.view.activity.worked().as_secs_f64()
    }

    /// How many batches are ready, and their bytes.
    fn queued(&self, py: Python<'_>) -> (u64, u64) {
        // In a forked child nobody would ever let go of a lock.
        if self.process == std::process::id() { py.detach(|| self.view.queued()) } else { (0, 0) }
    }

    /// What each thread is at, the one that calls `front` last: "waiting", "decoding" a row group of a file, or
    /// "ending" a batch; the file or none; the row group or the batch; and for how many seconds.
    fn threads(&self) -> Vec<(&'static str, Option<String>, u64, f64)> {
        let found = self.view.activity.doings().into_iter().map(|(doing, since)| {
            let seconds = since.as_secs_f64();
            match doing {
                Doing::Waiting => ("waiting", None, 0, seconds),
                Doing::Ending(batch) => ("ending", None, batch, seconds),
                Doing::Decoding(group) => {
                    let place = self.manifest.place_of(group);
                    let file = shown(&self.manifest.files()[place.file].path);
                    ("decoding", Some(file), place.index as u64, seconds)
                }
            }
        });
        found.collect()
    }
}
