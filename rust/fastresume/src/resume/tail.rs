//! The tail: how the rows after the last whole global batch are delivered or dropped.
//!
//! Every release must keep this arithmetic, like that of the lanes.

use std::ops::Range;

use crate::error::{Error, Result, quoted};

/// The tail policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tail {
    /// The rows are dropped.
    #[default]
    Drop,
    /// The rows are shared in contiguous parts that differ by at most one row. If there are fewer rows than
    /// ranks, they are dropped.
    Short,
    /// The rows are repeated until they fill a global batch.
    Pad,
    /// The rows stay in the pass, which doesn't end: a stream's next rows follow them.
    Carry,
}

/// The shape of a rank's batch: how many rows it has, how many are valid, and how many are read.
///
/// Row j is a copy of row `j - distinct` for every `j >= distinct`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The number of all rows.
    pub rows: u64,
    /// The number of valid rows. They come first; the others are padding.
    pub valid: u64,
    /// The number of rows that are read. They come first; the others are copies.
    pub distinct: u64,
}

impl Shape {
    /// A batch whose rows are all read and all valid.
    #[must_use]
    pub fn whole(rows: u64) -> Self {
        Self { rows, valid: rows, distinct: rows }
    }
}

impl Tail {
    /// The policy of a name.
    ///
    /// # Errors
    /// `Argument` if none has it.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "drop" => Ok(Self::Drop),
            "short" => Ok(Self::Short),
            "pad" => Ok(Self::Pad),
            "carry" => Ok(Self::Carry),
            _ => Err(Error::Argument(format!(
                "tail must be 'drop', 'short', 'pad' or 'carry', found '{}'",
                quoted(name)
            ))),
        }
    }

    /// Whether `rest` rows (fewer than a global batch) give every rank one more batch.
    #[must_use]
    pub fn gives_batch(self, rest: u64, world_size: u64) -> bool {
        match self {
            Self::Drop | Self::Carry => false,
            Self::Short => rest > 0 && rest >= world_size,
            Self::Pad => rest > 0,
        }
    }

    /// A rank's batch of a rest that gives one: its shape, and the parts of `[0, rest)` that fill its
    /// distinct rows, one after another. `rank_rows` is the size of a whole batch. There is at least one
    /// rank, and not so many that their square overflows.
    #[must_use]
    pub fn share(self, rest: u64, rank_rows: u64, rank: u64, world_size: u64) -> (Shape, [Range<u64>; 2]) {
        if self == Self::Pad {
            let start = rank * rank_rows;
            let first = start % rest.max(1);
            let valid = rest.saturating_sub(start).min(rank_rows);
            let distinct = rank_rows.min(rest);
            let until_end = distinct.min(rest - first);
            let parts = [first..first + until_end, 0..distinct - until_end];
            return (Shape { rows: rank_rows, valid, distinct }, parts);
        }
        // The whole part of `rank * rest / world_size`, without computing the product.
        let (each, over) = (rest / world_size, rest % world_size);
        let cut = |rank: u64| rank * each + rank * over / world_size;
        let part = cut(rank)..cut(rank + 1);
        (Shape::whole(part.end - part.start), [part, 0..0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_shares_differ_by_at_most_one_row() {
        let shares: Vec<u64> = (0..4).map(|rank| Tail::Short.share(10, 5, rank, 4).0.rows).collect();
        assert_eq!(shares, [2, 3, 2, 3]);
        assert!(!Tail::Short.gives_batch(3, 4) && Tail::Short.gives_batch(4, 4));
    }

    #[test]
    fn padding_repeats_the_rest() {
        // 3 rows left of 2 x 4: 0 1 2 0 | 1 2 0 1, of which the first three are valid.
        let (shape, parts) = Tail::Pad.share(3, 4, 0, 2);
        assert_eq!((shape, parts), (Shape { rows: 4, valid: 3, distinct: 3 }, [0..3, 0..0]));
        let (shape, parts) = Tail::Pad.share(3, 4, 1, 2);
        assert_eq!((shape, parts), (Shape { rows: 4, valid: 0, distinct: 3 }, [1..3, 0..1]));
        assert!(Tail::Pad.gives_batch(1, 4) && !Tail::Pad.gives_batch(0, 4));
    }
}
