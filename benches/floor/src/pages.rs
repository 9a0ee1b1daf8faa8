//! The floor: every page of every column is read and decompressed, and nothing is made of it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataReader};

use crate::Outcome;

/// Memory that is used for every page again.
#[derive(Default)]
pub struct Buffers {
    chunk: Vec<u8>,
    page: Vec<u8>,
    snappy: snap::raw::Decoder,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

/// Reads and decompresses all pages of a file; gives its rows, and the bytes that the pages came to.
pub fn expand_all(path: &str, buffers: &mut Buffers) -> Outcome<(u64, u64)> {
    let file = File::open(path)?;
    let footer = ParquetMetaDataReader::new().parse_and_finish(&file)?;
    let (mut rows, mut bytes) = (0, 0);
    for group in footer.row_groups() {
        rows += u64::try_from(group.num_rows())?;
        for chunk in group.columns() {
            bytes += expand_chunk(&file, chunk, buffers)?;
        }
    }
    Ok((rows, bytes))
}

fn expand_chunk(file: &File, chunk: &ColumnChunkMetaData, buffers: &mut Buffers) -> Outcome<u64> {
    let (start, length) = chunk.byte_range();
    buffers.chunk.resize(usize::try_from(length)?, 0);
    file.read_exact_at(&mut buffers.chunk, start)?;
    let (mut at, mut bytes) = (0, 0);
    while at < buffers.chunk.len() {
        let mut walk = Walk { bytes: &buffers.chunk, at };
        let header = walk.header().ok_or("a page header ends early")?;
        let end = walk.at + header.compressed;
        let stored = buffers.chunk.get(walk.at..end).ok_or("a page ends after its column chunk")?;
        at = end;
        bytes += header.uncompressed as u64;
        // Levels in front of a page of version 2 are not compressed.
        let stored = stored.get(header.levels..).ok_or("a page is shorter than its levels")?;
        let expanded = header.uncompressed.checked_sub(header.levels).ok_or("a page is all levels")?;
        if buffers.page.len() < expanded {
            buffers.page.resize(expanded, 0);
        }
        let page = &mut buffers.page[..expanded];
        match chunk.compression() {
            _ if !header.is_compressed => {}
            Compression::UNCOMPRESSED => {}
            Compression::SNAPPY => _ = buffers.snappy.decompress(stored, page)?,
            Compression::ZSTD(_) => {
                let mut codec = match buffers.zstd.take() {
                    Some(codec) => codec,
                    None => zstd::bulk::Decompressor::new()?,
                };
                codec.decompress_to_buffer(stored, page)?;
                buffers.zstd = Some(codec);
            }
            other => {
                return Err(
                    format!("{other} is not measured: only snappy, zstd and no compression are").into()
                );
            }
        }
    }
    Ok(bytes)
}

/// What of a page header the floor needs.
struct Header {
    uncompressed: usize,
    compressed: usize,
    levels: usize,
    is_compressed: bool,
}

/// A walk over Thrift's compact form; none where the bytes end or make no sense.
///
/// Source: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

const V2_FIELD: i16 = 8;

impl Walk<'_> {
    fn header(&mut self) -> Option<Header> {
        let mut header = Header { uncompressed: 0, compressed: 0, levels: 0, is_compressed: true };
        let mut number = 0;
        while let Some(kind) = self.field(&mut number)? {
            match (number, kind) {
                (2, 5) => header.uncompressed = self.count()?,
                (3, 5) => header.compressed = self.count()?,
                (V2_FIELD, 12) => {
                    let mut number = 0;
                    while let Some(kind) = self.field(&mut number)? {
                        match (number, kind) {
                            (5 | 6, 5) => header.levels += self.count()?,
                            (7, 1 | 2) => header.is_compressed = kind == 1,
                            _ => self.pass(kind)?,
                        }
                    }
                }
                _ => self.pass(kind)?,
            }
        }
        Some(header)
    }

    /// The kind of the next field, whose number `number` becomes; none at the end of a struct.
    #[expect(clippy::option_option, reason = "the bytes may end, or the struct")]
    fn field(&mut self, number: &mut i16) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        match byte >> 4 {
            0 => *number = i16::try_from(self.zigzag()?).ok()?,
            step => *number += i16::from(step),
        }
        Some(Some(byte & 15))
    }

    fn pass(&mut self, kind: u8) -> Option<()> {
        match kind {
            1 | 2 => {}
            3 => _ = self.byte()?,
            4..=6 => _ = self.varint()?,
            7 => self.at += 8,
            8 => self.at += usize::try_from(self.varint()?).ok()?,
            12 => {
                let mut number = 0;
                while let Some(kind) = self.field(&mut number)? {
                    self.pass(kind)?;
                }
            }
            _ => return None, // a page header holds no lists and no maps
        }
        Some(())
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.zigzag()?).ok()
    }
}
