//! The footer of one Parquet file: read, hashed, and looked at before it is believed.
//!
//! Source: <https://parquet.apache.org/docs/file-format/>

use std::sync::Arc;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::error::{Error, Result, caught};
use crate::shape;
use crate::source::Source;
use crate::thrift::Walk;

/// How deep a schema may nest. The parser recurses, so a deeper one could exhaust the stack.
const MAX_SCHEMA_DEPTH: usize = 100;

/// A schema of more columns and groups is taken for damaged: each takes a kilobyte when parsed.
const MAX_SCHEMA_ELEMENTS: u64 = 1 << 18;

/// Names of columns, with those of the groups that they are in, may take so many bytes in all: each is kept.
const MAX_PATHS_BYTES: u64 = 64 << 20;

/// A longer footer is taken for damaged: those of 100,000 columns and thousands of row groups are shorter.
const MAX_FOOTER_BYTES: u64 = 256 << 20;

/// Length of a footer's hash in bytes.
pub const HASH_BYTES: usize = 16;

/// The head of a list of no structs, in Thrift's compact protocol.
const EMPTY_LIST_OF_STRUCTS: u8 = 0x0c;

const TAIL_BYTES: usize = 8;
const MAGIC: &[u8] = b"PAR1";
const ENCRYPTED_MAGIC: &[u8] = b"PARE";

/// The first read asks for this many bytes, so that most footers come in one read.
const FIRST_READ_BYTES: u64 = 64 << 10;

/// A parsed footer and the hash of its bytes.
#[derive(Debug)]
pub struct Footer {
    /// The parsed metadata.
    pub metadata: Arc<ParquetMetaData>,
    /// BLAKE3 of the footer's bytes, cut to 128 bits.
    pub hash: [u8; HASH_BYTES],
}

/// A footer as the file holds it, and the hash of its bytes.
pub struct FooterBytes {
    bytes: Vec<u8>,
    /// BLAKE3 of them, cut to 128 bits.
    pub hash: [u8; HASH_BYTES],
}

impl FooterBytes {
    /// The bytes of a file's footer.
    ///
    /// # Errors
    /// `Data` if the file is empty, truncated, encrypted or not Parquet, or if its footer is damaged; `Source` if
    /// it can't be read.
    pub fn read(source: &dyn Source) -> Result<Self> {
        let size = source.size();
        if size < (TAIL_BYTES + MAGIC.len()) as u64 {
            return Err(Error::data(format!("not a parquet file: {size} bytes, expected at least 12")));
        }
        let first_length = size.min(FIRST_READ_BYTES);
        let end = source.read(size - first_length, usize_of(first_length))?;
        let (rest, tail) = end.split_at(end.len() - TAIL_BYTES);
        let (length, magic) = tail.split_at(4);
        if magic == ENCRYPTED_MAGIC {
            return Err(Error::data("the footer is encrypted, which is not supported"));
        }
        if magic != MAGIC {
            return Err(Error::data(format!(
                "no parquet footer: the file ends in {}, expected {}",
                magic.escape_ascii(),
                MAGIC.escape_ascii()
            )));
        }
        let length = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
        let limit = size - (TAIL_BYTES + MAGIC.len()) as u64;
        if length > limit {
            return Err(Error::data(format!(
                "the footer claims {length} bytes, but the file has room for {limit}"
            )));
        }
        if length > MAX_FOOTER_BYTES {
            return Err(Error::data(format!(
                "the footer claims {length} bytes, at most {MAX_FOOTER_BYTES} are read"
            )));
        }
        let bytes = if usize_of(length) <= rest.len() {
            rest[rest.len() - usize_of(length)..].to_vec()
        } else {
            source.read(size - TAIL_BYTES as u64 - length, usize_of(length))?
        };
        shape::check(&bytes)?;
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..HASH_BYTES]);
        Ok(Self { bytes, hash })
    }

    /// The footer, with its row counts cross-checked.
    ///
    /// # Errors
    /// `Data` if it is damaged, nested too deep, or disagrees with itself about rows.
    pub fn parse(self) -> Result<Footer> {
        let Self { mut bytes, hash } = self;
        if let Some(head) = check_schema(&bytes)? {
            bytes[head] = EMPTY_LIST_OF_STRUCTS;
        }
        let metadata = caught(|| {
            ParquetMetaDataReader::decode_metadata(&bytes)
                .map_err(|cause| Error::data(format!("damaged footer: {cause}")))
        })?;
        check_row_counts(&metadata)?;
        Ok(Footer { metadata: Arc::new(metadata), hash })
    }
}

