//! The order of one pass: the row at each position.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dataset::manifest::MAX_ROWS;
use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::memory::vectors::append;
use crate::order::mixture::Mixture;
use crate::order::selection::Selection;
use crate::order::shuffle::{Keys, Shuffle, Window};

/// The decoded bytes of a window of the default size.
const WINDOW_BYTES: u64 = 256 << 20;

/// The number of blocks in a default window. It has half as many if row groups would be divided into parts of
/// fewer than `MIN_PART_ROWS` rows: each part decodes its dictionaries again.
const BLOCKS_PER_WINDOW: u64 = 16;
const MIN_PART_ROWS: u64 = 1 << 15;

/// By default, row groups are joined up to this many rows, but not to more than a fixed share of a window.
const MAX_JOINED_ROWS: u64 = 1 << 13;
const JOINED_PER_WINDOW: u64 = 64;

/// By default, no dataset has more blocks than about this: planning a pass takes time for each.
const MANY_BLOCKS: u64 = 1 << 22;

/// The parameters of an order, as the cursor records them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum OrderKind {
    /// Position p is row p.
    Sequential,
    /// Blocks are permuted over the dataset, rows are permuted within windows of blocks.
    Shuffled {
        /// With the epoch, the key of all permutations.
        seed: u64,
        /// Rows of a block, at most.
        block_rows: u64,
        /// Rows of a window, at most.
        window_rows: u64,
    },
    /// Positions are those of a stage of several sources.
    Mixture(Box<Mixture>),
}

/// The order that a user asks for: `None` leaves a value to the loaded cursor, or to the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderChoice {
    /// The rows as they lie in the files.
    Sequential,
    /// Shuffled.
    Shuffled {
        /// The seed; 0 by default.
        seed: Option<u64>,
        /// Rows of a block, at most.
        block_rows: Option<u64>,
        /// Rows of a window, at most.
        window_rows: Option<u64>,
    },
}

impl OrderChoice {
    /// The order of a job without a cursor: what is not named follows from the dataset alone.
    ///
    /// # Errors
    /// `Argument` if a named size is 0, or a block is larger than a window.
    pub fn resolve(&self, num_rows: u64, row_bytes: u64, largest_group: u64) -> Result<OrderKind> {
        let &Self::Shuffled { seed, block_rows, window_rows } = self else {
            return Ok(OrderKind::Sequential);
        };
        let by_memory = (WINDOW_BYTES / row_bytes.max(1)).max(1);
        let window = window_rows.unwrap_or(by_memory);
        let part = (window / BLOCKS_PER_WINDOW).max(MIN_PART_ROWS.min(window * 2 / BLOCKS_PER_WINDOW));
        let joined = MAX_JOINED_ROWS.min(window / JOINED_PER_WINDOW);
        let least = num_rows.div_ceil(MANY_BLOCKS).max(1);
        let block = largest_group.clamp(joined.max(least), part.max(least));
        let block = block_rows.unwrap_or(block.min(window_rows.unwrap_or(u64::MAX)));
        let kind = OrderKind::Shuffled {
            seed: seed.unwrap_or(0),
            block_rows: block,
            window_rows: window_rows.unwrap_or(window.max(block)),
        };
        kind.check().map_err(Error::Argument)?;
        Ok(kind)
    }

    /// The first contradiction between a cursor's order and the choice: its name, the cursor's value, and the
    /// chosen one with what to write instead.
    #[must_use]
    pub fn contradiction(&self, kind: &OrderKind) -> Option<(&'static str, String, String)> {
        match (self, kind) {
            (Self::Sequential, OrderKind::Sequential) => None,
            (
                Self::Shuffled { seed, block_rows, window_rows },
                OrderKind::Shuffled { seed: of_seed, block_rows: of_block, window_rows: of_window },
            ) => [
                ("seed", seed, of_seed),
                ("block_rows", block_rows, of_block),
                ("window_rows", window_rows, of_window),
            ]
            .into_iter()
            .find_map(|(name, chosen, found)| {
                let chosen = chosen.filter(|chosen| chosen != found)?;
                let written = match name {
                    "seed" => format!("seed={found}"),
                    size => format!("shuffle=fr.Shuffle({size}={found})"),
                };
                Some((name, found.to_string(), format!("{chosen}: write {written} to resume from it")))
            }),
            (_, OrderKind::Sequential) => {
                Some(("order", "sequential".into(), "shuffled: write shuffle=False to resume from it".into()))
            }
            (_, _) => {
                Some(("order", "shuffled".into(), "sequential: write shuffle=True to resume from it".into()))
            }
        }
    }
}

