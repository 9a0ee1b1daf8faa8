//! The header of a page.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::format::metadata::column_chunk::ColumnChunk;
use crate::format::metadata::thrift::{ThriftWalk, Wire};

/// A page that states more than this, compressed or not, is taken for damaged, unless the footer states as much of
/// the whole column chunk: cells may be large, and a page of a thousand of them has all of these.
const MAX_PAGE_BYTES: u64 = 256 << 20;

/// What a page may hold beyond the bytes of its values: levels, run lengths, padding of blocks.
const PAGE_SLACK_BYTES: u64 = 1 << 20;
const VALUE_SLACK_BYTES: u64 = 16;

const DELTA_BYTE_ARRAY: i32 = 7;

const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const DATA_PAGE_V2: i32 = 3;

const NOT_COUNTED: i32 = -1;

/// The encoding in runs.
const RLE: i32 = 3;

/// What stands in a page header.
#[derive(Debug, Clone, Default)]
pub struct PageHeader {
    kind: i32,
    /// The kind of page that its details are for.
    details: i32,
    uncompressed: i32,
    compressed: i32,
    /// Of the bytes of the page, as they lie in the file.
    pub checksum: Option<i32>,
    num_values: i32,
    encoding: i32,
    definition_encoding: i32,
    repetition_encoding: i32,
    num_nulls: i32,
    num_rows: i32,
    definition_bytes: i32,
    repetition_bytes: i32,
    is_compressed: bool,
}

