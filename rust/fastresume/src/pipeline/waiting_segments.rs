//! Segments that are decoded, until batches have taken all their rows.

use crate::batch::waiting::{Share, Waiting};
use crate::error::Result;
use crate::memory::vectors::push;

/// What waits of all segments. Bunches take their rows in their order.
pub struct WaitingSegments {
    segments: Vec<Waiting>,
    bytes: u64,
    /// The bunch that takes its rows next, and how many of them are not there yet.
    next: u64,
    missing: u64,
}

impl WaitingSegments {
    /// Nothing yet; the bunch that comes first has so many rows.
    pub fn new(first: u64, rows: u64) -> Self {
        Self { segments: Vec::new(), bytes: 0, next: first, missing: rows }
    }

    /// The bytes of what waits.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a segment.
    pub fn put(&mut self, segment: Waiting) {
        self.missing = self.missing.saturating_sub(segment.rows_of(self.next));
        self.bytes = self.bytes.saturating_add(segment.bytes());
        self.segments.push(segment);
    }

    /// The bunch that takes its rows next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether its rows are all there.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// What the next bunch takes. Behind it comes another one, of so many rows.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn take(&mut self, (next, rows): (u64, u64)) -> Result<Vec<Share>> {
        let (mut shares, mut bytes) = (Vec::new(), 0_u64);
        for segment in &mut self.segments {
            if let Some(share) = segment.take(self.next)? {
                push(&mut shares, share)?;
            }
            bytes = bytes.saturating_add(segment.bytes());
        }
        self.segments.retain(|segment| !segment.is_empty());
        let there = self.segments.iter().map(|segment| segment.rows_of(next)).sum();
        (self.bytes, self.next, self.missing) = (bytes, next, rows.saturating_sub(there));
        Ok(shares)
    }
}
