//! How long a source that fails is asked again, as stores are.

use std::sync::Mutex;
use std::time::Duration;

use fastresume_stores::Patience as StorePatience;
use pyo3::prelude::*;

/// How long to keep asking a source that fails. It has no clock.
#[pyclass(frozen, module = "fastresume._core")]
pub struct Patience {
    inner: Mutex<StorePatience>,
}

#[pymethods]
impl Patience {
    #[new]
    fn new() -> Self {
        Self { inner: Mutex::default() }
    }

    /// How many seconds to wait before the next try; None if there is to be no other. `is_momentary` says whether time alone may
    /// mend the fault. The last try began, and failed now, so many seconds after the first. `share` of the wait, from 0 to 1,
    /// is drawn by whoever asks.
    fn wait(&self, is_momentary: bool, began: f64, now: f64, share: f64) -> Option<f64> {
        let [began, now] = [began, now].map(|at| Duration::try_from_secs_f64(at).unwrap_or_default());
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.wait_for_source(is_momentary, began, now, share).map(|wait| wait.as_secs_f64())
    }
}
