//! Consecutive rows that cost no more than so much together: bins, and what lies between two anchors of an index.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::memory::vectors::push;

/// Consecutive selected rows of one row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// How many they are.
    pub rows: u64,
    /// What they cost together.
    pub cost: u64,
}

/// The most that a stretch has; a row that costs more is one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MostOfStretch {
    /// What its rows cost together.
    pub cost: u64,
    /// Its rows.
    pub rows: u64,
}

/// The stretches of each row group of a file.
pub type OfGroups = Vec<Vec<Stretch>>;

/// The stretches of rows of these costs: each has as many rows as it can.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
pub fn of_costs(costs: impl IntoIterator<Item = u64>, most: MostOfStretch) -> Result<Vec<Stretch>> {
    let (mut found, mut last) = (Vec::new(), Stretch { rows: 0, cost: 0 });
    for cost in costs {
        let sum = last.cost.checked_add(cost).filter(|&sum| sum <= most.cost && last.rows < most.rows);
        match sum {
            _ if last.rows == 0 => last = Stretch { rows: 1, cost },
            Some(cost) => last = Stretch { rows: last.rows + 1, cost },
            None => push(&mut found, std::mem::replace(&mut last, Stretch { rows: 1, cost }))?,
        }
    }
    if last.rows > 0 {
        push(&mut found, last)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stretch_has_as_many_rows_as_it_can() {
        let rows = |costs: &[u64], cost, rows| -> Vec<(u64, u64)> {
            let found = of_costs(costs.iter().copied(), MostOfStretch { cost, rows }).unwrap();
            found.iter().map(|of| (of.rows, of.cost)).collect()
        };
        assert_eq!(rows(&[], 3, 2), []);
        assert_eq!(rows(&[1, 1, 1, 1], 3, 9), [(3, 3), (1, 1)]);
        assert_eq!(rows(&[0, 0, 0, 0, 0], 3, 2), [(2, 0), (2, 0), (1, 0)]);
        assert_eq!(rows(&[0, 5, 0, 3, 0, 1], 3, 9), [(1, 0), (1, 5), (3, 3), (1, 1)]);
        assert_eq!(rows(&[u64::MAX, u64::MAX, 1], u64::MAX, 9), [(1, u64::MAX), (1, u64::MAX), (1, 1)]);
    }
}
