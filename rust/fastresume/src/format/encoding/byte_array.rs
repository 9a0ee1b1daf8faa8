//! Byte arrays (strings and binary values) in the encodings of pages.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use crate::error::{Error, Result};
use crate::format::encoding::delta::deltas;
use crate::format::encoding::varint::{ends, goes_on};

/// The largest expansion at once: more is treated as damage, because with prefixes and dictionaries few bytes
/// can expand to many.
pub const MAX_EXPANDED_BYTES: usize = 1 << 27;

/// Byte arrays one behind another, and where each ends.
#[derive(Debug, Default)]
pub struct Texts {
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
}

impl Texts {
    /// The byte array of this index, if there is one.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(start..*self.ends.get(index)?)
    }
}

/// PLAIN: the byte array behind its length at `position`, which moves past it.
pub fn plain<'a>(bytes: &'a [u8], position: &mut usize) -> Result<&'a [u8]> {
    let rest = bytes.get(*position..).unwrap_or_default();
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(ends)?;
    let length = u32::from_le_bytes(*length) as usize;
    let text = rest.get(..length).ok_or_else(|| {
        Error::data(format!("a text claims {length} bytes, the page has {} left", rest.len()))
    })?;
    *position += 4 + length;
    Ok(text)
}

/// `DELTA_LENGTH_BYTE_ARRAY`: byte arrays behind all their lengths.
pub fn behind_lengths(bytes: &[u8], count: usize) -> Result<Texts> {
    let mut lengths = Vec::new();
    let start = deltas(bytes, count, |length| lengths.push(length))?;
    let mut texts = Texts { bytes: bytes.get(start..).unwrap_or_default().to_vec(), ends: Vec::new() };
    let mut end = 0_usize;
    for length in lengths {
        end = usize::try_from(length).ok().and_then(|length| end.checked_add(length)).ok_or_else(ends)?;
        if end > texts.bytes.len() {
            return Err(ends());
        }
        texts.ends.push(end);
    }
    if end < texts.bytes.len() && count > 0 {
        return Err(goes_on(texts.bytes.len() - end));
    }
    Ok(texts)
}

/// `DELTA_BYTE_ARRAY`: each byte array shares a prefix with the one before; the suffixes lie behind their
/// lengths.
pub fn behind_prefixes(bytes: &[u8], count: usize) -> Result<Texts> {
    let mut prefixes = Vec::new();
    let start = deltas(bytes, count, |length| prefixes.push(length))?;
    let suffixes = behind_lengths(bytes.get(start..).unwrap_or_default(), count)?;
    let mut texts = Texts::default();
    let mut before = 0..0;
    for (index, prefix) in prefixes.into_iter().enumerate() {
        let length = usize::try_from(prefix).ok().filter(|length| *length <= before.len());
        let length = length.ok_or_else(|| {
            Error::data(format!("a text begins with {prefix} bytes of one that has {}", before.len()))
        })?;
        let begin = texts.bytes.len();
        texts.bytes.extend_from_within(before.start..before.start + length);
        texts.bytes.extend_from_slice(suffixes.get(index).ok_or_else(ends)?);
        if texts.bytes.len() > MAX_EXPANDED_BYTES {
            return Err(too_long());
        }
        before = begin..texts.bytes.len();
        texts.ends.push(before.end);
    }
    Ok(texts)
}

/// The bytes of such byte arrays, all of which have `length` bytes.
pub fn of_one_length(bytes: &[u8], count: usize, length: usize) -> Result<Vec<u8>> {
    let texts = behind_prefixes(bytes, count)?;
    if (0..count).any(|index| texts.get(index).is_none_or(|text| text.len() != length)) {
        return Err(Error::data(format!("a page holds values that have not {length} bytes")));
    }
    Ok(texts.bytes)
}

pub fn too_long() -> Error {
    Error::data(format!(
        "texts expand to more than {MAX_EXPANDED_BYTES} bytes at once; fewer rows at a time may do: a smaller \
         block_rows in a shuffled order, a smaller batch_size in the other"
    ))
}
