//! The pages of one column chunk: headers walked and bounded, checksums verified, pages decompressed into
//! memory that is reused.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};

use crate::chunk::{Chunk, PagePlace, read_index};
use crate::codec::Codec;
use crate::column::{Page, PageValues};
use crate::error::{Error, Result};
use crate::header::{DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, Header};
use crate::memory::Memory;
use crate::pagedictionaries::{Key, PageDictionaries};
use crate::pageplaces::{MOST_PAGES, PagePlaces};
use crate::source::Source;

/// A page that states more than this, compressed or not, is taken for damaged, unless the footer states as much of
/// the whole column chunk: cells may be large, and a page of a thousand of them has all of these.
const MAX_PAGE_BYTES: u64 = 256 << 20;

/// What a page may hold beyond the bytes of its values: levels, run lengths, padding of blocks.
const PAGE_SLACK_BYTES: u64 = 1 << 20;
const VALUE_SLACK_BYTES: u64 = 16;

/// A header is looked for in this many bytes first (statistics may make it longer), then in more.
const HEADER_BYTES: u64 = 512;
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// While pages are decoded, so many bytes are read at a time; while they are skipped, headers alone. Where a part of the
/// rows is wanted, no less than the second.
const READ_BYTES: u64 = 1 << 20;
const LEAST_READ_BYTES: u64 = 32 << 10;

/// Memory that one thread reuses from page to page and column to column.
#[derive(Default)]
pub struct Buffers {
    /// Bytes of the source that were read ahead.
    ahead: Vec<u8>,
    /// The bytes of the present page, if they were compressed.
    expanded: Vec<u8>,
    /// The bytes of the dictionary.
    dictionary: Arc<Memory>,
    codec: Option<(Compression, Codec)>,
    part: Option<GroupPart>,
}

/// What is wanted now: a part of a row group, or all of it.
struct GroupPart {
    /// The row group, counted over all files.
    group: usize,
    /// Rows behind this one are not wanted.
    end_row: u64,
    dictionaries: Arc<PageDictionaries>,
}

impl Buffers {
    /// The bytes of the dictionary that was opened last.
    pub fn dictionary(&self) -> &[u8] {
        self.dictionary.bytes()
    }

    /// Begins with a part of a row group, or all of it: up to this row, or to its end if it has no more rows. The group counts
    /// over all files; its dictionaries are kept for those who read another part.
    pub fn begin_part(&mut self, group: usize, end_row: u64, dictionaries: &Arc<PageDictionaries>) {
        dictionaries.begin(group);
        self.part = Some(GroupPart { group, end_row, dictionaries: Arc::clone(dictionaries) });
    }
}

/// Walks the pages of one column chunk; skipped ones are not decompressed.
pub struct Pages<'a> {
    source: Arc<dyn Source>,
    chunk: Chunk,
    buffers: &'a mut Buffers,
    offset: u64,
    /// Which bytes of the source are in `buffers.ahead`.
    ahead: Range<u64>,
    is_skipping: bool,
    next: Option<Header>,
    /// A dictionary that was passed by, until a page needs it.
    deferred: Option<(u64, Header)>,
    has_dictionary: bool,
    /// Values of the data pages that were opened.
    opened_values: u64,
    /// The places of the data pages, read when a skip first asks for them.
    index: Option<Vec<PagePlace>>,
    /// The rows of the next page, if the index led to it.
    indexed_rows: Option<u64>,
    /// The first row of the next page, as long as headers tell; and where pages of the file lie, and those of this chunk
    /// that were met.
    next_row: Option<u64>,
    places: Arc<PagePlaces>,
    met: Vec<PagePlace>,
    /// The bytes of the present page: of `buffers.expanded`, or of `buffers.ahead`.
    is_expanded: bool,
    page: Range<usize>,
}

impl Drop for Pages<'_> {
    /// Tells those who read another part where its pages lie.
    fn drop(&mut self) {
        if !self.met.is_empty() {
            self.places.note(&self.chunk, &self.met);
        }
    }
}

/// What a decoder has to know of a data page; its bytes are [`Pages::page`].
pub struct PageStart {
    /// Values: rows in a flat column, of which some may be null; else one for each pair of levels.
    pub num_values: usize,
    pub encoding: Encoding,
    pub repetition_encoding: Encoding,
    pub definition_encoding: Encoding,
    /// Bytes of repetition and of definition levels, if they are stated apart from them.
    pub level_bytes: Option<(usize, usize)>,
    /// Its rows, if the header states them, or the index of the pages led to it.
    pub rows: Option<u64>,
}

