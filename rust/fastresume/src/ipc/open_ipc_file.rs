//! A file of Arrow's format, opened to read its batches.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::arrow::array::{Array, Lent};
use crate::arrow::field::ArrowField;
use crate::arrow::row_source::RowBatch;
use crate::error::{Error, Result, locked};
use crate::ipc::batch_arrays::{BatchArrays, Body};
use crate::ipc::dictionary_ids::DictionaryIds;
use crate::ipc::file_bytes::FileBytes;
use crate::ipc::ipc_file::{Batch, DictionaryBatch, IpcFile, MessagePlace, in_batch};
use crate::ipc::joined::joined;
use crate::ipc::message::{BatchHead, Content, Message, Span};

/// So many dictionaries are held.
const MOST_DICTIONARIES: usize = 256;

/// A dictionary by its number, and how many messages had come when it was as it is.
type KnownDictionary = ((i64, usize), Arc<Array>);

/// A file that is open, and the dictionaries that were read of it.
pub struct OpenIpcFile {
    bytes: FileBytes,
    known: Mutex<Vec<KnownDictionary>>,
}

/// The body of one message.
struct OneBody<'a> {
    file: &'a OpenIpcFile,
    of: &'a IpcFile,
    /// Where it is read from, and its place.
    bytes: &'a FileBytes,
    start: u64,
    /// How many messages of dictionaries have come before.
    before: usize,
}

impl OpenIpcFile {
    /// A file by its bytes.
    #[must_use]
    pub fn new(bytes: FileBytes) -> Self {
        Self { bytes, known: Mutex::default() }
    }

    /// Some of its batches, of which some columns are read by their ascending numbers.
    ///
    /// # Errors
    /// `Data` if it is damaged, naming the batch; `Source` if it can't be read, or was changed.
    pub fn read(
        &self,
        of: &IpcFile,
        fields: &[ArrowField],
        numbers: Range<usize>,
        columns: &[usize],
    ) -> Result<Vec<RowBatch>> {
        self.bytes.check_unchanged()?;
        let batches = of.batches.get(numbers.clone()).unwrap_or_default();
        let heads: Vec<Range<u64>> = batches.iter().map(|batch| batch.place.head()).collect();
        let ahead = self.bytes.fetching(&heads)?;
        let numbered = || numbers.clone().zip(batches);
        let heads = numbered().map(|(number, batch)| {
            let head = rows_of(&ahead, batch).map_err(|error| in_batch(number, error))?;
            let spans = BatchArrays::spans(&head, (fields, &of.ids), columns);
            Ok((head, spans.map_err(|error| in_batch(number, error))?))
        });
        let heads = heads.collect::<Result<Vec<_>>>()?;
        let spans = batches.iter().zip(&heads).flat_map(|(Batch { place, .. }, (_, spans))| {
            let wanted = spans.iter().filter(|span| !span.is_empty());
            wanted.map(|span| place.body_start + span.start..place.body_start + span.end)
        });
        let bytes = self.bytes.fetching(&spans.collect::<Vec<_>>())?;
        let read = numbered().zip(&heads).map(|((number, batch), (head, _))| {
            let body = OneBody {
                file: self,
                of,
                bytes: &bytes,
                start: batch.place.body_start,
                before: batch.dictionaries,
            };
            let arrays = BatchArrays::read(head, (fields, &of.ids), columns, &body);
            let columns = arrays.map_err(|error| in_batch(number, error))?;
            Ok(RowBatch { rows: head.rows, columns })
        });
        read.collect()
    }

    /// A dictionary, as the first messages of dictionaries tell it.
    fn dictionary(
        &self,
        of: &IpcFile,
        (id, before): (i64, usize),
        field: &ArrowField,
        below: &[DictionaryIds],
    ) -> Result<Arc<Array>> {
        let come = of.dictionaries.get(..before).unwrap_or_default();
        let mut parts: Vec<(usize, &DictionaryBatch)> =
            come.iter().enumerate().filter(|(_, each)| each.id == id).collect();
        let first = parts.iter().rposition(|(_, each)| !each.is_delta).unwrap_or(0);
        parts.drain(..first);
        let Some(&(last, _)) = parts.last() else {
            return Err(Error::data(format!("dictionary {id} is missing")));
        };
        let key = (id, last);
        let find = |known: &[KnownDictionary]| {
            known.iter().find(|(other, _)| *other == key).map(|(_, found)| Arc::clone(found))
        };
        if let Some(found) = find(&locked(&self.known)) {
            return Ok(found);
        }
        let each = parts.iter().map(|(number, part)| {
            self.part(of, (*number, part), field, below)
                .map_err(|error| Error::data(format!("dictionary {id}: {error}")))
        });
        let mut each = each.collect::<Result<Vec<_>>>()?;
        let whole = match (each.pop(), each.is_empty()) {
            (Some(one), true) => one,
            (Some(last), false) => {
                each.push(last);
                joined(field, &each)?
            }
            (None, _) => return Err(Error::data(format!("dictionary {id} is missing"))),
        };
        let whole = Arc::new(whole);
        let mut known = locked(&self.known);
        if known.len() >= MOST_DICTIONARIES {
            known.remove(0);
        }
        known.push((key, Arc::clone(&whole)));
        Ok(whole)
    }

    /// The values of one message of a dictionary.
    fn part(
        &self,
        of: &IpcFile,
        (number, part): (usize, &DictionaryBatch),
        field: &ArrowField,
        below: &[DictionaryIds],
    ) -> Result<Array> {
        let metadata = self.bytes.read(part.place.start, part.place.metadata_bytes)?;
        let Content::Dictionary(_, _, head) = Message::parse(&metadata)?.content else {
            return Err(Error::data("a message was changed"));
        };
        let MessagePlace { body_start, body_bytes, .. } = part.place;
        let ahead = self.bytes.fetching(std::slice::from_ref(&(body_start..body_start + body_bytes)))?;
        let body = OneBody { file: self, of, bytes: &ahead, start: body_start, before: number };
        let ids = [DictionaryIds { id: None, below: below.to_vec() }];
        let mut found = BatchArrays::read(&head, (std::slice::from_ref(field), &ids), &[0], &body)?;
        found.pop().flatten().ok_or_else(|| Error::data("it has no values"))
    }
}

/// What the head of a batch says, which must be what it said when the file was opened.
fn rows_of(bytes: &FileBytes, batch: &Batch) -> Result<BatchHead> {
    let metadata = bytes.read(batch.place.start, batch.place.metadata_bytes)?;
    match Message::parse(&metadata)? {
        Message { content: Content::Rows(head), body_bytes }
            if head.rows as u64 == batch.rows && body_bytes == batch.place.body_bytes =>
        {
            Ok(head)
        }
        _ => Err(Error::data("its head was changed since the file was opened")),
    }
}

impl Body for OneBody<'_> {
    fn bytes(&self, span: Span) -> Result<Arc<dyn Lent>> {
        let start = self.start.checked_add(span.start);
        let start = start.ok_or_else(|| Error::data("a buffer is outside of the file"))?;
        self.bytes.lent(start, span.length)
    }

    fn dictionary(&self, id: i64, field: &ArrowField, below: &[DictionaryIds]) -> Result<Arc<Array>> {
        self.file.dictionary(self.of, (id, self.before), field, below)
    }
}
