//! Chooses between a loop's two compilations: for any processor, or for AVX2.

/// Turns a loop that is always inlined into a function that chooses between its two compilations.
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

pub(super) use chosen;

/// Whether it is one of Intel's newer processors, on which other instructions are fast. Its older ones lack
/// the first two of these features; only AMD's have the third.
#[inline]
pub(super) fn is_newer_intel() -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_known = is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("avx512vbmi2")
        && !is_x86_feature_detected!("sse4a");
    #[cfg(not(target_arch = "x86_64"))]
    let is_known = false;
    is_known
}
