//! Dictionaries of a row group that is decoded in parts, until another one is begun.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use parquet::basic::Compression;

use crate::error::locked;
use crate::memory::buffer::Memory;

/// So many bytes of dictionaries are kept at most: those of the columns that come first.
pub const DICTIONARY_BYTES: u64 = 32 << 20;

/// How many bytes of dictionaries are kept where the rows of the largest row group take so many: no more than these, though
/// they may take less than their dictionaries do.
pub fn most_kept(group_bytes: u64) -> u64 {
    group_bytes.min(DICTIONARY_BYTES)
}

/// Decompressed dictionaries of one row group, for all threads that decode parts of it.
#[derive(Debug)]
pub struct PageDictionaries {
    most_bytes: u64,
    kept: Mutex<CachedDictionaries>,
}

/// Which page of a row group it is, and what its bytes were made of. Of damaged files, columns may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageKey {
    /// Where the column chunk begins.
    pub chunk: u64,
    /// Its offset.
    pub offset: u64,
    pub compression: Compression,
}

#[derive(Debug, Default)]
struct CachedDictionaries {
    /// The row group, counted over all files.
    group: usize,
    bytes: u64,
    by_offset: BTreeMap<u64, (PageKey, Arc<Memory>)>,
}

impl PageDictionaries {
    /// Keeps no more bytes than these; memory that was used before may take an eighth more.
    pub fn new(most_bytes: u64) -> Self {
        Self { most_bytes, kept: Mutex::default() }
    }

    /// Begins with a row group, or goes on with it; dictionaries of another one are forgotten.
    pub fn begin(&self, group: usize) {
        let mut kept = locked(&self.kept);
        if kept.group != group {
            *kept = CachedDictionaries { group, ..CachedDictionaries::default() };
        }
    }

    /// A dictionary of the row group that was begun, if it was kept.
    pub fn get(&self, group: usize, key: &PageKey) -> Option<Arc<Memory>> {
        let kept = locked(&self.kept);
        let (known, dictionary) = kept.by_offset.get(&key.offset).filter(|_| kept.group == group)?;
        (known == key).then(|| Arc::clone(dictionary))
    }

    /// Keeps a dictionary, if nobody has begun with another row group and there is room for it.
    pub fn keep(&self, group: usize, key: PageKey, dictionary: &Arc<Memory>) {
        let mut kept = locked(&self.kept);
        let bytes = kept.bytes + dictionary.len() as u64;
        if kept.group == group && bytes <= self.most_bytes && !kept.by_offset.contains_key(&key.offset) {
            kept.bytes = bytes;
            kept.by_offset.insert(key.offset, (key, Arc::clone(dictionary)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(bytes: usize) -> Arc<Memory> {
        Arc::new(Memory::from(vec![0_u64; bytes / 8]))
    }

    #[test]
    fn dictionaries_are_kept_until_another_row_group_is_begun_and_as_long_as_there_is_room() {
        let dictionaries = PageDictionaries::new(1000);
        let key = |offset| PageKey { chunk: 4, offset, compression: Compression::SNAPPY };
        let length = |group, key: PageKey| dictionaries.get(group, &key).map(|found| found.len());
        dictionaries.begin(3);
        dictionaries.keep(3, key(40), &dictionary(80));
        let other = PageKey { compression: Compression::UNCOMPRESSED, ..key(40) };
        dictionaries.keep(3, other, &dictionary(88));
        assert_eq!(length(3, key(40)), Some(80));
        assert_eq!(length(3, other), None, "another codec makes other bytes of it");
        assert_eq!(
            length(3, PageKey { chunk: 5, ..key(40) }),
            None,
            "another column may have another header"
        );
        assert_eq!(length(3, key(41)), None);
        assert_eq!(length(2, key(40)), None, "another file may have one there");
        dictionaries.keep(3, key(50), &dictionary(928));
        assert_eq!(length(3, key(50)), None, "too many bytes");
        dictionaries.keep(3, key(60), &dictionary(920));
        dictionaries.begin(3);
        assert_eq!(length(3, key(60)), Some(920));
        dictionaries.begin(4);
        dictionaries.keep(3, key(40), &dictionary(80));
        assert_eq!((length(3, key(40)), length(4, key(40))), (None, None));
        dictionaries.keep(4, key(40), &dictionary(96));
        assert_eq!(length(4, key(40)), Some(96));
        assert_eq!([most_kept(700), most_kept(u64::MAX)], [700, DICTIONARY_BYTES]);
    }
}
