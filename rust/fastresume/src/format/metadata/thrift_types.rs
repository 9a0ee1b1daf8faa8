//! The fields of a footer that are used, and their types: all others are dropped before a parser gets it.
//!
//! The parser reads the type that it expects, whatever type a field states, and refuses what it does not know. So a file
//! could make the parser and us read the same bytes in two ways, and our checks would mean nothing; and a column that nobody
//! reads could make a file unreadable. Therefore what the parser gets has the fields that are used alone, each with the type
//! that the specification gives it.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::metadata::schema_element::{self, BYTE_ARRAY, SchemaElement};
use crate::format::metadata::thrift::{ThriftWalk, Wire};
use crate::format::metadata::thrift_writer::{ThriftWriter, put_integer, put_list, put_text};
use crate::memory::vectors::room_for;

/// What a field holds.
#[derive(Clone, Copy)]
enum FieldType {
    Bool,
    I32,
    I64,
    /// Not negative.
    Count,
    /// The number of one of so many, the first of which is 0.
    Code(i64),
    /// The number of a codec.
    Codec,
    /// The number of a physical type.
    Physical,
    Binary,
    /// UTF-8; what is not is replaced.
    Text,
    List(&'static FieldType),
    /// With the fields, and the numbers of those without which it is left out.
    Struct(Fields, &'static [i16]),
    Schema,
    RowGroups,
    Chunks,
    /// The order of a column: the crate knows what it knows.
    Order,
    /// What is looked for, and left out.
    Noted,
}

/// The used fields of a struct. Others are left out.
type Fields = &'static [(i16, FieldType)];

use FieldType::{
    Binary, Bool, Chunks, Code, Codec, Count, I32, I64, List, Noted, Order, Physical, RowGroups, Schema,
    Struct, Text,
};

const FILE: Fields = &[
    (VERSION, I32),
    (2, Schema),
    (3, I64),
    (ROW_GROUPS, RowGroups),
    (5, List(&Struct(&[(1, Text), (2, Text)], &[1]))),
    (6, Text),
    (7, List(&Order)),
];
const VERSION: i16 = 1;
const ROW_GROUPS: i16 = 4;
const ROW_GROUP: Fields = &[(COLUMNS, Chunks), (2, I64), (NUM_ROWS, I64)];
const COLUMNS: i16 = 1;
const NUM_ROWS: i16 = 3;
const COLUMN_CHUNK: Fields = &[
    (FILE_OFFSET, I64),
    (METADATA, Struct(COLUMN_METADATA, &[])),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
    (ENCRYPTION, Noted),
    (ENCRYPTED_METADATA, Noted),
];
const FILE_OFFSET: i16 = 2;
const METADATA: i16 = 3;
const ENCRYPTION: i16 = 8;
const ENCRYPTED_METADATA: i16 = 9;
const COLUMN_METADATA: Fields = &[
    (1, Physical),
    (2, List(&Code(MOST_ENCODINGS))),
    (4, Codec),
    (5, I64),
    (6, I64),
    (7, I64),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Struct(STATISTICS, &[])),
    (13, List(&Struct(&[(1, Code(4)), (2, Code(MOST_ENCODINGS)), (3, I32)], &[1, 2, 3]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))], &[])),
];
const STATISTICS: Fields =
    &[(1, Binary), (2, Binary), (3, Count), (5, Binary), (6, Binary), (7, Bool), (8, Bool)];

const MOST_ENCODINGS: i64 = 11;
/// An encoding that never was.
const NO_ENCODING: i64 = 1;
/// A codec that is known, and not supported.
const LZO: i64 = 3;
const KNOWN_CODECS: i64 = 8;

/// Why the chunks of a column can't be read, though the file can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    Encrypted,
    /// By a codec of this number.
    Codec(i64),
    /// Its values have a physical type of this number.
    Type(i32),
}

impl Unreadable {
    /// The error for whoever reads the column.
    pub fn error(self) -> Error {
        Error::data(match self {
            Self::Encrypted => {
                "the column is encrypted, which is not supported: leave it out (columns=)".into()
            }
            Self::Codec(code) => {
                format!(
                    "the column is compressed by the codec {code}, which is not known: leave it out (columns=)"
                )
            }
            Self::Type(code) => {
                format!(
                    "the column has the physical type {code}, which is not known: leave it out (columns=)"
                )
            }
        })
    }
}

/// A footer without what is not used, and without its row groups: each of them is sifted when it is parsed, since a file may
/// have a million.
pub struct Sifted {
    pub bytes: Vec<u8>,
    /// The rows of each row group.
    pub group_rows: Vec<u64>,
    /// Where each row group begins in the footer, and where the last one ends.
    pub group_starts: Vec<u32>,
    /// The leaves whose types are not known.
    pub unreadable: BTreeMap<usize, Unreadable>,
}

