//! Which rows each sequence of a dataset is cut from.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::memory::vectors::push;
use crate::units::stretches::{MostOfStretch, OfGroups};

/// What lies between two anchors of the index at most, but for one row that is longer.
pub const ANCHORS: MostOfStretch = MostOfStretch { cost: 1 << 16, rows: 1 << 10 };

/// The sequences of all files, which follow one another: a sequence never goes on in another file.
///
/// The index has *anchors*: rows of which it is known how many tokens lie before them in their file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceTable {
    /// The tokens of a sequence.
    pub length: u64,
    /// The first sequence of each file, then their number.
    pub starts: Vec<u64>,
    /// The ordinal of the first row of each file, then their number.
    pub first_ordinals: Vec<u64>,
    /// The tokens of each file.
    pub tokens: Vec<u64>,
    /// Which of them sequences are cut from.
    pub cut: Vec<Range<u64>>,
    /// The first base of each file, then their number.
    file_bases: Vec<usize>,
    bases: Vec<Base>,
    /// Of each anchor, the rows and the tokens between its base and it.
    anchors: Vec<(u32, u32)>,
}

/// The first row of a row group, and one for which the differences of anchors would be too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Base {
    /// The rows of its file before it, and their tokens.
    place: SequencePlace,
    /// The first of its anchors, which is itself.
    first: usize,
}

/// A row of a file: how many lie before it, and how many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SequencePlace {
    rows: u64,
    tokens: u64,
}

/// A row of which the index knows how many tokens lie before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// The ordinal of the row, over all files.
    pub ordinal: u64,
    /// The tokens of its file before it.
    pub tokens: u64,
}

