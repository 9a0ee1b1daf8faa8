//! Every call that releases the GIL goes through this file: it holds memory back, polls signals and maps errors.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use fastresume::error::{Stop, asking, caught, stopped_by};
use fastresume::{Error, Result};
use pyo3::prelude::*;

use crate::error::to_python;
use crate::reserve;

/// How long a signal (such as Ctrl-C) may wait until it is handled.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// Calls `step` without the GIL until it returns a value; signals are handled between calls.
pub fn poll<T: Send>(py: Python<'_>, step: impl FnMut() -> Result<Option<T>> + Send) -> PyResult<T> {
    poll_telling(py, step, |_| Ok(()))
}

/// The same; `tell` is called between calls.
fn poll_telling<T: Send>(
    py: Python<'_>,
    mut step: impl FnMut() -> Result<Option<T>> + Send,
    mut tell: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    loop {
        let stepped = py.detach(|| asking(is_signalled, &mut step));
        if let Some(raised) = RAISED.take() {
            return Err(raised);
        }
        if let Some(value) = stepped.map_err(|error| to_python(py, &error))? {
            return Ok(value);
        }
        py.check_signals()?;
        tell(py)?;
    }
}

thread_local! {
    /// What the handler of a signal raised in the midst of a step.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Whether the handler of a signal raised an error, which is kept: a step that waits for a store asks.
fn is_signalled() -> bool {
    #[allow(clippy::redundant_closure_for_method_calls, reason = "the method is of one lifetime")]
    let raised = Python::attach(|py| py.check_signals()).err();
    let is_one = raised.is_some();
    if is_one {
        RAISED.set(raised);
    }
    is_one
}

/// Runs short work without the GIL.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    reserve::hold();
    py.detach(work).map_err(|error| to_python(py, &error))
}

/// Runs long work without the GIL, on a thread of its own, so that a signal can stop it.
pub fn run_stoppable<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> Result<T> + Send,
) -> PyResult<T> {
    run_telling(py, work, |_| Ok(()))
}

/// The same; `tell` is called meanwhile, about as often as signals are handled. What it raises stops the work.
pub fn run_telling<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> Result<T> + Send,
    tell: impl FnMut(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    reserve::hold();
    let stop = Stop::default();
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let stop = &stop;
        let worker = std::thread::Builder::new().spawn_scoped(scope, move || {
            // The receiver is gone if a signal was handled in the meantime.
            drop(sender.send(caught(|| stopped_by(Some(Arc::clone(stop)), || work(stop)))));
        });
        worker.map_err(|cause| to_python(py, &Error::Source(format!("can't start a thread: {cause}"))))?;
        let receiver = std::sync::Mutex::new(receiver);
        let answer = || {
            let receiver = receiver.lock().map_err(|_| Error::Interrupted)?;
            match receiver.recv_timeout(PATIENCE) {
                Ok(result) => result.map(Some),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(Error::data("the work ended without a result")),
            }
        };
        let found = poll_telling(py, answer, tell);
        stop.store(true, Ordering::Relaxed);
        found
    })
}
