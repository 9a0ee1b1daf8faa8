//! The pages of one column chunk, opened: checksums verified, pages decompressed into memory that is reused.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parquet::basic::{Compression, Encoding};

use crate::error::{Error, Result};
use crate::format::compression::codec::Codec;
use crate::format::encoding::page_values::{Page, PageValues};
use crate::format::metadata::column_chunk::ColumnChunk;
use crate::format::metadata::page_header::PageHeader;
use crate::format::page::kept_pages::{KeptPages, PageKey};
use crate::format::page::locations::PageLocations;
use crate::format::page::scanner::{PageScanner, PassedPage, other_rows};
use crate::format::page::sizes::{grow, to_usize};
use crate::memory::pool::Memory;
use crate::source::byte_source::ByteSource;

/// What some pages end in.
const PADDING: &[u8] = &[0; 8];

/// Memory that one thread reuses from page to page and column to column; the next reader gets it from the pool.
pub struct Buffers {
    /// Bytes of the source that were read ahead.
    ahead: Memory,
    expanded: ExpandedPage,
    /// The bytes of the dictionary.
    dictionary: Arc<Memory>,
    codec: Option<(Compression, Codec)>,
    part: Option<GroupPart>,
    /// The bytes of a page that was made of arrays.
    made: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        let expanded = ExpandedPage { bytes: Memory::lent(), key: None };
        Self {
            ahead: Memory::lent(),
            expanded,
            dictionary: Arc::default(),
            codec: None,
            part: None,
            made: Vec::new(),
        }
    }
}

/// The bytes of the page that was decompressed last.
struct ExpandedPage {
    bytes: Memory,
    /// The row group, counted over all files, and which page of it this is; `None` if nobody can tell.
    key: Option<(usize, PageKey)>,
}

/// What is wanted now: a part of a row group, or all of it.
#[derive(Clone)]
struct GroupPart {
    /// The row group, counted over all files.
    group: usize,
    /// Rows behind this one are not wanted.
    end_row: u64,
    kept: Arc<KeptPages>,
}

impl Buffers {
    /// The bytes of the dictionary that was opened last.
    pub fn dictionary(&self) -> &[u8] {
        self.dictionary.bytes()
    }

    /// Memory for a page that is made of arrays, and the row behind the last one that is wanted of a row group.
    pub fn made(&mut self) -> (&mut Vec<u8>, u64) {
        let end_row = self.part.as_ref().map_or(u64::MAX, |part| part.end_row);
        (&mut self.made, end_row)
    }

    /// Others for the same part of the row group.
    #[must_use]
    pub fn others(&self) -> Self {
        Self { part: self.part.clone(), ..Self::default() }
    }

    /// Begins with a part of a row group, or all of it: up to this row, or to its end if it has no more rows. The group counts
    /// over all files; its dictionaries, and pages that the part ends amid, are kept for those who read another part.
    pub fn begin_part(&mut self, group: usize, end_row: u64, kept: &Arc<KeptPages>) {
        kept.begin(group);
        self.part = Some(GroupPart { group, end_row, kept: Arc::clone(kept) });
    }
}

/// Opens the pages of one column chunk; those that are passed over are not decompressed.
pub struct PageReader<'a> {
    walk: PageScanner<'a>,
    expanded: &'a mut ExpandedPage,
    dictionary: &'a mut Arc<Memory>,
    codec: &'a mut Codec,
    part: Option<&'a GroupPart>,
    verifies_checksums: bool,
    /// Whether a page had none.
    lacks_checksums: Arc<AtomicBool>,
    /// Values of the data pages that were opened.
    opened_values: u64,
    /// The bytes of the present page: of what was expanded, or of what was read ahead.
    is_expanded: bool,
    page: Range<usize>,
}

/// What a decoder has to know of a data page; its bytes are [`PageReader::page`].
pub struct PageStart {
    /// Values: rows in a flat column, of which some may be null; else one for each pair of levels.
    pub num_values: usize,
    pub encoding: Encoding,
    pub repetition_encoding: Encoding,
    pub definition_encoding: Encoding,
    pub levels: PageLevels,
    /// Its rows, if the header states them, or an index of the pages led to it.
    pub rows: Option<u64>,
    /// Whether an index led to it, which counts from where a row begins.
    pub is_indexed: bool,
    /// Whether its values may have another encoding than its header states, for all that the footer tells.
    pub is_doubtful: bool,
    /// Whether some zeros may stand behind its values.
    pub is_padded: bool,
}

