//! Tests of the walk over the pages of a column chunk.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::basic::Compression;

use super::*;
use crate::format::metadata::column_chunk::Encodings;
use crate::format::metadata::writer::Writer;

/// Bytes, and how often some were read.
struct Bytes(Vec<u8>, AtomicUsize);

impl Source for Bytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.0[start..start + buffer.len()]);
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("bytes")
    }
}

/// Plain values of four bytes.
fn chunk(bytes: &[u8], rows: u64) -> Chunk {
    Chunk {
        start: 0,
        end: bytes.len() as u64,
        index: None,
        rows,
        values: rows,
        uncompressed_bytes: 4 * rows,
        compression: Compression::UNCOMPRESSED,
        value_bytes: Some(4),
        levels: (0, 0),
        encodings: Encodings::default(),
        writer: Writer::default(),
    }
}

#[test]
fn rows_are_passed_without_a_look_at_what_lies_behind_the_last_one() {
    // A data page of 8 bytes, with two plain values.
    let page = [0x15, 0, 0x15, 16, 0x15, 16, 0x2c, 0x15, 4, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
    let page = [&page[..], &[7; 8]].concat();
    let bytes = [&page[..], &page, &[0xff; 3]].concat();
    let (chunk, source) = (chunk(&bytes, 4), Arc::new(Bytes(bytes, AtomicUsize::new(0))));
    let mut memory = Vec::new();
    let mut walk = PageWalk::new(source, chunk, Arc::default(), 4, &mut memory).unwrap();
    assert_eq!(walk.pass_rows(0, 3).unwrap(), 2);
    assert_eq!(walk.pass_rows(2, 2).unwrap(), 2);
    assert!(walk.header().is_err(), "what lies behind the pages is no header");
}

/// Passes through 50 pages of 1000 rows, ten at a time by one walk each, as if it decoded them; gives the reads.
fn reads_of_parts(is_counted: bool) -> usize {
    // 4000 bytes, 1000 values.
    let header = [
        0x15, 0, 0x15, 0xc0, 0x3e, 0x15, 0xc0, 0x3e, 0x2c, 0x15, 0xd0, 0x0f, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
    ];
    let bytes = [&header[..], &[7; 4000]].concat().repeat(50);
    let chunk = chunk(&bytes, 50_000);
    let (source, places) = (Arc::new(Bytes(bytes, AtomicUsize::new(0))), Arc::<PagePlaces>::default());
    for part in 0..5 {
        let mut memory = Vec::new();
        let (shared, source) = (Arc::clone(&places), Arc::<Bytes>::clone(&source));
        let mut walk =
            PageWalk::new(source, chunk.clone(), shared, 10_000 * (part + 1), &mut memory).unwrap();
        let before = usize::try_from(10_000 * part).unwrap();
        assert_eq!(walk.pass_rows(0, before).unwrap(), before);
        walk.is_skipping = false;
        for _ in 0..10 {
            walk.header().unwrap();
            let page = walk.pass().unwrap();
            walk.bytes(page.offset, 4000).unwrap();
            walk.note_decoded(is_counted).unwrap();
        }
    }
    source.1.load(Ordering::Relaxed)
}

#[test]
fn who_decodes_page_after_page_reads_no_headers_before() {
    let (with, without) = (reads_of_parts(true), reads_of_parts(false));
    assert!(with <= 15, "{with} reads");
    assert!(without >= 50, "{without} reads: what the bytes do not tell is learned from all headers");
}
