//! A value that one thread at a time uses, in the process that made it.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use fastresume::{Error, Result};

/// The value.
pub struct ProcessLock<T> {
    value: Mutex<T>,
    process: u32,
}

impl<T> ProcessLock<T> {
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), process: std::process::id() }
    }

    /// Takes the lock. It fails in a forked child, where the holder of the lock is gone.
    ///
    /// Call this only without the GIL: another thread may hold the lock and want the GIL.
    pub fn lock(&self) -> Result<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(value) => Ok(value),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if self.process == std::process::id() => {
                Ok(self.value.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Err(TryLockError::WouldBlock) => Err(Error::State(format!(
                "this iterator was in use in process {} when it forked: make a new one in process {}",
                self.process,
                std::process::id()
            ))),
        }
    }
}
