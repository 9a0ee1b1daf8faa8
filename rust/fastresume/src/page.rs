//! The pages of one column chunk: headers walked and bounded, checksums verified, pages decompressed.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::header::{DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, Header};
use crate::source::Source;

/// A page that states more than this, compressed or not, is taken for damaged.
const MAX_PAGE_BYTES: u64 = 256 << 20;

/// What a page may hold beyond the bytes of its values: levels, run lengths, padding of blocks.
const PAGE_SLACK_BYTES: u64 = 1 << 20;
const VALUE_SLACK_BYTES: u64 = 16;

/// A header is looked for in this many bytes first (statistics may make it longer), then in more.
const HEADER_BYTES: u64 = 512;
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// While pages are decoded, so many bytes are read at a time; while they are skipped, headers alone.
const READ_BYTES: u64 = 1 << 20;

/// Where the pages of a column chunk lie, and what its values are.
#[derive(Debug, Clone, Copy)]
pub struct Chunk {
    /// The offset of the first page.
    pub start: u64,
    /// The offset after the last page.
    pub end: u64,
    /// How the pages are compressed.
    pub compression: Compression,
    /// Bytes of one plain value; 0 for values of a bit.
    pub value_bytes: usize,
}

/// Walks the pages of one column chunk; skipped ones are not decompressed.
pub struct Pages {
    source: Arc<dyn Source>,
    chunk: Chunk,
    codec: Codec,
    offset: u64,
    /// Bytes of the source that were read ahead, and where they begin.
    ahead: Bytes,
    ahead_start: u64,
    is_skipping: bool,
    next: Option<Header>,
    has_dictionary: bool,
    /// A dictionary that was passed by while skipping, until it is asked for.
    deferred: Option<(u64, Header)>,
    /// The bytes of the present page as the file holds them, if they are not compressed.
    plain: Bytes,
    /// The bytes of the present page, if they were: reused from page to page.
    expanded: Vec<u8>,
    is_plain: bool,
}

/// What a decoder has to know of a data page; its bytes are [`Pages::page`].
pub struct PageStart {
    /// Rows, of which some may be null.
    pub num_values: usize,
    /// How many of them are, as far as the header says.
    pub num_nulls: usize,
    pub encoding: Encoding,
    pub definition_encoding: Encoding,
    /// Where repetition levels end: 0 in a flat column.
    pub levels_end: usize,
    /// The bytes of definition levels, if they are stated apart from them.
    pub definition_bytes: Option<usize>,
}

