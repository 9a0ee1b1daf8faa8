//! The way through the pages of one column chunk: headers that are walked and bounded, pages that are passed over, and bytes
//! that are read ahead.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Bitmap, Marks};
use crate::format::encoding::levels::Levels;
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::metadata::column_chunk::ColumnChunk;
use crate::format::metadata::page_header::PageHeader;
use crate::format::metadata::page_index::{PagePlace, read_index};
use crate::format::metadata::thrift::truncated;
use crate::format::page::locations::{PageLocations, is_same_pages};
use crate::format::page::sizes::{grow, to_usize};
use crate::memory::pool::Memory;
use crate::source::byte_source::ByteSource;

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
    pub header: PageHeader,
    /// Its rows, if an index of the pages led to it.
    pub index_rows: Option<u64>,
}

/// Walks the pages of one column chunk, which need not be decompressed for that.
///
/// What headers state is not covered by checksums, and some writers err. So before pages are passed over, or left for others, all
/// headers of the chunk are looked at: their values are as many as the footer states. This is not done as long as pages of a flat
/// column are decoded one after the other, and the bytes of each tell how many values it has. Rows of a flat column are its values. Those
/// of lists are what their repetition levels say, whatever a header states; where these are compressed, pages are decompressed,
/// unless the writer of their index is known to count rows.
pub struct PageScanner<'a> {
    source: Arc<dyn ByteSource>,
    chunk: ColumnChunk,
    /// Rows of the row group behind this one are not wanted now.
    end_row: u64,
    offset: u64,
    /// What was read ahead, and which bytes of the source these are.
    memory: &'a mut Memory,
    ahead: Range<u64>,
    /// Whether no more is read than what is asked for.
    pub is_skipping: bool,
    next: Option<PageHeader>,
    /// Where the header begins that was read last.
    header_start: u64,
    /// A dictionary that was passed by, until a page needs it.
    deferred: Option<PassedPage>,
    has_dictionary: bool,
    /// Whether all headers were looked at, since others may read another part, or this one passes over some.
    is_checked: bool,
    /// The rows of the next page, if an index led to it.
    index_rows: Option<u64>,
    /// The first row of the next page, as far as it was found: there may be more rows in between.
    row_found: u64,
    places: Arc<PageLocations>,
    /// Of a page that is passed over, its repetition levels, and which of them begin no row.
    levels: Levels,
    within: Bitmap,
}

impl<'a> PageScanner<'a> {
    /// A walk that begins with the first page. Rows from `end_row` on are not wanted; `memory` takes what is read.
    ///
    /// # Errors
    /// `Data` if the chunk lies outside of the file.
    pub fn new(
        source: Arc<dyn ByteSource>,
        chunk: ColumnChunk,
        places: Arc<PageLocations>,
        end_row: u64,
        memory: &'a mut Memory,
    ) -> Result<Self> {
        if chunk.start > chunk.end || chunk.end > source.size() {
            return Err(Error::data(format!(
                "the column chunk is at [{}, {}), outside of the file's {} bytes",
                chunk.start,
                chunk.end,
                source.size()
            )));
        }
        let is_checked = places.is_checked(&chunk);
        Ok(Self {
            source,
            end_row,
            offset: chunk.start,
            memory,
            ahead: chunk.start..chunk.start,
            header_start: chunk.start,
            chunk,
            is_skipping: false,
            next: None,
            deferred: None,
            has_dictionary: false,
            is_checked,
            index_rows: None,
            row_found: 0,
            places,
            levels: Levels::default(),
            within: Bitmap::default(),
        })
    }

    /// The column chunk.
    pub fn chunk(&self) -> &ColumnChunk {
        &self.chunk
    }

    /// What it reads from.
    pub fn source(&self) -> &dyn ByteSource {
        self.source.as_ref()
    }

    /// Whether rows are left for others, behind those that are wanted now.
    pub fn is_part(&self) -> bool {
        self.end_row < self.chunk.rows
    }

    /// Whether those rows begin amid the page that was passed by last.
    pub fn ends_amid(&self) -> bool {
        self.end_row < self.row_found
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
        self.memory.bytes()
    }

