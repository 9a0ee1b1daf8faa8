//! What was asked of stores, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counts since a dataset was opened, in this process. They may be read at any time.
#[derive(Debug, Default)]
pub struct Counts {
    requests: AtomicU64,
    retries: AtomicU64,
    bytes_asked: AtomicU64,
    bytes_needed: AtomicU64,
    bytes_from_cache: AtomicU64,
    wait_ns: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// HTTP requests, retries among them.
    pub requests: u64,
    /// Requests that were answered by a fault which is tried again.
    pub retries: u64,
    /// Bytes of objects that were asked for.
    pub bytes_asked: u64,
    /// Bytes of column chunks and footers that were needed.
    pub bytes_needed: u64,
    /// Bytes that the cache had.
    pub bytes_from_cache: u64,
    /// How long decoding waited for bytes, summed over its threads.
    pub wait: Duration,
}

impl Counts {
    pub(crate) fn note_request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_asked(&self, bytes: u64) {
        self.bytes_asked.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn note_needed(&self, bytes: u64) {
        self.bytes_needed.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn note_from_cache(&self, bytes: u64) {
        self.bytes_from_cache.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn note_wait(&self, wait: Duration) {
        self.wait_ns.fetch_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The counts now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            requests: self.requests.load(Relaxed),
            retries: self.retries.load(Relaxed),
            bytes_asked: self.bytes_asked.load(Relaxed),
            bytes_needed: self.bytes_needed.load(Relaxed),
            bytes_from_cache: self.bytes_from_cache.load(Relaxed),
            wait: Duration::from_nanos(self.wait_ns.load(Relaxed)),
        }
    }
}
