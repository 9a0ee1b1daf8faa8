//! Decoders of the encodings of values and levels within a page.

pub mod varint;
pub mod page_values;
pub mod bit_packing;
pub mod rle;
pub mod bitmap;
pub mod level_runs;
pub mod levels;
pub mod delta;
pub mod byte_array;
pub mod fallback;
pub mod number;
