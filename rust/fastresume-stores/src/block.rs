//! Blocks of an object: what their files are called, and what tells whether one holds what was written.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use fastresume::Status;
use fastresume::error::without_query;

/// What stands behind the bytes of a block: the release of the format, and a checksum.
const MARK: [u8; 4] = *b"frb1";

/// So many bytes stand behind those of a block.
pub const TRAILER_BYTES: usize = 8;

/// An object under one tag, by a hash: what its files are called tells nothing of it.
#[derive(Debug, Clone)]
pub struct ObjectKey(Arc<str>);

impl ObjectKey {
    /// That of an object of a store; none if nothing tells it from another one of its name.
    pub fn of(store: &str, address: &Path, status: &Status) -> Option<Self> {
        let known_by = status.object()?.version();
        if known_by.is_empty() {
            return None;
        }
        // The names of blocks are older than what stands before a tag. Two objects whose addresses have other queries may have
        // been written in one second.
        let (tag, address) = match known_by.strip_prefix("tag ") {
            Some(tag) => (tag, without_query(address)),
            None => (known_by.as_str(), address),
        };
        let mut hasher = blake3::Hasher::new();
        let address = address.as_os_str().as_encoded_bytes();
        for part in [store.as_bytes(), address, tag.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hasher.update(&status.size.to_le_bytes());
        let hash = hasher.finalize().to_hex();
        hash.get(..32).map(|hash| Self(hash.into()))
    }
}

/// The blocks of an object, of so many bytes each but the last one.
#[derive(Debug, Clone)]
pub struct ObjectBlocks {
    pub object: ObjectKey,
    pub size: u64,
    pub block_bytes: u64,
}

impl ObjectBlocks {
    /// The numbers of the blocks that a range lies in.
    pub fn around(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.block_bytes..range.end.div_ceil(self.block_bytes)
    }

    /// The bytes of the object that blocks hold.
    pub fn range(&self, numbers: &Range<u64>) -> Range<u64> {
        let [start, end] = [numbers.start, numbers.end].map(|number| number.saturating_mul(self.block_bytes));
        start.min(self.size)..end.min(self.size)
    }

    /// The bytes of one.
    pub fn one(&self, number: u64) -> Range<u64> {
        self.range(&(number..number + 1))
    }

    /// The path of a block's file, below the directory of all.
    pub fn name(&self, number: u64) -> String {
        let object = &self.object.0;
        format!("{}/{object}/{}-{number}", object.get(..2).unwrap_or_default(), self.block_bytes)
    }
}

/// What was found where a block's file may be.
#[derive(Debug, PartialEq, Eq)]
pub enum FoundBlock {
    Whole,
    Nothing,
    Damaged,
}

fn trailer(name: &str, bytes: &[u8]) -> [u8; TRAILER_BYTES] {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(bytes);
    // A file in another one's place is none of its own.
    checksum.update(name.as_bytes());
    let mut trailer = [0; TRAILER_BYTES];
    trailer[..4].copy_from_slice(&MARK);
    trailer[4..].copy_from_slice(&checksum.finalize().to_le_bytes());
    trailer
}

/// Fills `buffer` with the bytes of a block, if its file is there and holds them. Else the buffer holds anything.
///
/// # Errors
/// As the system says.
pub fn read(path: &Path, name: &str, buffer: &mut [u8]) -> io::Result<FoundBlock> {
    // Looked at before it is opened: to open a pipe waits for its writer.
    match std::fs::metadata(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(FoundBlock::Nothing),
        Ok(found) if !found.is_file() => return Ok(FoundBlock::Damaged),
        Err(cause) => return Err(cause),
        Ok(_) => {}
    }
    let mut file = match File::open(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(FoundBlock::Nothing),
        opened => opened?,
    };
    let mut found = [0; TRAILER_BYTES];
    match file.read_exact(buffer).and_then(|()| file.read_exact(&mut found)) {
        Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => Ok(FoundBlock::Damaged),
        Err(cause) => Err(cause),
        Ok(()) if found == trailer(name, buffer) => Ok(FoundBlock::Whole),
        Ok(()) => Ok(FoundBlock::Damaged),
    }
}

/// Writes a block.
///
/// # Errors
/// As the system says.
pub fn write(file: &mut impl Write, name: &str, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.write_all(&trailer(name, bytes))
}

#[cfg(test)]
mod tests {
    use fastresume::{ObjectVersion, Version};

    use super::*;

    fn status(tag: &str, size: u64) -> Status {
        let tag = Some(tag.into()).filter(|_| !tag.is_empty());
        Status { size, version: Version::Object(ObjectVersion { tag, modified_ms: None }) }
    }

    fn key(store: &str, address: &str, status: &Status) -> Option<String> {
        ObjectKey::of(store, Path::new(address), status).map(|key| key.0.to_string())
    }

    #[test]
    fn a_key_is_that_of_a_store_an_address_a_tag_and_a_size() {
        let one = key("here", "s3://bucket/a", &status("tag", 10));
        assert_eq!(one.as_ref().map(String::len), Some(32));
        assert_eq!(one, key("here", "s3://bucket/a", &status("tag", 10)));
        for (store, address, tag, size) in [
            ("there", "s3://bucket/a", "tag", 10),
            ("here", "s3://bucket/b", "tag", 10),
            ("here", "s3://bucket/a", "other", 10),
            ("here", "s3://bucket/a", "tag", 11),
            ("heres", "3://bucket/a", "tag", 10),
        ] {
            assert_ne!(one, key(store, address, &status(tag, size)));
        }
        assert_eq!(key("here", "http://host/a", &status("", 10)), None);
    }

    #[test]
    fn blocks_cover_an_object() {
        let object = ObjectKey::of("", Path::new("s3://b/a"), &status("tag", 250)).unwrap();
        let blocks = ObjectBlocks { object, size: 250, block_bytes: 100 };
        assert_eq!(blocks.around(&(99..101)), 0..2);
        assert_eq!(blocks.around(&(100..200)), 1..2);
        assert_eq!(blocks.range(&(1..3)), 100..250);
        assert_eq!(blocks.one(2), 200..250);
        assert!(blocks.name(2).ends_with("/100-2"));
    }
}
