//! Footers that were parsed, kept for whoever reads them next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use parquet::file::metadata::ParquetMetaData;

use crate::error::{Error, Result, locked};
use crate::footer::{Footer, FooterBytes, HASH_BYTES};
use crate::source::Source;

/// What is kept takes no more memory than this: the footers of some hundred files, of whatever number there are.
const MAX_BYTES: usize = 16 << 20;

/// Parsed footers by the hash of their bytes, which tells that they are still the same.
///
/// The first ones stay: who goes over all files again and again would find none of those that came last.
#[derive(Debug, Default)]
pub struct Footers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    by_hash: HashMap<[u8; HASH_BYTES], Arc<ParquetMetaData>>,
    bytes: usize,
}

impl Footers {
    /// The footer of a file, which is parsed if it is not kept.
    ///
    /// # Errors
    /// `Data` if the file is no Parquet, or its footer is damaged; `Source` if it can't be read.
    pub fn read(&self, source: &dyn Source) -> Result<Footer> {
        let read = || {
            let bytes = FooterBytes::read(source)?;
            if let Some(metadata) = self.get(&bytes.hash) {
                return Ok(Footer { metadata, hash: bytes.hash });
            }
            let footer = bytes.parse()?;
            self.keep(footer.hash, &footer.metadata);
            Ok(footer)
        };
        read().map_err(|error: Error| error.in_file(source.path()))
    }

    /// The footer whose bytes have this hash, if it is kept.
    fn get(&self, hash: &[u8; HASH_BYTES]) -> Option<Arc<ParquetMetaData>> {
        locked(&self.0).by_hash.get(hash).cloned()
    }

    /// Keeps a footer, if there is room.
    fn keep(&self, hash: [u8; HASH_BYTES], metadata: &Arc<ParquetMetaData>) {
        let bytes = metadata.memory_size();
        let mut kept = locked(&self.0);
        if kept.bytes.saturating_add(bytes) <= MAX_BYTES
            && kept.by_hash.insert(hash, Arc::clone(metadata)).is_none()
        {
            kept.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::FileMetaData;
    use parquet::schema::types::{SchemaDescriptor, Type};

    use super::*;

    /// A footer that takes at least so many bytes.
    fn footer(bytes: usize) -> Arc<ParquetMetaData> {
        let root = Type::group_type_builder("root").build().unwrap();
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(root)));
        let writer = Some("w".repeat(bytes));
        Arc::new(ParquetMetaData::new(FileMetaData::new(1, 0, writer, None, schema, None), Vec::new()))
    }

    #[test]
    fn footers_are_kept_until_there_is_no_more_room() {
        let footers = Footers::default();
        let (small, large) = (footer(10), footer(MAX_BYTES / 3));
        footers.keep([0; HASH_BYTES], &small);
        for hash in 1..5 {
            footers.keep([hash; HASH_BYTES], &large);
            // Twice the same takes no room.
            footers.keep([hash; HASH_BYTES], &large);
        }
        let is_kept = |hash: u8| footers.get(&[hash; HASH_BYTES]).is_some();
        assert_eq!([0, 1, 2, 3, 4].map(is_kept), [true, true, true, false, false]);
        assert!(Arc::ptr_eq(&footers.get(&[0; HASH_BYTES]).unwrap(), &small));
        footers.keep([9; HASH_BYTES], &small);
        assert!(is_kept(9), "a small one still has room");
        assert!(!is_kept(10));
    }
}
