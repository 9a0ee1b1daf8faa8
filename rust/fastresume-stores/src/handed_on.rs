//! Small objects as a whole, as they came with their footers: the first pass asks for none of them again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use fastresume::Status;
use fastresume::error::locked;

/// No more is kept than so many bytes of objects together.
const MOST_BYTES: u64 = 16 << 20;

/// So few objects come side by side, in the time of one: they are asked for again, and one that was replaced is noticed.
const FEW: usize = 16;

/// Objects that wait for whoever opens them next, once.
#[derive(Debug, Default)]
pub struct HandedOn(Mutex<WaitingTask>);

#[derive(Debug, Default)]
struct WaitingTask {
    objects: HashMap<PathBuf, (Status, Bytes)>,
    bytes: u64,
    /// How many objects were kept until now.
    count: usize,
}

impl HandedOn {
    /// Keeps all bytes of an object, if there is room.
    pub fn keep(&self, path: &Path, status: &Status, bytes: Bytes) {
        let mut waiting = locked(&self.0);
        let count = bytes.len() as u64;
        if waiting.bytes + count <= MOST_BYTES {
            waiting.bytes += count;
            waiting.count += 1;
            let gone = waiting.objects.insert(path.to_owned(), (status.clone(), bytes));
            waiting.bytes -= gone.map_or(0, |(_, gone)| gone.len() as u64);
        }
    }

    /// Gives what was kept of an object away, if it is the same one.
    pub fn take(&self, path: &Path, status: &Status) -> Option<Bytes> {
        let mut waiting = locked(&self.0);
        let (kept, bytes) = waiting.objects.remove(path)?;
        waiting.bytes -= bytes.len() as u64;
        (waiting.count > FEW && kept == *status).then_some(bytes)
    }
}
