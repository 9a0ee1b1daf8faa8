//! Bytes at ranges of a file, wherever it lies.

pub mod address;
pub mod mapped;
pub mod byte_source;
pub mod file_system;
pub mod local;
pub mod status;
pub mod store;
