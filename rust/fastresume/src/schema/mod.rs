//! The types of columns, in files and in tensors: casts, buckets, dictionary codes.

pub mod nulls;
pub mod buckets;
pub mod types;
pub mod arrow_schema;
pub mod cast;
pub mod vocabulary;
pub mod shaping;
pub mod columns;