/// Where the levels of a page are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageLevels {
    /// Before its values, each kind behind its length.
    Before,
    /// So many bytes of repetition levels and of definition levels begin it.
    Apart(usize, usize),
    /// Nowhere: it is one of a flat column, and none of its values is null.
    AllThere,
}

impl PageLevels {
    /// The bytes of repetition and of definition levels, if they are stated.
    #[must_use]
    pub fn bytes(self) -> Option<(usize, usize)> {
        match self {
            Self::Before => None,
            Self::Apart(repetition, definition) => Some((repetition, definition)),
            Self::AllThere => Some((0, 0)),
        }
    }
}

impl PageStart {
    /// Opens the `count` values that begin at byte `start` of the page; those that may have another encoding than they should are
    /// looked through to their end.
    ///
    /// # Errors
    /// `Data` if they are damaged, or the page does not end behind the last of them.
    pub fn open_values(
        &self,
        values: &mut impl PageValues,
        bytes: &[u8],
        start: usize,
        count: usize,
    ) -> Result<()> {
        let mut open = |bytes| {
            values.open(self.encoding, bytes, start, count)?;
            if self.is_doubtful && count > 0 { values.check_end(bytes, count) } else { Ok(()) }
        };
        let opened = open(bytes);
        match bytes.strip_suffix(PADDING) {
            Some(before) if opened.is_err() && self.is_padded => open(before),
            _ => opened,
        }
    }

    /// Whether the bytes of the page, which has a value in each row, tell how many there are.
    pub fn is_counted(&self, values: &impl PageValues) -> bool {
        self.num_values > 0 && !self.is_padded && values.is_counted()
    }

    /// Refuses a page that has other rows than were stated.
    pub fn check_rows(&self, found: usize) -> Result<()> {
        match self.rows {
            Some(stated) if stated != found as u64 => Err(other_rows(found, stated)),
            _ => Ok(()),
        }
    }
}

impl<'a> PageReader<'a> {
    /// The pages of a chunk: whether their checksums are compared, and what is noted of one that has none.
    ///
    /// # Errors
    /// `Data` if the chunk lies outside of the file, or its codec is not known.
    pub fn new(
        source: Arc<dyn ByteSource>,
        chunk: ColumnChunk,
        places: Arc<PageLocations>,
        (verifies_checksums, lacks_checksums): (bool, Arc<AtomicBool>),
        buffers: &'a mut Buffers,
    ) -> Result<Self> {
        let Buffers { ahead, expanded, dictionary, codec, part, .. } = buffers;
        let part = part.as_ref();
        let end_row = part.map_or(chunk.rows, |part| part.end_row);
        let compression = chunk.compression;
        let walk = PageScanner::new(source, chunk, places, end_row, ahead)?;
        let known = codec.take().filter(|(known, _)| *known == compression);
        let known = known.map_or_else(|| Codec::new(compression), |(_, known)| Ok(known))?;
        let (_, codec) = codec.insert((compression, known));
        Ok(Self {
            walk,
            expanded,
            dictionary,
            codec,
            part,
            verifies_checksums,
            lacks_checksums,
            opened_values: 0,
            is_expanded: false,
            page: 0..0,
        })
    }

    /// Passes over whole data pages; see [`PageScanner::pass_rows`].
    pub fn pass_rows(&mut self, row: usize, rows: usize) -> Result<usize> {
        self.walk.pass_rows(row, rows)
    }

    /// Notes which rows begin in the present page; see [`PageScanner::note_rows`].
    pub fn note_rows(&mut self, rows: Range<usize>) {
        self.walk.note_rows(rows);
    }

    /// Notes that the present page of a flat column was decoded; see [`PageScanner::note_decoded`].
    ///
    /// # Errors
    /// As there.
    pub fn note_decoded(&mut self, is_counted: bool) -> Result<()> {
        self.walk.note_decoded(is_counted)
    }

    /// Opens the dictionary alone, if the chunk begins with one, and gives how many values it has.
    ///
    /// # Errors
    /// `Data` if it is damaged; `Source` if it can't be read.
    pub fn dictionary(&mut self) -> Result<Option<usize>> {
        self.walk.is_skipping = true;
        if !self.walk.header()?.is_some_and(PageHeader::is_dictionary) {
            return Ok(None);
        }
        self.walk.pass();
        let dictionary = self.walk.take_dictionary();
        dictionary.map(|dictionary| self.open_dictionary(&dictionary)).transpose()
    }

