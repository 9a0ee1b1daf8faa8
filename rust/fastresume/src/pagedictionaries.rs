//! Dictionaries of a row group that is decoded in parts, until another one is begun.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use parquet::basic::Compression;

use crate::error::locked;
use crate::memory::Memory;

/// So many bytes of dictionaries are kept: those of the columns that come first.
pub const KEPT_DICTIONARY_BYTES: usize = 32 << 20;

/// Decompressed dictionaries of one row group, for all threads that decode parts of it.
#[derive(Debug, Default)]
pub struct PageDictionaries(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The row group, counted over all files.
    group: usize,
    bytes: usize,
    /// By their offset in the file. Of damaged files, columns of two codecs may share one.
    by_offset: BTreeMap<u64, (Compression, Arc<Memory>)>,
}

impl PageDictionaries {
    /// Begins with a row group, or goes on with it; dictionaries of another one are forgotten.
    pub fn begin(&self, group: usize) {
        let mut kept = locked(&self.0);
        if kept.group != group {
            *kept = Kept { group, ..Kept::default() };
        }
    }

    /// The dictionary of the row group that was begun at this offset, if it was kept.
    pub fn get(&self, group: usize, offset: u64, compression: Compression) -> Option<Arc<Memory>> {
        let kept = locked(&self.0);
        let (known, dictionary) = kept.by_offset.get(&offset).filter(|_| kept.group == group)?;
        (*known == compression).then(|| Arc::clone(dictionary))
    }

    /// Keeps a dictionary, if nobody has begun with another row group and there is room for it.
    pub fn keep(&self, group: usize, offset: u64, compression: Compression, dictionary: &Arc<Memory>) {
        let mut kept = locked(&self.0);
        let bytes = kept.bytes + dictionary.len();
        if kept.group == group && bytes <= KEPT_DICTIONARY_BYTES && !kept.by_offset.contains_key(&offset) {
            kept.bytes = bytes;
            kept.by_offset.insert(offset, (compression, Arc::clone(dictionary)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(bytes: usize) -> Arc<Memory> {
        let mut memory = Memory::default();
        memory.resize(bytes).unwrap();
        Arc::new(memory)
    }

    #[test]
    fn dictionaries_are_kept_until_another_row_group_is_begun_and_as_long_as_there_is_room() {
        let kept = PageDictionaries::default();
        let length =
            |group, offset, compression| kept.get(group, offset, compression).map(|found| found.len());
        kept.begin(3);
        kept.keep(3, 40, Compression::SNAPPY, &dictionary(7));
        kept.keep(3, 40, Compression::UNCOMPRESSED, &dictionary(8));
        assert_eq!(length(3, 40, Compression::SNAPPY), Some(7));
        assert_eq!(length(3, 40, Compression::UNCOMPRESSED), None, "another codec makes other bytes of it");
        assert_eq!(length(3, 41, Compression::SNAPPY), None);
        assert_eq!(length(2, 40, Compression::SNAPPY), None, "another file may have one there");
        kept.keep(3, 50, Compression::SNAPPY, &dictionary(KEPT_DICTIONARY_BYTES - 6));
        assert_eq!(length(3, 50, Compression::SNAPPY), None, "a byte too many");
        kept.keep(3, 60, Compression::SNAPPY, &dictionary(KEPT_DICTIONARY_BYTES - 7));
        kept.begin(3);
        assert_eq!(length(3, 60, Compression::SNAPPY), Some(KEPT_DICTIONARY_BYTES - 7));
        kept.begin(4);
        kept.keep(3, 40, Compression::SNAPPY, &dictionary(7));
        assert_eq!((length(3, 40, Compression::SNAPPY), length(4, 40, Compression::SNAPPY)), (None, None));
        kept.keep(4, 40, Compression::SNAPPY, &dictionary(9));
        assert_eq!(length(4, 40, Compression::SNAPPY), Some(9));
    }
}