impl OrderKind {
    /// Why the numbers make no valid order.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        match *self {
            Self::Shuffled { block_rows, window_rows, .. } if block_rows == 0 || window_rows < block_rows => {
                Err(format!(
                    "a window holds at least one block, and a block at least one row: found block_rows \
                     {block_rows}, window_rows {window_rows}"
                ))
            }
            Self::Shuffled { seed, block_rows, window_rows } => {
                match [("seed", seed), ("block_rows", block_rows), ("window_rows", window_rows)]
                    .into_iter()
                    .find(|&(_, number)| number >= MAX_ROWS)
                {
                    Some((name, number)) => Err(format!("{name} {number} is not below 2^53")),
                    None => Ok(()),
                }
            }
            Self::Sequential => Ok(()),
            Self::Mixture(ref mixture) => mixture.check(),
        }
    }
}

/// A bijection from the positions of one pass to the selected rows.
///
/// It knows nothing of ranks, workers, threads or batch sizes. Callers have positions and ask here for rows;
/// no other code may take a position for a row. (Internally a position has an ordinal, and the selection
/// gives the row of that.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    selection: Arc<Selection>,
    /// One for each generation of a shuffled order that has rows, in their order; none of a sequential one.
    shuffles: Vec<Shuffle>,
    is_shuffled: bool,
}

impl Order {
    /// The order of one pass over the selected rows.
    ///
    /// # Errors
    /// `Argument` if the blocks are too many for memory.
    pub fn new(kind: &OrderKind, epoch: u64, selection: impl Into<Arc<Selection>>) -> Result<Self> {
        Self::of_generations(kind, epoch, selection, &[])
    }

    /// The order of one pass whose rows came in generations, which end before these ordinals; the last one ends with the
    /// rows. Each has an order of its own, and they follow one another.
    ///
    /// # Errors
    /// `Argument` as for `new`; `State` if a generation ends amid a row group.
    pub fn of_generations(
        kind: &OrderKind,
        epoch: u64,
        selection: impl Into<Arc<Selection>>,
        ends: &[u64],
    ) -> Result<Self> {
        let selection = selection.into();
        if matches!(kind, OrderKind::Mixture(_)) {
            return Err(Error::State("the positions of a mixture are no rows of one dataset".into()));
        }
        let OrderKind::Shuffled { seed, block_rows, window_rows } = *kind else {
            return Ok(Self { selection, shuffles: Vec::new(), is_shuffled: false });
        };
        kind.check().map_err(Error::State)?;
        let starts = selection.group_starts();
        let (mut first, mut shuffles) = (0, Vec::with_capacity(ends.len() + 1));
        for (generation, end) in ends.iter().copied().chain([selection.count()]).enumerate() {
            // Of row groups without rows at the boundary it is all the same whose they are.
            let Ok(last) = starts[first..].binary_search(&end).map(|found| first + found) else {
                return Err(Error::State(format!(
                    "row {end}, where a generation ends, is within a row group"
                )));
            };
            let keys = Keys { seed, epoch, generation: generation as u64 };
            shuffles.push(Shuffle::new(keys, block_rows, window_rows, &starts[first..=last])?);
            first = last;
        }
        Ok(Self { selection, shuffles, is_shuffled: true })
    }

    /// The generation that holds a position; none of a sequential order, or behind the last row.
    fn shuffle_at(&self, position: u64) -> Option<&Shuffle> {
        let index = self.shuffles.partition_point(|shuffle| shuffle.positions().end <= position);
        self.shuffles.get(index)
    }

    /// The rows of ordinals, in order, as runs of consecutive row numbers.
    pub fn rows_of_ordinals(&self, ordinals: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        self.selection.rows(ordinals)
    }

    /// The rows at `positions`, in order, as runs of consecutive row numbers.
    ///
    /// Positions beyond the end give nothing.
    pub fn rows(&self, positions: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ordinals(positions).flat_map(|ordinals| self.selection.rows(ordinals))
    }

