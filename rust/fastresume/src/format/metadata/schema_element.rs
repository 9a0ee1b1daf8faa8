//! An element of a footer's schema, as far as it is used: an annotation that its type can't have is dropped.
//!
//! Sources: <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>,
//! <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md>

use crate::error::Result;
use crate::format::metadata::thrift::{ThriftWalk, Wire};
use crate::format::metadata::thrift_writer::ThriftWriter;

const REQUIRED: i32 = 0;

const INT32: i32 = 1;
const INT64: i32 = 2;
pub const BYTE_ARRAY: i32 = 6;
const FIXED_LEN_BYTE_ARRAY: i32 = 7;

const KNOWN_TYPES: i32 = 8;

const DECIMAL: i32 = 5;

/// What an element is in the tree of a schema.
pub enum SchemaElement {
    Group,
    Leaf,
    /// A leaf whose physical type, of this number, is not known: it is written as bytes.
    UnknownLeaf(i32),
}

/// The fields of an element.
#[derive(Default)]
struct Element<'a> {
    physical: Option<i32>,
    length: Option<i32>,
    repetition: Option<i32>,
    name: Option<&'a [u8]>,
    children: Option<i32>,
    converted: Option<i32>,
    scale: Option<i32>,
    precision: Option<i32>,
    field_id: Option<i32>,
    logical: Option<Logical>,
}

/// A logical type: which member of the union, and what it holds.
#[derive(Debug, Clone, Copy, Default)]
struct Logical {
    member: i16,
    /// Of decimals.
    scale: Option<i32>,
    precision: Option<i32>,
    /// Of times: milliseconds, microseconds, nanoseconds.
    unit: Option<i16>,
    /// Of times, whether they are in UTC; of integers, whether they are signed.
    mark: Option<bool>,
    /// Of integers.
    bits: Option<u8>,
}

/// Writes what is used of the element that comes next.
///
/// A type that is not known, or not on such values, leaves values of their physical type. One without a repetition is required,
/// as Thrift's default for it says.
///
/// # Errors
/// `Data` if it is damaged.
pub fn sift(walk: &mut ThriftWalk<'_>, is_root: bool, out: &mut Vec<u8>) -> Result<SchemaElement> {
    let mut element = Element::read(walk)?;
    let has_children = element.children.unwrap_or(0) > 0;
    let node = match element.physical.filter(|_| !has_children) {
        None => SchemaElement::Group,
        Some(code) if is_known(code) => SchemaElement::Leaf,
        Some(code) => SchemaElement::UnknownLeaf(code),
    };
    match node {
        SchemaElement::Group => {
            let used = |logical: &Logical| matches!(logical.member, 2 | 3);
            element.logical = element.logical.filter(used);
            element.converted = element.converted.filter(|code| (1..=3).contains(code));
        }
        SchemaElement::Leaf => element.drop_annotations_of_others(),
        SchemaElement::UnknownLeaf(_) => {
            (element.physical, element.logical, element.converted) = (Some(BYTE_ARRAY), None, None);
        }
    }
    element.repetition = element.repetition.or((!is_root).then_some(REQUIRED));
    element.write(out);
    Ok(node)
}

/// Whether a physical type of this number is known.
pub fn is_known(code: i32) -> bool {
    (0..KNOWN_TYPES).contains(&code)
}

