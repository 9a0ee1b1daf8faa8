//! Bytes at ranges of a file, wherever it lies.

pub mod byte_source;
pub mod local;