impl PageStart {
    /// Refuses a page that has other rows than were stated.
    pub fn check_rows(&self, found: usize) -> Result<()> {
        match self.rows {
            Some(stated) if stated != found as u64 => Err(Error::data(format!(
                "a page holds {found} rows, its header or the page index states {stated}"
            ))),
            _ => Ok(()),
        }
    }
}

impl<'a> Pages<'a> {
    /// The pages of a chunk.
    ///
    /// # Errors
    /// `Data` if the chunk lies outside of the file, or its codec is not known.
    pub fn new(
        source: Arc<dyn Source>,
        chunk: Chunk,
        places: Arc<PagePlaces>,
        buffers: &'a mut Buffers,
    ) -> Result<Self> {
        if chunk.start > chunk.end || chunk.end > source.size() {
            return Err(Error::data(format!(
                "the column chunk lies at [{}, {}), outside of the file's {} bytes",
                chunk.start,
                chunk.end,
                source.size()
            )));
        }
        if buffers.codec.as_ref().is_none_or(|(known, _)| *known != chunk.compression) {
            buffers.codec = Some((chunk.compression, Codec::new(chunk.compression)?));
        }
        Ok(Self {
            source,
            buffers,
            offset: chunk.start,
            ahead: chunk.start..chunk.start,
            chunk,
            is_skipping: false,
            next: None,
            deferred: None,
            has_dictionary: false,
            opened_values: 0,
            index: None,
            indexed_rows: None,
            next_row: Some(0),
            places,
            met: Vec::new(),
            is_expanded: false,
            page: 0..0,
        })
    }

    /// Rows of the row group behind this one are not wanted now.
    fn end_row(&self) -> u64 {
        self.buffers.part.as_ref().map_or(self.chunk.rows, |part| part.end_row)
    }

    /// Whether rows are left for others, behind those that are wanted now.
    fn is_part(&self) -> bool {
        self.end_row() < self.chunk.rows
    }

    /// How much to read behind what is needed at an offset: about what the wanted rows take, if these are some of many.
    fn read_ahead(&self, offset: u64) -> u64 {
        let Some(row) = self.next_row.filter(|_| self.is_part()) else { return READ_BYTES };
        let wanted = self.end_row().saturating_sub(row);
        let share = u128::from(self.chunk.end - offset) * u128::from(wanted)
            / u128::from(self.chunk.rows.saturating_sub(row).max(1));
        u64::try_from(share + share / 8).unwrap_or(READ_BYTES).clamp(LEAST_READ_BYTES, READ_BYTES)
    }

    /// Where in `buffers.ahead` the `length` bytes from `offset` are, which lie in the chunk.
    fn bytes(&mut self, offset: u64, length: u64) -> Result<Range<usize>> {
        if offset < self.ahead.start || offset + length > self.ahead.end {
            let ahead = if self.is_skipping { length } else { length.max(self.read_ahead(offset)) };
            let wanted = ahead.min(self.chunk.end - offset);
            let size = to_usize(wanted)?;
            grow(&mut self.buffers.ahead, size)?;
            // What is there already is not read again.
            let mut held = 0;
            if self.ahead.contains(&offset) {
                let start = to_usize(offset - self.ahead.start)?;
                held = to_usize(self.ahead.end - offset)?;
                self.buffers.ahead.copy_within(start..start + held, 0);
            }
            // Nothing is there should the read fail.
            self.ahead = offset..offset;
            self.source.read_into(offset + held as u64, &mut self.buffers.ahead[held..size])?;
            self.ahead = offset..offset + wanted;
        }
        let start = to_usize(offset - self.ahead.start)?;
        Ok(start..start + to_usize(length)?)
    }

    /// The header of the next page that holds data or a dictionary; the offset is after it.
    fn header(&mut self) -> Result<Option<&Header>> {
        while self.next.is_none() {
            let left = self.chunk.end - self.offset;
            if left == 0 {
                return Ok(None);
            }
            let (header, length) = self.parse_header(left)?;
            self.offset += length;
            if [DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2].contains(&header.kind) {
                self.next = Some(header);
            } else {
                // Index pages and kinds of the future carry no values.
                self.offset += u64::from(header.compressed.unsigned_abs());
            }
        }
        Ok(self.next.as_ref())
    }

