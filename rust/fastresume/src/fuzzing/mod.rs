//! What a fuzzer gives bytes to: one decoder at a time, beside what else can tell what they mean.
//!
//! Each target takes any bytes. It panics if a decoder does, if two ways to read the same lead to other values, or if an
//! oracle disagrees: a slow and obvious reading here, the library behind a codec, the column reader of the `parquet` crate.
//! What that one refuses or can't take says nothing, and what is refused here is compared only with a reading of our own.
//!
//! The first bytes of an input choose (a type, how many values, which steps); those behind them are what is decoded. No
//! target takes memory without bound: what a choice states has at most 16 bits, and damaged pages may state as much as the
//! decoders believe.
//!
//! The crate `fuzz` runs these, and keeps a corpus of each; a test here runs through all of it.
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
