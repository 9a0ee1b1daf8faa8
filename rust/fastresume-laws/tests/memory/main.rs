//! What is counted at the allocator: the bytes of a pass, and how often its codecs ask for memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout as Piece, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

mod allocations;
mod bound;
mod mixed;
mod units;

/// Counts the bytes in use, their peak, and how often memory was asked for.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(more: usize, less: usize) {
    let live = LIVE.fetch_add(more, Ordering::Relaxed) + more;
    PEAK.fetch_max(live, Ordering::Relaxed);
    LIVE.fetch_sub(less, Ordering::Relaxed);
}

#[allow(unsafe_code, reason = "the trait is unsafe; every call goes to the system's allocator as it came")]
// SAFETY: nothing but counts is added to what the system's allocator does.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, piece: Piece) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        count(piece.size(), 0);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(piece) }
    }

    unsafe fn alloc_zeroed(&self, piece: Piece) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        count(piece.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(piece) }
    }

    unsafe fn dealloc(&self, address: *mut u8, piece: Piece) {
        count(0, piece.size());
        // SAFETY: as above.
        unsafe { System.dealloc(address, piece) }
    }

    unsafe fn realloc(&self, address: *mut u8, piece: Piece, size: usize) -> *mut u8 {
        ASKED.fetch_add(1, Ordering::Relaxed);
        // The system moves large blocks by their pages: old and new never exist at once.
        count(size.saturating_sub(piece.size()), piece.size().saturating_sub(size));
        // SAFETY: as above.
        unsafe { System.realloc(address, piece, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

static GO: AtomicBool = AtomicBool::new(false);

/// The counts are of the whole process, so that tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