    fn parse_header(&mut self, left: u64) -> Result<(Header, u64)> {
        let mut window = HEADER_BYTES;
        let (header, length) = loop {
            let bytes = self.bytes(self.offset, left.min(window))?;
            match Header::parse(&self.buffers.ahead[bytes]) {
                Ok((header, length)) => break (header, length as u64),
                Err(_) if window < left && window < MAX_HEADER_BYTES => window *= 4,
                Err(error) => return Err(error),
            }
        };
        let in_chunk = u64::try_from(header.compressed).is_ok_and(|size| size <= left - length);
        if !in_chunk {
            return Err(Error::data(format!(
                "a page header claims {} bytes, the column chunk has {} left",
                header.compressed,
                left - length
            )));
        }
        if [DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2].contains(&header.kind) {
            self.check_header(&header)?;
        }
        Ok((header, length))
    }

    /// Refuses counts and sizes that can't be.
    fn check_header(&self, header: &Header) -> Result<()> {
        let counts = [header.num_values, header.num_nulls, header.num_rows];
        let lengths = [header.definition_bytes, header.repetition_bytes];
        if let Some(negative) = counts.into_iter().chain(lengths).find(|&number| number < 0) {
            return Err(Error::data(format!("a page header holds the negative count {negative}")));
        }
        let most = self.chunk.uncompressed_bytes.max(MAX_PAGE_BYTES);
        let for_values = self.chunk.value_bytes.map_or(most, |bytes| {
            u64::from(header.num_values.unsigned_abs()) * (bytes as u64 + VALUE_SLACK_BYTES)
                + PAGE_SLACK_BYTES
        });
        let bound = for_values.min(most);
        let largest = header.compressed.max(header.uncompressed).unsigned_abs();
        if u64::from(largest) > bound {
            return Err(Error::data(format!(
                "a page header claims {} bytes, {} uncompressed, and {} values, for which {bound} are enough",
                header.compressed, header.uncompressed, header.num_values
            )));
        }
        let fits = if self.chunk.is_flat {
            header.num_rows == header.num_values
        } else {
            header.num_rows <= header.num_values
        };
        if header.num_nulls > header.num_values {
            return Err(Error::data(format!(
                "a page claims {} nulls among {} values",
                header.num_nulls, header.num_values
            )));
        }
        if header.kind == DATA_PAGE_V2 && !fits {
            return Err(Error::data(format!(
                "a page claims {} rows and {} values",
                header.num_rows, header.num_values
            )));
        }
        Ok(())
    }

    /// Moves past the page whose header was read.
    fn pass(&mut self) -> Option<(u64, Header)> {
        let header = self.next.take()?;
        let offset = self.offset;
        self.offset += u64::from(header.compressed.unsigned_abs());
        self.indexed_rows = None;
        if header.kind == DICTIONARY_PAGE {
            self.has_dictionary = true;
            self.deferred = Some((offset, header.clone()));
        } else {
            self.next_row = self.next_row.zip(self.rows_of(&header)).map(|(row, rows)| row + rows);
            let is_noted = self.is_part() && self.chunk.index.is_none() && self.met.len() < MOST_PAGES;
            if let Some(first_row) = self.next_row.filter(|_| is_noted) {
                self.met.push(PagePlace { offset: self.offset, first_row });
            }
        }
        Some((offset, header))
    }

    /// How many rows a data page has, if its header tells.
    fn rows_of(&self, header: &Header) -> Option<u64> {
        let rows = match header.kind {
            DATA_PAGE_V2 => header.num_rows,
            _ if self.chunk.is_flat => header.num_values,
            _ => return None,
        };
        Some(u64::from(rows.unsigned_abs()))
    }

    /// Passes over whole data pages, from row `row` of the row group on: of at most `rows` rows together;
    /// gives the rows.
    ///
    /// By the index of the pages if there is one, else by their headers; where these do not tell rows, as
    /// those of old lists do not, nothing is passed.
    pub fn pass_rows(&mut self, row: usize, rows: usize) -> Result<usize> {
        self.is_skipping = true;
        let jumped = self.jump(row as u64, rows as u64)?;
        let mut passed = to_usize(jumped)?;
        while let Some(header) = self.header()?.cloned() {
            let count = if header.kind == DICTIONARY_PAGE { Some(0) } else { self.rows_of(&header) };
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
            if self.next.as_ref().is_some_and(|header| header.kind == DICTIONARY_PAGE) {
                self.pass();
            }
        }
        self.next = None;
        self.offset = page.offset;
        self.indexed_rows = rows_of_page;
        self.next_row = Some(page.first_row);
        Ok(page.first_row - row)
    }

