//! Columns of one number per row.

use bytemuck::Pod;

use crate::column::{ScalarDecoder, Target};
use crate::error::Result;
use crate::flatpages::{FlatPages, Presence};
use crate::numbers::{Numbers, as_numbers, narrowed};
use crate::values::Word;

/// A column whose pages hold `P`, delivered as `V`.
pub struct FlatDecoder<'a, P, V, F> {
    pages: FlatPages<'a>,
    numbers: Numbers<P, V, F>,
}

impl<'a, P: Word, V: Pod, F: Fn(P) -> Option<V>> FlatDecoder<'a, P, V, F> {
    pub fn new(pages: FlatPages<'a>, numbers: Numbers<P, V, F>) -> Self {
        Self { pages, numbers }
    }
}

impl<P: Word, V: Pod, F: Fn(P) -> Option<V>> ScalarDecoder for FlatDecoder<'_, P, V, F> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut self.numbers.values, rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        self.pages.left_in_page(&mut self.numbers.values)
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let mut output: &mut [V] = as_numbers(target.values)?;
        let mut valid = target.valid;
        while !output.is_empty() {
            let part = self.pages.next(&mut self.numbers.values, output.len())?;
            let (places, rest) = output.split_at_mut(part.rows.len());
            let (marks, unmarked) = valid.split_at_mut(part.rows.len().min(valid.len()));
            let row_of = |index| part.rows.start + index;
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
            (output, valid) = (rest, unmarked);
        }
        Ok(())
    }
}
