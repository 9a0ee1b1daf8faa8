//! The way through the pages of one column chunk: headers that are walked and bounded, pages that are passed over, and bytes
//! that are read ahead.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::metadata::column_chunk::Chunk;
use crate::format::metadata::page_header::Header;
use crate::format::metadata::page_index::{PagePlace, read_index};
use crate::format::page::locations::{MOST_PAGES, PagePlaces};
use crate::source::byte_source::Source;

/// A header is looked for in this many bytes first (statistics may make it longer), then in more.
const HEADER_BYTES: u64 = 512;
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// While pages are decoded, so many bytes are read at a time; while they are skipped, headers alone. Where a part of the
/// rows is wanted, no less than the second.
const READ_BYTES: u64 = 1 << 20;
const LEAST_READ_BYTES: u64 = 32 << 10;

/// A page that was passed by.
#[derive(Clone)]
pub struct PassedPage {
    /// Where it lies, behind its header.
    pub offset: u64,
    pub header: Header,
    /// Its rows, if the index of the pages led to it.
    pub indexed_rows: Option<u64>,
}

/// Walks the pages of one column chunk, which need not be decompressed for that.
pub struct PageWalk<'a> {
    source: Arc<dyn Source>,
    chunk: Chunk,
    /// Rows of the row group behind this one are not wanted now.
    end_row: u64,
    offset: u64,
    /// What was read ahead, and which bytes of the source these are.
    memory: &'a mut Vec<u8>,
    ahead: Range<u64>,
    /// Whether no more is read than what is asked for.
    pub is_skipping: bool,
    /// Whether rows in front of those that are wanted were passed over.
    has_skipped: bool,
    next: Option<Header>,
    /// Where the header begins that was read last.
    header_start: u64,
    /// A dictionary that was passed by, until a page needs it.
    deferred: Option<PassedPage>,
    has_dictionary: bool,
    /// The places of the data pages, read when a skip first asks for them.
    index: Option<Vec<PagePlace>>,
    /// The rows of the next page, if the index led to it.
    indexed_rows: Option<u64>,
    /// The first row of the next page, as long as headers tell; and where pages of the file lie, and those of this chunk
    /// that were met.
    next_row: Option<u64>,
    /// The same where they do not, as far as it was found: there may be more rows in between.
    row_found: u64,
    places: Arc<PagePlaces>,
    met: Vec<PagePlace>,
}

impl Drop for PageWalk<'_> {
    /// Tells those who read another part where its pages lie.
    fn drop(&mut self) {
        if !self.met.is_empty() {
            self.places.note(&self.chunk, &self.met);
        }
    }
}

impl<'a> PageWalk<'a> {
    /// A walk that begins with the first page. Rows from `end_row` on are not wanted; `memory` takes what is read.
    ///
    /// # Errors
    /// `Data` if the chunk lies outside of the file.
    pub fn new(
        source: Arc<dyn Source>,
        chunk: Chunk,
        places: Arc<PagePlaces>,
        end_row: u64,
        memory: &'a mut Vec<u8>,
    ) -> Result<Self> {
        if chunk.start > chunk.end || chunk.end > source.size() {
            return Err(Error::data(format!(
                "the column chunk lies at [{}, {}), outside of the file's {} bytes",
                chunk.start,
                chunk.end,
                source.size()
            )));
        }
        Ok(Self {
            source,
            end_row,
            offset: chunk.start,
            memory,
            ahead: chunk.start..chunk.start,
            header_start: chunk.start,
            chunk,
            is_skipping: false,
            has_skipped: false,
            next: None,
            deferred: None,
            has_dictionary: false,
            index: None,
            indexed_rows: None,
            next_row: Some(0),
            row_found: 0,
            places,
            met: Vec::new(),
        })
    }

    /// The column chunk.
    pub fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    /// Whether rows are left for others, behind those that are wanted now.
    pub fn is_part(&self) -> bool {
        self.end_row < self.chunk.rows
    }

    /// Whether the dictionary, if there is one, was not taken yet.
    pub fn is_before_dictionary(&self) -> bool {
        self.offset == self.chunk.start || self.deferred.is_some()
    }

    /// Whether a dictionary was passed by.
    pub fn has_dictionary(&self) -> bool {
        self.has_dictionary
    }

    /// The dictionary that was passed by, once.
    pub fn take_dictionary(&mut self) -> Option<PassedPage> {
        self.deferred.take()
    }

