//! A file or stream of Arrow's format: where its batches and dictionaries are. Bodies are not read.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::arrow::field::ArrowField;
use crate::error::{Error, Result};
use crate::format::metadata::lookalike;
use crate::ipc::batch_arrays::BatchArrays;
use crate::ipc::dictionary_ids::DictionaryIds;
use crate::ipc::file_bytes::FileBytes;
use crate::ipc::flat_table::FlatTable;
use crate::ipc::message::{Content, Message, PREFIX_BYTES, beginning, with_beginning};

/// What files begin and end with; streams do not.
const MAGIC: &[u8] = b"ARROW1";

/// Where the first message of a file begins.
const FIRST_MESSAGE: u64 = 8;

/// The bytes behind a footer: its length, and what files end with.
const TAIL_BYTES: u64 = 10;

/// The bytes of a place in a footer.
const PLACE_BYTES: usize = 24;

/// No message of a schema has fewer bytes.
const LEAST_SCHEMA_BYTES: u32 = 24;

/// Batches are read together up to so many rows.
const GROUP_ROWS: u64 = 1 << 16;

/// The bytes of a hash.
pub const HASH_BYTES: usize = 16;

/// A message in a file: what describes it, and its body behind that.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MessagePlace {
    /// Where its metadata begin.
    pub start: u64,
    /// How many bytes of metadata it has.
    pub metadata_bytes: u64,
    /// Where its body begins.
    pub body_start: u64,
    /// How many bytes of body it has.
    pub body_bytes: u64,
}

/// A batch of rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Batch {
    /// Where it is.
    pub place: MessagePlace,
    /// How many rows it has.
    pub rows: u64,
    /// How many of the file's dictionary messages are known when it comes.
    pub dictionaries: usize,
}

/// Values of a dictionary.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DictionaryBatch {
    /// Where it is.
    pub place: MessagePlace,
    /// The number of the dictionary.
    pub id: i64,
    /// Whether its values follow those that were there before.
    pub is_delta: bool,
}

/// A file, as far as its messages tell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IpcFile {
    /// Which dictionaries its fields have.
    pub ids: Vec<DictionaryIds>,
    /// The messages of dictionaries, in their order.
    pub dictionaries: Vec<DictionaryBatch>,
    /// Those of rows.
    pub batches: Vec<Batch>,
    /// Whether buffers of rows are compressed.
    pub is_packed: bool,
    /// What differs if its columns or batches do, as far as their metadata tell.
    pub hash: [u8; HASH_BYTES],
}

impl MessagePlace {
    fn end(&self) -> u64 {
        self.body_start + self.body_bytes
    }

    /// Where its metadata are.
    #[must_use]
    pub fn head(&self) -> Range<u64> {
        self.start..self.start + self.metadata_bytes
    }
}

/// The message of a file's fields, as it stands there.
///
/// # Errors
/// `Data` if it is no file or stream of Arrow's format; `Source` if it can't be read.
pub fn schema_message(bytes: &FileBytes) -> Result<Vec<u8>> {
    let place = schema_place(bytes, is_file(bytes)?)?;
    let metadata = bytes.read(place.start, place.metadata_bytes)?;
    match Message::parse(&metadata)? {
        Message { content: Content::Schema(_), body_bytes: 0 } => Ok(with_beginning(&metadata)),
        _ => Err(Error::data("its first message is no schema")),
    }
}

/// Where the message of the fields is: the first one.
fn schema_place(bytes: &FileBytes, is_file: bool) -> Result<MessagePlace> {
    let start = if is_file { FIRST_MESSAGE } else { 0 };
    let first = bytes.read(start, 4.min(bytes.size().saturating_sub(start)))?;
    let number = first.first_chunk().map_or(u32::MAX, |word| u32::from_le_bytes(*word));
    if is_file && number < LEAST_SCHEMA_BYTES {
        // polars writes it without its length: the number says where its first table is.
        let footer = IpcFooter::read(bytes, start)?;
        let end = footer.places()?.iter().map(|(place, _)| place.start).min().unwrap_or(footer.start);
        return Ok(MessagePlace { start, metadata_bytes: end - start, body_start: end, body_bytes: 0 });
    }
    found_at(bytes, start)?.ok_or_else(|| Error::data("it has no schema"))
}