impl Pages {
    /// The pages of a chunk.
    ///
    /// # Errors
    /// `Data` if the chunk lies outside of the file, or its codec is not known.
    pub fn new(source: Arc<dyn Source>, chunk: Chunk) -> Result<Self> {
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
            chunk,
            codec: Codec::new(chunk.compression)?,
            offset: chunk.start,
            ahead: Bytes::new(),
            ahead_start: chunk.start,
            is_skipping: false,
            next: None,
            has_dictionary: false,
            deferred: None,
            plain: Bytes::new(),
            expanded: Vec::new(),
            is_plain: true,
        })
    }

    /// `length` bytes from `offset`, which lie in the chunk.
    fn bytes(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        let ahead_end = self.ahead_start + self.ahead.len() as u64;
        if offset < self.ahead_start || offset + length > ahead_end {
            let ahead = if self.is_skipping { length } else { length.max(READ_BYTES) };
            let wanted = ahead.min(self.chunk.end - offset);
            self.ahead = self.source.read(offset, to_usize(wanted)?)?;
            self.ahead_start = offset;
        }
        let start = to_usize(offset - self.ahead_start)?;
        Ok(self.ahead.slice(start..start + to_usize(length)?))
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
            match Header::parse(&bytes) {
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
        if ![DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2].contains(&header.kind) {
            return Ok((header, length));
        }
        let counts = [header.num_values, header.num_nulls, header.num_rows];
        let lengths = [header.definition_bytes, header.repetition_bytes];
        if let Some(negative) = counts.into_iter().chain(lengths).find(|&number| number < 0) {
            return Err(Error::data(format!("a page header holds the negative count {negative}")));
        }
        let for_values = u64::from(header.num_values.unsigned_abs())
            * (self.chunk.value_bytes as u64 + VALUE_SLACK_BYTES)
            + PAGE_SLACK_BYTES;
        let bound = for_values.min(MAX_PAGE_BYTES);
        let largest = header.compressed.max(header.uncompressed).unsigned_abs();
        if u64::from(largest) > bound {
            return Err(Error::data(format!(
                "a page header claims {} bytes, {} uncompressed, and {} values, for which {bound} are enough",
                header.compressed, header.uncompressed, header.num_values
            )));
        }
        if header.kind == DATA_PAGE_V2 && header.num_rows != header.num_values {
            return Err(Error::data(format!(
                "a page of a flat column claims {} rows and {} values",
                header.num_rows, header.num_values
            )));
        }
        Ok((header, length))
    }

    /// Moves past the page whose header was read.
    fn pass(&mut self) -> Option<(u64, Header)> {
        let header = self.next.take()?;
        let offset = self.offset;
        self.offset += u64::from(header.compressed.unsigned_abs());
        self.has_dictionary |= header.kind == DICTIONARY_PAGE;
        Some((offset, header))
    }

    /// Passes over whole data pages of at most `rows` rows together, by their headers; gives the rows.
    pub fn pass_rows(&mut self, rows: usize) -> Result<usize> {
        self.is_skipping = true;
        let mut passed = 0;
        while let Some(header) = self.header()? {
            let count = header.num_values.unsigned_abs() as usize;
            let is_dictionary = header.kind == DICTIONARY_PAGE;
            if !is_dictionary && passed + count > rows {
                break;
            }
            let page = self.pass();
            if is_dictionary {
                self.deferred = page;
            } else {
                passed += count;
            }
        }
        Ok(passed)
    }

    /// Opens the next data page; a dictionary on the way is kept for [`Pages::dictionary`].
    pub fn next_data(&mut self) -> Result<Option<PageStart>> {
        self.is_skipping = false;
        loop {
            self.header()?;
            let Some((offset, header)) = self.pass() else { return Ok(None) };
            if header.kind == DICTIONARY_PAGE {
                self.deferred = Some((offset, header));
                continue;
            }
            self.expand(offset, &header)?;
            let definition_bytes =
                (header.kind == DATA_PAGE_V2).then(|| header.definition_bytes.unsigned_abs() as usize);
            return Ok(Some(PageStart {
                num_values: header.num_values.unsigned_abs() as usize,
                num_nulls: header.num_nulls.unsigned_abs() as usize,
                encoding: encoding(header.encoding)?,
                definition_encoding: encoding(header.definition_encoding)?,
                levels_end: header.repetition_bytes.unsigned_abs() as usize,
                definition_bytes,
            }));
        }
    }

    /// The bytes of the data page that was opened last.
    pub fn page(&self) -> &[u8] {
        if self.is_plain { &self.plain } else { &self.expanded }
    }

    /// The bytes of the dictionary that was passed by, and how many values it has.
    pub fn dictionary(&mut self) -> Result<Option<(Bytes, usize)>> {
        let Some((offset, header)) = self.deferred.take() else {
            return Err(Error::data("a page needs a dictionary, and the column chunk has none before it"));
        };
        match self.page_of(offset, &header)? {
            Page::DictionaryPage {
                buf,
                num_values,
                encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY,
                ..
            } => Ok(Some((buf, num_values as usize))),
            _ => Ok(None),
        }
    }

    /// The page's bytes as the file holds them, after a look at their checksum.
    fn checked(&mut self, offset: u64, header: &Header) -> Result<(Bytes, usize)> {
        let bytes = self.bytes(offset, u64::from(header.compressed.unsigned_abs()))?;
        if let Some(stated) = header.checksum {
            let found = crc32fast::hash(&bytes);
            if found != stated.cast_unsigned() {
                return Err(Error::data(format!(
                    "a page's checksum is {found:08x}, its header states {:08x}",
                    stated.cast_unsigned()
                )));
            }
        }
        let levels = if header.kind == DATA_PAGE_V2 {
            // Both were checked to be no less than 0.
            u64::from(header.definition_bytes.unsigned_abs())
                + u64::from(header.repetition_bytes.unsigned_abs())
        } else {
            0
        };
        Ok((bytes, to_usize(levels)?))
    }

    /// Makes a page the present one.
    fn expand(&mut self, offset: u64, header: &Header) -> Result<()> {
        let (bytes, levels) = self.checked(offset, header)?;
        let mut expanded = std::mem::take(&mut self.expanded);
        self.is_plain = !self.decompress(&bytes, header, levels, &mut expanded)?;
        self.expanded = expanded;
        self.plain = bytes;
        Ok(())
    }

    fn page_of(&mut self, offset: u64, header: &Header) -> Result<Page> {
        let (bytes, levels) = self.checked(offset, header)?;
        let mut expanded = Vec::new();
        let is_expanded = self.decompress(&bytes, header, levels, &mut expanded)?;
        let buf = if is_expanded { Bytes::from(expanded) } else { bytes };
        let num_values = header.num_values.unsigned_abs();
        let encoding = encoding(header.encoding)?;
        let needs_dictionary = matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        Ok(match header.kind {
            DICTIONARY_PAGE => {
                let needed = u64::from(num_values) * self.chunk.value_bytes as u64;
                if needed > buf.len() as u64 {
                    return Err(Error::data(format!(
                        "the dictionary claims {num_values} values, which take {needed} bytes, and has {}",
                        buf.len()
                    )));
                }
                Page::DictionaryPage { buf, num_values, encoding, is_sorted: false }
            }
            _ if needs_dictionary && !self.has_dictionary => {
                return Err(Error::data(
                    "a page needs a dictionary, and the column chunk has none before it",
                ));
            }
            DATA_PAGE_V2 => Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: header.num_nulls.unsigned_abs(),
                num_rows: header.num_rows.unsigned_abs(),
                def_levels_byte_len: header.definition_bytes.unsigned_abs(),
                rep_levels_byte_len: header.repetition_bytes.unsigned_abs(),
                is_compressed: header.is_compressed,
                statistics: None,
            },
            _ => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: self::encoding(header.definition_encoding)?,
                rep_level_encoding: self::encoding(header.repetition_encoding)?,
                statistics: None,
            },
        })
    }

    /// Decompresses a page, if it is compressed; the first `levels` bytes never are.
    fn decompress(
        &mut self,
        bytes: &Bytes,
        header: &Header,
        levels: usize,
        output: &mut Vec<u8>,
    ) -> Result<bool> {
        let stated = to_usize(u64::from(header.uncompressed.unsigned_abs()))?;
        if levels > bytes.len() || levels > stated {
            return Err(Error::data(format!(
                "a page claims {levels} bytes of levels and has {} ({stated} uncompressed)",
                bytes.len()
            )));
        }
        let is_plain =
            matches!(self.codec, Codec::None) || (header.kind == DATA_PAGE_V2 && !header.is_compressed);
        if is_plain {
            return Ok(false);
        }
        output.resize(stated, 0);
        output[..levels].copy_from_slice(&bytes[..levels]);
        // A page of nulls alone may hold no values, not even an empty compressed block.
        if stated > levels {
            self.codec.decompress(&bytes[levels..], &mut output[levels..])?;
        }
        Ok(true)
    }
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
        // Encodings of strings, which some allow for fixed-width bytes, too; their lengths are not bounded.
        6 | 7 => {
            return Err(Error::data("the encoding of the page is for strings, the column is of numbers"));
        }
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return Err(Error::data(format!("the encoding {code} is not known"))),
    })
}

fn external(error: Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        self.is_skipping = false;
        self.header().map_err(external)?;
        match self.pass() {
            Some((offset, header)) => self.page_of(offset, &header).map(Some).map_err(external),
            None => Ok(None),
        }
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        // Who only wants to read does not peek.
        self.is_skipping = true;
        let header = self.header().map_err(external)?;
        Ok(header.map(|header| PageMetadata {
            num_rows: (header.kind == DATA_PAGE_V2).then_some(header.num_rows.unsigned_abs() as usize),
            num_levels: Some(header.num_values.unsigned_abs() as usize),
            is_dict: header.kind == DICTIONARY_PAGE,
        }))
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        self.is_skipping = true;
        self.header().map_err(external)?;
        if let Some((offset, header)) = self.pass()
            && header.kind == DICTIONARY_PAGE
        {
            self.deferred = Some((offset, header));
        }
        Ok(())
    }

    fn supports_deferred_dictionary(&self) -> bool {
        true
    }

    fn take_deferred_dictionary(&mut self) -> parquet::errors::Result<Option<Page>> {
        match self.deferred.take() {
            Some((offset, header)) => self.page_of(offset, &header).map(Some).map_err(external),
            None => Ok(None),
        }
    }
}

impl Iterator for Pages {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
