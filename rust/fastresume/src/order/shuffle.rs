//! The shuffled order of a stretch of positions: blocks are permuted over it, rows within windows of blocks.
//!
//! This arithmetic is a part of the cursor's format: a change to it raises the format's number.

use std::ops::Range;

use crate::error::Result;
use crate::memory::vectors::{collected, filled};
use crate::order::blocks::Blocks;
use crate::order::permutation::{Inverse, Permutation, key};

/// The tables of a shuffled order: O(row groups).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffle {
    /// The first of its positions, and of its ordinals: they are the same.
    start: u64,
    /// The number of its rows.
    rows: u64,
    keys: Keys,
    blocks: Blocks,
    block_order: Permutation,
    /// Window w is positions `[window_starts[w], window_starts[w + 1])`, counted from the first one.
    window_starts: Vec<u64>,
}

/// What the permutations of a pass are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub seed: u64,
    pub epoch: u64,
    /// The number of the generation: rows that came later in the pass have another one.
    pub generation: u64,
}

impl Keys {
    /// The key of the order of blocks, which is number 0, or of a window, which are numbered from 1 on.
    fn of(self, number: u64) -> u64 {
        match self.generation {
            0 => key(&[self.seed, self.epoch, number]),
            generation => key(&[self.seed, self.epoch, number, generation]),
        }
    }
}

/// Positions whose rows are permuted among themselves. Its rows are given by their ordinals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The positions.
    pub positions: Range<u64>,
    /// The ordinals of each block, in the order in which blocks are laid one after another.
    pub blocks: Vec<Range<u64>>,
    /// Where each block begins among these ordinals.
    laid: Vec<u64>,
    permutation: Permutation,
}

impl Shuffle {
    /// The order of the rows of these row groups, of which `group_starts` are the first ordinals, and the end of the last.
    ///
    /// # Errors
    /// `Argument` if the blocks are too many for memory.
    pub fn new(keys: Keys, block_rows: u64, window_rows: u64, group_starts: &[u64]) -> Result<Self> {
        let start = group_starts.first().copied().unwrap_or(0);
        let starts: Vec<u64> = collected(group_starts.iter().map(|group| group - start))?;
        let blocks = Blocks::new(&starts, block_rows)?;
        let num_blocks = blocks.count();
        let block_order = Permutation::new(num_blocks, keys.of(0));
        let num_windows = num_blocks.div_ceil((window_rows / block_rows).max(1));
        // Block by block in memory order, not place by place: the table of windows is the smaller one, and
        // what is read out of order should fit the processor's caches.
        let mut window_starts = filled(to_index(num_windows) + 1, 0)?;
        blocks.each(|block, rows| {
            let window = window_of(block_order.inverse(block), num_windows, num_blocks);
            window_starts[to_index(window) + 1] += rows;
        });
        let mut position = 0;
        for start in &mut window_starts {
            position += *start;
            *start = position;
        }
        Ok(Self { start, rows: position, keys, blocks, block_order, window_starts })
    }

    /// Its positions.
    pub fn positions(&self) -> Range<u64> {
        self.start..self.start + self.rows
    }

    /// The numbers of blocks and windows.
    pub fn sizes(&self) -> (usize, usize) {
        (to_index(self.blocks.count()), self.window_starts.len() - 1)
    }

    /// The rows of the largest window.
    pub fn largest_window(&self) -> u64 {
        self.window_starts.windows(2).map(|window| window[1] - window[0]).max().unwrap_or(0)
    }

    /// The number of the window that holds one of its positions.
    pub fn window_at(&self, position: u64) -> usize {
        self.window_starts.partition_point(|&start| start <= position - self.start) - 1
    }

    /// The number of the window that holds one of its ordinals.
    pub fn window_holding(&self, ordinal: u64) -> usize {
        let place = self.block_order.inverse(self.blocks.holding(ordinal - self.start));
        to_index(window_of(place, self.window_starts.len() as u64 - 1, self.blocks.count()))
    }

    /// The positions of a window.
    pub fn window_positions(&self, window: usize) -> Range<u64> {
        self.start + self.window_starts[window]..self.start + self.window_starts[window + 1]
    }

    /// A window.
    pub fn window(&self, window: usize) -> Window {
        let places = places(window as u64, self.window_starts.len() as u64 - 1, self.blocks.count());
        let rows = places.map(|place| self.blocks.rows(self.block_order.at(place)));
        let blocks: Vec<_> = rows.map(|rows| self.start + rows.start..self.start + rows.end).collect();
        let mut end = 0;
        let laid = blocks.iter().map(|rows| {
            let start = end;
            end += rows.end - rows.start;
            start
        });
        let laid = laid.collect();
        let permutation = Permutation::new(end, self.keys.of(window as u64 + 1));
        Window { positions: self.window_positions(window), blocks, laid, permutation }
    }
}

impl Window {
    /// The ordinal at a position of the window.
    #[must_use]
    pub fn ordinal(&self, position: u64) -> u64 {
        let laid = self.permutation.at(position - self.positions.start);
        let block = self.laid.partition_point(|&start| start <= laid) - 1;
        self.blocks[block].start + (laid - self.laid[block])
    }

    /// The position of an ordinal; `None` if the window does not hold it.
    #[must_use]
    pub fn position(&self, ordinal: u64) -> Option<u64> {
        let block = self.blocks.iter().position(|ordinals| ordinals.contains(&ordinal))?;
        let laid = self.laid[block] + (ordinal - self.blocks[block].start);
        Some(self.positions.start + self.permutation.inverse(laid))
    }

    /// The inverse permutation of the window: from ordinals to positions, for many of them.
    #[must_use]
    pub fn inverse(&self) -> Inverse {
        Inverse::of(&self.permutation)
    }

    /// The positions of consecutive ordinals of block `block` of the window, counted from its first position.
    /// They come some at a time. `inverse` must be the window's own.
    pub fn places(&self, inverse: &Inverse, block: usize, ordinals: Range<u64>, each: impl FnMut(&[u64])) {
        let laid = self.laid[block] + (ordinals.start - self.blocks[block].start);
        inverse.each(laid..laid + (ordinals.end - ordinals.start), each);
    }
}

/// The places of the blocks of a window. The numbers of blocks in windows differ by at most one.
fn places(window: u64, num_windows: u64, num_blocks: u64) -> Range<u64> {
    // Both are below 2^27.
    window * num_blocks / num_windows..(window + 1) * num_blocks / num_windows
}

/// The window of a place: the inverse of [`places`].
fn window_of(place: u64, num_windows: u64, num_blocks: u64) -> u64 {
    ((place + 1) * num_windows - 1) / num_blocks
}

/// A number of blocks or windows as an index; they are in memory, so it fits.
fn to_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_in_the_window_that_has_it() {
        for num_blocks in 1..40 {
            for num_windows in 1..=num_blocks {
                for window in 0..num_windows {
                    let places = places(window, num_windows, num_blocks);
                    assert!(places.clone().all(|place| window_of(place, num_windows, num_blocks) == window));
                    assert!(!places.is_empty());
                }
            }
        }
    }
}
