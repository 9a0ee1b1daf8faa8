//! Prefetches memory into the caches before it is used.

use bytemuck::Pod;

/// Bytes of a cache line.
pub(super) const LINE_BYTES: usize = 64;

/// How far behind the written places memory is prefetched; nearer, it would arrive after it is written.
#[cfg(target_arch = "x86_64")]
pub(super) const BYTES_AHEAD: usize = 4 << 10;

/// Prefetches memory that will soon be written.
#[inline(always)]
pub fn fetch_places<P: Pod>(places: &[P]) {
    fetch_bytes(bytemuck::cast_slice(places), 0, size_of_val(places));
}

/// Prefetches `length` bytes from byte `start` on, which will soon be used; the range may be out of bounds.
#[inline(always)]
pub fn fetch_bytes(bytes: &[u8], start: usize, length: usize) {
    fetch_lines::<false>(bytes, start, length);
}

/// Like `fetch_bytes`, into the nearest cache.
#[inline(always)]
pub(super) fn fetch_near(bytes: &[u8], start: usize, length: usize) {
    fetch_lines::<true>(bytes, start, length);
}

/// Prefetches each cache line of the `length` bytes from byte `start` on.
#[inline(always)]
pub(super) fn fetch_lines<const IS_NEAR: bool>(bytes: &[u8], start: usize, length: usize) {
    let first = bytes.as_ptr().wrapping_add(start);
    for at in (0..length).step_by(LINE_BYTES) {
        fetch_line::<IS_NEAR>(first.wrapping_add(at));
    }
    if length > 0 {
        fetch_line::<IS_NEAR>(first.wrapping_add(length - 1));
    }
}

/// Prefetches the line at a distance behind the places that are written now; it may be out of bounds.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn fetch_ahead<P>(places: &[P]) {
    fetch_line::<false>(places.as_ptr().cast::<u8>().wrapping_add(BYTES_AHEAD));
}

/// Prefetches the line of an address, which may be any: into the nearest cache if `IS_NEAR`, else into the
/// second one, which can wait for more lines at a time.
#[inline(always)]
pub(super) fn fetch_line<const IS_NEAR: bool>(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        #[allow(unsafe_code, reason = "the compiler has no safe way to say it")]
        // SAFETY: a prefetch reads and writes nothing, and may name any address.
        unsafe {
            if IS_NEAR {
                _mm_prefetch::<_MM_HINT_T0>(place.cast());
            } else {
                _mm_prefetch::<_MM_HINT_T1>(place.cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
