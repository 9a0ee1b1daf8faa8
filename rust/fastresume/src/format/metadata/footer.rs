//! The footer of one Parquet file: it is read, hashed, and checked before it is parsed.
//!
//! Source: <https://parquet.apache.org/docs/file-format/>

use std::collections::BTreeMap;

use parquet::file::metadata::{
    FileMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData,
};

use crate::error::{Error, Result, caught};
use crate::format::metadata::lookalike;
use crate::format::metadata::thrift::ThriftWalk;
use crate::format::metadata::thrift_types::{Sifted, Unreadable, sift, sift_row_group};
use crate::source::byte_source::ByteSource;

/// The deepest schema that is accepted. The parser recurses, so a deeper one could exhaust the stack.
const MAX_SCHEMA_DEPTH: usize = 100;

/// The most schema elements that are accepted: each takes a kilobyte when parsed.
const MAX_SCHEMA_ELEMENTS: u64 = 1 << 18;

/// The most bytes of all column paths (names with those of the groups around them), because each is kept.
const MAX_PATHS_BYTES: u64 = 64 << 20;

/// The longest footer that is accepted: those of 100,000 columns and thousands of row groups are shorter.
const MAX_FOOTER_BYTES: u64 = 256 << 20;

/// Length of a footer's hash in bytes.
pub const HASH_BYTES: usize = 16;

/// A footer of one row group, up to that group, and its end. Before it come a version (1), a number of rows
/// (0), and the header of the list.
const ONE_ROW_GROUP: (&[u8], u8) = (&[0x15, 0x02, 0x26, 0x00, 0x19, 0x1c], 0);

const TAIL_BYTES: usize = 8;
const MAGIC: &[u8] = b"PAR1";
const ENCRYPTED_MAGIC: &[u8] = b"PARE";

/// The first read asks for this many bytes, so that most footers come in one read.
const FIRST_READ_BYTES: u64 = 64 << 10;

/// A footer. Its row groups are parsed one at a time: all of them together take many times its bytes.
#[derive(Debug)]
pub struct Footer {
    /// As the file holds it.
    bytes: Vec<u8>,
    /// All metadata but the row groups.
    metadata: ParquetMetaData,
    group_rows: Vec<u64>,
    /// Where each row group begins in the bytes, and where the last one ends.
    group_starts: Vec<u32>,
    /// The leaves whose types are not known.
    unreadable: BTreeMap<usize, Unreadable>,
}

/// A row group, parsed.
pub struct ParsedGroup {
    pub metadata: RowGroupMetaData,
    /// The leaves that can't be read in it.
    pub unreadable: BTreeMap<usize, Unreadable>,
}

/// A footer as the file holds it, and the hash of its bytes.
pub struct FooterBytes {
    bytes: Vec<u8>,
    /// Their BLAKE3 hash, cut to 128 bits.
    pub hash: [u8; HASH_BYTES],
}

