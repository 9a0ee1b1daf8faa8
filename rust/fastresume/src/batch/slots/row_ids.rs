//! The row numbers of a batch, noted as rows are written.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::slots::interleave::Move;
use crate::error::{Error, Result};
use crate::memory::vectors::{collected, filled, push, room_for, with_room};

/// The row numbers of a batch: noted as rows are written, worked out on request.
#[derive(Debug, Default)]
pub struct RowIds {
    /// Ranges of consecutive rows: where each begins in the batch, and the row numbers.
    runs: Vec<(u64, Range<u64>)>,
    /// Scattered rows: segment by segment, ascending in each.
    moves: Vec<Move>,
    /// How many rows are expected to come so.
    scattered: usize,
    /// Where the rows of each segment end among these, and which rows of the dataset it has.
    segments: Vec<(usize, Arc<[Range<u64>]>)>,
    /// Which rows can't be decoded, of those of the row groups that it takes from.
    damage: Vec<Damage>,
    /// Where the numbers of each sequence end, if rows are those of the documents of sequences.
    ends: Vec<u64>,
}

/// Rows that can't be read or decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Their numbers, counted over all files.
    pub rows: Range<u64>,
    /// Why, with column, row group and file.
    pub cause: Arc<str>,
}

impl RowIds {
    /// Nothing yet; so many rows will come scattered.
    #[must_use]
    pub fn new(scattered: usize) -> Self {
        Self { scattered, ..Self::default() }
    }

    /// Notes consecutive rows, from row `slot_row` of the batch on.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn note(&mut self, slot_row: u64, rows: Range<u64>) -> Result<()> {
        push(&mut self.runs, (slot_row, rows))
    }

    /// Notes the rows of the documents of the next sequence.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn note_documents(&mut self, rows: impl Iterator<Item = u64>) -> Result<()> {
        for row in rows {
            let place = self.runs.len() as u64;
            push(&mut self.runs, (place, row..row + 1))?;
        }
        push(&mut self.ends, self.runs.len() as u64)
    }

    /// Where the documents of each sequence begin among the row numbers, then the number of these, repeated until there are so
    /// many sequences; nothing where rows are no documents.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn document_offsets(&self, sequences: usize) -> Result<Option<Vec<u64>>> {
        let Some(&last) = self.ends.last() else { return Ok(None) };
        let mut offsets = with_room(sequences.saturating_add(1))?;
        offsets.push(0);
        for place in 0..sequences {
            let turn = (place / self.ends.len()) as u64;
            offsets.push(turn * last + self.ends[place % self.ends.len()]);
        }
        Ok(Some(offsets))
    }

    /// Notes single rows, from the first row of the batch on.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn note_each(&mut self, numbers: &[u64]) -> Result<()> {
        room_for(&mut self.runs, numbers.len())?;
        self.runs.extend((0..).zip(numbers.iter().map(|&number| number..number + 1)));
        Ok(())
    }

    /// Notes rows of a segment, ascending; the segment has the rows of `numbers`. Gives how many rows came scattered before.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn note_scattered(&mut self, moves: &[Move], numbers: &Arc<[Range<u64>]>) -> Result<usize> {
        let before = self.moves.len();
        // Of the first ones, one knows how many will follow.
        room_for(&mut self.moves, moves.len().max(if before == 0 { self.scattered } else { 0 }))?;
        self.moves.extend_from_slice(moves);
        self.segments.push((self.moves.len(), Arc::clone(numbers)));
        Ok(before)
    }

    /// Notes rows that can't be decoded, some of which may be the batch's.
    pub fn note_damage(&mut self, damage: &[Damage]) {
        for one in damage {
            if !self.damage.contains(one) {
                self.damage.push(one.clone());
            }
        }
    }

    /// Which rows can't be decoded: some of them may be other batches'.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Refuses damage of these rows; beside them it does not matter.
    ///
    /// # Errors
    /// `Data`, with the cause.
    pub fn check_undamaged(&self, rows: &[Range<u64>]) -> Result<()> {
        let is_of = |one: &&Damage| rows.iter().any(|of| of.start < one.rows.end && one.rows.start < of.end);
        match self.damage.iter().find(is_of) {
            Some(Damage { cause, .. }) => Err(Error::data(cause.to_string())),
            None => Ok(()),
        }
    }

    /// The scattered rows, in the order in which they were noted.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The row numbers in the batch's order, as runs, repeated until there are `rows` of them.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn runs(&self, rows: u64) -> Result<Vec<Range<u64>>> {
        let mut runs = collected(self.runs.iter().cloned())?;
        runs.sort_unstable_by_key(|(slot_row, _)| *slot_row);
        let mut numbers = filled(self.moves.len(), 0)?;
        self.number(&mut numbers);
        let runs = runs.into_iter().map(|(_, rows)| rows);
        repeated(collected(runs.chain(numbers.into_iter().map(|row| row..row + 1)))?, rows)
    }

    /// The row numbers of what came scattered, in its order; 0 in places where nothing came.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let rows = self.moves.iter().map(|of| of.to as usize + 1).max().unwrap_or(0);
        let mut numbers = filled(rows, 0)?;
        self.number(&mut numbers);
        Ok(numbers)
    }

    fn number(&self, numbers: &mut [u64]) {
        let mut start = 0;
        for (end, of_segment) in &self.segments {
            for (number, to) in numbered(of_segment, &self.moves[start..*end]) {
                if let Some(slot) = numbers.get_mut(to as usize) {
                    *slot = number;
                }
            }
            start = *end;
        }
    }
}