    /// Opens the dictionary alone, if the chunk begins with one, and gives how many values it has.
    ///
    /// # Errors
    /// `Data` if it is damaged; `Source` if it can't be read.
    pub fn dictionary(&mut self) -> Result<Option<usize>> {
        self.is_skipping = true;
        if self.header()?.is_none_or(|header| header.kind != DICTIONARY_PAGE) {
            return Ok(None);
        }
        self.pass();
        let Some((offset, header)) = self.deferred.take() else { return Ok(None) };
        self.open_dictionary(offset, &header).map(Some)
    }

    /// Opens the next data page, none at the end; `values` takes over the dictionary that it needs.
    pub fn open(&mut self, values: &mut impl PageValues) -> Result<Option<PageStart>> {
        loop {
            // Of a part of the rows the dictionary is read by itself, since they may lie far behind it.
            self.is_skipping = self.is_part() && (self.offset == self.chunk.start || self.deferred.is_some());
            let header = self.header()?.cloned();
            self.is_skipping = false;
            let Some(header) = header else { return Ok(None) };
            if header.kind == DICTIONARY_PAGE {
                self.pass();
                continue;
            }
            let encoding = encoding(header.encoding)?;
            if let Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY = encoding
                && values.wants_dictionary()
            {
                if let Some((offset, header)) = self.deferred.take() {
                    let count = self.open_dictionary(offset, &header)?;
                    values.open_dictionary(self.buffers.dictionary.bytes(), count)?;
                }
                if !self.has_dictionary {
                    return Err(Error::data(
                        "a page needs a dictionary, and the column chunk has none before it",
                    ));
                }
            }
            self.opened_values += u64::from(header.num_values.unsigned_abs());
            if self.opened_values > self.chunk.values {
                return Err(Error::data(format!(
                    "the pages hold more than the {} values that the footer states",
                    self.chunk.values
                )));
            }
            let indexed_rows = self.indexed_rows.take();
            let Some((offset, header)) = self.pass() else { return Ok(None) };
            self.expand(offset, &header, None)?;
            let is_v2 = header.kind == DATA_PAGE_V2;
            let level_bytes = is_v2.then(|| {
                let bytes = |count: i32| count.unsigned_abs() as usize;
                (bytes(header.repetition_bytes), bytes(header.definition_bytes))
            });
            let stated_rows = is_v2.then(|| u64::from(header.num_rows.unsigned_abs()));
            if let (Some(indexed), Some(stated)) = (indexed_rows, stated_rows)
                && indexed != stated
            {
                return Err(Error::data(format!(
                    "a page's header states {stated} rows, the page index {indexed}"
                )));
            }
            return Ok(Some(PageStart {
                num_values: header.num_values.unsigned_abs() as usize,
                encoding,
                repetition_encoding: self::encoding(header.repetition_encoding)?,
                definition_encoding: self::encoding(header.definition_encoding)?,
                level_bytes,
                rows: stated_rows.or(indexed_rows),
            }));
        }
    }

    /// Reads a dictionary; gives how many values it has.
    fn open_dictionary(&mut self, offset: u64, header: &Header) -> Result<usize> {
        match encoding(header.encoding)? {
            Encoding::PLAIN | Encoding::PLAIN_DICTIONARY => {}
            other => return Err(Error::data(format!("a dictionary is encoded as {other}, expected PLAIN"))),
        }
        let key = Key { chunk: self.chunk.start, offset, compression: self.chunk.compression };
        // One at a time: the last one goes before there is memory for the next.
        self.buffers.dictionary = Arc::default();
        let kept = self.buffers.part.as_ref();
        if let Some(kept) = kept.and_then(|part| part.dictionaries.get(part.group, &key)) {
            self.buffers.dictionary = kept;
        } else {
            let end = offset + u64::from(header.compressed.unsigned_abs());
            self.is_skipping |= self.is_part() || self.offset.saturating_sub(end) > LEAST_READ_BYTES;
            let mut dictionary = Memory::lent();
            self.expand(offset, header, Some(&mut dictionary))?;
            self.is_skipping = false;
            self.buffers.dictionary = Arc::new(dictionary);
            if let Some(part) = self.buffers.part.as_ref().filter(|_| self.is_part()) {
                part.dictionaries.keep(part.group, key, &self.buffers.dictionary);
            }
        }
        let count = header.num_values.unsigned_abs() as usize;
        let needed = count.saturating_mul(self.chunk.value_bytes.unwrap_or(4));
        if needed > self.buffers.dictionary.len() {
            return Err(Error::data(format!(
                "the dictionary claims {count} values, which take {needed} bytes, and has {}",
                self.buffers.dictionary.len()
            )));
        }
        Ok(count)
    }