/// Whether it is a file, and no stream.
fn is_file(bytes: &FileBytes) -> Result<bool> {
    let size = bytes.size();
    if size < PREFIX_BYTES {
        let hint = lookalike::hint(&bytes.read(0, size)?);
        return Err(Error::data(format!("it has {size} bytes, and no schema{hint}")));
    }
    let first = bytes.read(0, PREFIX_BYTES)?;
    for (magic, message) in [
        (&b"PAR1"[..], "it is a Parquet file: write fr.ParquetDataset(path)"),
        (b"FEA1", "it is a Feather file of version 1: write it again with pyarrow.feather.write_feather()"),
    ] {
        if first.starts_with(magic) {
            return Err(Error::data(message));
        }
    }
    if !first.starts_with(MAGIC) {
        return Ok(false);
    }
    let tail = bytes.read(size.saturating_sub(MAGIC.len() as u64), size.min(MAGIC.len() as u64))?;
    if size < FIRST_MESSAGE + TAIL_BYTES || *tail != *MAGIC {
        return Err(Error::data(format!(
            "it ends in '{}', a file of Arrow's in 'ARROW1': it was cut off, or its writer was not closed",
            tail.escape_ascii()
        )));
    }
    Ok(true)
}

/// The message that begins at a place, of whose body nothing is known yet; none where a stream ends.
fn found_at(bytes: &FileBytes, start: u64) -> Result<Option<MessagePlace>> {
    let left = bytes.size().saturating_sub(start);
    let at_byte = |error: Error| at(start, error);
    let Some((prefix, metadata_bytes)) =
        beginning(&bytes.read(start, left.min(PREFIX_BYTES))?).map_err(at_byte)?
    else {
        return Ok(None);
    };
    if metadata_bytes > left - prefix.min(left) {
        let hint = match start {
            0 => lookalike::hint(&bytes.read(0, left.min(lookalike::LOOKED_AT_BYTES))?),
            _ => String::new(),
        };
        return Err(at_byte(Error::data(format!(
            "a message claims {metadata_bytes} bytes of metadata, the file has {left} more{hint}"
        ))));
    }
    let start = start + prefix;
    Ok(Some(MessagePlace { start, metadata_bytes, body_start: start + metadata_bytes, body_bytes: 0 }))
}

fn at(start: u64, error: Error) -> Error {
    error.with_reason(|reason| format!("{reason} (byte {start} of the file)"))
}

/// What is found while the messages of a file are gone through.
struct Finding<'a> {
    fields: &'a [ArrowField],
    found: IpcFile,
    hasher: blake3::Hasher,
    size: u64,
}

impl Finding<'_> {
    /// Takes in a message of dictionaries or rows, whose place gets the length of its body.
    fn add(&mut self, mut place: MessagePlace, metadata: &[u8]) -> Result<u64> {
        let start = place.start;
        let read = Message::parse(metadata).map_err(|error| at(start, error))?;
        place.body_bytes = read.body_bytes;
        let end = place.body_start.checked_add(read.body_bytes).filter(|end| *end <= self.size);
        let end = end.ok_or_else(|| {
            at(start, Error::data(format!("a body claims {} bytes: the file was cut off", read.body_bytes)))
        })?;
        self.hasher.update(&(metadata.len() as u64).to_le_bytes());
        self.hasher.update(metadata);
        match read.content {
            Content::Schema(_) => return Err(at(start, Error::data("a second schema"))),
            Content::Dictionary(id, is_delta, _) => {
                self.found.dictionaries.push(DictionaryBatch { place, id, is_delta });
            }
            Content::Rows(head) => {
                let number = self.found.batches.len();
                BatchArrays::spans(&head, (self.fields, &self.found.ids), &[])
                    .map_err(|error| in_batch(number, error))?;
                self.found.is_packed |= head.codec.is_some();
                let (rows, dictionaries) = (head.rows as u64, self.found.dictionaries.len());
                self.found.batches.push(Batch { place, rows, dictionaries });
            }
        }
        Ok(end)
    }
}

