//! Bloom filters of column chunks: they say that a value is surely not there.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/BloomFilter.md>

use twox_hash::XxHash64;

use crate::error::{Error, Result};
use crate::format::metadata::thrift::{ThriftWalk, Wire};
use crate::source::byte_source::ByteSource;

/// A header has some 20 bytes; this leaves room.
const HEADER_BYTES: u64 = 256;

/// A block holds eight words of 32 bits. A value sets one bit of each.
const BLOCK_BYTES: usize = 32;

const SALT: [u64; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// A bloom filter in a file. One block is read for each value that is looked up.
pub struct BloomFilter<'s> {
    source: &'s dyn ByteSource,
    start: u64,
    blocks: u64,
}

impl<'s> BloomFilter<'s> {
    /// The filter at an offset; none if it is of a kind that is not known, or has not the length that the footer states, with its
    /// header or without it. Where that states none, lengths are powers of two, as those of all writers are.
    ///
    /// # Errors
    /// `Data` if it is damaged or lies outside of the file; `Source` if it can't be read.
    pub fn open(source: &'s dyn ByteSource, offset: u64, stated_length: Option<u64>) -> Result<Option<Self>> {
        let left = source.size().saturating_sub(offset);
        let bytes = source.read(offset, usize::try_from(left.min(HEADER_BYTES)).unwrap_or(usize::MAX))?;
        let (mut stated, mut known) = (-1, 0);
        let mut walk = ThriftWalk::new(&bytes);
        walk.fields(|walk, number, wire| {
            match (number, wire) {
                (1, Wire::I32) => stated = walk.integer32()?,
                // The algorithm, the hash and the compression: the specification has one of each.
                (2..=4, Wire::Struct) => walk.fields(|_, choice, _| {
                    known += u8::from(choice == 1);
                    Ok(false)
                })?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if known != 3 {
            return Ok(None);
        }
        let start = offset + walk.position() as u64;
        let length = u64::try_from(stated).unwrap_or(0);
        if length == 0 || length % BLOCK_BYTES as u64 != 0 || length > source.size().saturating_sub(start) {
            return Err(Error::data(format!(
                "a bloom filter claims {stated} bytes at {start}, the file has {}",
                source.size()
            )));
        }
        let is_so_long = match stated_length {
            Some(stated_length) => {
                stated_length == length || stated_length == length + walk.position() as u64
            }
            None => length.is_power_of_two(),
        };
        Ok(is_so_long.then_some(Self { source, start, blocks: length / BLOCK_BYTES as u64 }))
    }

    /// Whether a value is surely not there; `plain` are its PLAIN-encoded bytes, without a length.
    ///
    /// # Errors
    /// `Source` if its block can't be read.
    pub fn excludes(&self, plain: &[u8]) -> Result<bool> {
        let hash = XxHash64::oneshot(0, plain);
        let (high, low) = (hash >> 32, hash & u64::from(u32::MAX));
        let block = (high * self.blocks) >> 32;
        let mut bytes = [0; BLOCK_BYTES];
        self.source.read_into(self.start + block * BLOCK_BYTES as u64, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().zip(SALT).any(|(word, salt)| {
            // The highest five of the lowest 32 bits of the product.
            let bit = low.wrapping_mul(salt) >> 27 & 31;
            u32::from_le_bytes(*word) >> bit & 1 == 0
        }))
    }
}
