//! The list of all fuzz targets, by name.

use super::chunks::flat_chunks;
use super::codecs::{codecs, snappy};
use super::hybrids::hybrids;
use super::levels::levels;
use super::lists::list_chunks;
use super::metadata::{footers, headers, page_indexes};
use super::seeds::seeds;
use super::texts::{text_deltas, text_indices, texts};
use super::values::{booleans, deltas, indices, plain, split};
use super::vectors::vectors;

/// A target: a function of any bytes.
pub type FuzzTarget = fn(&[u8]);

/// All targets, by name. The names are those of the functions here and of the corpus's folders.
pub const TARGETS: [(&str, FuzzTarget); 18] = [
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

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
        let manifest = include_str!("../../../../fuzz/Cargo.toml");
        let names = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
        let fuzzed: BTreeSet<&str> = names.filter_map(|name| name.strip_suffix(".rs\"")).collect();
        assert_eq!(fuzzed, TARGETS.iter().map(|(name, _)| *name).collect());
    }
}