fn usize_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Refuses a schema that is nested deeper than a recursive parser can take, or counts children that are
/// not there. Gives the place of the head of the list of row groups, if that is empty: it may state any type of its
/// elements, as fastparquet's does, and the parser wants the right one.
fn check_schema(bytes: &[u8]) -> Result<Option<usize>> {
    const SCHEMA: i16 = 2;
    const ROW_GROUPS: i16 = 4;
    const NAME: i16 = 4;
    const NUM_CHILDREN: i16 = 5;
    let mut empty = None;
    Walk::new(bytes).fields(|walk, number, _| {
        if number == ROW_GROUPS {
            empty = Some(walk.position()).filter(|&head| bytes.get(head).is_some_and(|head| head >> 4 == 0));
        }
        if number != SCHEMA {
            return Ok(false);
        }
        // For each open group, how many of its children are still to come, and the bytes of its path.
        let mut open: Vec<(u64, u64)> = Vec::new();
        let mut paths_bytes = 0;
        let (_, length) = walk.list()?;
        if length > MAX_SCHEMA_ELEMENTS {
            return Err(Error::data(format!(
                "the schema claims {length} columns and groups, at most {MAX_SCHEMA_ELEMENTS} are read"
            )));
        }
        for index in 0..length {
            let mut children = 0;
            let mut path_bytes = open.last().map_or(0, |(_, bytes)| *bytes);
            walk.fields(|walk, number, wire| {
                if number == NUM_CHILDREN {
                    children = u64::try_from(walk.integer32()?).unwrap_or(0);
                } else if number == NAME {
                    let before = walk.position();
                    walk.pass(wire)?;
                    path_bytes += (walk.position() - before) as u64;
                }
                Ok(number == NUM_CHILDREN || number == NAME)
            })?;
            paths_bytes += path_bytes;
            if paths_bytes > MAX_PATHS_BYTES {
                return Err(Error::data(format!(
                    "the names of the columns and of their groups take more than {MAX_PATHS_BYTES} bytes"
                )));
            }
            let left = length - index - 1;
            if children > left {
                return Err(Error::data(format!(
                    "a group claims {children} children, the schema has {left} left"
                )));
            }
            if let Some((left, _)) = open.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                open.push((children, path_bytes));
            }
            while open.last().is_some_and(|(left, _)| *left == 0) {
                open.pop();
            }
            if open.len() > MAX_SCHEMA_DEPTH {
                return Err(Error::data(format!("the schema is nested more than {MAX_SCHEMA_DEPTH} deep")));
            }
        }
        Ok(true)
    })?;
    Ok(empty)
}

fn check_row_counts(metadata: &ParquetMetaData) -> Result<()> {
    let stated = metadata.file_metadata().num_rows();
    let mut sum = 0_i64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let rows = group.num_rows();
        if rows < 0 {
            return Err(Error::data(format!("the row group claims {rows} rows")).in_row_group(index));
        }
        sum = sum
            .checked_add(rows)
            .ok_or_else(|| Error::data("the rows of the row groups do not fit 63 bits"))?;
    }
    if sum != stated {
        return Err(Error::data(format!("the footer claims {stated} rows, its row groups hold {sum}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_nested_thousands_deep_is_refused_before_it_is_parsed() {
        let depth = 5000_u16;
        // field 2: list<struct> of 5001 elements, each {5: num_children = 1} but the last
        let mut bytes = vec![0x29, 0xfc, 0x89, 0x27];
        for _ in 0..depth {
            bytes.extend([0x55, 0x02, 0x00]);
        }
        bytes.extend([0x00, 0x00]);
        let error = check_schema(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "the schema is nested more than 100 deep");
    }
}
