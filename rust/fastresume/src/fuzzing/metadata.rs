//! Fuzz targets for page headers, page indexes, bloom filters and footers.

use parquet::basic::Compression;
use parquet::file::metadata::{ParquetMetaDataOptions, ParquetMetaDataReader};

use super::choices::{Choices, InMemory};
use crate::error::{Error, Result, caught};
use crate::format::metadata::bloom_filter::BloomFilter;
use crate::format::metadata::column_chunk::{ColumnChunk, Encodings};
use crate::format::metadata::footer::FooterBytes;
use crate::format::metadata::page_header::PageHeader;
use crate::format::metadata::page_index::PageIndex;
use crate::format::metadata::page_index::read_index;
use crate::format::metadata::thrift::{ThriftWalk, Wire};
use crate::format::metadata::thrift_types::{sift, sift_row_group};
use crate::format::metadata::thrift_writer::put_list;
use crate::format::metadata::writer::Writer;
use crate::schema::arrow_schema::ArrowSchema;
use crate::schema::columns::columns;

/// A chunk of these numbers of bytes and rows.
fn chunk(bytes: u64, rows: u64, value_bytes: Option<usize>, is_flat: bool) -> ColumnChunk {
    let compression = Compression::UNCOMPRESSED;
    let (values, uncompressed_bytes) = (rows, bytes);
    ColumnChunk {
        start: 0,
        end: bytes,
        index: None,
        rows,
        values,
        most_page_bytes: u64::MAX,
        uncompressed_bytes,
        compression,
        value_bytes,
        levels: (u8::from(!is_flat), 1),
        encodings: Encodings::default(),
        writer: Writer::default(),
    }
}

/// A page header. It must be the same without the bytes behind it, and invalid without its last byte.
pub fn headers(bytes: &[u8]) {
    let Ok((header, length)) = PageHeader::parse(bytes) else { return };
    let text = format!("{header:?}");
    let again = PageHeader::parse(&bytes[..length]).map(|(header, length)| (format!("{header:?}"), length));
    assert_eq!(again.ok(), Some((text, length)));
    assert!(PageHeader::parse(&bytes[..length - 1]).is_err(), "a header without its end is one");
    for (value_bytes, is_flat) in [(None, true), (None, false), (Some(0), true), (Some(8), false)] {
        if header.check(&chunk(1 << 20, 1 << 20, value_bytes, is_flat)).is_err() {
            continue;
        }
        assert!(header.compressed_bytes().max(header.uncompressed_bytes()) <= 256 << 20);
        assert!(header.stated_rows().is_none_or(|rows| rows <= header.values() as u64));
        assert!(!is_flat || header.stated_rows().is_none_or(|rows| rows == header.values() as u64));
        _ = (header.encoding(), header.level_encodings(), header.level_bytes(), header.is_compressed());
        _ = (header.has_values(), header.is_dictionary());
    }
}

/// A column index, an offset index, or a bloom filter.
pub fn page_indexes(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (kind, pages, rows) = (choices.byte(), usize::from(choices.byte()), choices.number() as u64);
    let source = InMemory(choices.rest.to_vec());
    let place = 0..choices.rest.len() as u64;
    match kind % 3 {
        0 => {
            let Ok(index) = PageIndex::read(&source, place, pages) else { return };
            for page in 0..pages {
                let (low, high) = index.bounds(page);
                assert!(low.len() + high.len() <= 2 * bytes.len());
                _ = (index.is_null(page), index.nulls(page));
            }
        }
        1 => {
            let chunk = chunk(1 << 16, rows, Some(4), true);
            let Ok(places) = read_index(&source, place, &chunk) else { return };
            assert!(places.iter().all(|page| page.offset < chunk.end && page.first_row <= rows));
            assert!(
                places.is_sorted_by(|one, next| one.offset < next.offset && one.first_row <= next.first_row)
            );
        }
        _ => {
            let Ok(Some(filter)) = BloomFilter::open(&source, pages as u64, None) else { return };
            for value in 0..8_u64 {
                assert!(filter.excludes(&value.to_le_bytes()).is_ok(), "a block is outside of the filter");
            }
        }
    }
}

/// A footer, followed by its length and the magic bytes; its row groups, and the columns in it.
pub fn footers(bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let file = [b"PAR1", bytes, &length, b"PAR1"].concat();
    let Ok(footer) = FooterBytes::read(&InMemory(file)).and_then(FooterBytes::parse) else { return };
    let file = footer.file();
    assert!([0, footer.group_rows().iter().sum::<u64>()].contains(&file.num_rows().unsigned_abs()));
    // Parsed one at a time, row groups must be those of the whole.
    let each: Result<Vec<_>> = footer.row_groups(ParquetMetaDataOptions::new()).collect();
    let whole = whole(bytes)
        .and_then(|whole| caught(|| ParquetMetaDataReader::decode_metadata(&whole).map_err(Error::data)));
    match (whole, &each) {
        (Ok(whole), Ok(each)) => {
            assert_eq!(whole.num_row_groups(), each.len());
            for (whole, one) in whole.row_groups().iter().zip(each.iter().map(|one| &one.metadata)) {
                assert_eq!((whole.num_rows(), whole.columns()), (one.num_rows(), one.columns()));
            }
        }
        // A list of no row groups may state any element type.
        (Err(_), Ok(each)) => assert!(each.is_empty()),
        (whole, _) => assert!(whole.is_err(), "row groups are not read one at a time"),
    }
    let pairs = file.key_value_metadata().into_iter().flatten();
    let schemas = pairs.filter_map(|pair| ArrowSchema::parse(pair.value.as_deref()?).ok());
    let leaves = file.schema_descr().num_columns();
    for fields in schemas.chain([ArrowSchema::default()]) {
        for column in columns(file.schema_descr(), &fields) {
            assert!(column.leaf < leaves.max(1), "column {} is no leaf", column.name);
        }
    }
}

/// A footer without what is not used, with all of its row groups.
fn whole(footer: &[u8]) -> Result<Vec<u8>> {
    const ROW_GROUPS: i16 = 4;
    let used = sift(footer)?;
    let mut groups = Vec::new();
    put_list(&mut groups, Wire::Struct, used.group_rows.len() as u64);
    for group in used.group_starts.windows(2) {
        sift_row_group(&footer[group[0] as usize..group[1] as usize], &mut groups)?;
    }
    let mut list = 0..0;
    ThriftWalk::new(&used.bytes).fields(|walk, number, wire| {
        if number == ROW_GROUPS {
            let start = walk.position();
            walk.pass(wire)?;
            list = start..walk.position();
        }
        Ok(number == ROW_GROUPS)
    })?;
    Ok([&used.bytes[..list.start], &groups, &used.bytes[list.end..]].concat())
}

/// Pages one by one: the header, and the bytes behind it.
pub fn pages_of(mut pages: &[u8]) -> Vec<(PageHeader, &[u8], &[u8])> {
    let mut found = Vec::new();
    while let Ok((header, length)) = PageHeader::parse(pages) {
        let end = length + usize::try_from(header.compressed_bytes()).unwrap_or(0);
        let Some(body) = pages.get(length..end) else { break };
        found.push((header, &pages[..length], body));
        pages = &pages[end..];
    }
    found
}
