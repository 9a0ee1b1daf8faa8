//! Which rows each bin of a dataset consists of.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::memory::vectors::push;
use crate::units::stretches::OfGroups;

/// The bins of all row groups, which follow one another: a bin never goes on in another row group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinTable {
    /// The first bin of each row group, then their number.
    pub starts: Vec<u64>,
    /// The first bin of each file, then their number.
    pub file_starts: Vec<u64>,
    /// The ordinal of the first row of each bin, then the number of rows.
    pub first_ordinals: Vec<u64>,
}

impl BinTable {
    /// The table of the bins of each file.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn of_files(files: &[OfGroups]) -> Result<Self> {
        let mut found = Self { starts: vec![0], file_starts: vec![0], first_ordinals: Vec::new() };
        let mut rows = 0;
        for file in files {
            for group in file {
                for bin in group {
                    push(&mut found.first_ordinals, rows)?;
                    rows += bin.rows;
                }
                push(&mut found.starts, found.first_ordinals.len() as u64)?;
            }
            push(&mut found.file_starts, found.first_ordinals.len() as u64)?;
        }
        push(&mut found.first_ordinals, rows)?;
        Ok(found)
    }

    /// The bytes of the table.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        let of_starts = size_of_val(&self.starts[..]) + size_of_val(&self.file_starts[..]);
        of_starts + size_of_val(&self.first_ordinals[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::stretches::Stretch;

    #[test]
    fn bins_of_all_files_follow_one_another() {
        let bin = |rows| Stretch { rows, cost: 9 };
        let files = [vec![vec![bin(2), bin(3)], vec![]], vec![], vec![vec![bin(1)], vec![bin(4), bin(1)]]];
        let table = BinTable::of_files(&files).unwrap();
        assert_eq!(table.starts, [0, 2, 2, 3, 5]);
        assert_eq!(table.file_starts, [0, 2, 2, 5]);
        assert_eq!(table.first_ordinals, [0, 2, 5, 6, 10, 11]);
    }
}
