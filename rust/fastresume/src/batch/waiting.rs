//! Decoded rows that wait until the batches that they go to are ended, which take them then.
//!
//! A segment of a mixture reaches over many batches. It leaves nothing with one that is not begun: each batch knows by
//! arithmetic what it takes, when its turn comes.

use crate::batch::combed_rows::{CombedRows, CombedShare};
use crate::batch::packed_lists::SequenceShare;
use crate::batch::slots::fields::FieldSlots;
use crate::batch::slots::placed_rows::PlacedRows;
use crate::batch::sorted_rows::{SortedRows, SortedShare};
use crate::error::Result;

/// The rows of a segment that no batch has taken yet.
#[derive(Debug)]
pub enum Waiting {
    /// In file order.
    Combed(CombedRows),
    /// Of a window.
    Sorted(SortedRows),
}

/// What a batch, or a bunch, takes of a segment.
#[derive(Debug)]
pub enum Share {
    /// In file order.
    Combed(CombedShare),
    /// Of a window.
    Sorted(SortedShare),
    /// Sequences, cut from lists.
    Cut(SequenceShare),
}

impl Waiting {
    /// The bytes of what is left.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Combed(rows) => rows.bytes(),
            Self::Sorted(rows) => rows.bytes(),
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Combed(rows) => rows.is_empty(),
            Self::Sorted(rows) => rows.is_empty(),
        }
    }

    /// How many rows a bunch takes, before which none takes any more.
    pub fn rows_of(&self, bunch: u64) -> u64 {
        match self {
            Self::Combed(rows) => rows.rows_of(bunch),
            Self::Sorted(rows) => rows.rows_of(bunch),
        }
    }

    /// Takes the rows of a bunch out, before which none takes any more; `None` if it has none.
    ///
    /// # Errors
    /// `Data` or `Argument` if there are too many for this machine.
    pub fn take(&mut self, bunch: u64) -> Result<Option<Share>> {
        Ok(match self {
            Self::Combed(rows) => rows.take(bunch)?.map(Share::Combed),
            Self::Sorted(rows) => rows.take(bunch)?.map(Share::Sorted),
        })
    }
}

impl Share {
    /// Gives the rows to the slots of the bunch, or to those that are put in their places when it is finished.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if a bunch has 2^32 rows or more.
    pub fn hand_over<'a>(&'a self, slots: &mut FieldSlots, placed: &mut Vec<PlacedRows<'a>>) -> Result<()> {
        match self {
            Self::Combed(share) => share.hand_over(slots, placed),
            Self::Sorted(share) => share.hand_over(slots),
            Self::Cut(share) => share.hand_over(slots),
        }
    }
}
