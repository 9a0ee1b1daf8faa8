//! The prefetch queue: batches of one reader, or bunches of them, from when their first rows come in until they are delivered.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use crate::batch::slots::fields::{FieldSlots, SharedSlots};
use crate::error::{Result, locked};
use crate::resume::tail::Shape;

/// The memory of batches, by their numbers; that of a bunch goes by its first one.
pub type BatchSlots = BTreeMap<u64, SharedSlots>;

/// The batches, by their numbers; a bunch is as one batch.
pub struct PrefetchQueue {
    batches: BTreeMap<u64, Coming>,
    /// Batches with all their rows that no thread has begun to finish.
    complete: BTreeSet<u64>,
    /// The bytes of all batches.
    bytes: u128,
    /// Whether a batch takes memory as its rows come in, not all of it from the beginning.
    is_scattered: bool,
}

/// A batch, or a bunch, of which nothing is there.
pub struct New {
    pub slots: FieldSlots,
    pub shape: Shape,
    /// How many batches it has.
    pub batches: u64,
    /// The bytes that are expected.
    pub bytes: u64,
}

struct Coming {
    slots: SharedSlots,
    shape: Shape,
    batches: u64,
    /// Its bytes as far as they are known, at least those that are expected.
    bytes: u64,
    /// How many of these it takes now.
    taken: u64,
    missing_rows: u64,
    /// Whether it is finished: in the form that is delivered.
    is_ready: bool,
}

impl Coming {
    /// The bytes of the rows that came in.
    fn bytes_there(&self) -> u64 {
        let rows = self.shape.distinct;
        let there = rows - self.missing_rows;
        let bytes = u128::from(self.bytes) * u128::from(there) / u128::from(rows.max(1));
        u64::try_from(bytes).unwrap_or(self.bytes)
    }
}

impl PrefetchQueue {
    /// Batches that take their memory as rows come in, or from the beginning.
    pub fn new(is_scattered: bool) -> Self {
        Self { batches: BTreeMap::new(), complete: BTreeSet::new(), bytes: 0, is_scattered }
    }

    /// The bytes of all batches.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }

    /// The number of batches that have all their rows, and their bytes.
    pub fn queued(&self) -> (u64, u64) {
        let queued = self.batches.values().filter(|coming| coming.missing_rows == 0);
        queued.fold((0, 0), |(batches, bytes), coming| {
            (batches + coming.batches, coming.bytes.saturating_add(bytes))
        })
    }

    /// The slots of batches; a batch that is new begins with those that `new` gives.
    ///
    /// # Errors
    /// Those of `new`.
    pub fn slots_of(
        &mut self,
        batches: impl Iterator<Item = u64>,
        new: impl Fn(u64) -> Result<New>,
    ) -> Result<BatchSlots> {
        let mut found = BatchSlots::new();
        let mut last = None;
        for batch in batches.filter(|&batch| last.replace(batch) != Some(batch)) {
            let coming = match self.batches.entry(batch) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let New { slots, shape, batches, bytes } = new(batch)?;
                    let taken = if self.is_scattered { 0 } else { bytes };
                    self.bytes += u128::from(taken);
                    let slots = Arc::new(Mutex::new(slots));
                    let missing_rows = shape.distinct;
                    let is_ready = false;
                    entry.insert(Coming { slots, shape, batches, bytes, taken, missing_rows, is_ready })
                }
            };
            found.insert(batch, Arc::clone(&coming.slots));
        }
        Ok(found)
    }

    /// Counts the rows that batches got.
    pub fn count(&mut self, filled: &[(u64, u64)]) {
        for &(batch, rows) in filled {
            if let Some(coming) = self.batches.get_mut(&batch) {
                coming.missing_rows -= rows;
                if coming.missing_rows == 0 {
                    coming.bytes = coming.bytes.max(locked(&coming.slots).bytes());
                    self.complete.insert(batch);
                }
                let taken = if self.is_scattered { coming.bytes_there() } else { coming.bytes };
                self.bytes = self.bytes + u128::from(taken) - u128::from(coming.taken);
                coming.taken = taken;
            }
        }
    }

    /// Whether rows of a batch are still to come.
    pub fn is_coming(&self, batch: u64) -> bool {
        let is_missing = |coming: &Coming| coming.missing_rows > 0 && !coming.is_ready;
        self.batches.get(&batch).is_some_and(is_missing) && !self.complete.contains(&batch)
    }

    /// Has a batch ended as it is: no more of its rows will come.
    pub fn give_up(&mut self, batch: u64) {
        self.complete.insert(batch);
    }

    /// Takes the first of some batches that is to be ended.
    pub fn take_complete(&mut self, among: RangeInclusive<u64>) -> Option<(u64, SharedSlots, Shape)> {
        let batch = *self.complete.range(among).next()?;
        self.complete.remove(&batch);
        let coming = self.batches.get(&batch)?;
        Some((batch, Arc::clone(&coming.slots), coming.shape))
    }

    /// Whether a batch of a range is to be finished.
    pub fn has_complete(&self, among: RangeInclusive<u64>) -> bool {
        self.complete.range(among).next().is_some()
    }

    /// Notes that a batch is finished.
    pub fn end(&mut self, batch: u64) {
        if let Some(coming) = self.batches.get_mut(&batch) {
            coming.is_ready = true;
        }
    }

    /// Whether a batch is finished.
    pub fn is_ready(&self, batch: u64) -> bool {
        self.batches.get(&batch).is_some_and(|coming| coming.is_ready)
    }

    /// Takes a batch out, if it was ended, and whether all its rows are there.
    pub fn take_ready(&mut self, batch: u64) -> Option<(FieldSlots, bool)> {
        let coming = self.is_ready(batch).then(|| self.batches.remove(&batch))??;
        self.bytes -= u128::from(coming.taken);
        let slots = locked(&coming.slots).taken();
        Some((slots, coming.missing_rows == 0))
    }
}
