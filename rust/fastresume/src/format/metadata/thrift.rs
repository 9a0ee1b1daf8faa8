//! A bounded reader of Thrift's compact protocol. It reads page headers, and checks a footer before a
//! recursive parser gets it.
//!
//! Source: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>

use crate::error::{Error, Result};

/// The deepest nesting of structures. Parquet's own reach 6.
const MAX_DEPTH: usize = 32;

/// The wire types that a field or an element can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    True,
    False,
    Byte,
    I16,
    I32,
    I64,
    Double,
    Binary,
    List,
    Set,
    Map,
    Struct,
    Uuid,
}

impl Wire {
    /// Its number.
    pub fn code(self) -> u8 {
        match self {
            Self::True => 1,
            Self::False => 2,
            Self::Byte => 3,
            Self::I16 => 4,
            Self::I32 => 5,
            Self::I64 => 6,
            Self::Double => 7,
            Self::Binary => 8,
            Self::List => 9,
            Self::Set => 10,
            Self::Map => 11,
            Self::Struct => 12,
            Self::Uuid => 13,
        }
    }

    #[inline]
    fn new(code: u8) -> ThriftResult<Self> {
        Ok(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4 => Self::I16,
            5 => Self::I32,
            6 => Self::I64,
            7 => Self::Double,
            8 => Self::Binary,
            9 => Self::List,
            10 => Self::Set,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return Err(ThriftDamage::Wire(code)),
        })
    }
}

/// The kind of an error. It is small, because a result is made at each byte.
#[derive(Debug, Clone, Copy)]
enum ThriftDamage {
    Truncated,
    LongNumber,
    FieldNumber,
    Wire(u8),
    Depth,
}

type ThriftResult<T> = std::result::Result<T, ThriftDamage>;

impl ThriftDamage {
    #[cold]
    fn error(self) -> Error {
        Error::data(match self {
            Self::Truncated => "damaged metadata: it ends in the middle of a value".to_owned(),
            Self::LongNumber => "damaged metadata: a number of more than 64 bits".to_owned(),
            Self::FieldNumber => "damaged metadata: a field number out of range".to_owned(),
            Self::Wire(code) => format!("damaged metadata: unknown wire type {code}"),
            Self::Depth => format!("damaged metadata: nested more than {MAX_DEPTH} deep"),
        })
    }
}

/// That a message goes on behind the bytes that there are of it.
pub fn truncated() -> Error {
    ThriftDamage::Truncated.error()
}