/// The footer without what is not used, and without fields of other types than their own.
///
/// # Errors
/// `Data` if its structure is damaged.
pub fn sift(footer: &[u8]) -> Result<Sifted> {
    let mut sifted = Sifted::new(Vec::new());
    let kept = sifted.structure(&mut ThriftWalk::new(footer), FILE)?;
    let mut more = ThriftWriter::resumed(&mut sifted.bytes, i16::MAX);
    if !kept.has(VERSION) {
        more.integer(VERSION, Wire::I32, 1);
    }
    if !kept.has(ROW_GROUPS) {
        more.begin(ROW_GROUPS, Wire::List);
        put_list(more.out(), Wire::Struct, 0);
    }
    more.end();
    Ok(sifted)
}

/// Adds a row group without what is not used to bytes; gives the leaves that can't be read in it.
///
/// # Errors
/// `Data` if its structure is damaged.
pub fn sift_row_group(row_group: &[u8], bytes: &mut Vec<u8>) -> Result<BTreeMap<usize, Unreadable>> {
    let mut sifted = Sifted::new(std::mem::take(bytes));
    sifted.structure(&mut ThriftWalk::new(row_group), ROW_GROUP)?;
    sifted.bytes.push(0);
    *bytes = sifted.bytes;
    Ok(sifted.unreadable)
}

/// Which of the numbers up to 15 of fields were kept.
#[derive(Default)]
struct KeptFields(u32, Option<i64>);

impl KeptFields {
    fn has(&self, number: i16) -> bool {
        self.0 >> number & 1 == 1
    }
}