    /// Whether bytes that end there lie so far before the present place that nothing is to be read ahead behind them.
    pub fn is_far_behind(&self, end: u64) -> bool {
        self.offset.saturating_sub(end) > LEAST_READ_BYTES
    }

    /// What was read ahead.
    pub fn memory(&self) -> &[u8] {
        self.memory
    }

    /// How much to read behind what is needed at an offset: about what the wanted rows take, if these are some of many.
    fn read_ahead(&self, offset: u64) -> u64 {
        if !self.is_part() {
            return READ_BYTES;
        }
        let row = self.next_row.unwrap_or(self.row_found);
        let wanted = self.end_row.saturating_sub(row);
        let share = u128::from(self.chunk.end - offset) * u128::from(wanted)
            / u128::from(self.chunk.rows.saturating_sub(row).max(1));
        u64::try_from(share + share / 8).unwrap_or(READ_BYTES).clamp(LEAST_READ_BYTES, READ_BYTES)
    }

    /// Where in the memory the `length` bytes from `offset` are, which lie in the chunk.
    pub fn bytes(&mut self, offset: u64, length: u64) -> Result<Range<usize>> {
        if offset < self.ahead.start || offset + length > self.ahead.end {
            let ahead = if self.is_skipping { length } else { length.max(self.read_ahead(offset)) };
            let wanted = ahead.min(self.chunk.end - offset);
            let size = to_usize(wanted)?;
            grow(self.memory, size)?;
            // What is there already is not read again.
            let mut held = 0;
            if self.ahead.contains(&offset) {
                let start = to_usize(offset - self.ahead.start)?;
                held = to_usize(self.ahead.end - offset)?;
                self.memory.copy_within(start..start + held, 0);
            }
            // Nothing is there should the read fail.
            self.ahead = offset..offset;
            self.source.read_into(offset + held as u64, &mut self.memory[held..size])?;
            self.ahead = offset..offset + wanted;
        }
        let start = to_usize(offset - self.ahead.start)?;
        Ok(start..start + to_usize(length)?)
    }

    /// The header of the next page that holds data or a dictionary; the offset is after it.
    pub fn header(&mut self) -> Result<Option<&Header>> {
        while self.next.is_none() {
            let left = self.chunk.end - self.offset;
            if left == 0 {
                return Ok(None);
            }
            let (header, length) = self.parse_header(left)?;
            self.header_start = self.offset;
            self.offset += length;
            if header.has_values() {
                self.next = Some(header);
            } else {
                self.offset += header.compressed_bytes();
            }
        }
        Ok(self.next.as_ref())
    }

    fn parse_header(&mut self, left: u64) -> Result<(Header, u64)> {
        let mut window = HEADER_BYTES;
        let (header, length) = loop {
            let bytes = self.bytes(self.offset, left.min(window))?;
            match Header::parse(&self.memory[bytes]) {
                Ok((header, length)) => break (header, length as u64),
                Err(_) if window < left && window < MAX_HEADER_BYTES => window *= 4,
                Err(error) => return Err(error),
            }
        };
        if header.compressed_bytes() > left - length {
            return Err(Error::data(format!(
                "a page header claims {} bytes, the column chunk has {} left",
                header.compressed_bytes(),
                left - length
            )));
        }
        if header.has_values() {
            header.check(&self.chunk)?;
        }
        Ok((header, length))
    }

    /// Moves past the page whose header was read.
    pub fn pass(&mut self) -> Option<PassedPage> {
        let header = self.next.take()?;
        let page = PassedPage { offset: self.offset, header, indexed_rows: self.indexed_rows.take() };
        self.offset += page.header.compressed_bytes();
        if page.header.is_dictionary() {
            self.has_dictionary = true;
            self.deferred = Some(page.clone());
        } else {
            self.row_found = self.next_row.unwrap_or(self.row_found);
            self.next_row = self.next_row.zip(self.rows_of(&page.header)).map(|(row, rows)| row + rows);
            let is_noted = self.is_part() && self.chunk.index.is_none() && self.met.len() < MOST_PAGES;
            if let Some(first_row) = self.next_row.filter(|_| is_noted) {
                self.met.push(PagePlace { offset: self.offset, first_row });
            }
        }
        Some(page)
    }

    /// Notes which rows begin in the page that was passed by last, before another header is read. Where no header tells, as those of old lists do not, all
    /// pages up to here had to be decompressed for that; so it is told at once, for others may be on their way through them.
    pub fn note_rows(&mut self, rows: Range<usize>) {
        self.row_found = rows.end as u64;
        let is_told = self.chunk.index.is_some() || self.next_row.is_some();
        if !rows.is_empty() && !is_told && (self.is_part() || self.has_skipped) {
            self.places
                .note(&self.chunk, &[PagePlace { offset: self.header_start, first_row: rows.start as u64 }]);
        }
    }

