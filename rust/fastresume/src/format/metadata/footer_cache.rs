//! A cache of the footers' metadata of the leaf columns that are read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::error::{Result, locked};
use crate::format::metadata::column_metadata::ColumnMetadata;
use crate::format::metadata::footer::{FooterBytes, HASH_BYTES};

/// The most memory of the cache: leaves of some hundred files, whatever their number.
pub const MAX_BYTES: usize = 16 << 20;

/// Leaves by the hash of the footer's bytes, which shows that they have not changed, and by their indices.
///
/// The first entries stay. A loop over all files, again and again, would find none of the latest ones.
#[derive(Debug, Default)]
pub struct FooterCache(Mutex<CachedFooters>);

type FooterKey = ([u8; HASH_BYTES], Vec<usize>);

#[derive(Debug, Default)]
struct CachedFooters {
    by_key: HashMap<FooterKey, Arc<ColumnMetadata>>,
    bytes: usize,
}

impl FooterCache {
    /// The leaves of a file by their ascending indices; the footer is parsed if they are not cached.
    ///
    /// # Errors
    /// As for `FooterBytes::parse` and `ColumnMetadata::of`.
    pub fn leaves(&self, footer: FooterBytes, numbers: Vec<usize>) -> Result<Arc<ColumnMetadata>> {
        let key = (footer.hash, numbers);
        if let Some(leaves) = self.get(&key) {
            return Ok(leaves);
        }
        let leaves = Arc::new(ColumnMetadata::of(&footer.parse()?, &key.1)?);
        self.keep(key, &leaves);
        Ok(leaves)
    }

    /// The leaves of what lies in no file, and has so many rows in its row groups; a file of the same columns has this footer.
    ///
    /// # Errors
    /// As for `FooterBytes::parse` and `ColumnMetadata::of_rows`.
    pub fn leaves_of_rows(
        &self,
        footer: &[u8],
        numbers: &[usize],
        group_rows: Vec<u64>,
    ) -> Result<Arc<ColumnMetadata>> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(footer);
        for rows in &group_rows {
            hasher.update(&rows.to_le_bytes());
        }
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..HASH_BYTES]);
        let key = (hash, numbers.to_vec());
        if let Some(leaves) = self.get(&key) {
            return Ok(leaves);
        }
        let footer = FooterBytes::of(footer.to_vec()).parse()?;
        let leaves = Arc::new(ColumnMetadata::of_rows(&footer, &key.1, group_rows)?);
        self.keep(key, &leaves);
        Ok(leaves)
    }

    /// The leaves of the file with this footer, if they are cached.
    #[must_use]
    pub fn known(&self, hash: [u8; HASH_BYTES], numbers: &[usize]) -> Option<Arc<ColumnMetadata>> {
        self.get(&(hash, numbers.to_vec()))
    }

    fn get(&self, key: &FooterKey) -> Option<Arc<ColumnMetadata>> {
        locked(&self.0).by_key.get(key).cloned()
    }

    /// Keeps leaves, if there is room.
    fn keep(&self, key: FooterKey, leaves: &Arc<ColumnMetadata>) {
        let bytes = leaves.bytes();
        let mut kept = locked(&self.0);
        if kept.bytes.saturating_add(bytes) <= MAX_BYTES
            && kept.by_key.insert(key, Arc::clone(leaves)).is_none()
        {
            kept.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves that take at least `bytes` bytes.
    fn leaves(bytes: usize) -> Arc<ColumnMetadata> {
        Arc::new(ColumnMetadata::of_no_columns(vec![1; bytes / size_of::<u64>()]))
    }

    #[test]
    fn leaves_are_kept_until_there_is_no_more_room() {
        let footers = FooterCache::default();
        let key = |hash: u8| ([hash; HASH_BYTES], vec![1, 2]);
        let (small, large) = (leaves(80), leaves(MAX_BYTES / 3));
        footers.keep(key(0), &small);
        for hash in 1..5 {
            footers.keep(key(hash), &large);
            // A second copy of the same takes no room.
            footers.keep(key(hash), &large);
        }
        let is_kept = |hash: u8| footers.get(&key(hash)).is_some();
        assert_eq!([0, 1, 2, 3, 4].map(is_kept), [true, true, true, false, false]);
        assert!(Arc::ptr_eq(&footers.get(&key(0)).unwrap(), &small));
        footers.keep(key(9), &small);
        assert!(is_kept(9), "a small one still has room");
        assert!(!is_kept(10));
        assert!(footers.get(&([0; HASH_BYTES], vec![1])).is_none(), "other leaves of the same file");
    }
}