impl FooterBytes {
    /// The bytes of a file's footer.
    ///
    /// # Errors
    /// `Data` if the file is empty, truncated, encrypted or not Parquet, or if its footer is damaged; `Source` if
    /// it can't be read.
    pub fn read(source: &dyn ByteSource) -> Result<Self> {
        let size = source.size();
        if size < (TAIL_BYTES + MAGIC.len()) as u64 {
            let content = source.read(0, usize_of(size))?;
            let hint = lookalike::hint(&content);
            return Err(Error::data(format!("not a parquet file: {size} bytes, expected at least 12{hint}")));
        }
        let first_length = size.min(FIRST_READ_BYTES);
        let end = source.read(size - first_length, usize_of(first_length))?;
        let (rest, tail) = end.split_at(end.len() - TAIL_BYTES);
        let (length, magic) = tail.split_at(4);
        if magic == ENCRYPTED_MAGIC {
            return Err(Error::data("the footer is encrypted, which is not supported"));
        }
        if magic != MAGIC {
            let start = source.read(0, usize_of(first_length.min(lookalike::LOOKED_AT_BYTES)))?;
            return Err(Error::data(format!(
                "no parquet footer: the file ends in {}, expected {}{}",
                magic.escape_ascii(),
                MAGIC.escape_ascii(),
                lookalike::hint(&start)
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
        Ok(Self::of(bytes))
    }

    /// These bytes, which are a footer without what comes before and behind it.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..HASH_BYTES]);
        Self { bytes, hash }
    }

    /// The number of bytes.
    pub fn count(&self) -> usize {
        self.bytes.len()
    }

    /// The footer, with its row counts cross-checked; its row groups are not parsed yet.
    ///
    /// # Errors
    /// `Data` if it is damaged, nested too deep, or disagrees with itself about rows.
    pub fn parse(self) -> Result<Footer> {
        let Sifted { bytes, group_rows, group_starts, unreadable } = sift(&self.bytes)?;
        check_schema_of(&bytes)?;
        let metadata = decoded(&bytes, None)?;
        check_row_counts(metadata.file_metadata().num_rows(), &group_rows)?;
        Ok(Footer { bytes: self.bytes, metadata, group_rows, group_starts, unreadable })
    }
}

impl Footer {
    /// The metadata of the whole file.
    pub fn file(&self) -> &FileMetaData {
        self.metadata.file_metadata()
    }

    /// Why a leaf can't be read in any row group, if it can't.
    pub fn unreadable(&self, leaf: usize) -> Option<Unreadable> {
        self.unreadable.get(&leaf).copied()
    }

    /// The rows of each row group.
    pub fn group_rows(&self) -> &[u64] {
        &self.group_rows
    }

    /// The rows of each row group, without the rest.
    pub fn into_group_rows(self) -> Vec<u64> {
        self.group_rows
    }

    /// The row groups, each parsed when the iterator reaches it.
    ///
    /// # Errors
    /// `Data` if one is damaged.
    pub fn row_groups(&self, options: ParquetMetaDataOptions) -> impl Iterator<Item = Result<ParsedGroup>> {
        let options = options.with_schema(self.file().schema_descr_ptr());
        let (start, end) = ONE_ROW_GROUP;
        let mut one = Vec::new();
        self.group_starts.windows(2).map(move |group| {
            one.clear();
            one.extend_from_slice(start);
            let unreadable = sift_row_group(&self.bytes[group[0] as usize..group[1] as usize], &mut one)?;
            one.push(end);
            let parsed = decoded(&one, Some(&options))?.into_builder().take_row_groups().pop();
            let metadata = parsed.ok_or_else(|| Error::data("damaged footer: a row group is not there"))?;
            Ok(ParsedGroup { metadata, unreadable })
        })
    }
}

fn decoded(bytes: &[u8], options: Option<&ParquetMetaDataOptions>) -> Result<ParquetMetaData> {
    caught(|| {
        ParquetMetaDataReader::decode_metadata_with_options(bytes, options)
            .map_err(|cause| Error::data(format!("damaged footer: {cause}")))
    })
}

fn usize_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Refuses a footer whose schema the parser could not take.
fn check_schema_of(bytes: &[u8]) -> Result<()> {
    const SCHEMA: i16 = 2;
    ThriftWalk::new(bytes).fields(|walk, number, _| {
        if number == SCHEMA {
            check_schema(walk)?;
        }
        Ok(number == SCHEMA)
    })
}

/// Refuses a schema that is nested too deep for a recursive parser, or that counts children which are not
/// there.
fn check_schema(walk: &mut ThriftWalk<'_>) -> Result<()> {
    const NAME: i16 = 4;
    const NUM_CHILDREN: i16 = 5;
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
    Ok(())
}

fn check_row_counts(stated: i64, groups: &[u64]) -> Result<()> {
    let sum = groups.iter().try_fold(0_u64, |sum, &rows| sum.checked_add(rows));
    let sum = sum.and_then(|sum| i64::try_from(sum).ok());
    let sum = sum.ok_or_else(|| Error::data("the rows of the row groups do not fit 63 bits"))?;
    // Some writers state no rows, and have some.
    if sum != stated && stated != 0 {
        return Err(Error::data(format!("the footer claims {stated} rows, its row groups hold {sum}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::data_type::Int64Type;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    /// The footer of a file of two columns, with row groups of these numbers of rows.
    fn footer(group_rows: &[i64]) -> Vec<u8> {
        let schema = parse_message_type("message root { required int64 a; required int64 b; }").unwrap();
        let mut file = Vec::new();
        let mut writer = SerializedFileWriter::new(&mut file, schema.into(), Arc::default()).unwrap();
        for &rows in group_rows {
            let mut group = writer.next_row_group().unwrap();
            while let Some(mut column) = group.next_column().unwrap() {
                let values: Vec<i64> = (0..rows).collect();
                column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        writer.close().unwrap();
        let (before, tail) = file.split_at(file.len() - TAIL_BYTES);
        let length = u32::from_le_bytes(*tail.first_chunk().unwrap()) as usize;
        before[before.len() - length..].to_vec()
    }

    fn parse(bytes: Vec<u8>) -> Result<Footer> {
        FooterBytes { bytes, hash: [0; HASH_BYTES] }.parse()
    }

    #[test]
    fn row_groups_one_at_a_time_are_those_of_the_whole_footer() {
        for group_rows in [&[][..], &[7], &[3, 0, 5, 1000]] {
            let bytes = footer(group_rows);
            let whole = ParquetMetaDataReader::decode_metadata(&bytes).unwrap();
            let found = parse(bytes).unwrap();
            let each: Result<Vec<_>> = found.row_groups(ParquetMetaDataOptions::new()).collect();
            for (one, expected) in each.unwrap().iter().zip(whole.row_groups()) {
                let one = &one.metadata;
                assert_eq!((one.columns(), one.num_rows()), (expected.columns(), expected.num_rows()));
            }
            assert_eq!(found.file(), whole.file_metadata());
            assert_eq!(
                found.group_rows(),
                group_rows.iter().map(|rows| rows.unsigned_abs()).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_footer_with_two_lists_of_row_groups_or_with_lacking_rows_is_refused() {
        let message = |bytes| parse(bytes).err().unwrap().to_string();
        // {1: version 1, 2: a root without children, 3: rows, 4: row groups}
        let start = [0x15, 0x02, 0x19, 0x1c, 0x48, 0x01, b'r', 0x15, 0x00, 0x00, 0x16];
        let of_rows = |rows: u8, rest: &[u8]| [&start[..], &[2 * rows], rest].concat();
        assert_eq!(parse(of_rows(0, &[0x19, 0x0c, 0])).unwrap().group_rows(), [0_u64; 0]);
        assert_eq!(parse(of_rows(0, &[0])).unwrap().group_rows(), [0_u64; 0]);
        assert!(message(of_rows(4, &[0])).contains("claims 4 rows, its row groups hold 0"));
        assert!(message(of_rows(0, &[0x19, 0x0c, 0x09, 0x08, 0x0c, 0])).contains("lists row groups twice"));
        assert!(message(of_rows(0, &[0x19, 0x1c, 0, 0])).contains("lacks its columns or its rows"));
        let group = [0x19, 0x1c, 0x19, 0x0c, 0x16, 0x00, 0x16, 0x06, 0, 0];
        assert_eq!(parse(of_rows(3, &group)).unwrap().group_rows(), [3]);
        assert!(message(of_rows(4, &group)).contains("claims 4 rows, its row groups hold 3"));
    }

    #[test]
    fn a_schema_nested_thousands_deep_is_refused_before_it_is_parsed() {
        let depth = 5000_u16;
        // field 2: list<struct> of 5001 elements, each {5: num_children = 1} but the last
        let mut bytes = vec![0x29, 0xfc, 0x89, 0x27];
        for _ in 0..depth {
            bytes.extend([0x55, 0x02, 0x00]);
        }
        bytes.extend([0x00, 0x00]);
        let error = check_schema_of(&bytes).err().unwrap();
        assert_eq!(error.to_string(), "the schema is nested more than 100 deep");
    }
}
