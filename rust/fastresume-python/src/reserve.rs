//! Memory that is held back for what would end the process where it can't be had.
//!
//! What becomes of it without a reserve is in `tests/robustness/test_no_memory.py`: Rust ends a process that can't have a few bytes.
//!
//! What a file, a batch or a window sizes is asked for, and it is an error where there is none. Between such requests other
//! things are made, here and in libraries, which nobody can be refused: the reserve has them until the work comes to its end.
#![allow(
    unsafe_code,
    reason = "an allocator is unsafe, and so are pages that it must not have; every call goes to the system's allocator as it came"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use fastresume::pool::{may_be_refused, note_reserve};

/// 16 MiB, which nobody writes to: they take addresses, and no memory.
const RESERVE_BYTES: usize = 16 << 20;

/// Pages of the system. The allocator would learn of them that much is freed, and keep more from then on.
static HELD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The system's allocator, with a reserve.
struct WithReserve;

#[global_allocator]
static ALLOCATOR: WithReserve = WithReserve;

/// Holds the reserve back, if it is not held. Where it can't be had, threads begin nothing: that is an error.
pub fn hold() {
    if HELD.load(Ordering::Acquire).is_null() {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new pages, wherever the system has room for them.
        let new = unsafe { libc::mmap(null_mut(), RESERVE_BYTES, access, kind, -1, 0) };
        if new == libc::MAP_FAILED {
            note_reserve(false);
            return;
        }
        if HELD.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: they were made here, and nobody else knows of them.
            unsafe { libc::munmap(new, RESERVE_BYTES) };
        }
    }
    note_reserve(true);
}

/// Gives the reserve back to the system.
#[cold]
fn release() {
    let held = HELD.swap(null_mut(), Ordering::AcqRel);
    if !held.is_null() {
        note_reserve(false);
        // SAFETY: they were made by `hold`, and who takes them out of their place is the only one who has them.
        unsafe { libc::munmap(held, RESERVE_BYTES) };
    }
}

/// What the system gives; to who can't be refused, once more when the reserve is back.
fn given(ask: impl Fn() -> *mut u8) -> *mut u8 {
    let found = ask();
    if found.is_null() && !may_be_refused() {
        release();
        return ask();
    }
    found
}

// SAFETY: every call goes to the system's allocator as it came, a second time where it gave nothing.
unsafe impl GlobalAlloc for WithReserve {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        given(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; what was not given leaves the old memory as it is.
        given(|| unsafe { System.realloc(address, layout, size) })
    }
}
