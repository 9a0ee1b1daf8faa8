//! Parallel work on many items, which is finished when the call returns.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::available_parallelism;

use crate::error::{Result, check, locked, stop_of_thread, stopped_by};

/// How many threads this process can run at once, at least 1: by its CPU affinity, and by the quotas of its
/// control groups, rounded down. Both may change while it runs.
#[must_use]
pub fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// The results of `work` for each number below `count`, in order. At most `threads` threads, the caller's
/// among them, take a few numbers at a time.
///
/// # Errors
/// The error of the first number, in order, for which `work` fails, whichever thread was faster.
/// `Interrupted` once `stop` is set.
pub fn each<T: Send>(
    count: usize,
    at_a_time: usize,
    threads: usize,
    stop: &AtomicBool,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(usize::MAX);
    let done = Mutex::new(Vec::with_capacity(count));
    let share = || {
        let mut mine = Vec::new();
        'share: loop {
            let first = next.fetch_add(at_a_time, Ordering::Relaxed);
            if first >= count {
                break;
            }
            for number in first..count.min(first + at_a_time) {
                if stop.load(Ordering::Relaxed) || number > failed.load(Ordering::Relaxed) {
                    break 'share;
                }
                let found = work(number);
                if found.is_err() {
                    failed.fetch_min(number, Ordering::Relaxed);
                }
                mine.push((number, found));
            }
        }
        locked(&done).append(&mut mine);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            // If no more threads can be started, those there are do all the work.
            let whole = stop_of_thread();
            drop(std::thread::Builder::new().spawn_scoped(scope, || stopped_by(whole, share)));
        }
        share();
    });
    check(stop)?;
    let mut done = std::mem::take(&mut *locked(&done));
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, found)| found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn all_is_done_in_order_and_the_first_failure_is_returned() {
        let go = AtomicBool::new(false);
        for (count, at_a_time, threads) in [(0, 1, 1), (1, 4, 3), (100, 1, 4), (100, 7, 1), (5, 100, 8)] {
            assert_eq!(each(count, at_a_time, threads, &go, Ok).unwrap(), (0..count).collect::<Vec<_>>());
            let fails = |number| if number % 30 == 17 { Err(Error::data(number)) } else { Ok(number) };
            let found = each(count, at_a_time, threads, &go, fails);
            assert_eq!(found.err(), (count > 17).then(|| Error::data(17)));
        }
        assert_eq!(each(3, 1, 2, &AtomicBool::new(true), Ok), Err(Error::Interrupted));
    }
}
