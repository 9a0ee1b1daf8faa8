//! Vectors whose length a file, a batch or a window tells: where the system has no memory for one, it is an error.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Whether there was nothing left for small things, so that they came from what was held back for them.
static IS_USED_UP: AtomicBool = AtomicBool::new(false);

/// Notes whether memory is held back for what is small, or it was given back, since there was no other.
pub fn note_reserve(is_held: bool) {
    IS_USED_UP.store(!is_held, Ordering::Relaxed);
}

/// Refuses to begin anything when memory is used up but for what was held back.
///
/// # Errors
/// `Argument` if it is.
pub fn check_reserve() -> Result<()> {
    if IS_USED_UP.load(Ordering::Relaxed) {
        return Err(Error::Argument(
            "no memory is left: batches, or what is decoded ahead, are too large".into(),
        ));
    }
    Ok(())
}

/// What is said when the system does not give so many bytes.
pub fn no_memory(bytes: usize) -> Error {
    Error::Argument(format!("no memory for a tensor of {bytes} bytes: batches are too large"))
}

/// Makes room for so many more elements.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
pub fn room_for<T>(vector: &mut Vec<T>, more: usize) -> Result<()> {
    let count = vector.len().saturating_add(more);
    vector.try_reserve(more).map_err(|_| no_memory(count.saturating_mul(size_of::<T>())))
}

/// A vector with room for so many elements.
///
/// # Errors
/// As for `room_for`.
pub fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    vector.try_reserve_exact(count).map_err(|_| no_memory(count.saturating_mul(size_of::<T>())))?;
    Ok(vector)
}

/// A vector of one element, so many times.
///
/// # Errors
/// As for `room_for`.
pub fn filled<T: Clone>(count: usize, with: T) -> Result<Vec<T>> {
    let mut vector = with_room(count)?;
    vector.resize(count, with);
    Ok(vector)
}

/// All that an iterator gives, as a vector.
///
/// # Errors
/// As for `room_for`.
pub fn collected<T>(from: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut vector = with_room(from.size_hint().0)?;
    for one in from {
        if vector.len() == vector.capacity() {
            room_for(&mut vector, 1)?;
        }
        vector.push(one);
    }
    Ok(vector)
}