impl PageHeader {
    /// The header at the start of `bytes`, and its length.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize)> {
        // What is required and missing stays negative.
        let mut header = Self {
            kind: -1,
            details: -1,
            uncompressed: -1,
            compressed: -1,
            num_values: -1,
            encoding: -1,
            is_compressed: true,
            ..Self::default()
        };
        let mut walk = ThriftWalk::new(bytes);
        walk.fields(|walk, number, wire| {
            match (number, wire) {
                (1, Wire::I32) => header.kind = walk.integer32()?,
                (2, Wire::I32) => header.uncompressed = walk.integer32()?,
                (3, Wire::I32) => header.compressed = walk.integer32()?,
                (4, Wire::I32) => header.checksum = Some(walk.integer32()?),
                (5, Wire::Struct) => header.read_data_page(walk)?,
                (7, Wire::Struct) => header.read_dictionary(walk)?,
                (8, Wire::Struct) => header.read_data_page_v2(walk)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if header.kind < 0 || header.compressed < 0 || header.uncompressed < 0 {
            return Err(Error::data(format!(
                "a page header claims the kind {}, {} bytes, {} uncompressed",
                header.kind, header.compressed, header.uncompressed
            )));
        }
        Ok((header, walk.position()))
    }

    /// Whether it is that of a page with data or a dictionary. Index pages and kinds of the future carry no values.
    pub fn has_values(&self) -> bool {
        [DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2].contains(&self.kind)
    }

    pub fn is_dictionary(&self) -> bool {
        self.kind == DICTIONARY_PAGE
    }

    pub fn is_data(&self) -> bool {
        self.has_values() && !self.is_dictionary()
    }

    fn is_v2(&self) -> bool {
        self.kind == DATA_PAGE_V2
    }

    /// Bytes of the page in the file, behind the header.
    pub fn compressed_bytes(&self) -> u64 {
        u64::from(self.compressed.unsigned_abs())
    }

    /// Bytes of the page when it is decompressed.
    pub fn uncompressed_bytes(&self) -> u64 {
        u64::from(self.uncompressed.unsigned_abs())
    }

    /// Values: of a dictionary its entries, of a flat column rows, else one for each pair of levels.
    pub fn values(&self) -> usize {
        self.num_values.unsigned_abs() as usize
    }

    /// Bytes of repetition and of definition levels, if they are stated apart from them.
    pub fn level_bytes(&self) -> Option<(usize, usize)> {
        let bytes = |count: i32| count.unsigned_abs() as usize;
        self.is_v2().then(|| (bytes(self.repetition_bytes), bytes(self.definition_bytes)))
    }

    /// How many rows the page has, if it is one of version 2.
    pub fn stated_rows(&self) -> Option<u64> {
        self.is_v2().then(|| u64::from(self.num_rows.unsigned_abs()))
    }

    /// How the values are encoded.
    ///
    /// # Errors
    /// `Data` if the encoding is not known.
    pub fn encoding(&self) -> Result<Encoding> {
        encoding(self.encoding)
    }

    /// How the repetition and the definition levels are.
    ///
    /// # Errors
    /// `Data` if one of the encodings is not known.
    pub fn level_encodings(&self) -> Result<[Encoding; 2]> {
        Ok([encoding(self.repetition_encoding)?, encoding(self.definition_encoding)?])
    }

    /// Whether the values are compressed as the column chunk is; those of a page of version 2 need not be.
    pub fn is_compressed(&self) -> bool {
        !self.is_v2() || self.is_compressed
    }

    /// Refuses counts and sizes that pages of a chunk can't have.
    ///
    /// # Errors
    /// `Data`, naming them.
    pub fn check(&self, chunk: &ColumnChunk) -> Result<()> {
        // Nulls that were not counted are -1 by parquet-java (apache/parquet-java#3585); they are counted by levels anyway.
        let nulls = if self.num_nulls == NOT_COUNTED { 0 } else { self.num_nulls };
        let counts = [self.num_values, nulls, self.num_rows];
        let lengths = [self.definition_bytes, self.repetition_bytes];
        if let Some(negative) = counts.into_iter().chain(lengths).find(|&number| number < 0) {
            return Err(Error::data(format!("a page header holds the negative count {negative}")));
        }
        if self.details != self.kind {
            return Err(Error::data(format!(
                "a page of kind {} has the header of one of kind {}",
                self.kind, self.details
            )));
        }
        self.check_encodings(chunk)?;
        let most = chunk.uncompressed_bytes.max(MAX_PAGE_BYTES);
        let for_values = chunk.value_bytes.map_or(most, |bytes| {
            u64::from(self.num_values.unsigned_abs()) * (bytes as u64 + VALUE_SLACK_BYTES) + PAGE_SLACK_BYTES
        });
        let bound = for_values.min(most);
        let largest = self.compressed.max(self.uncompressed).unsigned_abs();
        // Prefixes let few bytes state many.
        let decoded = chunk
            .value_bytes
            .filter(|_| self.encoding == DELTA_BYTE_ARRAY)
            .map_or(0, |bytes| u64::from(self.num_values.unsigned_abs()).saturating_mul(bytes as u64));
        let page_bytes = decoded.max(largest.into());
        if page_bytes > chunk.most_page_bytes && u64::from(largest) <= bound {
            return Err(Error::data(format!(
                "a page takes {page_bytes} bytes when it is decoded, and at most {} are read: rewrite the file with smaller \
                 pages",
                chunk.most_page_bytes
            )));
        }
        if u64::from(largest) > bound {
            return Err(Error::data(format!(
                "a page header claims {} bytes, {} uncompressed, and {} values, for which {bound} are enough",
                self.compressed, self.uncompressed, self.num_values
            )));
        }
        let fits =
            if chunk.is_flat() { self.num_rows == self.num_values } else { self.num_rows <= self.num_values };
        if self.num_nulls > self.num_values {
            return Err(Error::data(format!(
                "a page claims {} nulls among {} values",
                self.num_nulls, self.num_values
            )));
        }
        if self.is_v2() && !fits {
            return Err(Error::data(format!(
                "a page claims {} rows and {} values",
                self.num_rows, self.num_values
            )));
        }
        Ok(())
    }

    /// Refuses encodings that the footer does not list.
    fn check_encodings(&self, chunk: &ColumnChunk) -> Result<()> {
        let (repetition, definition) = chunk.levels;
        if !self.is_data() {
            return Ok(());
        }
        // The encoding of levels that there are not says nothing, and runs are not listed by all.
        let levels = [(repetition, self.repetition_encoding), (definition, self.definition_encoding)];
        let levels =
            levels.into_iter().filter(|&(largest, code)| largest > 0 && code != RLE && !self.is_v2());
        let mut stated = levels.map(|(_, code)| code).chain([self.encoding]);
        if let Some(other) = stated.find(|&code| !chunk.encodings.has(code)) {
            let other = encoding(other).map_or_else(|_| other.to_string(), |encoding| encoding.to_string());
            return Err(Error::data(format!(
                "a page states the encoding {other}, which the footer does not list"
            )));
        }
        Ok(())
    }

    fn read_data_page(&mut self, walk: &mut ThriftWalk<'_>) -> Result<()> {
        self.details = DATA_PAGE;
        (self.definition_encoding, self.repetition_encoding) = (-1, -1);
        walk.fields(|walk, number, wire| {
            match (number, wire) {
                (1, Wire::I32) => self.num_values = walk.integer32()?,
                (2, Wire::I32) => self.encoding = walk.integer32()?,
                (3, Wire::I32) => self.definition_encoding = walk.integer32()?,
                (4, Wire::I32) => self.repetition_encoding = walk.integer32()?,
                _ => return Ok(false),
            }
            Ok(true)
        })
    }

    fn read_dictionary(&mut self, walk: &mut ThriftWalk<'_>) -> Result<()> {
        self.details = DICTIONARY_PAGE;
        walk.fields(|walk, number, wire| {
            match (number, wire) {
                (1, Wire::I32) => self.num_values = walk.integer32()?,
                (2, Wire::I32) => self.encoding = walk.integer32()?,
                _ => return Ok(false),
            }
            Ok(true)
        })
    }

    fn read_data_page_v2(&mut self, walk: &mut ThriftWalk<'_>) -> Result<()> {
        self.details = DATA_PAGE_V2;
        (self.num_nulls, self.num_rows) = (i32::MIN, -1);
        (self.definition_bytes, self.repetition_bytes) = (-1, -1);
        walk.fields(|walk, number, wire| {
            match (number, wire) {
                (1, Wire::I32) => self.num_values = walk.integer32()?,
                (2, Wire::I32) => self.num_nulls = walk.integer32()?,
                (3, Wire::I32) => self.num_rows = walk.integer32()?,
                (4, Wire::I32) => self.encoding = walk.integer32()?,
                (5, Wire::I32) => self.definition_bytes = walk.integer32()?,
                (6, Wire::I32) => self.repetition_bytes = walk.integer32()?,
                (7, Wire::True | Wire::False) => self.is_compressed = wire == Wire::True,
                _ => return Ok(false),
            }
            Ok(true)
        })
    }
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
        10 => Encoding::ALP,
        _ => return Err(Error::data(format!("the encoding {code} is not known"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::metadata::column_chunk::Encodings;
    use crate::format::metadata::writer::Writer;

    #[test]
    fn a_header_that_leaves_out_what_every_page_has_is_refused() {
        let chunk = ColumnChunk {
            start: 0,
            end: 1000,
            index: None,
            rows: 4,
            values: 4,
            most_page_bytes: u64::MAX,
            uncompressed_bytes: 1000,
            compression: parquet::basic::Compression::UNCOMPRESSED,
            value_bytes: Some(4),
            levels: (0, 0),
            encodings: Encodings::default(),
            writer: Writer::default(),
        };
        let is_taken = |page: &[u8]| {
            let (header, _) = PageHeader::parse(page).unwrap();
            header.check(&chunk).is_ok() && header.encoding().is_ok() && header.level_encodings().is_ok()
        };
        // Each field is a byte for its number and type, and one for its value. A data page has three fields before its own: 4
        // values, plain, levels in runs.
        let of_page = |left_out: usize| {
            let fields = (0..4).filter(|&field| field != left_out).flat_map(|field| {
                let step: u8 = if field == left_out + 1 { 2 } else { 1 };
                [step << 4 | 5, [8, 0, 6, 6][field]]
            });
            [&[0x15, 0, 0x15, 16, 0x15, 16, 0x2c][..], &fields.collect::<Vec<u8>>(), &[0, 0]].concat()
        };
        // Of version 2: 4 values, no nulls, 4 rows, plain, no levels.
        let of_page_v2 = |left_out: usize| {
            let fields = (0..6).filter(|&field| field != left_out).flat_map(|field| {
                let step: u8 = if field == left_out + 1 { 2 } else { 1 };
                [step << 4 | 5, [8, 0, 8, 0, 0, 0][field]]
            });
            [&[0x15, 6, 0x15, 16, 0x15, 16, 0x5c][..], &fields.collect::<Vec<u8>>(), &[0, 0]].concat()
        };
        assert!(is_taken(&of_page(9)) && is_taken(&of_page_v2(9)));
        for left_out in 0..4 {
            assert!(!is_taken(&of_page(left_out)), "field {} is left out", left_out + 1);
        }
        for left_out in 0..6 {
            assert!(!is_taken(&of_page_v2(left_out)), "field {} of version 2 is left out", left_out + 1);
        }
    }
}