    /// Opens the next data page, none at the end; `values` takes over the dictionary that it needs.
    pub fn open(&mut self, values: &mut impl PageValues) -> Result<Option<PageStart>> {
        let header = loop {
            // Of a part of the rows the dictionary is read by itself, since they may lie far behind it.
            self.walk.is_skipping = self.walk.is_part() && self.walk.is_before_dictionary();
            let header = self.walk.header()?.cloned();
            self.walk.is_skipping = false;
            match header {
                Some(header) if header.is_dictionary() => _ = self.walk.pass(),
                Some(header) => break header,
                None => return self.check_end().map(|()| None),
            }
        };
        let encoding = header.encoding()?;
        if let Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY = encoding
            && values.wants_dictionary()
        {
            if let Some(dictionary) = self.walk.take_dictionary() {
                let count = self.open_dictionary(&dictionary)?;
                values.open_dictionary(self.dictionary.bytes(), count)?;
            }
            if !self.walk.has_dictionary() {
                return Err(Error::data(
                    "a page needs a dictionary, and the column chunk has none before it",
                ));
            }
        }
        self.opened_values += header.values() as u64;
        let stated_values = self.walk.chunk().values;
        if self.opened_values > stated_values {
            return Err(Error::data(format!(
                "the pages hold more than the {stated_values} values that the footer states"
            )));
        }
        let Some(page) = self.walk.pass() else { return Ok(None) };
        self.expand(&page, None)?;
        let [repetition_encoding, definition_encoding] = header.level_encodings()?;
        let ColumnChunk { writer, encodings, .. } = self.walk.chunk();
        let counts_rows = writer.counts_list_rows();
        let has_odd_levels = self.walk.chunk().has_no_such_levels(header.level_bytes());
        let is_doubtful = has_odd_levels || !encodings.are_dictionary();
        let is_padded = writer.pads_pages() && header.level_bytes().is_none();
        Ok(Some(PageStart {
            num_values: header.values(),
            encoding,
            repetition_encoding,
            definition_encoding,
            levels: header.level_bytes().map_or(PageLevels::Before, |(repetition, definition)| {
                PageLevels::Apart(repetition, definition)
            }),
            rows: page.index_rows.or(header.stated_rows().filter(|_| counts_rows)),
            is_indexed: page.index_rows.is_some(),
            is_doubtful,
            is_padded,
        }))
    }

    /// Refuses pages whose values are fewer than the footer states, if none was passed over.
    fn check_end(&self) -> Result<()> {
        let stated = self.walk.chunk().values;
        if self.opened_values != stated && !self.walk.is_checked() {
            return Err(Error::data(format!(
                "the pages hold {} values, the footer states {stated}",
                self.opened_values
            )));
        }
        Ok(())
    }

    /// Reads a dictionary; gives how many values it has.
    fn open_dictionary(&mut self, page: &PassedPage) -> Result<usize> {
        let PassedPage { offset, header, .. } = page;
        match header.encoding()? {
            Encoding::PLAIN | Encoding::PLAIN_DICTIONARY => {}
            other => return Err(Error::data(format!("a dictionary is encoded as {other}, expected PLAIN"))),
        }
        let value_bytes = self.walk.chunk().value_bytes.unwrap_or(4);
        let key = self.key(page);
        // One at a time: the last one goes before there is memory for the next.
        *self.dictionary = Arc::default();
        if let Some(part) = self.part.filter(|_| !self.walk.is_part()) {
            part.kept.note_done(part.group);
        }
        if let Some(kept) = self.part.and_then(|part| part.kept.get(part.group, &key)) {
            *self.dictionary = kept;
        } else {
            let is_far = self.walk.is_far_behind(offset + header.compressed_bytes());
            self.walk.is_skipping |= self.walk.is_part() || is_far;
            let mut dictionary = Memory::lent();
            self.expand(page, Some(&mut dictionary))?;
            self.walk.is_skipping = false;
            *self.dictionary = Arc::new(dictionary);
            if let Some(part) = self.part.filter(|_| self.walk.is_part()) {
                part.kept.keep(part.group, key, Arc::clone(self.dictionary));
            }
        }
        let count = header.values();
        let needed = count.saturating_mul(value_bytes);
        if needed > self.dictionary.len() {
            return Err(Error::data(format!(
                "the dictionary claims {count} values, which take {needed} bytes, and has {}",
                self.dictionary.len()
            )));
        }
        Ok(count)
    }