/// The same error, of a batch.
#[must_use]
pub fn in_batch(number: usize, error: Error) -> Error {
    error.with_reason(|reason| format!("batch {number}: {reason}"))
}

impl IpcFile {
    /// The file of these fields that the bytes are.
    ///
    /// # Errors
    /// `Data` if it is damaged, or has other fields; `Source` if it can't be read.
    pub fn open(bytes: &FileBytes, fields: &[ArrowField]) -> Result<Self> {
        let is_file = is_file(bytes)?;
        let schema = schema_place(bytes, is_file)?;
        let metadata = bytes.read(schema.start, schema.metadata_bytes)?;
        let Content::Schema(stated) = Message::parse(&metadata)?.content else {
            return Err(Error::data("its first message is no schema"));
        };
        let found = Self {
            ids: DictionaryIds::of(fields, stated)?,
            dictionaries: Vec::new(),
            batches: Vec::new(),
            is_packed: false,
            hash: [0; HASH_BYTES],
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&metadata);
        let mut finding = Finding { fields, found, hasher, size: bytes.size() };
        if is_file {
            of_file(bytes, schema.end(), &mut finding)?;
        } else {
            of_stream(bytes, schema.end(), &mut finding)?;
        }
        let Finding { mut found, hasher, .. } = finding;
        found.hash.copy_from_slice(&hasher.finalize().as_bytes()[..HASH_BYTES]);
        Ok(found)
    }

    /// The batches that are read together: those of a few rows up to 65,536.
    #[must_use]
    pub fn groups(&self) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut rows = 0_u64;
        for (number, batch) in self.batches.iter().enumerate() {
            if batch.rows == 0 {
                continue;
            }
            rows = rows.saturating_add(batch.rows);
            if let Some(last) = found.last_mut().filter(|_| rows <= GROUP_ROWS) {
                last.end = number + 1;
            } else {
                found.push(number..number + 1);
                rows = batch.rows;
            }
        }
        found
    }

    /// The rows of each of them.
    #[must_use]
    pub fn group_rows(&self) -> Vec<u64> {
        let rows = |group: Range<usize>| {
            self.batches[group].iter().fold(0_u64, |rows, batch| rows.saturating_add(batch.rows))
        };
        self.groups().into_iter().map(rows).collect()
    }
}

fn of_stream(bytes: &FileBytes, first: u64, finding: &mut Finding<'_>) -> Result<()> {
    let mut start = first;
    while start < finding.size {
        let Some(place) = found_at(bytes, start)? else {
            let end = start + if bytes.read(start, 4)?.starts_with(&[0xff]) { 8 } else { 4 };
            return match finding.size.checked_sub(end) {
                Some(0) => Ok(()),
                left => Err(at(
                    start,
                    Error::data(format!("the stream ends here, and {} bytes follow", left.unwrap_or(0))),
                )),
            };
        };
        let metadata = bytes.read(place.start, place.metadata_bytes)?;
        start = finding.add(place, &metadata)?;
    }
    Ok(())
}

fn of_file(bytes: &FileBytes, first: u64, finding: &mut Finding<'_>) -> Result<()> {
    let footer = IpcFooter::read(bytes, first)?;
    let places = footer.places()?;
    check_beside(bytes, &places, first, footer.start)?;
    let heads: Vec<Range<u64>> = places.iter().map(|(place, _)| place.start..place.body_start).collect();
    let ahead = bytes.fetching(&heads)?;
    let counts = (finding.found.dictionaries.len(), finding.found.batches.len());
    for (number, (stated, is_batch)) in places.iter().enumerate() {
        let place = found_at(&ahead, stated.start)?.filter(|place| place.head().end <= stated.body_start);
        let place =
            place.ok_or_else(|| at(stated.start, Error::data("the footer names a message that is none")))?;
        let metadata = ahead.read(place.start, place.metadata_bytes)?;
        let end = finding.add(MessagePlace { body_start: stated.body_start, ..place }, &metadata)?;
        let dictionaries = finding.found.dictionaries.len() - counts.0;
        let is_as_stated =
            end == stated.end() && dictionaries == if *is_batch { dictionaries } else { number + 1 };
        if !is_as_stated || (*is_batch && finding.found.batches.len() + dictionaries != number + 1) {
            return Err(at(stated.start, Error::data("the footer names a message that is another")));
        }
    }
    let found = &finding.found.dictionaries;
    let whole = found.iter().filter(|each| !each.is_delta);
    if let Some(twice) =
        whole.clone().find(|each| whole.clone().filter(|other| other.id == each.id).count() > 1)
    {
        return Err(Error::data(format!("dictionary {} comes twice: files may not replace one", twice.id)));
    }
    Ok(())
}

