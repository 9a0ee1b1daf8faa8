//! The selection: which rows of the files belong to the dataset.
//!
//! The numbering of selected rows and the hash are a part of the cursor's format: a change to them raises the
//! format's number.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::order::permutation::key;

/// The selected rows: all rows of the files, or some of them.
///
/// Selected rows have *ordinals*: 0 for the first one, in the order of the row numbers. Only this type
/// converts between ordinals and row numbers; each conversion is a binary search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The row numbers; `None` if all rows are selected.
    rows: Option<Chosen>,
    /// The ordinal of the first selected row of every row group, then the number of selected rows.
    group_starts: Arc<[u64]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Chosen {
    rows: Intervals,
    hash: String,
}

impl Selection {
    /// All rows of the row groups that begin at `group_starts`. That has one entry more than there are row
    /// groups, from 0 to the number of rows.
    #[must_use]
    pub fn everything(group_starts: &[u64]) -> Self {
        Self { rows: None, group_starts: group_starts.into() }
    }

    /// The selection of these row numbers. All rows are the same selection as [`Selection::everything`].
    ///
    /// # Errors
    /// `Argument` if a row number is beyond the last row.
    pub fn new(group_starts: &[u64], rows: Intervals) -> Result<Self> {
        let num_rows = group_starts.last().copied().unwrap_or(0);
        if rows.end() > num_rows {
            return Err(Error::Argument(format!(
                "rows up to {} are selected, but the files have {num_rows}",
                rows.end()
            )));
        }
        if rows.count() == num_rows {
            return Ok(Self::everything(group_starts));
        }
        let hash = hash(&rows);
        let group_starts = group_starts.iter().map(|&start| rows.rank(start)).collect();
        Ok(Self { rows: Some(Chosen { rows, hash }), group_starts })
    }

    /// The number of selected rows.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.group_starts.last().copied().unwrap_or(0)
    }

    /// The ordinal of the first selected row of every row group, then the number of selected rows.
    #[must_use]
    pub fn group_starts(&self) -> &[u64] {
        &self.group_starts
    }

    /// The largest number of selected rows in a row group.
    #[must_use]
    pub fn largest_group(&self) -> u64 {
        self.group_starts.windows(2).map(|group| group[1] - group[0]).max().unwrap_or(0)
    }

    /// The hash of the selected row numbers, 32 hexadecimal digits; `None` if all rows are selected.
    #[must_use]
    pub fn hash(&self) -> Option<&str> {
        self.rows.as_ref().map(|chosen| chosen.hash.as_str())
    }

    /// The selected row numbers; `None` if all rows are selected.
    #[must_use]
    pub fn intervals(&self) -> Option<&Intervals> {
        self.rows.as_ref().map(|chosen| &chosen.rows)
    }

    /// The row numbers of ordinals, in order, as runs. Ordinals beyond the last row give nothing.
    pub fn rows(&self, ordinals: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let all = self.rows.is_none().then(|| ordinals.start..ordinals.end.min(self.count()));
        let some = self.rows.iter().flat_map(move |chosen| chosen.rows.slice(ordinals.clone()));
        all.into_iter().filter(|rows| !rows.is_empty()).chain(some)
    }

    /// The ordinals of those among consecutive rows that are selected.
    #[must_use]
    pub fn ordinals(&self, rows: Range<u64>) -> Range<u64> {
        match &self.rows {
            Some(chosen) => chosen.rows.rank(rows.start)..chosen.rows.rank(rows.end),
            None => rows,
        }
    }
}

/// The hash of a set of row numbers: the sum of its intervals' hashes, twice, from different starts.
fn hash(rows: &Intervals) -> String {
    let [first, second] = [0, 1].map(|half| {
        let each = rows.ranges().iter().map(|range| key(&[half, range.start, range.end]));
        each.fold(0, u64::wrapping_add)
    });
    format!("{first:016x}{second:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTS: [u64; 5] = [0, 10, 10, 15, 30];

    fn selected(rows: &[Range<u64>]) -> Selection {
        Selection::new(&STARTS, Intervals::new(rows.to_vec()).unwrap()).unwrap()
    }

    #[test]
    fn ordinals_and_rows_lead_to_each_other() {
        let some = selected(&[2..4, 9..12, 29..30]);
        assert_eq!((some.count(), some.largest_group()), (6, 3));
        assert_eq!(some.group_starts(), [0, 3, 3, 5, 6]);
        assert_eq!(some.rows(1..5).collect::<Vec<_>>(), [3..4, 9..12]);
        assert_eq!(some.rows(5..99).collect::<Vec<_>>(), std::slice::from_ref(&(29..30)));
        assert_eq!(some.rows(6..7).count(), 0);
        assert_eq!(some.ordinals(3..11), 1..4);
        assert_eq!(some.ordinals(12..29), 5..5);
        for ordinal in 0..6 {
            let row = some.rows(ordinal..ordinal + 1).next().unwrap();
            assert_eq!(some.ordinals(row), ordinal..ordinal + 1);
        }
    }

    #[test]
    fn a_selection_of_all_rows_is_none() {
        let all = selected(&[0..12, 12..30]);
        assert_eq!(all, Selection::everything(&STARTS));
        assert_eq!((all.hash(), all.intervals(), all.count()), (None, None, 30));
        assert_eq!(all.rows(3..99).collect::<Vec<_>>(), std::slice::from_ref(&(3..30)));
        assert_eq!(all.rows(30..31).count(), 0);
        assert_eq!(all.ordinals(7..9), 7..9);
        assert_eq!(selected(&[]).count(), 0);
        assert!(Selection::new(&STARTS, Intervals::full(31)).is_err());
    }

    #[test]
    fn the_hash_is_of_the_rows_however_they_were_named() {
        assert_eq!(selected(&[2..4, 9..12]).hash(), selected(&[9..11, 2..4, 11..12]).hash());
        assert_ne!(selected(&[2..4, 9..12]).hash(), selected(&[2..4, 9..13]).hash());
        assert_ne!(selected(&[]).hash(), None);
    }
}
