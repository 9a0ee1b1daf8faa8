//! Which rows each sequence of a dataset is cut from.

use std::ops::Range;

/// The sequences of all files, which follow one another: a sequence never goes on in another file.
#[derive(Debug)]
pub struct SequenceTable {
    /// The tokens of a sequence.
    pub length: u64,
    /// The first sequence of each file, then their number.
    pub starts: Vec<u64>,
    /// The ordinal of the first row of each file, then their number.
    pub first_ordinals: Vec<u64>,
    /// The tokens of each file.
    pub tokens: Vec<u64>,
    /// Of each file, the tokens before every `stride`-th row.
    pub index: Vec<Vec<u64>>,
    /// So many rows lie between two entries of the index.
    pub stride: u64,
}

/// Rows of one file that some sequences are cut from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceRows {
    /// Their ordinals.
    pub ordinals: Range<u64>,
    /// How many of their tokens lie before the first sequence.
    pub skipped: u64,
}

impl SequenceTable {
    /// The sequences of the same file that are decoded in one go with the first of these: themselves, or those in its share
    /// of so many.
    #[must_use]
    pub fn chunk(&self, sequences: &Range<u64>, share: Option<u64>) -> Range<u64> {
        let file = self.file_of(sequences.start);
        let whole = self.starts[file]..self.starts[file + 1];
        match share {
            None => sequences.start..sequences.end.min(whole.end),
            Some(share) => {
                let first = sequences.start - (sequences.start - whole.start) % share.max(1);
                first..first.saturating_add(share.max(1)).min(whole.end)
            }
        }
    }

    /// What some sequences of one file are cut from.
    #[must_use]
    pub fn rows(&self, sequences: &Range<u64>) -> SequenceRows {
        let file = self.file_of(sequences.start);
        let (index, first) = (&self.index[file], self.first_ordinals[file]);
        let tokens = |sequence: u64| (sequence - self.starts[file]).saturating_mul(self.length);
        let (begin, end) = (tokens(sequences.start), tokens(sequences.end).min(self.tokens[file]));
        let entry = index.partition_point(|&before| before <= begin).saturating_sub(1);
        let last = first + index.partition_point(|&before| before < end) as u64 * self.stride;
        let ordinals = first + entry as u64 * self.stride..last.min(self.first_ordinals[file + 1]);
        SequenceRows { ordinals, skipped: begin - index.get(entry).copied().unwrap_or(0) }
    }

    /// The file of a sequence; those without any come before it.
    fn file_of(&self, sequence: u64) -> usize {
        let last = self.starts.len().saturating_sub(2);
        self.starts.partition_point(|&start| start <= sequence).saturating_sub(1).min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_cut_from_the_rows_that_have_their_tokens() {
        // Rows of 3, 4, 0, 5 and 2 tokens, a file of none, and rows of 1 and 9.
        let table = SequenceTable {
            length: 4,
            starts: vec![0, 3, 3, 5],
            first_ordinals: vec![0, 5, 5, 7],
            tokens: vec![14, 0, 10],
            index: vec![vec![0, 7, 12], vec![], vec![0]],
            stride: 2,
        };
        let rows = |sequences| {
            let SequenceRows { ordinals, skipped } = table.rows(&sequences);
            (ordinals, skipped)
        };
        assert_eq!(rows(0..1), (0..2, 0));
        assert_eq!(rows(1..2), (0..4, 4));
        assert_eq!(rows(2..3), (2..4, 1));
        assert_eq!(rows(0..3), (0..4, 0));
        assert_eq!(rows(3..5), (5..7, 0));
        assert_eq!(rows(4..5), (5..7, 4));
    }

    #[test]
    fn what_is_decoded_in_one_go_is_of_one_file() {
        let table = SequenceTable {
            length: 1,
            starts: vec![0, 5, 5, 9],
            first_ordinals: vec![0, 5, 5, 9],
            tokens: vec![5, 0, 4],
            index: vec![vec![0], vec![], vec![0]],
            stride: 8,
        };
        assert_eq!(table.chunk(&(1..9), None), 1..5);
        assert_eq!(table.chunk(&(6..8), None), 6..8);
        assert_eq!(table.chunk(&(1..3), Some(2)), 0..2);
        assert_eq!(table.chunk(&(4..9), Some(2)), 4..5);
        assert_eq!(table.chunk(&(6..7), Some(3)), 5..8);
        assert_eq!(table.chunk(&(8..9), Some(3)), 8..9);
    }
}
