//! Writes structs in Thrift's compact protocol.

use crate::format::metadata::thrift::Wire;

/// Writes the fields of one struct behind bytes.
pub struct ThriftWriter<'a> {
    out: &'a mut Vec<u8>,
    last: i16,
}

impl<'a> ThriftWriter<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last: 0 }
    }

    /// Goes on behind the field of this number.
    pub fn resumed(out: &'a mut Vec<u8>, last: i16) -> Self {
        Self { out, last }
    }

    /// Begins a field, whose value is to be written next (of booleans, there is none).
    pub fn begin(&mut self, number: i16, wire: Wire) {
        if let Some(step @ 1..=15) = number.checked_sub(self.last) {
            self.out.push(step.to_le_bytes()[0] << 4 | wire.code());
        } else {
            self.out.push(wire.code());
            put_integer(self.out, number.into());
        }
        self.last = number;
    }

    /// The bytes, to write a value.
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Writes an integer.
    pub fn integer(&mut self, number: i16, wire: Wire, value: i64) {
        self.begin(number, wire);
        put_integer(self.out, value);
    }

    /// Writes a text; what is no UTF-8 in it is replaced.
    pub fn text(&mut self, number: i16, text: &[u8]) {
        self.begin(number, Wire::Binary);
        put_text(self.out, text);
    }

    /// Ends the struct.
    pub fn end(self) {
        self.out.push(0);
    }
}

/// Writes a number of bits, seven in a byte.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Writes a signed integer.
pub fn put_integer(out: &mut Vec<u8>, value: i64) {
    put_varint(out, (value << 1 ^ value >> 63).cast_unsigned());
}

/// Writes a text; what is no UTF-8 in it is replaced.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Writes what stands before the elements of a list.
pub fn put_list(out: &mut Vec<u8>, element: Wire, length: u64) {
    if let Ok(length @ 0..=14) = u8::try_from(length) {
        out.push(length << 4 | element.code());
    } else {
        out.push(0xf0 | element.code());
        put_varint(out, length);
    }
}
