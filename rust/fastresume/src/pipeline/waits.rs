//! What waits for its batches: rows between those of others, or lists from which sequences are cut.

use std::sync::Arc;

use crate::batch::filler::Filled;
use crate::batch::waiting::Share;
use crate::error::Result;
use crate::memory::vectors::push;
use crate::pipeline::sequence_pass::SequencePass;
use crate::pipeline::waiting_lists::WaitingLists;
use crate::pipeline::waiting_segments::WaitingSegments;

/// What waits until batches that are ended take it.
pub enum Waits {
    /// Rows.
    Rows(WaitingSegments),
    /// Lists.
    Lists(WaitingLists),
}

impl Waits {
    /// Nothing yet, if something waits; the bunch that comes first has so many rows, or sequences.
    ///
    /// # Errors
    /// As for [`WaitingLists::new`].
    pub fn new(
        is_waiting: bool,
        sequences: Option<Arc<SequencePass>>,
        (first, rows): (u64, u64),
    ) -> Result<Option<Self>> {
        Ok(match sequences {
            Some(sequences) => Some(Self::Lists(WaitingLists::new(sequences, first)?)),
            None => is_waiting.then(|| Self::Rows(WaitingSegments::new(first, rows))),
        })
    }

    /// The bytes of what waits.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.bytes(),
            Self::Lists(lists) => lists.bytes(),
        }
    }

    /// Adds what was decoded of a segment.
    pub fn put(&mut self, filled: Filled) {
        match self {
            Self::Rows(rows) => filled.waiting.into_iter().for_each(|segment| rows.put(segment)),
            Self::Lists(lists) => lists.put(filled.lists),
        }
    }

    /// The bunch that takes what is its own next.
    pub fn next(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.next(),
            Self::Lists(lists) => lists.next(),
        }
    }

    /// Whether that is all there.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Rows(rows) => rows.is_complete(),
            Self::Lists(lists) => lists.is_complete(),
        }
    }

    /// What the next bunch takes. Behind it comes another one, of so many rows.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn take(&mut self, next: (u64, u64)) -> Result<Vec<Share>> {
        match self {
            Self::Rows(rows) => rows.take(next),
            Self::Lists(lists) => {
                let mut shares = Vec::new();
                push(&mut shares, Share::Cut(lists.take(next.0)?))?;
                Ok(shares)
            }
        }
    }
}
