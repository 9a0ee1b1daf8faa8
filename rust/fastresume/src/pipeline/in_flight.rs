//! The batches of one reader that are being filled, until they are delivered.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use crate::batch::slots::fields::{SharedSlots, Slots};
use crate::error::{Result, locked};
use crate::resume::tail::Shape;

/// The memory of batches, by their numbers.
pub type BatchSlots = BTreeMap<u64, SharedSlots>;

/// The batches, by their numbers.
pub struct Filling {
    batches: BTreeMap<u64, Coming>,
    /// Batches with all their rows that no thread has begun to finish.
    complete: BTreeSet<u64>,
    /// The bytes of all batches.
    bytes: u128,
    /// Whether a batch takes memory as its rows come in, not all of it from the beginning.
    is_scattered: bool,
}

struct Coming {
    slots: SharedSlots,
    /// Its bytes as far as they are known, and at least the expected ones.
    bytes: u64,
    /// How many of these it takes now.
    taken: u64,
    rows: u64,
    missing_rows: u64,
    /// Whether it is finished: in the form that is delivered.
    is_ready: bool,
}

impl Coming {
    /// The bytes of the rows that came in.
    fn bytes_there(&self) -> u64 {
        let there = self.rows - self.missing_rows;
        let bytes = u128::from(self.bytes) * u128::from(there) / u128::from(self.rows.max(1));
        u64::try_from(bytes).unwrap_or(self.bytes)
    }
}

impl Filling {
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
        queued.fold((0, 0), |(batches, bytes), coming| (batches + 1, coming.bytes.saturating_add(bytes)))
    }

    /// The slots of batches. For a new batch, `new` returns its slots, its shape and its expected bytes.
    ///
    /// # Errors
    /// Those of `new`.
    pub fn slots_of(
        &mut self,
        batches: impl Iterator<Item = u64>,
        new: impl Fn(u64) -> Result<(Slots, Shape, u64)>,
    ) -> Result<BatchSlots> {
        let mut found = BatchSlots::new();
        let mut last = None;
        for batch in batches.filter(|&batch| last.replace(batch) != Some(batch)) {
            let coming = match self.batches.entry(batch) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let (slots, shape, bytes) = new(batch)?;
                    let taken = if self.is_scattered { 0 } else { bytes };
                    self.bytes += u128::from(taken);
                    let slots = Arc::new(Mutex::new(slots));
                    let rows = shape.distinct;
                    entry.insert(Coming { slots, bytes, taken, rows, missing_rows: rows, is_ready: false })
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

    /// Takes the first batch of a range that has all its rows and is to be finished.
    pub fn take_complete(&mut self, among: RangeInclusive<u64>) -> Option<(u64, SharedSlots)> {
        let batch = *self.complete.range(among).next()?;
        self.complete.remove(&batch);
        Some((batch, Arc::clone(&self.batches.get(&batch)?.slots)))
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

    /// Takes a batch out, if it is finished.
    pub fn take_ready(&mut self, batch: u64) -> Option<Slots> {
        let coming = self.is_ready(batch).then(|| self.batches.remove(&batch))??;
        self.bytes -= u128::from(coming.taken);
        Some(locked(&coming.slots).taken())
    }
}
