//! One object, read at ranges as long as it is the one that was listed.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastresume::error::shown;
use fastresume::{Error, Result, Source, Status, Version};
use object_store::path::Path as Key;
use object_store::{GetOptions, ObjectMeta, ObjectStore};

use crate::again::again;
use crate::counts::Counts;
use crate::fetch::Fetched;
use crate::process::Process;
use crate::stores::Shared;

/// A read of fewer bytes asks for so many, since a request takes longer than their way: the next read is often of those.
const LEAST_READ_BYTES: u64 = 64 << 10;

/// An object of a store.
pub struct Object {
    pub shared: Arc<Shared>,
    pub path: PathBuf,

    pub key: Key,
    pub status: Status,
}

impl Object {
    /// The bytes of a range, asked for once more where the store's faults allow it.
    ///
    /// # Errors
    /// `Source`, naming object, range and the last cause; or both tags, if it is another object now.
    pub async fn get(&self, client: &dyn ObjectStore, range: Range<u64>) -> Result<Bytes> {
        let process = Process::current()?;
        let permit = process.throttle.enter().await;
        self.shared.counts.note_asked(range.end - range.start);
        let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
        let failed = |cause: &dyn std::fmt::Display| {
            let what = format!("can't read bytes {} to {} of", range.start, range.end);
            Error::source(&what, &self.path, cause)
        };
        let answered = again(self.counts(), || async {
            let answered = client.get_opts(&self.key, options.clone()).await?;
            // Another object's bytes are not waited for.
            if let Err(changed) = self.check(&answered.meta) {
                return Ok(Err(changed));
            }
            answered.bytes().await.map(Ok)
        });
        let bytes = answered.await.map_err(|cause| failed(&told(&cause)))??;
        if bytes.len() as u64 != range.end - range.start {
            return Err(failed(&format!("{} bytes came", bytes.len())));
        }
        drop(permit);
        process.throttle.grow();
        Ok(bytes)
    }

    /// Refuses another object of this address.
    fn check(&self, now: &ObjectMeta) -> Result<()> {
        let now = status_of(now);
        match self.status.change(&now) {
            Some(change) => {
                Err(Error::source("the object was changed since it was listed:", &self.path, change))
            }
            None => Ok(()),
        }
    }

    /// The client of its store, in this process.
    pub fn client(&self) -> Result<Arc<dyn ObjectStore>> {
        self.shared.client(&self.path)
    }

    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

/// The status that a store tells of an object.
pub fn status_of(found: &ObjectMeta) -> Status {
    let tag = found.e_tag.as_deref().map(|tag| tag.trim_start_matches("W/").trim_matches('"'));
    let tag =
        tag.or(found.version.as_deref()).map_or_else(|| found.last_modified.to_rfc3339(), str::to_owned);
    Status { size: found.size, version: Version::Tag(tag.into()) }
}

/// What a store says, without the parts of its causes that are said twice.
pub fn told(cause: &object_store::Error) -> String {
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
    text
}

/// An object, and what was read of it last.
pub struct ObjectSource {
    object: Arc<Object>,
    /// The last small read, which the next one may begin in.
    last: std::sync::Mutex<(u64, Bytes)>,
}

impl ObjectSource {
    pub fn new(object: Object) -> Self {
        Self { object: Arc::new(object), last: std::sync::Mutex::default() }
    }
}

impl Source for ObjectSource {
    fn size(&self) -> u64 {
        self.object.status.size
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len())?;
        let wanted = offset..offset + buffer.len() as u64;
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (start, held) = &*last;
        if !(*start <= wanted.start && wanted.end <= start + held.len() as u64) {
            let end = wanted.end.max(wanted.start.saturating_add(LEAST_READ_BYTES)).min(self.size());
            let begun = Instant::now();
            let client = self.object.client()?;
            let read = self.object.get(client.as_ref(), wanted.start..end);
            let bytes = Process::current()?.runtime.block_on(read)?;
            self.object.counts().note_wait(begun.elapsed());
            *last = (wanted.start, bytes);
        }
        let (start, held) = &*last;
        self.object.counts().note_needed(buffer.len() as u64);
        copy(held, *start, wanted.start, buffer)
    }

    fn fetching(&self, ranges: &[Range<u64>]) -> Result<Option<Arc<dyn Source>>> {
        Ok(Some(Arc::new(Fetched::begin(&self.object, ranges)?)))
    }

    fn path(&self) -> &Path {
        &self.object.path
    }
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
