//! An object as a source of the core: small reads bring some more, large ones are asked for together.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fastresume::error::locked;
use fastresume::{ByteSource, Result};

use crate::fetched::Fetched;
use crate::object::{Object, copy};

/// A read of fewer bytes asks for this many, since a request takes longer than their way: the next read is often of those.
const LEAST_READ_BYTES: u64 = 64 << 10;

/// An object, and what was read of it last.
pub struct ObjectSource {
    object: Arc<Object>,
    /// The last small read, which the next one may begin in.
    last: Mutex<(u64, Bytes)>,
}

impl ObjectSource {
    /// What another one handed on of the object is there.
    pub fn new(object: Object) -> Self {
        let last = object.shared.handed_on.take(&object.path, &object.status).map(|bytes| (0, bytes));
        Self { object: Arc::new(object), last: Mutex::new(last.unwrap_or_default()) }
    }
}

impl ByteSource for ObjectSource {
    fn size(&self) -> u64 {
        self.object.status.size
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len())?;
        self.object.counts().note_needed(buffer.len() as u64);
        if self.object.read_cached(offset, buffer)? {
            return Ok(());
        }
        let wanted = offset..offset + buffer.len() as u64;
        let mut last = locked(&self.last);
        let (start, held) = &*last;
        if !(*start <= wanted.start && wanted.end <= start + held.len() as u64) {
            let end = wanted.end.max(wanted.start.saturating_add(LEAST_READ_BYTES)).min(self.size());
            let came = self.object.read(wanted.start..end)?;
            *last = (wanted.start, came);
        }
        let (start, held) = &*last;
        copy(held, *start, wanted.start, buffer)
    }

    fn fetching(&self, ranges: &[Range<u64>]) -> Result<Option<Arc<dyn ByteSource>>> {
        // A small object came with its footer.
        if locked(&self.last).1.len() as u64 == self.size() {
            return Ok(None);
        }
        let fetched = Fetched::begin(&self.object, ranges)?;
        Ok(fetched.map(|fetched| Arc::new(fetched) as Arc<dyn ByteSource>))
    }

    fn hand_on(&self) {
        // A cache has it anyway.
        if self.object.cached.is_none() {
            let (start, bytes) = std::mem::take(&mut *locked(&self.last));
            if start == 0 && bytes.len() as u64 == self.size() {
                self.object.shared.handed_on.keep(&self.object.path, &self.object.status, bytes);
            }
        }
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn is_near(&self) -> bool {
        self.object.shared.answer.is_near()
    }

    fn path(&self) -> &Path {
        &self.object.path
    }
}