    /// How much to read behind what is needed at an offset: about what the wanted rows take, if these are some of many.
    fn read_ahead(&self, offset: u64) -> u64 {
        if !self.is_part() {
            return READ_BYTES;
        }
        let row = self.row_found;
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
                self.memory.bytes_mut().copy_within(start..start + held, 0);
            }
            // Nothing is there should the read fail.
            self.ahead = offset..offset;
            self.source.read_into(offset + held as u64, &mut self.memory.bytes_mut()[held..size])?;
            self.ahead = offset..offset + wanted;
        }
        let start = to_usize(offset - self.ahead.start)?;
        Ok(start..start + to_usize(length)?)
    }

    /// The header of the next page that holds data or a dictionary; the offset is after it.
    pub fn header(&mut self) -> Result<Option<&PageHeader>> {
        if self.is_part() && !self.chunk.is_flat() {
            self.check_headers()?;
        }
        while self.next.is_none() && self.offset < self.chunk.end {
            let (header, length) = self.parse_header(self.offset)?;
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

    /// Looks at the headers of all pages, unless somebody did: their values must be as many as the footer states.
    ///
    /// # Errors
    /// `Data` if they are not, or one of the headers is damaged.
    fn check_headers(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_checked, true) || self.places.is_checked(&self.chunk) {
            return Ok(());
        }
        let (pages, can_be_indexed) = self.all_pages()?;
        if self.chunk.is_flat() {
            self.places.note(&self.chunk, &pages);
        } else if let Some(place) = self.chunk.index.clone().filter(|_| can_be_indexed) {
            let indexed = read_index(self.source.as_ref(), place, &self.chunk)?;
            if is_same_pages(&indexed, &pages, self.chunk.values) {
                self.places.note(&self.chunk, &indexed);
            }
        }
        self.places.note_checked(&self.chunk);
        Ok(())
    }

    /// Whether an index names the pages that there are; of a flat column, with their first rows.
    ///
    /// # Errors
    /// As for reading the pages.
    pub fn are_pages(mut self, indexed: &[PagePlace]) -> Result<bool> {
        let (pages, _) = self.all_pages()?;
        let is_same = is_same_pages(indexed, &pages, self.chunk.values);
        let has_same_rows =
            || indexed.iter().zip(&pages).all(|(indexed, page)| indexed.first_row == page.first_row);
        Ok(is_same && (!self.chunk.is_flat() || has_same_rows()))
    }

    /// All data pages, with their first values, which are the first rows of a flat column; and whether none is of version 2, whose
    /// rows are known by its levels.
    fn all_pages(&mut self) -> Result<(Vec<PagePlace>, bool)> {
        let (start, end, stated) = (self.chunk.start, self.chunk.end, self.chunk.values);
        let was_skipping = std::mem::replace(&mut self.is_skipping, end - start > LEAST_READ_BYTES);
        let (mut offset, mut values, mut pages, mut are_old) = (start, 0_u64, Vec::new(), true);
        // A last row that goes on has its values before the end; of a flat column, nobody looks at what comes behind the last one.
        while offset < end && (values < stated || !self.chunk.is_flat()) {
            let (header, length) = self.parse_header(offset)?;
            if header.is_data() {
                pages.push(PagePlace { offset, first_row: values, index_rows: None });
                values = values.saturating_add(header.values() as u64);
                are_old &= header.level_bytes().is_none();
            }
            offset += length + header.compressed_bytes();
        }
        self.is_skipping = was_skipping;
        if values != stated {
            return Err(Error::data(format!(
                "the headers of the pages state {values} values, the footer {stated}"
            )));
        }
        Ok((pages, are_old))
    }

    /// The header at an offset, and its length.
    ///
    /// # Errors
    /// `Data` if it is damaged; `Source` if it can't be read.
    pub fn parse_header(&mut self, offset: u64) -> Result<(PageHeader, u64)> {
        let mut window = HEADER_BYTES;
        let left = self.chunk.end - offset;
        let (header, length) = loop {
            let bytes = self.bytes(offset, left.min(window))?;
            match PageHeader::parse(&self.memory.bytes()[bytes]) {
                Ok((header, length)) => break (header, length as u64),
                Err(error) if error != truncated() || window >= left => return Err(error),
                Err(_) if window < MAX_HEADER_BYTES => window *= 4,
                Err(_) => {
                    return Err(Error::data(format!(
                        "a page header has more than {} MiB; write the file without statistics in page headers",
                        MAX_HEADER_BYTES >> 20
                    )));
                }
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
        if header.is_dictionary() && offset != self.chunk.start {
            return Err(Error::data("a dictionary comes after the first page of the column chunk"));
        }
        Ok((header, length))
    }

    /// Moves past the page whose header was read.
    pub fn pass(&mut self) -> Option<PassedPage> {
        let header = self.next.take()?;
        let page = PassedPage { offset: self.offset, header, index_rows: self.index_rows.take() };
        self.offset += page.header.compressed_bytes();
        if page.header.is_dictionary() {
            self.has_dictionary = true;
            self.deferred = Some(page.clone());
        } else if self.chunk.is_flat() {
            self.row_found += page.header.values() as u64;
        }
        Some(page)
    }

    /// Notes which rows begin in the page of lists that was passed by last, before another header is read: all pages up to here
    /// had to be decompressed for that. So it is noted at once, for others may be on their way through them.
    pub fn note_rows(&mut self, rows: Range<usize>) {
        self.row_found = rows.end as u64;
        if !rows.is_empty() && self.is_checked {
            let first_row = rows.start as u64;
            self.places
                .note(&self.chunk, &[PagePlace { offset: self.header_start, first_row, index_rows: None }]);
        }
    }

    /// Notes that the page of a flat column that was passed by last was decoded: where the next one begins, if its bytes tell how many
    /// values it has; else that is learned from all headers.
    ///
    /// # Errors
    /// `Data` if the values are not as many as the footer states, or one of the headers is damaged.
    pub fn note_decoded(&mut self, is_counted: bool) -> Result<()> {
        if !self.is_part() || self.is_checked {
            return Ok(());
        }
        if !is_counted {
            // The page that was decoded stays where it is.
            let ahead = std::mem::replace(&mut self.ahead, self.offset..self.offset);
            let held = std::mem::take(self.memory);
            let checked = self.check_headers();
            (*self.memory, self.ahead) = (held, ahead);
            return checked;
        }
        let next = PagePlace { offset: self.offset, first_row: self.row_found, index_rows: None };
        if self.offset < self.chunk.end {
            self.places.note(&self.chunk, &[next]);
        }
        Ok(())
    }

    /// Whether the values of all pages are known to be as many as the footer states.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Passes over whole data pages, from row `row` of the row group on: of at most `rows` rows together;
    /// gives the rows.
    ///
    /// What the last of them goes on with, behind them, is passed over as well by whoever reads on. Where nothing tells rows, as
    /// headers of old lists do not, nothing is passed.
    pub fn pass_rows(&mut self, row: usize, rows: usize) -> Result<usize> {
        if !self.chunk.is_flat() {
            self.check_headers()?;
        }
        self.is_skipping = true;
        let jumped = self.jump(row as u64, rows as u64)?;
        let mut passed = to_usize(jumped)?;
        // What lies behind the last row that is passed is not looked at: who reads the same rows does not, either.
        while passed < rows
            && let Some(header) = self.header()?.cloned()
        {
            let count = if header.is_dictionary() { Some(0) } else { self.rows_of(&header)? };
            let Some(count) = count.filter(|&count| count <= rows - passed) else { break };
            if count > 0 {
                self.check_headers()?;
            }
            self.pass();
            if !self.chunk.is_flat() && !header.is_dictionary() {
                self.note_rows(row + passed..row + passed + count);
            }
            passed += count;
        }
        Ok(passed)
    }

    /// How many rows begin in the next page, if that can be known without decompressing it.
    fn rows_of(&mut self, header: &PageHeader) -> Result<Option<usize>> {
        let count = header.values();
        if self.chunk.is_flat() {
            return Ok(Some(count));
        }
        let Some((repetition, _)) = header.level_bytes() else { return Ok(None) };
        if repetition as u64 > header.compressed_bytes() || count > MAX_VALUES {
            return Ok(None);
        }
        let bytes = self.bytes(self.offset, repetition as u64)?;
        let within = self.read_levels(bytes, count, (Encoding::RLE, Some(repetition)))?;
        let rows = count - within.ones();
        match header.stated_rows() {
            Some(stated) if stated != rows as u64 && self.chunk.writer.counts_list_rows() => {
                Err(other_rows(rows, stated))
            }
            _ => Ok(Some(rows)),
        }
    }

    /// Reads repetition levels from these bytes of the memory; marks those that begin no row.
    pub fn read_levels(
        &mut self,
        bytes: Range<usize>,
        count: usize,
        how: (Encoding, Option<usize>),
    ) -> Result<Marks<'_>> {
        self.levels.read(&self.memory.bytes()[bytes], 0, count, self.chunk.levels.0, how)?;
        self.levels.at_least(1, &mut self.within);
        Ok(self.within.all())
    }

    /// Goes to the last page that begins within `rows` rows from row `row` on, of those whose rows are known; gives the rows
    /// passed by that.
    fn jump(&mut self, row: u64, rows: u64) -> Result<u64> {
        let page = self.places.last(&self.chunk, row + rows);
        let Some(page) = page.filter(|page| page.first_row > row) else { return Ok(0) };
        // A dictionary lies before all data, and in no index. Where a damaged page stands in its place, one that needs it says so.
        if !self.has_dictionary {
            match self.header() {
                Ok(Some(header)) if header.is_dictionary() => _ = self.pass(),
                Ok(_) | Err(Error::Data { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.next = None;
        self.offset = page.offset;
        self.index_rows = page.index_rows;
        self.row_found = page.first_row;
        Ok(page.first_row - row)
    }
}

/// What is said of a page that has other rows than were stated.
pub fn other_rows(found: usize, stated: u64) -> Error {
    Error::data(format!("a page holds {found} rows, its header or the page index states {stated}"))
}

#[cfg(test)]
#[path = "scanner_tests.rs"]
mod tests;
