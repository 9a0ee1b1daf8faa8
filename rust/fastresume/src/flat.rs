//! Columns of one number per row.

use bytemuck::Pod;

use crate::column::{ScalarDecoder, Target, Wanted};
use crate::error::Result;
use crate::flatpages::{FlatPages, Presence};
use crate::numbers::{Numbers, as_numbers, narrowed};
use crate::values::Word;

/// A column whose pages hold `P`, delivered as `V`.
pub struct FlatDecoder<'a, P, V> {
    pages: FlatPages<'a>,
    numbers: Numbers<P, V>,
}

impl<'a, P: Word, V: Pod> FlatDecoder<'a, P, V> {
    pub fn new(pages: FlatPages<'a>, numbers: Numbers<P, V>) -> Self {
        Self { pages, numbers }
    }

    /// Fills the target; `is_wanted` tells of each of its rows whether it may be an error.
    fn fill(&mut self, target: Target<'_>, is_wanted: impl Fn(usize) -> bool) -> Result<()> {
        let mut output: &mut [V] = as_numbers(target.values)?;
        let mut valid = target.valid;
        let mut passed = 0;
        while !output.is_empty() {
            let part = self.pages.next(&mut self.numbers.values, output.len())?;
            let (places, rest) = output.split_at_mut(part.rows.len());
            let (marks, unmarked) = valid.split_at_mut(part.rows.len().min(valid.len()));
            let row_of = |index| is_wanted(passed + index).then_some(part.rows.start + index);
            match part.presence {
                Presence::All => {
                    marks.fill(1);
                    self.numbers.read(part.page, places, row_of)?;
                }
                Presence::None => {
                    marks.fill(0);
                    places.fill(narrowed(part.null_bits));
                }
                Presence::Marked(there) => {
                    there.write(marks);
                    self.numbers.read_spread(part.page, &there, narrowed(part.null_bits), places, row_of)?;
                }
            }
            passed += part.rows.len();
            (output, valid) = (rest, unmarked);
        }
        Ok(())
    }
}

impl<P: Word, V: Pod> ScalarDecoder for FlatDecoder<'_, P, V> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut self.numbers.values, rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        self.pages.left_in_page(&mut self.numbers.values)
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        self.fill(target, |_| true)
    }

    fn read_among(&mut self, target: Target<'_>, wanted: Wanted<'_>) -> Result<()> {
        self.fill(target, |index| wanted.has(index))
    }
}
