//! The choices in the first bytes of an input, and bytes as a file source.

use std::path::Path;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};

use crate::error::{Error, Result};
use crate::source::byte_source::ByteSource;

/// The choices at the start of an input; behind its end, all are 0.
#[derive(Debug, Clone)]
pub struct Choices<'b> {
    pub(super) rest: &'b [u8],
}

impl<'b> Choices<'b> {
    pub fn new(rest: &'b [u8]) -> Self {
        Self { rest }
    }

    pub fn byte(&mut self) -> u8 {
        let (byte, rest) = self.rest.split_first().unwrap_or((&0, &[]));
        self.rest = rest;
        *byte
    }

    /// A 16-bit number, so that a target can't take much memory.
    pub fn number(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    /// The next `count` bytes, or as many as there are.
    pub fn bytes(&mut self, count: usize) -> &'b [u8] {
        let (bytes, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        bytes
    }

    pub fn steps(&mut self) -> Steps {
        Steps(u64::from_le_bytes([self.byte(), self.byte(), 0, 0, 0, 0, 0, 0]))
    }
}

/// Steps in which values are read: pseudo-random numbers that follow from a choice.
#[derive(Debug, Clone)]
pub struct Steps(u64);

impl Steps {
    /// A number below `end` (not 0).
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }

    /// How many of the `left` (not 0) values come next: few, or any number of them.
    pub fn some(&mut self, left: usize) -> usize {
        let most = [3, 20, 700, left][self.below(4)].min(left);
        1 + self.below(most)
    }

    /// Ascending places below `end`.
    pub fn places(&mut self, end: usize) -> Vec<u32> {
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

/// The codec of a choice.
pub fn compression_of(choice: u8) -> Compression {
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
pub struct InMemory(pub Vec<u8>);

impl ByteSource for InMemory {
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
