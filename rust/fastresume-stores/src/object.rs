//! One object, read at ranges as long as it is the one that was listed.
#![expect(
    clippy::disallowed_methods,
    reason = "how long a store takes is counted, and decides how much is asked for"
)]

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastresume::error::{locked, shown};
use fastresume::{Error, Memory, ObjectVersion, Result, Status, Version};
use object_store::path::Path as Key;
use object_store::{GetOptions, ObjectMeta};

use crate::block::{ObjectBlocks, ObjectKey};
use crate::cache::Cache;
use crate::client::READ_TIMEOUT;
use crate::counts::Counts;
use crate::option_names::about_credentials;
use crate::page::Client;
use crate::process::Process;
use crate::received::{receive, shared};
use crate::retry::again;
use crate::shared::Shared;

/// A cache keeps what small reads bring in blocks of so many bytes.
const SMALL_BLOCK_BYTES: u64 = 64 << 10;

/// A cache keeps column chunks in blocks of so many bytes: a file of its own for each costs little beside reading it.
const BLOCK_BYTES: u64 = 1 << 20;

/// A store that brings fewer bytes is one that does not answer.
const LEAST_BYTES_A_SECOND: u64 = 64 << 10;

/// An object of a store.
pub struct Object {
    pub shared: Arc<Shared>,
    pub path: PathBuf,
    pub key: Key,
    pub status: Status,
    /// The tag that the hub's files are to have, where answers may have another one for the same file.
    pub expected: Option<String>,
    /// By what a cache knows it, if there is one.
    pub cached: Option<ObjectKey>,
}

impl Object {
    /// The blocks of its data in a cache: a small object has those that its footer comes in, which bring all of it.
    pub fn block_bytes(&self) -> u64 {
        if self.status.size <= SMALL_BLOCK_BYTES { SMALL_BLOCK_BYTES } else { BLOCK_BYTES }
    }

    /// Its cache, and its blocks of so many bytes there.
    pub fn blocks(&self, block_bytes: u64) -> Option<(&Arc<Cache>, ObjectBlocks)> {
        let (object, cache) = (self.cached.as_ref()?, self.shared.cache.as_ref()?);
        Some((cache, ObjectBlocks { object: object.clone(), size: self.status.size, block_bytes }))
    }

    /// Whether its cache seems to have the bytes of a range.
    pub fn is_cached(&self, range: &Range<u64>) -> bool {
        self.blocks(self.block_bytes())
            .is_some_and(|(cache, blocks)| cache.has(&blocks, blocks.around(range)))
    }

