//! What the threads of a pipeline are doing, and how long they have worked: for monitoring only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It waits for something to do.
    Waiting,
    /// It reads and decodes rows of this row group, counted over all sources.
    Decoding(usize),
    /// It finishes this batch: it puts it into the form that is delivered.
    Ending(u64),
}

impl Doing {
    fn code(self) -> u64 {
        match self {
            Self::Waiting => 0,
            Self::Decoding(group) => 2 * group as u64 + 1,
            Self::Ending(batch) => 2 * batch + 2,
        }
    }

    fn of_code(code: u64) -> Self {
        match code {
            0 => Self::Waiting,
            odd if odd % 2 == 1 => Self::Decoding(usize::try_from(odd / 2).unwrap_or(usize::MAX)),
            even => Self::Ending(even / 2 - 1),
        }
    }
}

/// What several threads are doing; each has a place of its own to write to.
#[derive(Debug)]
pub struct Activity {
    made: Instant,
    places: Vec<ThreadTimes>,
}

/// Times in nanoseconds.
#[derive(Debug, Default)]
struct ThreadTimes {
    doing: AtomicU64,
    /// Since when, counted from when this value was made.
    since: AtomicU64,
    worked: AtomicU64,
}

impl Activity {
    /// This many threads, all of them waiting.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one clock of the core: no result depends on it")]
    pub fn new(threads: usize) -> Self {
        Self { made: Instant::now(), places: (0..threads).map(|_| ThreadTimes::default()).collect() }
    }

    /// Does some work, and shows it to others meanwhile.
    pub(crate) fn during<T>(&self, thread: usize, doing: Doing, work: impl FnOnce() -> T) -> T {
        let Some(place) = self.places.get(thread) else { return work() };
        let began = self.now();
        place.since.store(began, Ordering::Relaxed);
        place.doing.store(doing.code(), Ordering::Relaxed);
        let found = work();
        let ended = self.now();
        place.since.store(ended, Ordering::Relaxed);
        place.doing.store(Doing::Waiting.code(), Ordering::Relaxed);
        place.worked.fetch_add(ended - began, Ordering::Relaxed);
        found
    }

    /// How long all threads together have worked; work counts once it is done.
    #[must_use]
    pub fn worked(&self) -> Duration {
        let worked = self.places.iter().map(|place| place.worked.load(Ordering::Relaxed));
        Duration::from_nanos(worked.fold(0, u64::saturating_add))
    }

    /// What each thread is doing, and for how long.
    #[must_use]
    pub fn doings(&self) -> Vec<(Doing, Duration)> {
        let now = self.now();
        let found = self.places.iter().map(|place| {
            let since = place.since.load(Ordering::Relaxed);
            let doing = Doing::of_code(place.doing.load(Ordering::Relaxed));
            (doing, Duration::from_nanos(now.saturating_sub(since)))
        });
        found.collect()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_doing_survives_its_code() {
        for doing in
            [Doing::Waiting, Doing::Decoding(0), Doing::Decoding(7), Doing::Ending(0), Doing::Ending(9)]
        {
            assert_eq!(Doing::of_code(doing.code()), doing);
        }
    }

    #[test]
    fn what_a_thread_is_at_is_seen_while_it_is_at_it() {
        let activity = Activity::new(2);
        let seen = activity.during(1, Doing::Decoding(3), || activity.doings());
        assert_eq!(
            seen.iter().map(|(doing, _)| *doing).collect::<Vec<_>>(),
            [Doing::Waiting, Doing::Decoding(3)]
        );
        assert!(activity.doings().iter().all(|(doing, _)| *doing == Doing::Waiting));
    }

    #[test]
    fn a_thread_without_a_place_works_unseen() {
        assert_eq!(Activity::new(0).during(4, Doing::Ending(1), || 5), 5);
    }
}
