//! The blocks of a shuffled order: contiguous rows that it keeps together.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::memory::vectors::room_for;

/// More blocks than any dataset needs: planning a pass over them would take seconds.
const MAX_BLOCKS: u64 = 1 << 27;

/// The blocks of a dataset, in O(row groups) of memory, however many blocks there are.
///
/// A row group of more than `block_rows` rows is divided into equal parts. Others are joined with their
/// neighbours as long as they fit. A row group that is divided, or the groups that are joined, are a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    /// Unit u is rows `[starts[u], starts[u + 1])`, in blocks `[first_blocks[u], first_blocks[u + 1])`.
    starts: Vec<u64>,
    first_blocks: Vec<u64>,
}

impl Blocks {
    pub fn new(group_starts: &[u64], block_rows: u64) -> Result<Self> {
        let mut blocks = Self { starts: vec![0], first_blocks: vec![0] };
        let mut joined = 0;
        for group in group_starts.windows(2) {
            let rows = group[1] - group[0];
            if joined > 0 && joined + rows > block_rows {
                blocks.push(group[0], 1)?;
                joined = 0;
            }
            if rows <= block_rows {
                joined += rows;
            } else {
                blocks.push(group[1], rows.div_ceil(block_rows))?;
            }
        }
        if joined > 0 {
            blocks.push(group_starts.last().copied().unwrap_or(0), 1)?;
        }
        if blocks.count() > MAX_BLOCKS {
            return Err(Error::Argument(format!(
                "block_rows {block_rows} makes {} blocks, more than {MAX_BLOCKS}: take a larger one",
                blocks.count()
            )));
        }
        Ok(blocks)
    }

    fn push(&mut self, end: u64, parts: u64) -> Result<()> {
        room_for(&mut self.first_blocks, 1)?;
        room_for(&mut self.starts, 1)?;
        self.first_blocks.push(self.count() + parts);
        self.starts.push(end);
        Ok(())
    }

    pub fn count(&self) -> u64 {
        self.first_blocks.last().copied().unwrap_or(0)
    }

    /// The rows of a block.
    pub fn rows(&self, block: u64) -> Range<u64> {
        let unit = self.first_blocks.partition_point(|&first| first <= block) - 1;
        let (start, rows) = (self.starts[unit], self.starts[unit + 1] - self.starts[unit]);
        let first = self.first_blocks[unit];
        let parts = self.first_blocks[unit + 1] - first;
        // The whole part of `rows * part / parts`, without computing the product.
        let (each, over) = (rows / parts, rows % parts);
        let cut = |part: u64| start + each * part + over * part / parts;
        cut(block - first)..cut(block - first + 1)
    }

    /// The block that holds a row.
    pub fn holding(&self, row: u64) -> u64 {
        let unit = self.starts.partition_point(|&start| start <= row) - 1;
        let (mut first, mut end) = (self.first_blocks[unit], self.first_blocks[unit + 1]);
        while first + 1 < end {
            let middle = u64::midpoint(first, end);
            if self.rows(middle).start <= row { first = middle } else { end = middle }
        }
        first
    }

    /// Calls `visit` with the number of every block and its number of rows.
    pub fn each(&self, mut visit: impl FnMut(u64, u64)) {
        for (starts, blocks) in self.starts.windows(2).zip(self.first_blocks.windows(2)) {
            let parts = blocks[1] - blocks[0];
            let (each, over) = ((starts[1] - starts[0]) / parts, (starts[1] - starts[0]) % parts);
            // The remainder is spread as in `rows`.
            let mut carried = 0;
            for block in blocks[0]..blocks[1] {
                carried += over;
                let is_over = carried >= parts;
                carried -= if is_over { parts } else { 0 };
                visit(block, each + u64::from(is_over));
            }
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Where row groups of these numbers of rows begin, and the number of all rows.
    pub fn starts(groups: &[u64]) -> Vec<u64> {
        let mut starts = vec![0];
        for rows in groups {
            starts.push(starts[starts.len() - 1] + rows);
        }
        starts
    }

    #[test]
    fn large_groups_are_divided_evenly_and_small_ones_joined() {
        let blocks = Blocks::new(&starts(&[10, 0, 3, 1, 4, 0, 9, 2]), 4).unwrap();
        let rows: Vec<_> = (0..blocks.count()).map(|block| blocks.rows(block)).collect();
        assert_eq!(rows, [0..3, 3..6, 6..10, 10..14, 14..18, 18..21, 21..24, 24..27, 27..29]);
        for (block, rows) in (0..).zip(&rows) {
            assert!(rows.clone().all(|row| blocks.holding(row) == block));
        }
        let mut counts = Vec::new();
        blocks.each(|block, count| counts.push((block, count)));
        let expected = (0..).zip(&rows).map(|(block, rows)| (block, rows.end - rows.start));
        assert_eq!(counts, expected.collect::<Vec<_>>());
        assert_eq!(Blocks::new(&starts(&[0, 0]), 4).unwrap().count(), 0);
        assert!(Blocks::new(&[0, 1 << 40], 1).is_err());
    }
}
