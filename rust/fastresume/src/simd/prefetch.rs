//! Memory that is asked for before it is used.

use bytemuck::Pod;

/// Bytes that a cache holds together.
pub(super) const LINE_BYTES: usize = 64;

/// So far behind what is written, memory is asked for: it comes later than it would be written.
#[cfg(target_arch = "x86_64")]
pub(super) const BYTES_AHEAD: usize = 4 << 10;

/// Asks for memory that will soon be written.
#[inline(always)]
pub fn fetch_places<P: Pod>(places: &[P]) {
    fetch_bytes(bytemuck::cast_slice(places), 0, size_of_val(places));
}

/// Asks for `length` bytes from byte `start` on, which will soon be used, whatever is there.
#[inline(always)]
pub fn fetch_bytes(bytes: &[u8], start: usize, length: usize) {
    fetch_lines::<false>(bytes, start, length);
}

/// As `fetch_bytes`, for the nearest cache.
#[inline(always)]
pub(super) fn fetch_near(bytes: &[u8], start: usize, length: usize) {
    fetch_lines::<true>(bytes, start, length);
}

/// Asks for each line that `length` bytes from byte `start` on lie in.
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

/// Asks for the line that lies so far behind places that are written now, whatever is there.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn fetch_ahead<P>(places: &[P]) {
    fetch_line::<false>(places.as_ptr().cast::<u8>().wrapping_add(BYTES_AHEAD));
}

/// Asks for the line of a place that will be used, which may be any: for the nearest cache if `IS_NEAR`, else for the
/// second one, which waits for more lines at a time.
#[inline(always)]
pub(super) fn fetch_line<const IS_NEAR: bool>(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        #[allow(unsafe_code, reason = "the compiler has no safe way to say it")]
        // SAFETY: it reads and writes nothing, and may name any address.
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
