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

mod chunks;
mod codecs;
mod hybrids;
mod levels;
mod lists;
mod metadata;
mod oracle;
mod seeds;
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
pub use self::texts::{text_deltas, text_indices, texts};
pub use self::values::{booleans, deltas, indices, plain, split};
pub use self::vectors::vectors;

use std::path::Path;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};

use crate::error::{Error, Result};
use crate::source::Source;

/// A target: it takes any bytes.
pub type Target = fn(&[u8]);

/// All targets, by the names that they have as functions here and as folders of the corpus.
pub const TARGETS: [(&str, Target); 18] = [
    ("booleans", booleans),
    ("codecs", codecs),
    ("deltas", deltas),
    ("flat_chunks", flat_chunks),
    ("footers", footers),
    ("headers", headers),
    ("hybrids", hybrids),
    ("indices", indices),
    ("levels", levels),
    ("list_chunks", list_chunks),
    ("page_indexes", page_indexes),
    ("plain", plain),
    ("snappy", snappy),
    ("split", split),
    ("text_deltas", text_deltas),
    ("text_indices", text_indices),
    ("texts", texts),
    ("vectors", vectors),
];

/// The choices that an input begins with; where it ends, they are 0.
#[derive(Debug, Clone)]
struct Choices<'b> {
    rest: &'b [u8],
}

impl<'b> Choices<'b> {
    fn new(rest: &'b [u8]) -> Self {
        Self { rest }
    }

    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *byte
    }

    /// A number of 16 bits, so that a target can't take much.
    fn number(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// So many of the next bytes, or as many as there are.
    fn bytes(&mut self, count: usize) -> &'b [u8] {
        let (bytes, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    fn steps(&mut self) -> Steps {
        Steps(u64::from_le_bytes([self.byte(), self.byte(), 0, 0, 0, 0, 0, 0]))
    }
}

/// In what steps values are read: numbers that follow from a choice.
#[derive(Debug, Clone)]
struct Steps(u64);

impl Steps {
    /// A number below `end` (not 0).
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }

    /// How many of so many (not 0) are next: few, or any number of them.
    fn some(&mut self, left: usize) -> usize {
        let most = [3, 20, 700, left][self.below(4)].min(left);
        1 + self.below(most)
    }

    /// Ascending places below `end`.
    fn places(&mut self, end: usize) -> Vec<u32> {
        let most = [1, 3, 40, 1000][self.below(4)];
        let stride = 1 + self.below(most);
        let mut places = Vec::new();
        let mut place = self.below(stride);
        while place < end {
            places.push(u32::try_from(place).unwrap_or(u32::MAX));
            place += 1 + self.below(stride);
        }
        places
    }
}

/// The codec that a choice stands for.
fn compression_of(choice: u8) -> Compression {
    match choice % 7 {
        0 => Compression::UNCOMPRESSED,
        1 => Compression::SNAPPY,
        2 => Compression::ZSTD(ZstdLevel::default()),
        3 => Compression::GZIP(GzipLevel::default()),
        4 => Compression::BROTLI(BrotliLevel::default()),
        5 => Compression::LZ4_RAW,
        _ => Compression::LZ4,
    }
}

/// Bytes as a file has them.
struct InMemory(Vec<u8>);

impl Source for InMemory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len())?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.0.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or_else(|| Error::data("the bytes end"))?);
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("bytes")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_runs_through_its_corpus_and_its_seeds() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let seeds = seeds().unwrap();
        for (name, target) in TARGETS {
            let files = std::fs::read_dir(corpus.join(name)).unwrap();
            let inputs: Vec<_> = files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
            assert!(!inputs.is_empty(), "no corpus of {name} is kept");
            for input in &inputs {
                target(input);
            }
            let seeds: Vec<_> = seeds.iter().filter(|(of, _)| *of == name).collect();
            assert!(!seeds.is_empty(), "no input of {name} is made of a file");
            for (_, input) in seeds {
                target(input);
            }
        }
    }

    #[test]
    fn every_target_is_one_of_the_fuzzed_crate() {
        let manifest = include_str!("../../../fuzz/Cargo.toml");
        let names = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
        let fuzzed: BTreeSet<&str> = names.filter_map(|name| name.strip_suffix(".rs\"")).collect();
        assert_eq!(fuzzed, TARGETS.iter().map(|(name, _)| *name).collect());
    }
}
