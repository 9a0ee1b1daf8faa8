//! Byte arrays (strings and binary values) in the encodings of pages.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use crate::error::{Error, Result};
use crate::format::encoding::delta::deltas;
use crate::format::encoding::varint::{ends, goes_on};
use crate::memory::vectors::{room_for, with_room};

/// The largest expansion at once: more is treated as damage, because with prefixes and dictionaries few bytes
/// can expand to many.
pub const MAX_EXPANDED_BYTES: usize = 1 << 27;

/// Byte arrays one behind another, and where each ends.
#[derive(Debug, Default)]
pub struct ByteArrays {
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
}

impl ByteArrays {
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

/// Texts behind all their lengths.
///
/// # Errors
/// `Data` if they are damaged; `Argument` if the system does not give so much memory.
pub fn behind_lengths(bytes: &[u8], count: usize) -> Result<ByteArrays> {
    let (lengths, start) = integers(bytes, count)?;
    let held = bytes.get(start..).unwrap_or_default();
    let mut texts = ByteArrays { bytes: with_room(held.len())?, ends: with_room(lengths.len())? };
    texts.bytes.extend_from_slice(held);
    let mut end = 0_usize;
    for length in lengths {
        end = usize::try_from(length).ok().and_then(|length| end.checked_add(length)).ok_or_else(ends)?;
        if end > held.len() {
            return Err(ends());
        }
        texts.ends.push(end);
    }
    if end < held.len() && count > 0 {
        return Err(goes_on(held.len() - end));
    }
    Ok(texts)
}

/// Delta-encoded integers, and the bytes that they take.
fn integers(bytes: &[u8], count: usize) -> Result<(Vec<i64>, usize)> {
    let mut found = Vec::new();
    let mut room = Ok(());
    let end = deltas(bytes, count, |number| {
        if found.len() == found.capacity() && room.is_ok() {
            room = room_for(&mut found, 1);
        }
        if room.is_ok() {
            found.push(number);
        }
    })?;
    room.map(|()| (found, end))
}

/// Texts that begin with so many bytes of the one before; the other bytes are behind their lengths. They are put together one
/// by one, since few bytes may state many.
#[derive(Debug)]
pub struct PrefixedTexts {
    prefixes: Vec<i64>,
    suffixes: ByteArrays,
    /// How many were read, and the last one.
    read: usize,
    text: Vec<u8>,
}

impl PrefixedTexts {
    /// So many of a page.
    ///
    /// # Errors
    /// As for `behind_lengths`.
    pub fn new(bytes: &[u8], count: usize) -> Result<Self> {
        let (prefixes, start) = integers(bytes, count)?;
        let suffixes = behind_lengths(bytes.get(start..).unwrap_or_default(), count)?;
        Ok(Self { prefixes, suffixes, read: 0, text: Vec::new() })
    }

    /// The next one.
    ///
    /// # Errors
    /// `Data` if there is none, or it is damaged.
    pub fn next(&mut self) -> Result<&[u8]> {
        let (Some(&prefix), Some(suffix)) = (self.prefixes.get(self.read), self.suffixes.get(self.read))
        else {
            return Err(ends());
        };
        let length = usize::try_from(prefix).ok().filter(|length| *length <= self.text.len());
        let length = length.ok_or_else(|| {
            Error::data(format!("a text begins with {prefix} bytes of one that has {}", self.text.len()))
        })?;
        self.text.truncate(length);
        room_for(&mut self.text, suffix.len())?;
        self.text.extend_from_slice(suffix);
        self.read += 1;
        Ok(&self.text)
    }
}

/// The bytes of such texts, all of which have `length` bytes.
///
/// # Errors
/// As for `behind_lengths`.
pub fn of_one_length(bytes: &[u8], count: usize, length: usize) -> Result<Vec<u8>> {
    let mut texts = PrefixedTexts::new(bytes, count)?;
    let mut found = with_room(count.saturating_mul(length))?;
    for _ in 0..count {
        let text = texts.next()?;
        if text.len() != length {
            return Err(Error::data(format!("a page holds values that have not {length} bytes")));
        }
        found.extend_from_slice(text);
    }
    Ok(found)
}

/// What is said where so many rows at once expand to too much.
pub fn too_long(rows: usize) -> Error {
    let advice = if rows > 1 {
        "; fewer rows at a time may do: a smaller block_rows in a shuffled order, a smaller batch_size in the other"
    } else {
        ""
    };
    Error::refused(format!("the texts of {rows} rows expand to more than {MAX_EXPANDED_BYTES} bytes{advice}"))
}
