//! The header of a page.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use crate::error::{Error, Result};
use crate::thrift::{Walk, Wire};

/// What stands in a page header.
#[derive(Debug, Clone, Default)]
pub struct Header {
    pub kind: i32,
    pub uncompressed: i32,
    pub compressed: i32,
    pub checksum: Option<i32>,
    pub num_values: i32,
    pub encoding: i32,
    pub definition_encoding: i32,
    pub repetition_encoding: i32,
    pub num_nulls: i32,
    pub num_rows: i32,
    pub definition_bytes: i32,
    pub repetition_bytes: i32,
    pub is_compressed: bool,
}

pub const DATA_PAGE: i32 = 0;
pub const DICTIONARY_PAGE: i32 = 2;
pub const DATA_PAGE_V2: i32 = 3;

impl Header {
    /// The header at the start of `bytes`, and its length.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize)> {
        // What is required and missing stays negative.
        let mut header = Self {
            kind: -1,
            uncompressed: -1,
            compressed: -1,
            num_values: -1,
            is_compressed: true,
            ..Self::default()
        };
        let mut walk = Walk::new(bytes);
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

    fn read_data_page(&mut self, walk: &mut Walk<'_>) -> Result<()> {
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

    fn read_dictionary(&mut self, walk: &mut Walk<'_>) -> Result<()> {
        walk.fields(|walk, number, wire| {
            match (number, wire) {
                (1, Wire::I32) => self.num_values = walk.integer32()?,
                (2, Wire::I32) => self.encoding = walk.integer32()?,
                _ => return Ok(false),
            }
            Ok(true)
        })
    }

    fn read_data_page_v2(&mut self, walk: &mut Walk<'_>) -> Result<()> {
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
