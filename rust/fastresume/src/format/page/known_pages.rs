//! Which data pages a column chunk has, and which rows begin in each, where some of its pages are damaged.

use std::ops::Range;

use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::metadata::page_header::PageHeader;
use crate::format::metadata::page_index::{PagePlace, read_index};
use crate::format::page::locations::is_same_pages;
use crate::format::page::scanner::PageScanner;

/// What is known of the pages of a column chunk before they are decoded.
pub enum KnownPages {
    /// All of them, with the rows of each.
    All(Vec<PagePlace>),
    /// Where the next one begins, and which rows it has, is known from the pages before it alone.
    OneByOne,
    /// Headers contradict the footer, and nothing tells which of them is wrong.
    Nothing(Error),
}

/// What the headers of all pages state together.
struct Stated {
    /// The pages, by the rows that begin in them, or by their values where headers do not tell rows.
    pages: Vec<PagePlace>,
    values: u64,
    /// All rows, if headers tell them.
    rows: Option<u64>,
}

impl PageScanner<'_> {
    /// The pages of the chunk, as headers tell them, or else the index that lies there.
    pub fn known_pages(mut self, index: Option<Range<u64>>) -> KnownPages {
        let (values, rows) = (self.chunk().values, self.chunk().rows);
        let stated = self.stated_pages();
        if let Ok(found) = &stated
            && found.values == values
            && found.rows == Some(rows)
        {
            return KnownPages::All(found.pages.clone());
        }
        let indexed = index.and_then(|place| read_index(self.source(), place, self.chunk()).ok());
        let fits = |indexed: &Vec<PagePlace>| match &stated {
            Ok(found) if found.values == values && found.rows.is_none() => {
                is_same_pages(indexed, &found.pages, values)
            }
            _ => !indexed.is_empty(),
        };
        match (indexed.filter(fits), stated) {
            (Some(indexed), _) => KnownPages::All(indexed),
            (None, Ok(found)) if found.values != values => KnownPages::Nothing(Error::data(format!(
                "the headers of the pages state {} values, the footer {values}",
                found.values
            ))),
            (None, _) => KnownPages::OneByOne,
        }
    }

    fn stated_pages(&mut self) -> Result<Stated> {
        let (end, is_flat) = (self.chunk().end, self.chunk().is_flat());
        let (mut offset, mut values, mut rows) = (self.chunk().start, 0_u64, Some(0_u64));
        let mut pages = Vec::new();
        self.is_skipping = true;
        while offset < end && (values < self.chunk().values || !is_flat) {
            let (header, length) = self.parse_header(offset)?;
            if header.is_data() {
                let count = header.values() as u64;
                let begun = if is_flat { Some(count) } else { self.begun_rows(&header, offset + length) };
                let first_row = rows.filter(|_| begun.is_some()).unwrap_or(values);
                pages.push(PagePlace { offset, first_row, index_rows: begun });
                values = values.saturating_add(count);
                rows = rows.zip(begun).map(|(rows, begun)| rows.saturating_add(begun));
            }
            offset += length + header.compressed_bytes();
        }
        if rows.is_none() {
            // By values, all of them.
            let mut counted = 0;
            for page in &mut pages {
                let (header, _) = self.parse_header(page.offset)?;
                page.first_row = counted;
                counted += header.values() as u64;
            }
        }
        Ok(Stated { pages, values, rows })
    }

    /// The rows that a page of lists states, which must begin with one. Where its levels can be read and say that it begins
    /// within a row, nothing is known; damaged levels say nothing.
    fn begun_rows(&mut self, header: &PageHeader, offset: u64) -> Option<u64> {
        let (stated, (repetition, _)) = header.stated_rows().zip(header.level_bytes())?;
        if repetition as u64 > header.compressed_bytes() || header.values() > MAX_VALUES {
            return Some(stated);
        }
        match self.begins_within(header.values(), offset, repetition) {
            Ok(Some((rows, true))) if rows == stated => None,
            _ => Some(stated),
        }
    }

    /// How many rows begin in a page, by its levels, and whether it begins within one; none if it has no values.
    fn begins_within(&mut self, count: usize, offset: u64, repetition: usize) -> Result<Option<(u64, bool)>> {
        let bytes = self.bytes(offset, repetition as u64)?;
        let how = (Encoding::RLE, Some(repetition));
        let within = self.read_levels(bytes, count, how)?;
        Ok((count > 0).then(|| ((count - within.ones()) as u64, within.part(0..1).ones() == 1)))
    }
}
