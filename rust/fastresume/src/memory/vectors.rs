//! Vectors whose length a file, a batch or a window tells: where the system has no memory for one, it is an error.
//!
//! Who asks here hears of it. What is asked for elsewhere would end the process: it is small, or comes from a reserve.
#![allow(clippy::disallowed_methods, reason = "here alone memory is asked for that may be refused")]

use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

thread_local! {
    /// Whether this thread asks for memory that it may be refused.
    static MAY_BE_REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Whether who asks for memory in this thread makes an error of it where there is none, so that no reserve is touched.
#[must_use]
pub fn may_be_refused() -> bool {
    MAY_BE_REFUSED.get()
}

/// Asks for memory that may be refused.
fn asked<T>(ask: impl FnOnce() -> T) -> T {
    MAY_BE_REFUSED.set(true);
    let found = ask();
    MAY_BE_REFUSED.set(false);
    found
}

/// Whether there was nothing left for what can't be refused, so that it came from what was held back for it.
static IS_USED_UP: AtomicBool = AtomicBool::new(false);

/// Notes whether memory is held back for what can't be refused, or it was given back, since there was no other.
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
#[must_use]
pub fn no_memory(bytes: usize) -> Error {
    Error::Argument(format!("no memory for a tensor of {bytes} bytes: batches are too large"))
}

/// Makes room for so many more elements, and for some behind them, so that what grows is not moved each time.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
#[inline]
pub fn room_for<T>(vector: &mut Vec<T>, more: usize) -> Result<()> {
    if vector.capacity() - vector.len() >= more {
        return Ok(());
    }
    let count = vector.len().saturating_add(more);
    asked(|| vector.try_reserve(more)).map_err(|_| no_memory(count.saturating_mul(size_of::<T>())))
}

/// Makes room for so many more elements, and for no others.
///
/// # Errors
/// As for `room_for`.
pub fn exact_room_for<T>(vector: &mut Vec<T>, more: usize) -> Result<()> {
    let count = vector.len().saturating_add(more);
    asked(|| vector.try_reserve_exact(more)).map_err(|_| no_memory(count.saturating_mul(size_of::<T>())))
}

/// Makes room for one more element of a set.
///
/// # Errors
/// As for `room_for`.
pub fn room_in<T: Eq + Hash, S: BuildHasher>(set: &mut HashSet<T, S>) -> Result<()> {
    let bytes = set.len().saturating_add(1).saturating_mul(size_of::<T>());
    asked(|| set.try_reserve(1)).map_err(|_| no_memory(bytes))
}

/// A vector with room for so many elements.
///
/// # Errors
/// As for `room_for`.
pub fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    exact_room_for(&mut vector, count)?;
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

/// Gives a vector so many elements: those that are new are this one.
///
/// # Errors
/// As for `room_for`.
pub fn resize<T: Clone>(vector: &mut Vec<T>, count: usize, with: T) -> Result<()> {
    room_for(vector, count.saturating_sub(vector.len()))?;
    vector.resize(count, with);
    Ok(())
}

/// Appends one element.
///
/// # Errors
/// As for `room_for`.
#[inline]
pub fn push<T>(vector: &mut Vec<T>, one: T) -> Result<()> {
    room_for(vector, 1)?;
    vector.push(one);
    Ok(())
}

/// Appends all that an iterator gives.
///
/// # Errors
/// As for `room_for`.
pub fn append<T>(vector: &mut Vec<T>, from: impl IntoIterator<Item = T>) -> Result<()> {
    let mut from = from.into_iter();
    let (least, most) = from.size_hint();
    room_for(vector, least)?;
    if most == Some(least) {
        vector.extend(from);
        return Ok(());
    }
    from.try_for_each(|one| push(vector, one))
}

/// All that an iterator gives, as a vector.
///
/// # Errors
/// As for `room_for`.
pub fn collected<T>(from: impl Iterator<Item = T>) -> Result<Vec<T>> {
    let mut vector = with_room(from.size_hint().0)?;
    append(&mut vector, from)?;
    Ok(vector)
}

/// The same of an iterator that may give an error, which is the first of its errors then.
///
/// # Errors
/// That, or as for `room_for`.
pub fn collected_results<T>(from: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut vector = Vec::new();
    for one in from {
        push(&mut vector, one?)?;
    }
    Ok(vector)
}