    /// Fills `buffer` with the bytes from `offset` on, if its cache has them all.
    pub fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        let Some((cache, blocks)) = self.blocks(self.block_bytes()) else { return Ok(false) };
        let end = offset + buffer.len() as u64;
        for number in blocks.around(&(offset..end)) {
            let Some(bytes) = cache.block(&blocks, number) else { return Ok(false) };
            let one = blocks.one(number);
            let part = one.start.max(offset)..one.end.min(end);
            let [first, last] = [part.start, part.end].map(|at| usize::try_from(at - offset));
            let place = first.ok().zip(last.ok()).and_then(|(first, last)| buffer.get_mut(first..last));
            copy(&bytes, one.start, part.start, place.unwrap_or_default())?;
        }
        self.counts().note_from_cache(buffer.len() as u64);
        Ok(true)
    }

    /// The bytes of a small range that nobody asked for before: waits for them.
    ///
    /// # Errors
    /// As for `get`; `Interrupted` if the work of this thread is to stop.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes> {
        waiting(self.counts(), || {
            let client = self.client()?;
            Process::current()?.wait(self.get(client.as_ref(), range, SMALL_BLOCK_BYTES))
        })
    }

    /// A range of bytes that begin at `start`.
    pub fn within(&self, bytes: &Bytes, start: u64, range: &Range<u64>) -> Result<Bytes> {
        match [range.start, range.end].map(|at| usize::try_from(at - start)) {
            [Ok(start), Ok(end)] if end <= bytes.len() => Ok(bytes.slice(start..end)),
            _ => Err(Error::data("the bytes that were fetched end").in_file(&self.path)),
        }
    }

    /// The bytes of a range, asked for once more where the store's faults allow it.
    ///
    /// # Errors
    /// `Source` if it is gone, else `Unsettled`, naming object, range and the last cause; or both tags, if it is another
    /// object now.
    pub async fn ask(&self, client: &dyn Client, range: Range<u64>) -> Result<Bytes> {
        let process = Process::current()?;
        let permit = process.throttle.enter().await;
        let is_alone = process.throttle.in_flight() == 1;
        self.shared.counts.note_asked(range.end - range.start);
        let what = format!("can't read bytes {} to {} of", range.start, range.end);
        let asked = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let memory = Mutex::new(Memory::for_what_comes(asked)?);
        let answered = again(self.counts(), longest(asked), || async {
            // What came before an answer broke off is not asked for again.
            let there = locked(&memory).len();
            if there >= asked {
                return Ok(Ok(()));
            }
            let options = GetOptions {
                range: Some((range.start + there as u64..range.end).into()),
                if_match: self.expected.clone(),
                ..GetOptions::default()
            };
            let begun = Instant::now();
            let answered = client.get_opts(&self.key, options).await?;
            if is_alone {
                self.shared.answer.note(begun.elapsed());
            }
            // Another object's bytes are not waited for.
            if let Err(changed) = self.check(&answered.meta) {
                return Ok(Err(changed));
            }
            receive(answered.into_stream(), &memory, asked).await
        });
        // A store that does not answer says nothing of the bytes.
        answered.await.map_err(|cause| match cause {
            object_store::Error::NotFound { .. } => Error::source(&what, &self.path, message_of(&cause)),
            _ => Error::unsettled(&what, &self.path, message_of(&cause)),
        })??;
        let bytes = shared(memory.into_inner().unwrap_or_else(PoisonError::into_inner));
        if bytes.len() != asked {
            return Err(Error::unsettled(&what, &self.path, format!("{} bytes came", bytes.len())));
        }
        drop(permit);
        process.throttle.grow();
        Ok(bytes)
    }

    /// Refuses another object of this address.
    fn check(&self, now: &ObjectMeta) -> Result<()> {
        let now = status_of(now);
        if let (Some(listed), Some(found)) = (self.status.object(), now.object()) {
            self.shared.note_known_by(listed.known_by(found), &self.path);
        }
        match self.status.change(&now) {
            Some(change) => {
                Err(Error::unsettled("the object was changed since it was listed:", &self.path, change))
            }
            None => Ok(()),
        }
    }

    /// The client of its store, in this process.
    pub fn client(&self) -> Result<Arc<dyn Client>> {
        self.shared.client(&self.path)
    }

    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

/// How long a try may take as a whole that brings so many bytes: what sends one now and then is not waited for. A store that is
/// silent has failed before: it may be away, and is asked again for longer.
pub fn longest(bytes: usize) -> Duration {
    READ_TIMEOUT * 2 + Duration::from_secs(bytes as u64 / LEAST_BYTES_A_SECOND)
}

/// The status that a store tells of an object.
pub fn status_of(found: &ObjectMeta) -> Status {
    let tag = found.e_tag.as_deref().map(|tag| tag.trim_start_matches("W/").trim_matches('"'));
    let tag = [tag, found.version.as_deref()].into_iter().flatten().find(|tag| !tag.is_empty());
    // The crate below tells no time as the first one.
    let modified_ms = Some(found.last_modified.timestamp_millis()).filter(|time| *time != 0);
    Status {
        size: found.size,
        version: Version::Object(ObjectVersion { tag: tag.map(Box::from), modified_ms }),
    }
}

/// What to add to a cause that is a name which is none of an object here: one of them hides all that lie beside it.
fn about_names(cause: &str) -> &'static str {
    if !cause.contains("Encountered object with invalid path") {
        return "";
    }
    "; name the directories or files beside that object, or give it another name"
}

/// What a store says, without the parts of its causes that are said twice.
pub fn message_of(cause: &object_store::Error) -> String {
    let mut text = cause.to_string();
    let mut inner = std::error::Error::source(cause);
    while let Some(cause) = inner {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        inner = cause.source();
    }
    // What the crates below call such an error tells a user nothing.
    text = text.replace("Generic HTTP error: ", "").replace("HTTP error: ", "");
    text.push_str(about_credentials(&text));
    text.push_str(about_names(&text));
    text
}

/// Copies what begins at `offset` from bytes that begin at `start`.
pub fn copy(held: &[u8], start: u64, offset: u64, buffer: &mut [u8]) -> Result<()> {
    let first = usize::try_from(offset - start).unwrap_or(usize::MAX);
    let bytes = held.get(first..).and_then(|rest| rest.get(..buffer.len()));
    buffer.copy_from_slice(bytes.ok_or_else(|| Error::data("the bytes that were fetched end"))?);
    Ok(())
}

/// How long `work` takes is a wait.
pub fn waiting<T>(counts: &Counts, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    let waited = begun.elapsed();
    if waited > Duration::ZERO {
        counts.note_wait(waited);
    }
    done
}

impl std::fmt::Debug for Object {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Object({})", shown(&self.path))
    }
}
