//! Which rows each unit of a dataset is made of.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::units::bin_table::BinTable;
use crate::units::sequence_table::SequenceTable;

/// The table of the units of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitTable {
    /// Sequences of one length.
    Sequences(Arc<SequenceTable>),
    /// Bins by cost.
    Bins(Arc<BinTable>),
}

impl UnitTable {
    /// The first unit of each stretch of consecutive rows that no unit reaches out of, a file or a row group, then the number
    /// of units.
    #[must_use]
    pub fn starts(&self) -> &[u64] {
        match self {
            Self::Sequences(table) => &table.starts,
            Self::Bins(table) => &table.starts,
        }
    }

    /// The first unit of each file, then the number of units.
    #[must_use]
    pub fn file_starts(&self) -> &[u64] {
        match self {
            Self::Sequences(table) => &table.starts,
            Self::Bins(table) => &table.file_starts,
        }
    }

    /// The ordinal of the first row of each file, or of each bin, then the number of rows.
    #[must_use]
    pub fn first_ordinals(&self) -> &[u64] {
        match self {
            Self::Sequences(table) => &table.first_ordinals,
            Self::Bins(table) => &table.first_ordinals,
        }
    }

    /// How many tokens of all files are in no unit.
    #[must_use]
    pub fn dropped_tokens(&self) -> u64 {
        let Self::Sequences(table) = self else { return 0 };
        table.dropped_tokens()
    }

    /// The bytes of the table.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        match self {
            Self::Sequences(table) => table.num_bytes(),
            Self::Bins(table) => table.num_bytes(),
        }
    }

    /// The table as bytes, for another process.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let bytes = match self {
            Self::Sequences(table) => postcard::to_allocvec(&(true, table.as_ref())),
            Self::Bins(table) => postcard::to_allocvec(&(false, table.as_ref())),
        };
        bytes.map_err(|cause| Error::Argument(format!("the dataset can't be pickled: {cause}")))
    }

    /// The table of which these are the bytes.
    ///
    /// # Errors
    /// `State` if they are of none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let damaged = |cause| Error::State(format!("a pickled dataset is damaged: {cause}"));
        let (are_sequences, rest) = postcard::take_from_bytes(bytes).map_err(damaged)?;
        Ok(if are_sequences {
            Self::Sequences(Arc::new(postcard::from_bytes(rest).map_err(damaged)?))
        } else {
            Self::Bins(Arc::new(postcard::from_bytes(rest).map_err(damaged)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::stretches::Stretch;

    #[test]
    fn a_table_is_the_same_in_another_process() {
        let files = [vec![vec![Stretch { rows: 3, cost: 10 }], vec![Stretch { rows: 1, cost: 1 }]]];
        let sequences =
            UnitTable::Sequences(Arc::new(SequenceTable::of_files(4, false, &[], &files).unwrap()));
        let bins = UnitTable::Bins(Arc::new(BinTable::of_files(&files).unwrap()));
        assert_eq!((sequences.dropped_tokens(), bins.dropped_tokens()), (3, 0));
        assert_eq!((sequences.file_starts(), bins.file_starts()), (&[0, 2][..], &[0, 2][..]));
        for table in [sequences, bins] {
            let bytes = table.to_bytes().unwrap();
            assert_eq!(UnitTable::from_bytes(&bytes).unwrap(), table);
            assert!(UnitTable::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