/// The row numbers of a segment's rows, and the rows of the batch that they became.
fn numbered(of_segment: &[Range<u64>], moves: &[Move]) -> impl Iterator<Item = (u64, u32)> {
    let mut stretches = of_segment.iter();
    let (mut stretch, mut first) = (0..0, 0);
    moves.iter().map(move |of| {
        let from = u64::from(of.from);
        // Both ascend.
        while from - first >= stretch.end - stretch.start {
            first += stretch.end - stretch.start;
            let Some(next) = stretches.next() else { break };
            stretch = next.clone();
        }
        (stretch.start + (from - first), of.to)
    })
}

/// The runs, repeated until they hold `rows` rows.
fn repeated(mut runs: Vec<Range<u64>>, rows: u64) -> Result<Vec<Range<u64>>> {
    let mut missing = rows - runs.iter().map(|run| run.end - run.start).sum::<u64>().min(rows);
    let mut next = 0;
    while missing > 0 && next < runs.len() {
        let run = runs[next].start..runs[next].end.min(runs[next].start + missing);
        missing -= run.end - run.start;
        push(&mut runs, run)?;
        next += 1;
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_listed_in_the_order_of_the_batch_and_again_where_it_is_filled_up() {
        let mut written = RowIds::default();
        written.note(3, 50..52).unwrap();
        written.note(0, 7..10).unwrap();
        assert_eq!(written.runs(5).unwrap(), [7..10, 50..52]);
        assert_eq!(written.runs(9).unwrap(), [7..10, 50..52, 7..10, 50..51]);
        assert_eq!(RowIds::default().runs(3).unwrap(), []);
    }

    #[test]
    fn scattered_rows_of_several_segments_are_listed_by_their_numbers() {
        let mut written = RowIds::default();
        let numbers = Arc::from([100..102, 110..111, 130..140]);
        let moves = [(1, 4), (2, 0), (5, 2), (0, 3), (1, 1)].map(|(from, to)| Move { from, to });
        assert_eq!(written.note_scattered(&moves[..3], &numbers).unwrap(), 0);
        assert_eq!(written.note_scattered(&moves[3..], &Arc::from([9..10, 10..11])).unwrap(), 3);
        assert_eq!(written.moves(), moves);
        let numbers = [110, 10, 132, 9, 101];
        assert_eq!(written.runs(5).unwrap(), numbers.map(|row| row..row + 1));
    }

    #[test]
    fn documents_are_listed_sequence_by_sequence_and_again_where_a_batch_is_filled_up() {
        let mut written = RowIds::default();
        written.note_documents([7, 8].into_iter()).unwrap();
        written.note_documents([8].into_iter()).unwrap();
        assert_eq!(written.document_offsets(5).unwrap().unwrap(), [0, 2, 3, 5, 6, 8]);
        assert_eq!(written.runs(8).unwrap(), [7, 8, 8, 7, 8, 8, 7, 8].map(|row| row..row + 1));
        assert_eq!(RowIds::default().document_offsets(2).unwrap(), None);
    }
}
