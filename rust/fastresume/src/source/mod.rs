//! Bytes at ranges of a file, wherever it lies.

pub mod local;