impl SequenceTable {
    /// The table of files of which each row group has these stretches between anchors. Sequences are cut from these tokens
    /// of each file, from all where none are named. What is left of them is a sequence that is filled up, or none.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn of_files(length: u64, is_filled_up: bool, cut: &[Range<u64>], files: &[OfGroups]) -> Result<Self> {
        let mut found = Self {
            length,
            starts: vec![0],
            first_ordinals: vec![0],
            tokens: Vec::new(),
            cut: Vec::new(),
            file_bases: vec![0],
            bases: Vec::new(),
            anchors: Vec::new(),
        };
        let (mut units, mut ordinals) = (0, 0);
        for (file, groups) in files.iter().enumerate() {
            let mut place = SequencePlace { rows: 0, tokens: 0 };
            for group in groups {
                let mut base = None;
                for stretch in group {
                    base = Some(found.add(place, base)?);
                    place.rows += stretch.rows;
                    place.tokens = place.tokens.saturating_add(stretch.cost);
                }
            }
            ordinals += place.rows;
            let own = cut.get(file).map_or(0..place.tokens, |own| {
                let end = own.end.min(place.tokens);
                own.start.min(end)..end
            });
            let tokens = own.end - own.start;
            units += if is_filled_up { tokens.div_ceil(length) } else { tokens / length };
            push(&mut found.cut, own)?;
            push(&mut found.starts, units)?;
            push(&mut found.first_ordinals, ordinals)?;
            push(&mut found.tokens, place.tokens)?;
            push(&mut found.file_bases, found.bases.len())?;
        }
        Ok(found)
    }

    /// Adds an anchor at a place, with its base; the base of the next one.
    fn add(&mut self, place: SequencePlace, base: Option<SequencePlace>) -> Result<SequencePlace> {
        let from = |base: SequencePlace| {
            let rows = u32::try_from(place.rows - base.rows).ok()?;
            Some((base, (rows, u32::try_from(place.tokens - base.tokens).ok()?)))
        };
        let (base, anchor) = if let Some(near) = base.and_then(from) {
            near
        } else {
            push(&mut self.bases, Base { place, first: self.anchors.len() })?;
            (place, (0, 0))
        };
        push(&mut self.anchors, anchor)?;
        Ok(base)
    }

    /// The bytes of the table.
    #[must_use]
    pub fn num_bytes(&self) -> usize {
        let of_files = size_of_val(&self.starts[..]) + size_of_val(&self.first_ordinals[..]);
        let of_bases = size_of_val(&self.file_bases[..]) + size_of_val(&self.bases[..]);
        let of_tokens = size_of_val(&self.tokens[..]) + size_of_val(&self.cut[..]);
        of_files + of_tokens + of_bases + size_of_val(&self.anchors[..])
    }

    /// The file of sequences that follow one another, as far as they are of one, and which of its tokens they have.
    #[must_use]
    pub fn tokens(&self, sequences: &Range<u64>) -> (usize, Range<u64>) {
        let file = self.file_of(sequences.start);
        let place = |sequence: u64| {
            let before = sequence.min(self.starts[file + 1]).saturating_sub(self.starts[file]);
            let Range { start, end } = self.cut[file];
            start.saturating_add(before.saturating_mul(self.length)).min(end)
        };
        (file, place(sequences.start)..place(sequences.end))
    }

    /// The sequence that a token of a file is in, or that would begin with the one behind its last token.
    #[must_use]
    pub fn sequence_of(&self, file: usize, token: u64) -> u64 {
        self.starts[file] + token.saturating_sub(self.cut[file].start) / self.length
    }

    /// How many of the tokens of all files that sequences are cut from are in none.
    #[must_use]
    pub fn dropped_tokens(&self) -> u64 {
        let units = self.starts.windows(2).map(|pair| (pair[1] - pair[0]).saturating_mul(self.length));
        units.zip(&self.cut).map(|(in_units, own)| (own.end - own.start).saturating_sub(in_units)).sum()
    }

    /// The number, among the anchors of a file, of the last one before a token of it.
    #[must_use]
    pub fn anchor_before(&self, file: usize, token: u64) -> usize {
        self.anchors_below(file, |tokens| tokens <= token).saturating_sub(1)
    }

    /// An anchor of a file; its end behind the last one.
    #[must_use]
    pub fn anchor_of(&self, file: usize, number: usize) -> Anchor {
        let place = self.anchor(file, number);
        Anchor { ordinal: self.first_ordinals[file] + place.rows, tokens: place.tokens }
    }

    /// The first anchor of a file behind one that has `tokens` before it or more, or is at an ordinal or behind it.
    #[must_use]
    pub fn anchor_behind(&self, file: usize, number: usize, tokens: u64, ordinal: u64) -> Anchor {
        let count = self.end_of(file) - self.bases.get(self.file_bases[file]).map_or(0, |base| base.first);
        let (mut low, mut high) = (number + 1, count.max(number + 1));
        while low < high {
            let middle = usize::midpoint(low, high);
            let anchor = self.anchor_of(file, middle);
            if anchor.tokens >= tokens || anchor.ordinal >= ordinal {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.anchor_of(file, low)
    }

    /// How many anchors of a file have so many tokens before them that `is_below` holds, which it does up to a bound.
    fn anchors_below(&self, file: usize, is_below: impl Fn(u64) -> bool) -> usize {
        let bases = &self.bases[self.file_bases[file]..self.file_bases[file + 1]];
        let Some(last) = bases.partition_point(|base| is_below(base.place.tokens)).checked_sub(1) else {
            return 0;
        };
        let Base { place, first } = bases[last];
        let end = bases.get(last + 1).map_or(self.end_of(file), |base| base.first);
        let anchors = &self.anchors[first..end];
        let near = anchors.partition_point(|(_, tokens)| is_below(place.tokens + u64::from(*tokens)));
        first + near - bases[0].first
    }

    /// Where the anchors of a file end among those of all.
    fn end_of(&self, file: usize) -> usize {
        self.bases.get(self.file_bases[file + 1]).map_or(self.anchors.len(), |base| base.first)
    }

    /// The row of an anchor of a file; its end behind the last one.
    fn anchor(&self, file: usize, number: usize) -> SequencePlace {
        let bases = &self.bases[self.file_bases[file]..self.file_bases[file + 1]];
        let whole = SequencePlace {
            rows: self.first_ordinals[file + 1] - self.first_ordinals[file],
            tokens: self.tokens[file],
        };
        let Some(first) = bases.first() else { return whole };
        let number = first.first + number;
        if number >= self.end_of(file) {
            return whole;
        }
        let base = bases.partition_point(|base| base.first <= number).saturating_sub(1);
        let (place, (rows, tokens)) = (bases[base].place, self.anchors[number]);
        SequencePlace { rows: place.rows + u64::from(rows), tokens: place.tokens + u64::from(tokens) }
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
    use crate::units::stretches::{Stretch, of_costs};

    fn groups(lengths: &[&[u64]]) -> OfGroups {
        let near = |costs: &&[u64]| {
            of_costs(costs.iter().copied(), MostOfStretch { cost: 1 << 40, rows: 2 }).unwrap()
        };
        lengths.iter().map(near).collect()
    }

    /// The rows between the anchors around sequences of one file, and how many of their tokens lie before these.
    fn rows(table: &SequenceTable, sequences: Range<u64>) -> (Range<u64>, u64) {
        let (file, tokens) = table.tokens(&sequences);
        let number = table.anchor_before(file, tokens.start);
        let before = table.anchor_of(file, number);
        let behind = table.anchor_behind(file, number, tokens.end, u64::MAX);
        (before.ordinal..behind.ordinal, tokens.start - before.tokens)
    }

    #[test]
    fn sequences_are_cut_from_the_rows_that_have_their_tokens() {
        let files = [groups(&[&[3, 4, 0, 5, 2]]), groups(&[&[], &[]]), groups(&[&[1, 9]])];
        let table = SequenceTable::of_files(4, false, &[], &files).unwrap();
        assert_eq!((&table.starts[..], &table.tokens[..]), (&[0, 3, 3, 5][..], &[14, 0, 10][..]));
        assert_eq!(rows(&table, 0..1), (0..2, 0));
        assert_eq!(rows(&table, 1..2), (0..4, 4));
        assert_eq!(rows(&table, 2..3), (2..4, 1));
        assert_eq!(rows(&table, 0..3), (0..4, 0));
        assert_eq!(rows(&table, 3..5), (5..7, 0));
        assert_eq!(rows(&table, 4..5), (5..7, 4));
        let filled = SequenceTable::of_files(4, true, &[], &files).unwrap();
        assert_eq!(filled.starts, [0, 4, 4, 7]);
        assert_eq!(rows(&filled, 3..4), (4..5, 0));
    }

    #[test]
    fn sequences_are_cut_from_the_tokens_that_are_named() {
        let files = [groups(&[&[3, 4, 0, 5, 2]]), groups(&[&[9]]), groups(&[&[4, 4]])];
        let table = SequenceTable::of_files(4, false, &[2..u64::MAX, 7..9], &files).unwrap();
        assert_eq!((&table.starts[..], table.dropped_tokens()), (&[0, 3, 3, 5][..], 2));
        assert_eq!((table.tokens(&(0..2)), table.tokens(&(4..5))), ((0, 2..10), (2, 4..8)));
        assert_eq!([2, 5, 6, 14].map(|token| table.sequence_of(0, token)), [0, 0, 1, 3]);
        assert_eq!((rows(&table, 0..1), rows(&table, 2..3)), ((0..2, 2), (2..5, 3)));
        let filled = SequenceTable::of_files(4, true, &[2..10, 7..9, 9..10], &files).unwrap();
        assert_eq!((&filled.starts[..], filled.dropped_tokens()), (&[0, 2, 3, 3][..], 0));
        assert_eq!((filled.tokens(&(1..2)), filled.tokens(&(2..3))), ((0, 6..10), (1, 7..9)));
    }

    #[test]
    fn each_row_group_has_an_anchor_at_its_beginning() {
        let files = [groups(&[&[3, 3, 3], &[], &[0, 0], &[5, 1], &[2]])];
        let table = SequenceTable::of_files(3, false, &[], &files).unwrap();
        assert_eq!(rows(&table, 2..3), (2..3, 0));
        assert_eq!(rows(&table, 3..4), (5..7, 0));
        assert_eq!(rows(&table, 4..5), (5..7, 3));
        assert_eq!(table.starts, [0, 5]);
    }

    #[test]
    fn tokens_lie_between_anchors_of_one_row_group() {
        let files = [groups(&[&[3, 3, 3], &[], &[0, 0], &[5, 1], &[2]]), groups(&[&[4]])];
        let table = SequenceTable::of_files(3, true, &[], &files).unwrap();
        assert_eq!(table.tokens(&(1..4)), (0, 3..12));
        assert_eq!(table.tokens(&(5..9)), (0, 15..17));
        assert_eq!(table.tokens(&(6..8)), (1, 0..4));
        let behind = |token, end, ordinal| {
            let number = table.anchor_before(0, token);
            let Anchor { ordinal: from, tokens } = table.anchor_of(0, number);
            let behind = table.anchor_behind(0, number, end, ordinal);
            (from, tokens, behind.ordinal, behind.tokens)
        };
        assert_eq!(behind(2, 3, 3), (0, 0, 2, 6));
        assert_eq!(behind(2, 9, 3), (0, 0, 3, 9));
        // At the end of a row group.
        assert_eq!(behind(7, 99, 3), (2, 6, 3, 9));
        assert_eq!(behind(9, 15, 7), (5, 9, 7, 15));
        assert_eq!(behind(16, 17, 8), (7, 15, 8, 17));
    }

    #[test]
    fn anchors_that_are_too_far_for_a_difference_have_a_base_of_their_own() {
        let far = u64::from(u32::MAX);
        let of = |rows, cost| Stretch { rows, cost };
        let files = [vec![vec![of(1, 3), of(2, far), of(1, 1), of(far, 0), of(2, far), of(1, 9)]]];
        let table = SequenceTable::of_files(1, false, &[], &files).unwrap();
        assert_eq!(table.bases.len(), 3);
        let end = far + 3;
        assert_eq!(rows(&table, 0..1), (0..1, 0));
        assert_eq!(rows(&table, end - 1..end), (1..3, far - 1));
        assert_eq!(rows(&table, end..end + 1), (3..4, 0));
        assert_eq!(rows(&table, end + 1..end + 2), (4 + far..6 + far, 0));
        assert_eq!(rows(&table, 2 * far + 4..2 * far + 13), (6 + far..7 + far, 0));
    }
}