/// A position in the bytes of a compact protocol message.
#[derive(Debug, Clone)]
pub struct ThriftWalk<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> ThriftWalk<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The number of bytes that were read.
    pub fn position(&self) -> usize {
        self.position
    }

    #[inline]
    fn byte(&mut self) -> ThriftResult<u8> {
        let byte = *self.bytes.get(self.position).ok_or(ThriftDamage::Truncated)?;
        self.position += 1;
        Ok(byte)
    }

    #[inline]
    fn advance(&mut self, count: u64) -> ThriftResult<()> {
        let left = self.bytes.len() - self.position;
        match usize::try_from(count) {
            Ok(count) if count <= left => {
                self.position += count;
                Ok(())
            }
            _ => Err(ThriftDamage::Truncated),
        }
    }

    #[inline]
    fn varint(&mut self) -> ThriftResult<u64> {
        match self.byte()? {
            byte if byte < 0x80 => Ok(byte.into()),
            byte => self.long_varint(byte),
        }
    }

    /// The rest of a varint whose first byte was read.
    fn long_varint(&mut self, first: u8) -> ThriftResult<u64> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ThriftDamage::LongNumber)
    }

    #[inline]
    fn zigzag(&mut self) -> ThriftResult<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A signed integer (zigzag).
    pub fn integer(&mut self) -> Result<i64> {
        self.zigzag().map_err(ThriftDamage::error)
    }

    /// A signed 32-bit integer.
    pub fn integer32(&mut self) -> Result<i32> {
        let value = self.integer()?;
        i32::try_from(value)
            .map_err(|_| Error::data(format!("damaged metadata: {value} is not a 32-bit number")))
    }

    /// The bytes of a binary value.
    pub fn binary(&mut self) -> Result<&'a [u8]> {
        let length = self.varint().map_err(ThriftDamage::error)?;
        self.advance(length).map_err(ThriftDamage::error)?;
        let end = self.position;
        // That many bytes were passed.
        Ok(&self.bytes[end - usize::try_from(length).unwrap_or(end)..end])
    }

    /// A number of one byte.
    pub fn listed_byte(&mut self) -> Result<u8> {
        self.byte().map_err(ThriftDamage::error)
    }

    /// The bytes from here on up to where another walk through them is.
    pub fn up_to(&self, later: &Self) -> &'a [u8] {
        self.bytes.get(self.position..later.position).unwrap_or_default()
    }

    /// A boolean in a list: a byte.
    pub fn listed_boolean(&mut self) -> Result<bool> {
        self.byte().map(|byte| byte == 1).map_err(ThriftDamage::error)
    }

    /// The element type and the stated length of a list; the length is not checked yet.
    pub fn list(&mut self) -> Result<(Wire, u64)> {
        self.list_head().map_err(ThriftDamage::error)
    }

    fn list_head(&mut self) -> ThriftResult<(Wire, u64)> {
        let head = self.byte()?;
        if head == 0 {
            // Some writers give an empty list no element type.
            return Ok((Wire::Byte, 0));
        }
        let length = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        Ok((Wire::new(head & 0x0f)?, length))
    }

    /// Calls `visit` for each field of a struct with the field's number and wire type.
    /// `visit` reads the field and returns true, or returns false to have it skipped.
    pub fn fields(&mut self, mut visit: impl FnMut(&mut Self, i16, Wire) -> Result<bool>) -> Result<()> {
        let mut number = 0_i16;
        while let Some(wire) = self.field(&mut number).map_err(ThriftDamage::error)? {
            if !visit(self, number, wire)? {
                self.pass(wire)?;
            }
        }
        Ok(())
    }

    /// Skips a value of this wire type.
    pub fn pass(&mut self, wire: Wire) -> Result<()> {
        self.skip(wire, MAX_DEPTH).map_err(ThriftDamage::error)
    }

    #[inline]
    fn field(&mut self, number: &mut i16) -> ThriftResult<Option<Wire>> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let next = match head >> 4 {
            0 => i16::try_from(self.zigzag()?).ok(),
            delta => number.checked_add(i16::from(delta)),
        };
        *number = next.ok_or(ThriftDamage::FieldNumber)?;
        Wire::new(head & 0x0f).map(Some)
    }

    fn skip(&mut self, wire: Wire, depth: usize) -> ThriftResult<()> {
        let depth = depth.checked_sub(1).ok_or(ThriftDamage::Depth)?;
        match wire {
            Wire::True | Wire::False => Ok(()),
            Wire::Byte => self.advance(1),
            Wire::I16 | Wire::I32 | Wire::I64 => self.varint().map(drop),
            Wire::Double => self.advance(8),
            Wire::Uuid => self.advance(16),
            Wire::Binary => {
                let length = self.varint()?;
                self.advance(length)
            }
            Wire::List | Wire::Set => {
                let (element, length) = self.list_head()?;
                (0..length).try_for_each(|_| self.skip_element(element, depth))
            }
            Wire::Map => {
                let length = self.varint()?;
                if length == 0 {
                    return Ok(());
                }
                let head = self.byte()?;
                let (key, value) = (Wire::new(head >> 4)?, Wire::new(head & 0x0f)?);
                (0..length).try_for_each(|_| {
                    self.skip_element(key, depth)?;
                    self.skip_element(value, depth)
                })
            }
            Wire::Struct => {
                let mut number = 0;
                while let Some(wire) = self.field(&mut number)? {
                    self.skip(wire, depth)?;
                }
                Ok(())
            }
        }
    }

    /// Skips an element of a list or map. Booleans there take a byte each.
    fn skip_element(&mut self, wire: Wire, depth: usize) -> ThriftResult<()> {
        match wire {
            Wire::True | Wire::False => self.advance(1),
            other => self.skip(other, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_are_skipped_and_known_ones_read() {
        // field 1: i32 = -3; field 3: list<struct> of 2 structs {1: true}; field 4: binary "ab"; end
        let bytes = [0x15, 0x05, 0x29, 0x2c, 0x11, 0x00, 0x11, 0x00, 0x18, 0x02, b'a', b'b', 0x00];
        let mut seen = Vec::new();
        let mut walk = ThriftWalk::new(&bytes);
        walk.fields(|walk, number, wire| {
            seen.push((number, wire));
            if number == 1 {
                assert_eq!(walk.integer32()?, -3);
            }
            Ok(number == 1)
        })
        .unwrap();
        assert_eq!(seen, vec![(1, Wire::I32), (3, Wire::List), (4, Wire::Binary)]);
        assert_eq!(walk.position(), bytes.len());
    }

    #[test]
    fn endless_nesting_and_lengths_are_refused() {
        let deep = [0x1c_u8; 4000];
        assert!(ThriftWalk::new(&deep).fields(|_, _, _| Ok(false)).is_err());
        let long = [0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
        assert!(ThriftWalk::new(&long).fields(|_, _, _| Ok(false)).is_err());
        let wide = [0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(ThriftWalk::new(&wide).fields(|_, _, _| Ok(false)).is_err());
    }
}
