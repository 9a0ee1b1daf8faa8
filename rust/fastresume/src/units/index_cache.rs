//! What the index of units knows of each file, kept beside the manifest's cache.
//!
//! An entry is of one file, its selected rows, and what is made of them. It is used only if all of these are the same. So
//! files that come read none of those that were there.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::dataset::kept_file::{FileForm, Held, KeptFile};
use crate::error::{Error, Result};
use crate::source::file_system::FileSystem;
use crate::units::stretches::OfGroups;

/// The number changes with what is kept of a file.
static FORM: FileForm = FileForm {
    what: "the index of units",
    magic: b"fastresume index of units 1\n",
    name: b"fastresume index of units ",
};

/// So many entries are kept of one file: those that were used last.
const MOST_OF_FILE: usize = 8;

/// Half of a BLAKE3.
type Hash = [u8; 16];

/// What an entry is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IndexKey {
    /// The file's path.
    file: Hash,
    /// Its size, version and footer.
    version: Hash,
    /// Its columns that are read, its selected rows, and what is made of these.
    how: Hash,
}

impl IndexKey {
    /// That of a file.
    #[must_use]
    pub fn new(path: &Path, version: &[&[u8]], how: &blake3::Hasher) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in version {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let file = half(&blake3::hash(path.as_os_str().as_bytes()));
        Self { file, version: half(&hasher.finalize()), how: half(&how.finalize()) }
    }
}

fn half(hash: &blake3::Hash) -> Hash {
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

/// What is known of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct IndexEntry {
    key: IndexKey,
    groups: OfGroups,
}

/// The entries that were kept, and where.
pub struct IndexCache {
    path: PathBuf,
    held: Held,
    /// In the order in which they were used, the last one last.
    entries: Vec<IndexEntry>,
}

impl IndexCache {
    /// What is kept beside a manifest's cache; nothing if that is damaged.
    ///
    /// # Errors
    /// As for [`KeptFile::read`].
    pub fn beside(manifest_cache: &Path, files: &FileSystem, stop: &AtomicBool) -> Result<Self> {
        let mut path = manifest_cache.as_os_str().to_owned();
        path.push(".units");
        let path = PathBuf::from(path);
        let kept = KeptFile { path: &path, form: &FORM };
        let held = kept.read(files, stop)?;
        let entries = parsed(&kept, &held.bytes);
        Ok(Self { path, held, entries })
    }

    /// What is known of files, by their keys.
    #[must_use]
    pub fn known(&self) -> BTreeMap<IndexKey, &OfGroups> {
        self.entries.iter().map(|entry| (entry.key, &entry.groups)).collect()
    }

    /// Keeps what is `new`, and what was `used`. Of files that are gone, or were changed, nothing is kept. `present` are the
    /// keys of all files that there are. Nothing is written if that would change nothing.
    ///
    /// # Errors
    /// `Source` if it can't be written; `Interrupted` once `stop` is set.
    pub fn keep(
        self,
        new: Vec<(IndexKey, OfGroups)>,
        (used, present): (&BTreeSet<IndexKey>, &BTreeSet<IndexKey>),
        (files, stop): (&FileSystem, &AtomicBool),
    ) -> Result<()> {
        let there: BTreeSet<(Hash, Hash)> = present.iter().map(|key| (key.file, key.version)).collect();
        let is_there = |entry: &IndexEntry| there.contains(&(entry.key.file, entry.key.version));
        if new.is_empty() && self.entries.iter().all(is_there) {
            return Ok(());
        }
        let kept = KeptFile { path: &self.path, form: &FORM };
        let made: BTreeSet<IndexKey> = new.iter().map(|(key, _)| *key).collect();
        let content = |bytes: &[u8]| {
            // Another process may have added some since.
            let mut before = parsed(&kept, bytes);
            before.retain(|entry| is_there(entry) && !made.contains(&entry.key));
            let (last, mut entries): (Vec<_>, Vec<_>) =
                before.into_iter().partition(|entry| used.contains(&entry.key));
            entries.extend(last);
            entries.extend(new.into_iter().map(|(key, groups)| IndexEntry { key, groups }));
            postcard::to_allocvec(&bounded(entries)).map_err(|cause: postcard::Error| kept.failed(cause))
        };
        kept.write(content, (files, self.held, stop)).map_err(|cause| match cause {
            Error::Interrupted | Error::Source(_) | Error::Missing(_) => cause,
            other => kept.failed(other),
        })
    }
}

/// The entries that were used last of each file.
fn bounded(mut entries: Vec<IndexEntry>) -> Vec<IndexEntry> {
    let mut counts: BTreeMap<Hash, usize> = BTreeMap::new();
    let is_kept: Vec<bool> = entries
        .iter()
        .rev()
        .map(|entry| {
            let count = counts.entry(entry.key.file).or_default();
            *count += 1;
            *count <= MOST_OF_FILE
        })
        .collect();
    let mut is_kept = is_kept.into_iter().rev();
    entries.retain(|_| is_kept.next().unwrap_or(false));
    entries
}

fn parsed(kept: &KeptFile<'_>, bytes: &[u8]) -> Vec<IndexEntry> {
    kept.content(bytes).and_then(|content| postcard::from_bytes(content).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::stretches::Stretch;

    fn key(file: u8, version: u8, how: u8) -> IndexKey {
        IndexKey { file: [file; 16], version: [version; 16], how: [how; 16] }
    }

    #[test]
    fn entries_of_files_that_are_gone_go_and_each_file_has_a_bound() {
        let folder = std::env::temp_dir().join(format!("fastresume-units-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (files, go) = (FileSystem::default(), AtomicBool::new(false));
        let open = || IndexCache::beside(&folder.join("m"), &files, &go).unwrap();
        let groups = |rows| vec![vec![Stretch { rows, cost: 5 }]];
        let keep = |new: &[IndexKey], used: &[IndexKey], present: &[IndexKey]| {
            let new =
                new.iter().map(|key| (*key, groups(key.how.into_iter().map(u64::from).sum()))).collect();
            let (used, present) = (used.iter().copied().collect(), present.iter().copied().collect());
            open().keep(new, (&used, &present), (&files, &go)).unwrap();
            open().known().into_keys().collect::<Vec<_>>()
        };
        let (one, two) = (key(1, 1, 0), key(2, 1, 0));
        assert_eq!(keep(&[one, two], &[], &[one, two]), [one, two]);
        assert_eq!(open().known()[&two], &groups(0));
        // The second file was changed, the first one is gone.
        assert_eq!(keep(&[], &[], &[key(2, 2, 0)]), []);
        for how in 0..20 {
            keep(&[key(1, 1, how)], &[], &[one, two]);
        }
        let last: Vec<IndexKey> = (12..20).map(|how| key(1, 1, how)).collect();
        assert_eq!(keep(&[], &[], &[one]), last);
        // What is used outlives what was made later.
        keep(&[key(1, 1, 30)], &[last[0]], &[one]);
        let found = keep(&[key(1, 1, 31)], &[last[0]], &[one]);
        assert!(found.contains(&last[0]) && !found.contains(&last[1]) && !found.contains(&last[2]));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
