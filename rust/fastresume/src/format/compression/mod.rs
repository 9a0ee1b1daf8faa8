//! Decompression of pages, by the codec that their column chunk names.

pub mod gzip;
pub mod brotli;
pub mod codec;
