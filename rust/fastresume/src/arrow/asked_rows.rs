//! Rows of a row group that were asked for.

use std::sync::{Arc, Mutex, OnceLock};

use crate::arrow::row_source::{RowGroup, Waiting};
use crate::error::{Error, Result, locked};

/// Rows that were asked for once: whoever wants them first waits for all who do.
pub struct AskedRows {
    waiting: Mutex<Option<Waiting>>,
    come: OnceLock<Result<Arc<RowGroup>>>,
}

impl AskedRows {
    /// What waits for them.
    #[must_use]
    pub fn new(waiting: Waiting) -> Self {
        Self { waiting: Mutex::new(Some(waiting)), come: OnceLock::new() }
    }

    /// The rows, once they have come.
    ///
    /// # Errors
    /// Why they don't come.
    pub fn rows(&self) -> Result<Arc<RowGroup>> {
        let come = self.come.get_or_init(|| {
            let waiting = locked(&self.waiting).take();
            waiting.map_or_else(|| Err(Error::data("who waited for its rows gave up")), |waiting| waiting())
        });
        come.clone()
    }

    /// Whether somebody has taken them, or heard why they don't come.
    #[must_use]
    pub fn have_come(&self) -> bool {
        self.come.get().is_some()
    }

    /// Whether who waited for them was to stop.
    #[must_use]
    pub fn were_given_up(&self) -> bool {
        matches!(self.come.get(), Some(Err(Error::Interrupted)))
    }

    /// The bytes of memory that they take, once somebody has taken them.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.come.get().map(|come| come.as_ref().map_or(0, |rows| rows.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn rows_are_waited_for_once_whoever_wants_them() {
        let waits = Arc::new(AtomicUsize::new(0));
        for come in [Ok(7), Err(Error::Interrupted), Err(Error::data("gone"))] {
            let (counted, given) = (Arc::clone(&waits), come.clone());
            let asked = AskedRows::new(Box::new(move || {
                counted.fetch_add(1, SeqCst);
                given.and_then(|_| RowGroup::new([], 0).map(Arc::new))
            }));
            assert!(!asked.have_come() && asked.bytes().is_none());
            let found: Vec<_> = (0..4).map(|_| asked.rows().map(|rows| rows.rows())).collect();
            assert_eq!(found, vec![come.clone().map(|_| 0); 4]);
            assert!(asked.have_come());
            assert_eq!(asked.were_given_up(), come == Err(Error::Interrupted));
        }
        assert_eq!(waits.load(SeqCst), 3);
    }
}
