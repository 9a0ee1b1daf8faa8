//! The expected types of a footer's fields: which field of which struct has which type.
//!
//! The parser reads the type that it expects, whatever type a field states. So a file could make the parser
//! and us read the same bytes in two ways, and our checks would mean nothing. Therefore the types must be
//! those of the specification, and are checked first.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>

use crate::error::{Error, Result};
use crate::format::metadata::thrift::{Walk, Wire};

/// What a field holds.
enum FieldType {
    Bool,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List(&'static FieldType),
    Struct(Fields),
}

/// The known fields of a struct. Others are skipped.
type Fields = &'static [(i16, FieldType)];

use FieldType::{Binary, Bool, Byte, Double, I16, I32, I64, List, Struct};

const FILE: Fields = &[
    (1, I32),
    (2, List(&Struct(SCHEMA_ELEMENT))),
    (3, I64),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Binary),
    (7, List(&Struct(COLUMN_ORDER))),
    (8, Struct(&[])),
    (9, Binary),
];
const SCHEMA_ELEMENT: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Binary),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Struct(LOGICAL_TYPE)),
];
const LOGICAL_TYPE: Fields = &[
    (1, Struct(&[])),
    (2, Struct(&[])),
    (3, Struct(&[])),
    (4, Struct(&[])),
    (5, Struct(&[(1, I32), (2, I32)])),
    (6, Struct(&[])),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, Struct(&[])),
    (12, Struct(&[])),
    (13, Struct(&[])),
    (14, Struct(&[])),
    (15, Struct(&[])),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, I32)])),
    (19, Struct(&[])),
];
const TIME: Fields = &[(1, Bool), (2, Struct(&[(1, Struct(&[])), (2, Struct(&[])), (3, Struct(&[]))]))];
const KEY_VALUE: Fields = &[(1, Binary), (2, Binary)];
const COLUMN_ORDER: Fields = &[(1, Struct(&[])), (2, Struct(&[]))];
const ROW_GROUP: Fields = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, I64),
    (3, I64),
    (4, List(&Struct(&[(1, I32), (2, Bool), (3, Bool)]))),
    (5, I64),
    (6, I64),
    (7, I16),
];
const COLUMN_CHUNK: Fields = &[
    (1, Binary),
    (2, I64),
    (3, Struct(COLUMN_METADATA)),
    (4, I64),
    (5, I32),
    (6, I64),
    (7, I32),
    (8, Struct(&[])),
    (9, Binary),
];
const COLUMN_METADATA: Fields = &[
    (1, I32),
    (2, List(&I32)),
    (3, List(&Binary)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, List(&Struct(KEY_VALUE))),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, I32), (2, I32), (3, I32)]))),
    (14, I64),
    (15, I32),
    (16, Struct(&[(1, I64), (2, List(&I64)), (3, List(&I64))])),
    (17, Struct(&[(1, Struct(BOUNDING_BOX)), (2, List(&I32))])),
];
const STATISTICS: Fields =
    &[(1, Binary), (2, Binary), (3, I64), (4, I64), (5, Binary), (6, Binary), (7, Bool), (8, Bool), (9, I64)];
const BOUNDING_BOX: Fields =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];

/// Refuses a footer whose fields have other types.
pub fn check(footer: &[u8]) -> Result<()> {
    check_struct(&mut Walk::new(footer), FILE)
}

fn check_struct(walk: &mut Walk<'_>, fields: Fields) -> Result<()> {
    walk.fields(|walk, number, wire| match fields.iter().find(|(known, _)| *known == number) {
        Some((_, kind)) => check_value(walk, kind, wire).map(|()| true),
        None => Ok(false),
    })
}

fn check_value(walk: &mut Walk<'_>, kind: &FieldType, wire: Wire) -> Result<()> {
    match (kind, wire) {
        (Struct(fields), Wire::Struct) => check_struct(walk, fields),
        (List(kind), Wire::List) => {
            let (element, length) = walk.list()?;
            (0..length).try_for_each(|_| check_value(walk, kind, element))
        }
        (Bool, Wire::True | Wire::False)
        | (Byte, Wire::Byte)
        | (I16, Wire::I16)
        | (I32, Wire::I32)
        | (I64, Wire::I64)
        | (Double, Wire::Double)
        | (Binary, Wire::Binary) => walk.pass(wire),
        _ => Err(Error::data(format!("damaged footer: a field has the type {wire:?}, which is not its own"))),
    }
}
