//! Which rows were written to a batch.

use std::ops::Range;
use std::sync::Arc;

/// The rows of a batch, noted as they are written to it, and told once somebody asks.
#[derive(Debug, Default)]
pub struct Written {
    /// Stretches of the batch that hold consecutive rows: where each begins, and the rows.
    runs: Vec<(u64, Range<u64>)>,
    /// Rows that came scattered, by their numbers in their segment: segment by segment, and upwards in each.
    scattered: Vec<u32>,
    /// The rows of the batch that they are.
    places: Vec<u32>,
    /// Where the rows of each segment end among these, and which rows of the dataset it has.
    segments: Vec<(usize, Arc<[Range<u64>]>)>,
}

impl Written {
    /// Notes consecutive rows, from row `slot_row` of the batch on.
    pub fn note(&mut self, slot_row: u64, rows: Range<u64>) {
        self.runs.push((slot_row, rows));
    }

    /// Notes rows of a segment, ascending, and the row of the batch that each is; the segment has the rows of `numbers`.
    /// Gives how many rows came scattered before.
    pub fn note_scattered(&mut self, rows: &[u32], places: &[u32], numbers: &Arc<[Range<u64>]>) -> usize {
        let before = self.scattered.len();
        self.scattered.extend_from_slice(rows);
        self.places.extend_from_slice(places);
        self.segments.push((self.scattered.len(), Arc::clone(numbers)));
        before
    }

    /// The row of the batch that each row is that came scattered, in the order in which they were noted.
    #[must_use]
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// The row numbers in the batch's order, as runs; over and over until there are `rows` of them.
    #[must_use]
    pub fn runs(&self, rows: u64) -> Vec<Range<u64>> {
        let mut runs = self.runs.clone();
        runs.sort_unstable_by_key(|(slot_row, _)| *slot_row);
        let mut numbers = vec![0; self.scattered.len()];
        let mut start = 0;
        for (end, of_segment) in &self.segments {
            let of = start..*end;
            let rows = numbered(of_segment, &self.scattered[of.clone()]);
            for (number, &place) in rows.zip(&self.places[of]) {
                if let Some(slot) = numbers.get_mut(place as usize) {
                    *slot = number;
                }
            }
            start = *end;
        }
        let runs = runs.into_iter().map(|(_, rows)| rows);
        repeated(runs.chain(numbers.into_iter().map(|row| row..row + 1)).collect(), rows)
    }
}

/// The numbers in the dataset of rows of a segment.
fn numbered(of_segment: &[Range<u64>], rows: &[u32]) -> impl Iterator<Item = u64> {
    let mut stretches = of_segment.iter();
    let (mut stretch, mut first) = (0..0, 0);
    rows.iter().map(move |&row| {
        let from = u64::from(row);
        // Both go up.
        while from - first >= stretch.end - stretch.start {
            first += stretch.end - stretch.start;
            let Some(next) = stretches.next() else { break };
            stretch = next.clone();
        }
        stretch.start + (from - first)
    })
}

/// The runs, over and over until they hold so many rows.
fn repeated(mut runs: Vec<Range<u64>>, rows: u64) -> Vec<Range<u64>> {
    let mut missing = rows - runs.iter().map(|run| run.end - run.start).sum::<u64>().min(rows);
    let mut next = 0;
    while missing > 0 && next < runs.len() {
        let run = runs[next].start..runs[next].end.min(runs[next].start + missing);
        missing -= run.end - run.start;
        runs.push(run);
        next += 1;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_in_the_order_of_the_batch_and_again_where_it_is_filled_up() {
        let mut written = Written::default();
        written.note(3, 50..52);
        written.note(0, 7..10);
        assert_eq!(written.runs(5), [7..10, 50..52]);
        assert_eq!(written.runs(9), [7..10, 50..52, 7..10, 50..51]);
        assert_eq!(Written::default().runs(3), []);
    }

    #[test]
    fn scattered_rows_of_several_segments_are_told_by_their_numbers() {
        let mut written = Written::default();
        let numbers = Arc::from([100..102, 110..111, 130..140]);
        assert_eq!(written.note_scattered(&[1, 2, 5], &[4, 0, 2], &numbers), 0);
        assert_eq!(written.note_scattered(&[0, 1], &[3, 1], &Arc::from([9..10, 10..11])), 3);
        assert_eq!(written.places(), [4, 0, 2, 3, 1]);
        let numbers = [110, 10, 132, 9, 101];
        assert_eq!(written.runs(5), numbers.map(|row| row..row + 1));
    }
}
