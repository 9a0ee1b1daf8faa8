//! Parquet's bytes to values: metadata, compression, encodings and pages. It knows no dataset and no batch.

pub mod metadata;
pub mod compression;
pub mod encoding;
pub mod page;
