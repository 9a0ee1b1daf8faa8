//! Messages of Arrow's format: what each says of its body.
//!
//! Source: <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>

use crate::error::{Error, Result};
use crate::ipc::flat_table::FlatTable;

/// What a message begins with, since version 0.15 of Arrow.
pub const CONTINUATION: [u8; 4] = [0xff; 4];

/// The bytes of the longest beginning.
pub const PREFIX_BYTES: u64 = 8;

/// The versions of the metadata that are read.
const VERSIONS: std::ops::RangeInclusive<i16> = 3..=4;

/// How the values of a body are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyCodec {
    /// As frames of LZ4.
    Lz4Frame,
    /// As Zstandard.
    Zstd,
}

/// An array in a body.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// The number of its values.
    pub length: usize,
    /// How many of them are null.
    pub nulls: usize,
}

/// Bytes of a body.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Where they begin in it.
    pub start: u64,
    /// How many there are.
    pub length: u64,
}

/// What stands in front of a body of arrays.
#[derive(Debug, Clone)]
pub struct BatchHead {
    /// The number of rows.
    pub rows: usize,
    /// The arrays, in the order of the fields.
    pub nodes: Vec<Node>,
    /// Their buffers, in the same order.
    pub buffers: Vec<Span>,
    /// How buffers are compressed, if they are.
    pub codec: Option<BodyCodec>,
    /// Of each array of views, how many buffers it has behind the views.
    pub more_buffers: Vec<usize>,
}

/// What a message holds.
#[derive(Debug)]
pub enum Content<'a> {
    /// The fields.
    Schema(FlatTable<'a>),
    /// The values of a dictionary, or more of them.
    Dictionary(i64, bool, BatchHead),
    /// Rows.
    Rows(BatchHead),
}

/// A message.
#[derive(Debug)]
pub struct Message<'a> {
    /// What it holds.
    pub content: Content<'a>,
    /// The bytes of its body.
    pub body_bytes: u64,
}

/// How a message begins: the bytes before its metadata, and the bytes of these. None where a stream ends.
///
/// # Errors
/// `Data` if no message begins so.
pub fn beginning(bytes: &[u8]) -> Result<Option<(u64, u64)>> {
    let number = |bytes: &[u8]| bytes.first_chunk::<4>().map(|word| i32::from_le_bytes(*word));
    let is_new = bytes.starts_with(&CONTINUATION);
    let length = number(if is_new { bytes.get(4..).unwrap_or_default() } else { bytes });
    match length.map(u64::try_from) {
        Some(Ok(0)) => Ok(None),
        Some(Ok(length)) => Ok(Some((if is_new { 8 } else { 4 }, length))),
        _ => Err(Error::data("no message of Arrow's format begins here")),
    }
}

/// A message without a body, from its metadata.
#[must_use]
pub fn with_beginning(metadata: &[u8]) -> Vec<u8> {
    let padded = metadata.len().next_multiple_of(8);
    let mut found = CONTINUATION.to_vec();
    found.extend(u32::try_from(padded).unwrap_or(u32::MAX).to_le_bytes());
    found.extend(metadata);
    found.resize(8 + padded, 0);
    found
}

impl<'a> Message<'a> {
    /// What the metadata of a message say.
    ///
    /// # Errors
    /// `Data` if they are damaged, of a version that is not read, or of a message that has no rows.
    pub fn parse(metadata: &'a [u8]) -> Result<Self> {
        let root = FlatTable::root(metadata)?;
        let version = root.short(0)?;
        if !VERSIONS.contains(&version) {
            return Err(Error::data(format!(
                "it has version {} of Arrow's metadata, versions 4 and 5 are read",
                i32::from(version) + 1
            )));
        }
        let below = |table: FlatTable<'a>, field| {
            table.table(field)?.ok_or_else(|| Error::data("a message has no content"))
        };
        let body_bytes = count(root.long(3)?)?;
        let header = below(root, 2)?;
        let content = match root.byte(1)? {
            1 => Content::Schema(header),
            2 => {
                let batch = BatchHead::parse(below(header, 1)?, body_bytes)?;
                Content::Dictionary(header.long(0)?, header.byte(2)? != 0, batch)
            }
            3 => Content::Rows(BatchHead::parse(header, body_bytes)?),
            kind => return Err(Error::data(format!("a message of kind {kind} has no rows"))),
        };
        Ok(Self { content, body_bytes })
    }
}

impl BatchHead {
    fn parse(batch: FlatTable<'_>, body_bytes: u64) -> Result<Self> {
        let pairs = |field| {
            let (pairs, _) = batch.list(field, 16)?.as_chunks::<8>();
            let (pairs, _) = pairs.as_chunks::<2>();
            let each = pairs.iter().map(|[one, other]| {
                Ok((count(i64::from_le_bytes(*one))?, count(i64::from_le_bytes(*other))?))
            });
            each.collect::<Result<Vec<(u64, u64)>>>()
        };
        let nodes = pairs(1)?.into_iter().map(|(length, nulls)| {
            if nulls > length {
                return Err(Error::data(format!("an array of {length} values claims {nulls} nulls")));
            }
            Ok(Node { length: size(length)?, nulls: size(nulls)? })
        });
        let buffers = pairs(2)?.into_iter().map(|(start, length)| {
            if start.checked_add(length).is_none_or(|end| end > body_bytes) {
                return Err(Error::data(format!(
                    "a buffer claims bytes [{start}, {}) of a body of {body_bytes}",
                    start.saturating_add(length)
                )));
            }
            Ok(Span { start, length })
        });
        let codec = match batch.table(3)? {
            None => None,
            Some(how) if how.byte(1)? != 0 => return Err(Error::data("a body is compressed as a whole")),
            Some(how) => Some(match how.byte(0)? {
                0 => BodyCodec::Lz4Frame,
                1 => BodyCodec::Zstd,
                other => return Err(Error::data(format!("codec {other} of Arrow's format is not known"))),
            }),
        };
        let (more, _) = batch.list(4, 8)?.as_chunks::<8>();
        let more_buffers = more.iter().map(|word| size(count(i64::from_le_bytes(*word))?));
        Ok(Self {
            rows: size(count(batch.long(0)?)?)?,
            nodes: nodes.collect::<Result<_>>()?,
            buffers: buffers.collect::<Result<_>>()?,
            codec,
            more_buffers: more_buffers.collect::<Result<_>>()?,
        })
    }
}

fn count(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| Error::data(format!("a message claims {number} of something")))
}

fn size(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("a message claims {count} of something")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_with_its_length_in_both_ways_and_a_stream_ends_with_none() {
        let of = |bytes: &[u8]| beginning(bytes);
        assert_eq!(of(&[0xff, 0xff, 0xff, 0xff, 16, 0, 0, 0]), Ok(Some((8, 16))));
        assert_eq!(of(&[16, 0, 0, 0, 1, 2, 3, 4]), Ok(Some((4, 16))));
        assert_eq!(of(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), Ok(None));
        assert_eq!(of(&[0, 0, 0, 0]), Ok(None));
        for wrong in [&[][..], &[1, 2], &[0xff; 4], &[0xfe, 0xff, 0xff, 0xff], &[0xff; 8]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }
}
