//! Fuzz targets: each gives any bytes to one decoder, and compares what it reads with another reading.
//!
//! A target panics in three cases: if a decoder does, if two ways to read the same bytes differ, or if an
//! oracle disagrees. Oracles are slow and obvious readers here, the library behind a codec, and the column
//! reader of the `parquet` crate. What that reader refuses or can't take proves nothing. What is refused here
//! is compared only with a reading of our own.
//!
//! The first bytes of an input are choices (a type, how many values, which steps); the bytes behind them are
//! decoded. No target takes memory without bound. A number in a choice has at most 16 bits, and damaged pages
//! are limited by what the decoders accept.
//!
//! The crate `fuzz` runs these, and keeps a corpus for each. A test here runs through all of it.
#![allow(clippy::missing_panics_doc, reason = "to panic is how each of them says what it found")]
#![allow(clippy::cast_possible_truncation, reason = "values that are made up may be any")]

mod choices;
mod chunks;
mod codecs;
mod hybrids;
mod levels;
mod lists;
mod metadata;
mod oracle;
mod seeds;
mod targets;
mod texts;
mod values;
mod vectors;

pub use self::chunks::flat_chunks;
pub use self::codecs::{codecs, snappy};
pub use self::hybrids::hybrids;
pub use self::levels::levels;
pub use self::lists::list_chunks;
pub use self::metadata::{footers, headers, page_indexes};
pub use self::seeds::seeds;
pub use self::targets::{FuzzTarget, TARGETS};
pub use self::texts::{text_deltas, text_indices, texts};
pub use self::values::{booleans, deltas, indices, plain, split};
pub use self::vectors::vectors;