    fn ordinals(&self, positions: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut next = positions.start;
        let end = positions.end.min(self.selection.count());
        let mut window: Option<Window> = None;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let first = next;
            if !self.is_shuffled {
                next = end;
                return Some(first..end);
            }
            if !window.as_ref().is_some_and(|window| window.positions.contains(&first)) {
                window = self.window_at(first);
            }
            next += 1;
            let ordinal = window.as_ref()?.ordinal(first);
            Some(ordinal..ordinal + 1)
        })
    }

    /// The rows at a set of positions, as a set. A whole window costs time for its blocks only, a part of one
    /// for its rows.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn row_set(&self, positions: &Intervals) -> Result<Intervals> {
        let rows_of = |ordinals: &[Range<u64>]| {
            Intervals::try_of_sorted(ordinals.iter().flat_map(|of| self.selection.rows(of.clone())))
        };
        if !self.is_shuffled {
            return rows_of(positions.ranges());
        }
        let mut ordinals = Vec::new();
        for range in positions.ranges() {
            let mut next = range.start;
            while next < range.end.min(self.selection.count()) {
                let Some(window) = self.window_at(next) else { break };
                let end = window.positions.end.min(range.end);
                if (next..end) == window.positions {
                    append(&mut ordinals, window.blocks)?;
                } else {
                    let each = (next..end).map(|position| window.ordinal(position));
                    append(&mut ordinals, each.map(|ordinal| ordinal..ordinal + 1))?;
                }
                next = end;
            }
        }
        ordinals.sort_unstable_by_key(|ordinals: &Range<u64>| ordinals.start);
        rows_of(&ordinals)
    }

    /// The position of a row; `None` if the row is not selected.
    #[must_use]
    pub fn position_of(&self, row: u64) -> Option<u64> {
        // A generation has the ordinals that it has as positions.
        let ordinal =
            self.selection.ordinals(row..row + 1).next().filter(|&ordinal| ordinal < self.num_rows())?;
        let Some(shuffle) = self.shuffle_at(ordinal) else { return Some(ordinal) };
        shuffle.window(shuffle.window_holding(ordinal)).position(ordinal)
    }

    /// The number of rows of a pass.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.selection.count()
    }

    /// The rows of the largest window; 0 for a sequential order.
    #[must_use]
    pub fn largest_window(&self) -> u64 {
        self.shuffles.iter().map(Shuffle::largest_window).max().unwrap_or(0)
    }

    /// The numbers of blocks and windows; `None` for a sequential order.
    #[must_use]
    pub fn sizes(&self) -> Option<(usize, usize)> {
        let each = self.shuffles.iter().map(Shuffle::sizes);
        self.is_shuffled.then(|| each.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)))
    }

    /// The window that holds a position, which must be below the number of rows; `None` for a sequential
    /// order.
    #[must_use]
    pub fn window_at(&self, position: u64) -> Option<Window> {
        let shuffle = self.shuffle_at(position)?;
        Some(shuffle.window(shuffle.window_at(position)))
    }

    /// The positions of the window that holds a position; in a sequential order, the position alone.
    #[must_use]
    pub fn window_positions(&self, position: u64) -> Range<u64> {
        match self.shuffle_at(position) {
            Some(shuffle) => shuffle.window_positions(shuffle.window_at(position)),
            None => position..position + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::blocks::tests::starts;

    fn shuffled(block_rows: u64, window_rows: u64) -> OrderKind {
        OrderKind::Shuffled { seed: 17, block_rows, window_rows }
    }

    #[test]
    fn every_row_stands_at_one_position() {
        let layouts: [&[u64]; 7] =
            [&[], &[0, 0], &[1], &[97], &[0, 5, 0, 31, 2, 0], &[1; 1000], &[64, 65, 63, 1]];
        for groups in layouts {
            for (block_rows, window_rows) in [(1, 1), (1, 7), (8, 8), (8, 30), (1000, 1000)] {
                for epoch in 0..2 {
                    let order = Order::new(
                        &shuffled(block_rows, window_rows),
                        epoch,
                        Selection::everything(&starts(groups)),
                    )
                    .unwrap();
                    let num_rows = groups.iter().sum::<u64>();
                    let mut rows: Vec<u64> = order.rows(0..num_rows + 9).map(|run| run.start).collect();
                    for (position, &row) in rows.iter().enumerate() {
                        assert_eq!(order.position_of(row), Some(position as u64));
                        let window = order.window_at(position as u64).unwrap();
                        let block = window.blocks.iter().position(|rows| rows.contains(&row)).unwrap();
                        let place = position as u64 - window.positions.start;
                        window.places(&window.inverse(), block, row..row + 1, |found| {
                            assert_eq!(found, [place]);
                        });
                        assert!(window.positions.end - window.positions.start <= window_rows);
                    }
                    rows.sort_unstable();
                    assert_eq!(rows, (0..num_rows).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn default_sizes_follow_from_the_dataset() {
        let choice = OrderChoice::Shuffled { seed: None, block_rows: None, window_rows: None };
        let resolved = |row_bytes, largest| choice.resolve(1 << 30, row_bytes, largest).unwrap();
        let of = |block_rows, window_rows| OrderKind::Shuffled { seed: 0, block_rows, window_rows };
        assert_eq!(resolved(256, 1 << 20), of(1 << 16, 1 << 20));
        assert_eq!(resolved(256, 10_000), of(10_000, 1 << 20));
        assert_eq!(resolved(256, 3), of(1 << 13, 1 << 20));
        assert_eq!(resolved(2048, 1 << 17), of(1 << 14, 1 << 17));
        assert_eq!(resolved(8192, 1000), of(1000, 1 << 15));
        assert_eq!(resolved(1 << 30, 1000), of(256, 256));
        let huge = choice.resolve(1 << 40, 256, 100_000).unwrap();
        assert_eq!(huge, of(1 << 18, 1 << 20));
    }
}
