//! Varints (ULEB128): integers of 7 bits per byte.

use crate::error::{Error, Result};

/// An unsigned varint; `position` moves past it.
///
/// # Errors
/// `Data` if the bytes end within it, or it has more than 64 bits.
#[inline]
pub fn varint(bytes: &[u8], position: &mut usize) -> Result<u64> {
    if let Some(&byte) = bytes.get(*position).filter(|byte| **byte < 0x80) {
        *position += 1;
        return Ok(u64::from(byte));
    }
    long_varint(bytes, position)
}

fn long_varint(bytes: &[u8], position: &mut usize) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*position).ok_or_else(ends)?;
        *position += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Error::data("an integer in a page has more than 64 bits"))
}

/// What is said of a page that has so many bytes after its values.
pub fn goes_on(bytes: usize) -> Error {
    Error::data(format!("a page has {bytes} bytes after its values"))
}

/// What is said of a page that is too short.
pub fn ends() -> Error {
    Error::data("a page ends before its values do")
}