impl<'a> Element<'a> {
    fn read(walk: &mut ThriftWalk<'a>) -> Result<Self> {
        let mut found = Self::default();
        walk.fields(|walk, number, wire| {
            match (number, wire) {
                (1, Wire::I32) => found.physical = Some(walk.integer32()?),
                (2, Wire::I32) => found.length = Some(walk.integer32()?),
                (3, Wire::I32) => found.repetition = Some(walk.integer32()?),
                (4, Wire::Binary) => found.name = Some(walk.binary()?),
                (5, Wire::I32) => found.children = Some(walk.integer32()?),
                (6, Wire::I32) => found.converted = Some(walk.integer32()?),
                (7, Wire::I32) => found.scale = Some(walk.integer32()?),
                (8, Wire::I32) => found.precision = Some(walk.integer32()?),
                (9, Wire::I32) => found.field_id = Some(walk.integer32()?),
                (10, Wire::Struct) => found.logical = Logical::read(walk)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(found)
    }

    /// Drops what says of the values of a leaf what can't be.
    fn drop_annotations_of_others(&mut self) {
        let physical = self.physical.unwrap_or(-1);
        if let Some(logical) = self.logical.filter(|logical| logical.is_of(physical, self.length)) {
            // It says all; of a decimal, the older annotation is asked for as well.
            self.converted = (logical.member == 5).then_some(DECIMAL);
            (self.scale, self.precision) = (logical.scale, logical.precision);
            return;
        }
        self.logical = None;
        let scale = self.scale.unwrap_or(0);
        let decimal = || is_decimal(physical, self.length, self.precision.unwrap_or(0), scale);
        self.converted = self.converted.filter(|&code| match code {
            0 | 4 | 19 | 20 => physical == BYTE_ARRAY,
            DECIMAL => decimal(),
            6 | 7 | 11..=13 | 15..=17 => physical == INT32,
            8..=10 | 14 | 18 => physical == INT64,
            21 => physical == FIXED_LEN_BYTE_ARRAY && self.length == Some(12),
            _ => false,
        });
        if self.converted == Some(DECIMAL) {
            self.scale = Some(scale);
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut fields = ThriftWriter::new(out);
        let numbers = [(1, self.physical), (2, self.length), (3, self.repetition)];
        let write = |fields: &mut ThriftWriter<'_>, numbers: &[(i16, Option<i32>)]| {
            for &(number, value) in numbers {
                if let Some(value) = value {
                    fields.integer(number, Wire::I32, value.into());
                }
            }
        };
        write(&mut fields, &numbers);
        if let Some(name) = self.name {
            fields.text(4, name);
        }
        let numbers = [
            (5, self.children),
            (6, self.converted),
            (7, self.scale),
            (8, self.precision),
            (9, self.field_id),
        ];
        write(&mut fields, &numbers);
        if let Some(logical) = self.logical {
            fields.begin(10, Wire::Struct);
            logical.write(fields.out());
        }
        fields.end();
    }
}

impl Logical {
    fn read(walk: &mut ThriftWalk<'_>) -> Result<Option<Self>> {
        let mut found = None;
        walk.fields(|walk, member, wire| {
            if wire != Wire::Struct || found.is_some() {
                return Ok(false);
            }
            let mut logical = Self { member, ..Self::default() };
            walk.fields(|walk, number, wire| {
                match (member, number, wire) {
                    (5, 1, Wire::I32) => logical.scale = Some(walk.integer32()?),
                    (5, 2, Wire::I32) => logical.precision = Some(walk.integer32()?),
                    (7 | 8, 1, Wire::True | Wire::False) | (10, 2, Wire::True | Wire::False) => {
                        logical.mark = Some(wire == Wire::True);
                    }
                    (7 | 8, 2, Wire::Struct) => walk.fields(|_, unit, wire| {
                        logical.unit = Some(unit).filter(|_| wire == Wire::Struct);
                        Ok(false)
                    })?,
                    (10, 1, Wire::Byte) => logical.bits = Some(walk.listed_byte()?),
                    _ => return Ok(false),
                }
                Ok(true)
            })?;
            found = Some(logical);
            Ok(true)
        })?;
        Ok(found)
    }

    /// Whether values of a physical type can have it. Of shapes on maps their bytes are read: they have none here.
    fn is_of(self, physical: i32, length: Option<i32>) -> bool {
        let is_counted = self.mark.is_some() && self.unit.is_some_and(|unit| (1..=3).contains(&unit));
        let is_fixed = |bytes| physical == FIXED_LEN_BYTE_ARRAY && length == Some(bytes);
        match self.member {
            1 | 4 | 12 | 13 => physical == BYTE_ARRAY,
            5 => is_decimal(physical, length, self.precision.unwrap_or(0), self.scale.unwrap_or(-1)),
            6 => physical == INT32,
            7 => is_counted && physical == if self.unit == Some(1) { INT32 } else { INT64 },
            8 => is_counted && physical == INT64,
            10 => {
                self.mark.is_some()
                    && match self.bits {
                        Some(8 | 16 | 32) => physical == INT32,
                        Some(64) => physical == INT64,
                        _ => false,
                    }
            }
            11 => true,
            14 => is_fixed(16),
            15 => is_fixed(2),
            _ => false,
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        let mut member = ThriftWriter::new(out);
        member.begin(self.member, Wire::Struct);
        let mut fields = ThriftWriter::new(member.out());
        let of_mark = |is_true| if is_true { Wire::True } else { Wire::False };
        if let Some(bits) = self.bits {
            fields.begin(1, Wire::Byte);
            fields.out().push(bits);
        }
        if let Some(mark) = self.mark {
            fields.begin(if self.bits.is_some() { 2 } else { 1 }, of_mark(mark));
        }
        if let (Some(scale), Some(precision)) = (self.scale, self.precision) {
            fields.integer(1, Wire::I32, scale.into());
            fields.integer(2, Wire::I32, precision.into());
        }
        if let Some(number) = self.unit {
            fields.begin(2, Wire::Struct);
            let mut unit = ThriftWriter::new(fields.out());
            unit.begin(number, Wire::Struct);
            ThriftWriter::new(unit.out()).end();
            unit.end();
        }
        fields.end();
        member.end();
    }
}

/// Whether values of a physical type can be decimals of so many digits.
fn is_decimal(physical: i32, length: Option<i32>, precision: i32, scale: i32) -> bool {
    let most = match physical {
        INT32 => 9,
        INT64 => 18,
        BYTE_ARRAY => i32::MAX,
        FIXED_LEN_BYTE_ARRAY => digits_of(length.unwrap_or(0)),
        _ => return false,
    };
    (1..=most).contains(&precision) && (0..=precision).contains(&scale)
}

/// How many digits always fit so many bytes, one bit of which is the sign.
fn digits_of(bytes: i32) -> i32 {
    // The logarithm of 2, in units of 10^-11.
    const DIGITS_OF_A_BIT: i128 = 30_102_999_566;
    let digits = (i128::from(bytes) * 8 - 1).max(0) * DIGITS_OF_A_BIT / 100_000_000_000;
    i32::try_from(digits).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_digits_fit_so_many_bytes() {
        for (bytes, digits) in [(0, 0), (-1, 0), (1, 2), (2, 4), (4, 9), (8, 18), (16, 38), (32, 76)] {
            assert_eq!(digits_of(bytes), digits, "{bytes} bytes");
        }
        assert!(digits_of(i32::MAX) > 1 << 30);
    }
}