/// What a file ends with: the places of its messages.
struct IpcFooter<'a> {
    metadata: Cow<'a, [u8]>,
    first: u64,
    start: u64,
}

impl<'a> IpcFooter<'a> {
    /// The footer of a file whose messages begin at `first`.
    fn read(bytes: &'a FileBytes, first: u64) -> Result<Self> {
        let tail_start = bytes.size() - TAIL_BYTES;
        let tail = bytes.read(tail_start, 4)?;
        let length = tail.first_chunk().map_or(0, |word| i32::from_le_bytes(*word));
        let length = u64::try_from(length)
            .ok()
            .filter(|&length| length > 0 && length <= tail_start - first.min(tail_start));
        let length = length.ok_or_else(|| Error::data("its footer claims more bytes than the file has"))?;
        let start = tail_start - length;
        Ok(Self { metadata: bytes.read(start, length)?, first, start })
    }

    /// The messages of dictionaries, then those of rows: where each is, and whether it has rows.
    fn places(&self) -> Result<Vec<(MessagePlace, bool)>> {
        let footer = FlatTable::root(&self.metadata)?;
        let mut places = Vec::new();
        for (field, is_batch) in [(2, false), (3, true)] {
            for place in footer.list(field, PLACE_BYTES)?.chunks_exact(PLACE_BYTES) {
                places.push((stated_place(place, self.first, self.start)?, is_batch));
            }
        }
        Ok(places)
    }
}

/// A place that a footer tells: where a message begins, and where its body does.
fn stated_place(place: &[u8], first: u64, end: u64) -> Result<MessagePlace> {
    let number = |at: usize| {
        place.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| i64::from_le_bytes(*word))
    };
    let head = place.get(8..).and_then(|rest| rest.first_chunk()).map_or(0, |word| i32::from_le_bytes(*word));
    let wrong = || Error::data("its footer names bytes that the file does not have");
    let start = u64::try_from(number(0)).map_err(|_| wrong())?;
    let head = u64::try_from(head).map_err(|_| wrong())?;
    let body_bytes = u64::try_from(number(16)).map_err(|_| wrong())?;
    let body_start = start.checked_add(head).ok_or_else(wrong)?;
    let is_there = start >= first && body_start.checked_add(body_bytes).is_some_and(|last| last <= end);
    if !is_there {
        return Err(wrong());
    }
    Ok(MessagePlace { start, metadata_bytes: head, body_start, body_bytes })
}

/// Refuses messages that lie in one another, and those between them that a footer does not name.
fn check_beside(bytes: &FileBytes, places: &[(MessagePlace, bool)], first: u64, end: u64) -> Result<()> {
    let mut sorted: Vec<&MessagePlace> = places.iter().map(|(place, _)| place).collect();
    sorted.sort_by_key(|place| place.start);
    let mut before = first;
    let nexts = sorted.iter().map(|place| (place.start, place.end())).chain([(end, end)]);
    for (start, next) in nexts {
        if start < before {
            return Err(at(start, Error::data("its footer names bytes twice")));
        }
        if start - before >= PREFIX_BYTES
            && matches!(beginning(&bytes.read(before, PREFIX_BYTES)?), Ok(Some((8, _))))
        {
            return Err(at(before, Error::data("a message is there that its footer does not name")));
        }
        before = next;
    }
    Ok(())
}
