//! Tests of the walk over the pages of a column chunk.

use std::path::Path;

use parquet::basic::Compression;

use super::*;
use crate::format::metadata::column_chunk::Encodings;
use crate::format::metadata::writer::Writer;

struct Bytes(Vec<u8>);

impl ByteSource for Bytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[start..start + buffer.len()]);
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("bytes")
    }
}

#[test]
fn rows_are_passed_without_a_look_at_what_lies_behind_the_last_one() {
    // A data page of 8 bytes, with two plain values.
    let page = [0x15, 0, 0x15, 16, 0x15, 16, 0x2c, 0x15, 4, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
    let page = [&page[..], &[7; 8]].concat();
    let bytes = [&page[..], &page, &[0xff; 3]].concat();
    let chunk = ColumnChunk {
        start: 0,
        end: bytes.len() as u64,
        index: None,
        rows: 4,
        values: 4,
        most_page_bytes: u64::MAX,
        uncompressed_bytes: 16,
        compression: Compression::UNCOMPRESSED,
        value_bytes: Some(4),
        levels: (0, 0),
        encodings: Encodings::default(),
        writer: Writer::default(),
    };
    let mut memory = Memory::default();
    let mut walk = PageScanner::new(Arc::new(Bytes(bytes)), chunk, Arc::default(), 4, &mut memory).unwrap();
    assert_eq!(walk.pass_rows(0, 3).unwrap(), 2);
    assert_eq!(walk.pass_rows(2, 2).unwrap(), 2);
    assert!(walk.header().is_err(), "what lies behind the pages is no header");
}