impl Sifted {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, group_rows: Vec::new(), group_starts: Vec::new(), unreadable: BTreeMap::new() }
    }

    /// Keeps the fields of a struct, whose end is not written.
    fn structure(&mut self, walk: &mut ThriftWalk<'_>, fields: Fields) -> Result<KeptFields> {
        let (mut kept, mut last) = (KeptFields::default(), 0);
        walk.fields(|walk, number, wire| {
            let Some((_, kind)) = fields.iter().find(|(known, _)| *known == number) else { return Ok(false) };
            if let Noted = kind {
                kept.0 |= 1 << number;
                return Ok(false);
            }
            let place = self.bytes.len();
            ThriftWriter::resumed(&mut self.bytes, last).begin(number, wire);
            let is_kept = match (kind, wire) {
                (Codec, Wire::I32) => {
                    let code = walk.integer()?;
                    let is_known = (0..KNOWN_CODECS).contains(&code);
                    kept.1 = (!is_known).then_some(code);
                    put_integer(&mut self.bytes, if is_known { code } else { LZO });
                    true
                }
                _ => self.value(walk, *kind, wire, &mut kept)?,
            };
            if is_kept {
                kept.0 |= 1 << number;
                last = number;
            } else {
                self.bytes.truncate(place);
            }
            Ok(true)
        })?;
        Ok(kept)
    }

    /// Keeps a value, if it has its own type; gives whether it has.
    fn value(
        &mut self,
        walk: &mut ThriftWalk<'_>,
        kind: FieldType,
        wire: Wire,
        kept: &mut KeptFields,
    ) -> Result<bool> {
        let before = walk.clone();
        match (kind, wire) {
            (Struct(fields, needed), Wire::Struct) => {
                let found = self.structure(walk, fields)?;
                self.bytes.push(0);
                kept.1 = kept.1.or(found.1);
                return Ok(needed.iter().all(|&number| found.has(number)));
            }
            (Order, Wire::Struct) => {
                let mut order = None;
                walk.fields(|_, number, wire| {
                    order = order.or(Some(if wire == Wire::Struct { number } else { i16::MAX }));
                    Ok(false)
                })?;
                let mut fields = ThriftWriter::new(&mut self.bytes);
                fields.begin(order.unwrap_or(i16::MAX), Wire::Struct);
                ThriftWriter::new(fields.out()).end();
                fields.end();
                return Ok(true);
            }
            (List(kind), Wire::List) => return self.list(walk, *kind),
            (RowGroups, Wire::List) => return self.row_groups(walk),
            (Schema | Chunks, Wire::List) => {
                let (element, length) = walk.list()?;
                if element != Wire::Struct && length > 0 {
                    return Err(Error::data("damaged footer: columns that are no structs"));
                }
                put_list(&mut self.bytes, Wire::Struct, length);
                if let Schema = kind {
                    self.schema(walk, length)?;
                    return Ok(true);
                }
                for index in 0..length {
                    self.chunk(walk, usize::try_from(index).unwrap_or(usize::MAX))?;
                }
                return Ok(true);
            }
            (Physical, Wire::I32) => {
                let code = walk.integer32()?;
                let written = if schema_element::is_known(code) { code } else { BYTE_ARRAY };
                put_integer(&mut self.bytes, written.into());
                return Ok(true);
            }
            (Count, Wire::I64) if before.clone().integer()? < 0 => walk.pass(wire)?,
            (Code(count), Wire::I32) => {
                let code = walk.integer()?;
                let is_known = (0..count).contains(&code) && (count != MOST_ENCODINGS || code != NO_ENCODING);
                put_integer(&mut self.bytes, code);
                return Ok(is_known);
            }
            (Text, Wire::Binary) => {
                put_text(&mut self.bytes, walk.binary()?);
                return Ok(true);
            }
            (Bool, Wire::True | Wire::False) => return Ok(true),
            (I32, Wire::I32) | (I64 | Count, Wire::I64) | (Binary, Wire::Binary) => {
                walk.pass(wire)?;
                self.bytes.extend_from_slice(before.up_to(walk));
                return Ok(true);
            }
            _ => walk.pass(wire)?,
        }
        Ok(false)
    }

    /// Keeps the elements of a list that have their own type.
    fn list(&mut self, walk: &mut ThriftWalk<'_>, kind: FieldType) -> Result<bool> {
        let mut before = walk.clone();
        let (element, length) = walk.list()?;
        let own = match kind {
            Struct(..) | Order => Wire::Struct,
            Code(_) | I32 => Wire::I32,
            _ => Wire::I64,
        };
        if element != own && length > 0 {
            before.pass(Wire::List)?;
            *walk = before;
            return Ok(false);
        }
        let start = self.bytes.len();
        put_list(&mut self.bytes, own, length);
        let first = self.bytes.len();
        let mut count = 0;
        for _ in 0..length {
            let end = self.bytes.len();
            if self.value(walk, kind, own, &mut KeptFields::default())? {
                count += 1;
            } else {
                self.bytes.truncate(end);
            }
        }
        if count < length {
            let mut head = Vec::new();
            put_list(&mut head, own, count);
            self.bytes.splice(start..first, head);
        }
        Ok(true)
    }

    /// Notes row groups, and writes an empty list; gives whether they are some.
    fn row_groups(&mut self, walk: &mut ThriftWalk<'_>) -> Result<bool> {
        let mut before = walk.clone();
        let (element, length) = walk.list()?;
        if element != Wire::Struct && length > 0 {
            before.pass(Wire::List)?;
            *walk = before;
            return Ok(false);
        }
        if !self.group_starts.is_empty() {
            return Err(Error::data("damaged footer: it lists row groups twice"));
        }
        put_list(&mut self.bytes, Wire::Struct, 0);
        let place = |walk: &ThriftWalk<'_>| {
            u32::try_from(walk.position()).map_err(|_| Error::data("a footer of more than 4 GiB"))
        };
        for _ in 0..length {
            room_for(&mut self.group_rows, 1)?;
            room_for(&mut self.group_starts, 1)?;
            self.group_starts.push(place(walk)?);
            let (mut rows, mut has_columns) = (None, false);
            walk.fields(|walk, number, wire| {
                has_columns |= (number, wire) == (COLUMNS, Wire::List);
                if (number, wire) != (NUM_ROWS, Wire::I64) {
                    return Ok(false);
                }
                rows = Some(walk.integer()?);
                Ok(true)
            })?;
            // A row group of a single byte would take many times as much here.
            let rows = rows
                .filter(|_| has_columns)
                .ok_or_else(|| Error::data("damaged footer: a row group lacks its columns or its rows"))?;
            let index = self.group_rows.len();
            self.group_rows.push(
                u64::try_from(rows).map_err(|_| {
                    Error::data(format!("the row group claims {rows} rows")).in_row_group(index)
                })?,
            );
        }
        self.group_starts.push(place(walk)?);
        Ok(true)
    }

    /// Keeps the elements of the schema, and notes the leaves whose types are not known.
    fn schema(&mut self, walk: &mut ThriftWalk<'_>, length: u64) -> Result<()> {
        let mut leaf = 0;
        for index in 0..length {
            match schema_element::sift(walk, index == 0, &mut self.bytes)? {
                SchemaElement::Group => continue,
                SchemaElement::Leaf => {}
                SchemaElement::UnknownLeaf(code) => {
                    self.unreadable.insert(leaf, Unreadable::Type(code));
                }
            }
            leaf += 1;
        }
        Ok(())
    }

    /// Keeps a column chunk. One without metadata, because these are encrypted, gets some: it is not read.
    fn chunk(&mut self, walk: &mut ThriftWalk<'_>, leaf: usize) -> Result<()> {
        let kept = self.structure(walk, COLUMN_CHUNK)?;
        let is_encrypted = kept.has(ENCRYPTION) || kept.has(ENCRYPTED_METADATA);
        let mut more = ThriftWriter::resumed(&mut self.bytes, i16::MAX);
        if !kept.has(FILE_OFFSET) {
            more.integer(FILE_OFFSET, Wire::I64, 0);
        }
        if is_encrypted && !kept.has(METADATA) {
            more.begin(METADATA, Wire::Struct);
            let mut fields = ThriftWriter::new(more.out());
            fields.integer(1, Wire::I32, 0);
            fields.begin(2, Wire::List);
            put_list(fields.out(), Wire::I32, 0);
            fields.integer(4, Wire::I32, LZO);
            for number in [5, 6, 7, 9] {
                fields.integer(number, Wire::I64, 0);
            }
            fields.end();
        }
        more.end();
        let codec = kept.1.map(Unreadable::Codec);
        if let Some(why) = is_encrypted.then_some(Unreadable::Encrypted).or(codec) {
            self.unreadable.entry(leaf).or_insert(why);
        }
        Ok(())
    }
}
