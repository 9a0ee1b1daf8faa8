//! Where data pages of a file lie, as far as their headers were read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::error::locked;
use crate::format::metadata::column_chunk::ColumnChunk;
use crate::format::metadata::page_index::PagePlace;

/// More pages of a file are not noted: what was noted so far is forgotten then.
pub const MOST_PAGES: usize = 1 << 14;

/// Data pages by column chunk and first row, so that those who read another part of a row group need not read the headers
/// before it again.
#[derive(Debug, Default)]
pub struct PageLocations(Mutex<KnownLocations>);

#[derive(Debug, Default)]
struct KnownLocations {
    /// The offset of each page, and its rows as an index tells them.
    pages: BTreeMap<(ChunkKey, u64), (u64, Option<u64>)>,
    /// The chunks whose headers were all looked at.
    checked: BTreeSet<ChunkKey>,
}

/// Where a column chunk begins and ends, and what counts as a row: of damaged files, chunks may overlap.
type ChunkKey = (u64, u64, bool);

impl PageLocations {
    /// Notes pages of a column chunk; of very many, some.
    pub fn note(&self, chunk: &ColumnChunk, pages: &[PagePlace]) {
        let mut known = locked(&self.0);
        let step = pages.len().div_ceil(MOST_PAGES / 4).max(1);
        if known.pages.len() + pages.len() / step > MOST_PAGES {
            *known = KnownLocations::default();
        }
        let some = pages.iter().step_by(step);
        known.pages.extend(some.map(|page| ((key(chunk), page.first_row), (page.offset, page.index_rows))));
    }

    /// Notes that all headers of a column chunk were looked at.
    pub fn note_checked(&self, chunk: &ColumnChunk) {
        locked(&self.0).checked.insert(key(chunk));
    }

    /// Whether all headers of a column chunk were looked at.
    pub fn is_checked(&self, chunk: &ColumnChunk) -> bool {
        locked(&self.0).checked.contains(&key(chunk))
    }

    /// Of the pages of a column chunk that were noted, the last one that begins at a row or before.
    pub fn last(&self, chunk: &ColumnChunk, row: u64) -> Option<PagePlace> {
        let known = locked(&self.0);
        let mut pages = known.pages.range((key(chunk), 0)..=(key(chunk), row));
        let (&(_, first_row), &(offset, index_rows)) = pages.next_back()?;
        Some(PagePlace { offset, first_row, index_rows })
    }
}

fn key(chunk: &ColumnChunk) -> ChunkKey {
    (chunk.start, chunk.end, chunk.is_flat())
}

/// Whether an index names these pages, which have so many values together, and in none more rows than it has values.
pub fn is_same_pages(indexed: &[PagePlace], pages: &[PagePlace], values: u64) -> bool {
    let ends = pages.iter().skip(1).map(|page| page.first_row).chain([values]);
    let has_room =
        |rows: Option<u64>, values: u64| rows.is_some_and(|rows| (values.min(1)..=values).contains(&rows));
    indexed.len() == pages.len()
        && indexed.iter().zip(pages).zip(ends).all(|((indexed, page), end)| {
            indexed.offset == page.offset && has_room(indexed.index_rows, end.saturating_sub(page.first_row))
        })
}

#[cfg(test)]
mod tests {
    use parquet::basic::Compression;

    use super::*;
    use crate::format::metadata::column_chunk::Encodings;
    use crate::format::metadata::writer::Writer;

    #[test]
    fn the_last_page_up_to_a_row_is_known_of_each_chunk() {
        let chunk = |start, end, is_flat: bool| ColumnChunk {
            start,
            end,
            index: None,
            rows: 100,
            values: 100,
            most_page_bytes: u64::MAX,
            uncompressed_bytes: 0,
            compression: Compression::UNCOMPRESSED,
            value_bytes: None,
            levels: (u8::from(!is_flat), 0),
            encodings: Encodings::default(),
            writer: Writer::default(),
        };
        let places = PageLocations::default();
        let page = |first_row| PagePlace { offset: 1000 + first_row, first_row, index_rows: None };
        let (one, other) = (chunk(4, 5000, true), chunk(9, 5000, true));
        places.note(&one, &[page(0), page(10), page(30)]);
        places.note(&other, &[page(20)]);
        let row_of = |chunk, row| places.last(chunk, row).map(|page| (page.offset, page.first_row));
        assert_eq!(row_of(&one, 9), Some((1000, 0)));
        assert_eq!(row_of(&one, 29), Some((1010, 10)));
        assert_eq!(row_of(&one, u64::MAX), Some((1030, 30)));
        assert_eq!(row_of(&other, 19), None);
        for (start, end, is_flat) in [(5, 5000, true), (4, 4000, true), (4, 5000, false)] {
            assert!(places.last(&chunk(start, end, is_flat), 100).is_none());
        }
        places.note_checked(&one);
        assert!(places.is_checked(&one) && !places.is_checked(&other));
        let many: Vec<_> = (0..4 * MOST_PAGES as u64).map(page).collect();
        places.note(&other, &many[..MOST_PAGES]);
        // Of so many pages the fourth part is noted.
        assert_eq!((row_of(&one, 9), row_of(&other, 7)), (Some((1000, 0)), Some((1004, 4))));
        many.chunks(MOST_PAGES).for_each(|part| places.note(&other, part));
        assert_eq!((row_of(&one, 9), places.is_checked(&one)), (None, false));
    }
}