    /// Refuses pages that hold so many rows, if these are more than the row group has.
    ///
    /// # Errors
    /// `Data`, naming its number.
    pub fn check_group_rows(&self, rows: usize) -> Result<()> {
        if rows as u64 > self.chunk.rows {
            let stated = self.chunk.rows;
            return Err(Error::data(format!("the pages hold more than the {stated} rows of the row group")));
        }
        Ok(())
    }

    /// The page that was opened last.
    pub fn page(&self) -> Page<'_> {
        let held = if self.is_expanded { &self.buffers.expanded } else { &self.buffers.ahead };
        Page {
            bytes: held.get(self.page.clone()).unwrap_or_default(),
            dictionary: self.buffers.dictionary.bytes(),
        }
    }

    /// Makes a page the present one, or the dictionary whose memory is given: checks its checksum, and decompresses it if it
    /// is compressed.
    fn expand(&mut self, offset: u64, header: &Header, dictionary: Option<&mut Memory>) -> Result<()> {
        let place = self.bytes(offset, u64::from(header.compressed.unsigned_abs()))?;
        let bytes = &self.buffers.ahead[place.clone()];
        if let Some(stated) = header.checksum {
            let found = crc32fast::hash(bytes);
            if found != stated.cast_unsigned() {
                return Err(Error::data(format!(
                    "a page's checksum is {found:08x}, its header states {:08x}",
                    stated.cast_unsigned()
                )));
            }
        }
        let is_v2 = header.kind == DATA_PAGE_V2;
        let levels = if is_v2 {
            u64::from(header.definition_bytes.unsigned_abs())
                + u64::from(header.repetition_bytes.unsigned_abs())
        } else {
            0
        };
        let levels = to_usize(levels)?;
        let stated = to_usize(u64::from(header.uncompressed.unsigned_abs()))?;
        if levels > bytes.len() || levels > stated {
            return Err(Error::data(format!(
                "a page claims {levels} bytes of levels and has {} ({stated} uncompressed)",
                bytes.len()
            )));
        }
        let codec = self.buffers.codec.as_mut().map(|(_, codec)| codec);
        let codec = codec.filter(|codec| !codec.is_none() && (!is_v2 || header.is_compressed));
        let as_it_is = match &codec {
            None => Some(bytes),
            Some(codec) if levels == 0 => codec.as_it_is(bytes, stated),
            Some(_) => None,
        };
        let output = match (as_it_is, dictionary) {
            (Some(page), Some(dictionary)) => return dictionary.extend(page),
            (Some(page), None) => {
                self.is_expanded = false;
                // What is put in front of it is all that codecs add.
                self.page = place.end - page.len()..place.end;
                return Ok(());
            }
            (None, Some(dictionary)) => {
                dictionary.resize(stated)?;
                dictionary.bytes_mut()
            }
            (None, None) => {
                self.is_expanded = true;
                self.page = 0..stated;
                grow(&mut self.buffers.expanded, stated)?;
                &mut self.buffers.expanded[..stated]
            }
        };
        // The levels in front of a page of version 2 never are compressed.
        output[..levels].copy_from_slice(&bytes[..levels]);
        // A page of nulls alone may hold no values, not even an empty compressed block.
        if let Some(codec) = codec
            && stated > levels
        {
            codec.decompress(&bytes[levels..], &mut output[levels..])?;
        }
        Ok(())
    }
}

/// Makes room for so many bytes.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
fn grow(buffer: &mut Vec<u8>, size: usize) -> Result<()> {
    if buffer.len() < size {
        let more = size - buffer.len();
        let given = buffer.try_reserve_exact(more);
        given.map_err(|_| Error::Argument(format!("no memory for a page of {size} bytes")))?;
        buffer.resize(size, 0);
    }
    Ok(())
}

fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("{count} bytes do not fit the address space")))
}

fn encoding(code: i32) -> Result<Encoding> {
    Ok(match code {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        #[expect(deprecated, reason = "old files have it")]
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return Err(Error::data(format!("the encoding {code} is not known"))),
    })
}
