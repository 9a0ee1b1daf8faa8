//! fastresume: Parquet straight into training batches, with exact and elastic resume.
//!
//! This crate is the pure core: no Python, no global random state, no hash order, and no clock but for those who
//! watch (`activity`). Data flows through the modules in this order, and each knows only those before it:
//!
//! ```text
//! source -> manifest -> order -> lanes -> decode -> batch -> pipeline       cursor <- delivered batch
//! bytes     what is     which    whose,   columns   tensors,  threads          '-> lanes: resume
//! at range  there       row      when               memory
//! ```

pub mod error;
pub mod threads;
pub mod intervals;
mod thrift;
pub mod source;
mod floats;
pub mod hash;
mod shape;
mod footer;
mod leaves;
mod footers;
pub mod types;
mod arrowschema;
mod delivery;
pub mod vocabulary;
pub mod shaping;
pub mod schema;
mod tables;
pub mod listing;
mod chunk;
mod header;
pub mod extent;
mod summary;
pub mod cache;
pub mod manifest;
pub mod partition;
mod vector;
pub mod permutation;
pub mod selection;
pub mod split;
mod blocks;
pub mod order;
pub mod tail;
pub mod lanes;
pub mod cursor;
pub mod pass;
pub mod merge;
mod block;
mod store;
pub mod memory;
pub mod pairs;
pub mod offsets;
pub mod column;
mod packed;
mod hybrid;
mod gzip;
mod unbrotli;
mod codec;
mod pageplaces;
mod pagedictionaries;
mod pagewalk;
mod page;
mod opened;
mod bits;
mod levelruns;
mod levels;
mod deltas;
mod texts;
mod foreign;
mod values;
mod numbers;
mod sieve;
mod flatpages;
mod flat;
mod grid;
mod listpages;
mod lists;
mod strings;
mod textlists;
mod hashed;
mod conversion;
mod fixed;
mod equal;
mod presence;
mod listpresence;
mod decode;
pub mod rules;
pub mod policy;
pub mod padding;
pub mod agreement;
pub mod shapes;
mod dictionaries;
mod field;
pub mod layout;
pub mod footprint;
pub mod inquiry;
pub mod lacking;
pub mod statistics;
mod pageindex;
mod bloom;
pub mod details;
mod transpose;
mod part;
mod window;
pub mod written;
mod sorted;
mod jaggedpieces;
mod jagged;
pub mod batch;
mod jaggedrun;
mod segment;
mod shares;
mod padded;
mod turns;
pub mod plan;
mod schedule;
mod strips;
mod fill;
mod filling;
#[cfg(test)]
mod made;
mod agenda;
pub mod rows;
pub mod activity;
pub mod pipeline;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
