//! What ends the waits of a thread: a store may take minutes to answer, and Ctrl-C is not to wait for it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Error, Result, check};

/// Set once work is to stop. Threads that do parts of the work share it.
pub type Stop = Arc<AtomicBool>;

thread_local! {
    static OF_THREAD: RefCell<Option<Stop>> = const { RefCell::new(None) };
    static ASKED: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// Does work whose waits end once `is_over` says so, which this thread asks now and then.
pub fn asking<T>(is_over: fn() -> bool, work: impl FnOnce() -> T) -> T {
    struct StopBefore(Option<fn() -> bool>);
    impl Drop for StopBefore {
        fn drop(&mut self) {
            ASKED.set(self.0);
        }
    }
    let _before = StopBefore(ASKED.replace(Some(is_over)));
    work()
}

/// Puts back what ended the waits of the thread before.
struct StopBefore(Option<Stop>);

impl Drop for StopBefore {
    fn drop(&mut self) {
        OF_THREAD.replace(self.0.take());
    }
}

/// Does work whose waits end once `stop` is set.
pub fn stopped_by<T>(stop: Option<Stop>, work: impl FnOnce() -> T) -> T {
    let _before = StopBefore(OF_THREAD.replace(stop));
    work()
}

/// What ends the waits of this thread, for one that does a part of its work.
#[must_use]
pub fn stop_of_thread() -> Option<Stop> {
    OF_THREAD.with_borrow(Clone::clone)
}

/// Ends a wait of a thread that is to stop. Whoever waits asks now and then.
///
/// # Errors
/// `Interrupted` if it is.
pub fn check_thread() -> Result<()> {
    if ASKED.get().is_some_and(|is_over| is_over()) {
        return Err(Error::Interrupted);
    }
    OF_THREAD.with_borrow(|stop| stop.as_deref().map_or(Ok(()), check))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::error::caught;

    #[test]
    fn a_wait_ends_once_its_work_is_to_stop() {
        let stop = Stop::default();
        stopped_by(Some(Arc::clone(&stop)), || {
            assert_eq!(check_thread(), Ok(()));
            stop.store(true, Relaxed);
            assert_eq!(check_thread(), Err(Error::Interrupted));
            assert_eq!(stopped_by(None, check_thread), Ok(()));
            assert_eq!(asking(|| true, || stopped_by(None, check_thread)), Err(Error::Interrupted));
            drop(caught(|| stopped_by(None, || -> Result<()> { panic!("it gave up") })));
            assert_eq!(check_thread(), Err(Error::Interrupted));
        });
        assert_eq!(check_thread(), Ok(()));
    }
}