    /// Refuses pages that hold so many rows, if these are more than the row group has.
    ///
    /// # Errors
    /// `Data`, naming its number.
    pub fn check_group_rows(&self, rows: usize) -> Result<()> {
        let stated = self.walk.chunk().rows;
        if rows as u64 > stated {
            return Err(Error::data(format!("the pages hold more than the {stated} rows of the row group")));
        }
        Ok(())
    }

    /// The page that was opened last.
    pub fn page(&self) -> Page<'_> {
        let held = if self.is_expanded { self.expanded.bytes.bytes() } else { self.walk.memory() };
        Page { bytes: held.get(self.page.clone()).unwrap_or_default(), dictionary: self.dictionary.bytes() }
    }

    /// Makes a page the present one, or the dictionary whose memory is given: compares its checksum if that is asked for, and
    /// decompresses it if it is compressed.
    fn expand(&mut self, page: &PassedPage, dictionary: Option<&mut Memory>) -> Result<()> {
        let header = &page.header;
        let stated = to_usize(header.uncompressed_bytes())?;
        let key = self.part.map(|part| (part.group, self.key(page)));
        if dictionary.is_none()
            && let Some((group, of)) = &key
        {
            if self.expanded.key != key
                && let Some(bytes) = self.part.and_then(|part| part.kept.take(*group, of))
            {
                *self.expanded = ExpandedPage { bytes, key };
            }
            if self.expanded.key == key {
                (self.is_expanded, self.page) = (true, 0..stated);
                return Ok(());
            }
        }
        let place = self.walk.bytes(page.offset, header.compressed_bytes())?;
        let bytes = &self.walk.memory()[place.clone()];
        if header.checksum.is_none() && !self.lacks_checksums.load(Ordering::Relaxed) {
            self.lacks_checksums.store(true, Ordering::Relaxed);
        }
        if let Some(stated) = header.checksum.filter(|_| self.verifies_checksums) {
            let found = crc32fast::hash(bytes);
            if found != stated.cast_unsigned() {
                return Err(Error::data(format!(
                    "a page's checksum is {found:08x}, its header states {:08x}",
                    stated.cast_unsigned()
                )));
            }
        }
        let levels =
            header.level_bytes().map_or(0, |(repetition, definition)| repetition.saturating_add(definition));
        if levels > bytes.len() || levels > stated {
            return Err(Error::data(format!(
                "a page claims {levels} bytes of levels and has {} ({stated} uncompressed)",
                bytes.len()
            )));
        }
        let is_compressed = header.is_compressed() || !self.walk.chunk().writer.marks_uncompressed_pages();
        if !is_compressed && !self.codec.is_none() && bytes.len() != stated {
            return Err(Error::data(format!(
                "a page is said not to be compressed, and to have {} bytes, {stated} uncompressed",
                bytes.len()
            )));
        }
        let codec = Some(&mut *self.codec).filter(|codec| !codec.is_none() && is_compressed);
        let as_it_is = match &codec {
            None => Some(bytes),
            Some(codec) if levels == 0 => codec.as_it_is(bytes, stated),
            Some(_) => None,
        };
        let is_dictionary = dictionary.is_some();
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
                let ExpandedPage { bytes, key } = &mut *self.expanded;
                *key = None;
                grow(bytes, stated)?;
                &mut bytes.bytes_mut()[..stated]
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
        if !is_dictionary {
            self.expanded.key = key;
        }
        Ok(())
    }

    fn key(&self, page: &PassedPage) -> PageKey {
        let chunk = self.walk.chunk();
        PageKey { chunk: chunk.start, offset: page.offset, compression: chunk.compression }
    }
}

impl Drop for PageReader<'_> {
    /// Keeps the present page for who reads the next part of the row group, if this one ends amid it.
    fn drop(&mut self) {
        if self.is_expanded
            && self.walk.ends_amid()
            && let Some((part, (_, key))) = self.part.zip(self.expanded.key.take())
        {
            let mut bytes = std::mem::replace(&mut self.expanded.bytes, Memory::lent());
            bytes.truncate(self.page.end);
            if let Ok(bytes) = bytes.fitted() {
                part.kept.keep(part.group, key, Arc::new(bytes));
            }
        }
    }
}
