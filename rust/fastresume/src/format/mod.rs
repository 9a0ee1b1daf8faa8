//! Parquet bytes to values: metadata, compression, encodings and pages; no dataset and no batch is known here.

pub mod metadata;
pub mod compression;
pub mod encoding;
pub mod page;