    /// How many rows a data page has, if its header tells.
    fn rows_of(&self, header: &Header) -> Option<u64> {
        header.stated_rows().or_else(|| self.chunk.is_flat.then_some(header.values() as u64))
    }

    /// Passes over whole data pages, from row `row` of the row group on: of at most `rows` rows together;
    /// gives the rows.
    ///
    /// By the index of the pages if there is one, else by their headers; where these do not tell rows, as
    /// those of old lists do not, nothing is passed.
    pub fn pass_rows(&mut self, row: usize, rows: usize) -> Result<usize> {
        (self.is_skipping, self.has_skipped) = (true, true);
        let jumped = self.jump(row as u64, rows as u64)?;
        let mut passed = to_usize(jumped)?;
        // What lies behind the last row that is passed is not looked at: who reads the same rows does not, either.
        while passed < rows
            && let Some(header) = self.header()?.cloned()
        {
            let count = if header.is_dictionary() { Some(0) } else { self.rows_of(&header) };
            let Some(count) = count.map(to_usize).transpose()? else { break };
            if count > rows - passed {
                break;
            }
            self.pass();
            passed += count;
        }
        Ok(passed)
    }

    /// Goes to the last page that begins within `rows` rows from row `row` on, by the index, or else of those that were met
    /// before; gives the rows passed by that.
    fn jump(&mut self, row: u64, rows: u64) -> Result<u64> {
        let (page, rows_of_page) = match self.chunk.index.clone() {
            Some(place) => {
                if self.index.is_none() {
                    self.index = Some(read_index(self.source.as_ref(), place, &self.chunk)?);
                }
                let index = self.index.as_deref().unwrap_or_default();
                let page = index.partition_point(|page| page.first_row <= row + rows);
                let end = index.get(page).map_or(self.chunk.rows, |next| next.first_row);
                let last = page.checked_sub(1).map(|last| index[last]);
                (last, last.map(|last| end - last.first_row))
            }
            None => (self.places.last(&self.chunk, row + rows), None),
        };
        let Some(page) = page.filter(|page| page.first_row > row) else { return Ok(0) };
        // A dictionary lies before all data, and in no index.
        if !self.has_dictionary {
            self.header()?;
            if self.next.as_ref().is_some_and(Header::is_dictionary) {
                self.pass();
            }
        }
        self.next = None;
        self.offset = page.offset;
        self.indexed_rows = rows_of_page;
        self.next_row = Some(page.first_row);
        Ok(page.first_row - row)
    }
}

/// Makes room for so many bytes.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
pub fn grow(buffer: &mut Vec<u8>, size: usize) -> Result<()> {
    if buffer.len() < size {
        let more = size - buffer.len();
        let given = buffer.try_reserve_exact(more);
        given.map_err(|_| Error::Argument(format!("no memory for a page of {size} bytes")))?;
        buffer.resize(size, 0);
    }
    Ok(())
}

/// A count as a length.
///
/// # Errors
/// `Data` if there can't be so many bytes.
pub fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("{count} bytes do not fit the address space")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use parquet::basic::Compression;

    use super::*;

    struct Bytes(Vec<u8>);

    impl Source for Bytes {
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
    fn rows_are_passed_without_a_look_at_what_lies_behind_them() {
        // A data page of 8 bytes, with two plain values.
        let page = [0x15, 0, 0x15, 16, 0x15, 16, 0x2c, 0x15, 4, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
        let page = [&page[..], &[7; 8]].concat();
        let bytes = [&page[..], &page, &[0xff; 3]].concat();
        let chunk = Chunk {
            start: 0,
            end: bytes.len() as u64,
            index: None,
            rows: 4,
            values: 4,
            most_page_bytes: u64::MAX,
            uncompressed_bytes: 16,
            compression: Compression::UNCOMPRESSED,
            value_bytes: Some(4),
            is_flat: true,
        };
        let mut memory = Vec::new();
        let mut walk = PageWalk::new(Arc::new(Bytes(bytes)), chunk, Arc::default(), 4, &mut memory).unwrap();
        assert_eq!(walk.pass_rows(0, 3).unwrap(), 2);
        assert_eq!(walk.pass_rows(2, 2).unwrap(), 2);
        assert!(walk.header().is_err(), "what lies behind the pages is no header");
    }
}
