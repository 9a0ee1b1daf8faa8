//! Which of a loop's two compilations runs, and memory that is asked for ahead.

use bytemuck::Pod;

/// Bytes that a cache holds together.
const LINE_BYTES: usize = 64;

/// So far behind what is written, memory is asked for: it comes later than it would be written.
#[cfg(target_arch = "x86_64")]
const BYTES_AHEAD: usize = 4 << 10;

/// Makes of a loop that is always inlined a function that chooses between its two compilations.
macro_rules! chosen {
    ($(#[$note:meta])* pub fn $name:ident $(<$kind:ident: $bound:path>)? ($($argument:ident: $type:ty),*) -> $result:ty
        = $inner:ident, for AVX2 $wide:ident) => {
        $(#[$note])*
        #[inline]
        pub fn $name $(<$kind: $bound>)? ($($argument: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
                fn wide $(<$kind: $bound>)? ($($argument: $type),*) -> $result {
                    $wide($($argument),*)
                }
                if is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("popcnt")
                {
                    #[allow(unsafe_code, reason = "calls a safe function that needs features of the processor")]
                    // SAFETY: the processor has the features that the function was compiled for.
                    return unsafe { wide($($argument),*) };
                }
            }
            $inner($($argument),*)
        }
    };
}

/// Whether it is one of Intel's newer processors, which differ from others in what is quick. Its older ones lack the first
/// two of these features; AMD's alone have the third.
#[inline]
pub fn is_newer_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_known = is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("avx512vbmi2")
        && !is_x86_feature_detected!("sse4a");
    #[cfg(not(target_arch = "x86_64"))]
    let is_known = false;
    is_known
}

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
fn fetch_near(bytes: &[u8], start: usize, length: usize) {
    fetch_lines::<true>(bytes, start, length);
}

/// Asks for each line that `length` bytes from byte `start` on lie in.
#[inline(always)]
fn fetch_lines<const IS_NEAR: bool>(bytes: &[u8], start: usize, length: usize) {
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
fn fetch_ahead<P>(places: &[P]) {
    fetch_line::<false>(places.as_ptr().cast::<u8>().wrapping_add(BYTES_AHEAD));
}

/// Asks for the line of a place that will be used, which may be any: for the nearest cache if `IS_NEAR`, else for the
/// second one, which waits for more lines at a time.
#[inline(always)]
fn fetch_line<const IS_NEAR: bool>(place: *const u8) {
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
