//! What the threads of a reader are doing: for monitoring.

use std::sync::Arc;

use fastresume::error::shown;
use fastresume::{Doing, Sources, View};
use pyo3::prelude::*;

use crate::values::ThreadActivity;

/// What a reader's threads are doing, while the reader exists and afterwards. It does not keep the reader
/// alive.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Activity {
    view: View,
    sources: Arc<Sources>,
    process: u32,
}

impl Activity {
    pub fn new(view: View, sources: Arc<Sources>) -> Self {
        Self { view, sources, process: std::process::id() }
    }
}

#[pymethods]
impl Activity {
    /// The time that the threads have spent reading and decoding, summed over all of them.
    #[getter]
    fn seconds(&self) -> f64 {
        self.view.activity.worked().as_secs_f64()
    }

    /// The number of batches that are ready, and their bytes.
    fn queued(&self, py: Python<'_>) -> (u64, u64) {
        // In a forked child the holder of a lock is gone, and would never release it.
        if self.process == std::process::id() { py.detach(|| self.view.queued()) } else { (0, 0) }
    }

    /// What each thread is doing; the thread that calls `front` comes last.
    fn threads(&self) -> Vec<ThreadActivity> {
        let found = self.view.activity.doings().into_iter().map(|(doing, since)| {
            let (doing, file, number) = match doing {
                Doing::Waiting => ("waiting", None, 0),
                Doing::Ending(batch) => ("ending", None, batch),
                Doing::Decoding(group) => {
                    let of = self.sources.group(group);
                    ("decoding", Some(shown(of.path)), of.index as u64)
                }
            };
            ThreadActivity { doing, file, number, seconds: since.as_secs_f64() }
        });
        found.collect()
    }
}
