//! The hash of files by which a state knows them: relative paths, sizes and footers.
//!
//! It is a part of the cursor's format: a change to it raises the format's number.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::format::metadata::footer::HASH_BYTES;

/// What a fingerprint knows of a file.
pub struct Printed<'a> {
    pub path: &'a Path,
    pub size: u64,
    pub footer_hash: &'a [u8; HASH_BYTES],
}

/// A fingerprint to be.
pub struct Printing {
    root: PathBuf,
    hasher: blake3::Hasher,
}

impl Printing {
    /// That of no files yet, whose paths count from a directory.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned(), hasher: blake3::Hasher::new() }
    }

    /// Adds the next file.
    pub fn add(&mut self, Printed { path, size, footer_hash }: &Printed<'_>) {
        let relative = path.strip_prefix(&self.root).unwrap_or(path).as_os_str().as_bytes();
        self.hasher.update(&(relative.len() as u64).to_le_bytes());
        self.hasher.update(relative);
        self.hasher.update(&size.to_le_bytes());
        self.hasher.update(*footer_hash);
    }

    /// The fingerprint: 32 hexadecimal digits.
    pub fn text(&self) -> String {
        self.hasher.finalize().to_hex()[..2 * HASH_BYTES].to_owned()
    }
}

/// The fingerprint of files in their order: 32 hexadecimal digits. Paths count from the longest directory that all of
/// them lie in.
pub fn fingerprint<'a>(files: impl Iterator<Item = Printed<'a>> + Clone) -> String {
    let mut printing = Printing::below(&common_root(files.clone().map(|file| file.path)));
    files.for_each(|file| printing.add(&file));
    printing.text()
}

/// The longest directory that all paths lie in.
fn common_root<'a>(paths: impl Iterator<Item = &'a Path>) -> PathBuf {
    let mut parents = paths.filter_map(Path::parent);
    let mut root = parents.next().map(Path::to_owned).unwrap_or_default();
    for parent in parents {
        while !parent.starts_with(&root) && root.pop() {}
    }
    root
}
