//! Decodes flat columns of numbers.

use bytemuck::Pod;

use crate::decode::decoder::{ScalarDecoder, Target, Wanted, mark_all};
use crate::decode::flat::pages::{FlatPages, Presence};
use crate::decode::numbers::{NumberElements, Numbers, as_numbers, narrowed};
use crate::error::Result;
use crate::format::encoding::number::Word;

/// A flat column whose pages hold `P`, delivered as `V`.
pub struct NumberDecoder<'a, P, V> {
    pages: FlatPages<'a>,
    numbers: Numbers<P, V>,
    /// The places of picked values among the rows of their page, and among its values.
    places: Vec<u32>,
    /// Which of them are not null, and their values.
    there: Vec<usize>,
    picked: Vec<V>,
}

impl<'a, P: Word, V: Pod> NumberDecoder<'a, P, V> {
    pub fn new(pages: FlatPages<'a>, numbers: Numbers<P, V>) -> Self {
        Self { pages, numbers, places: Vec::new(), there: Vec::new(), picked: Vec::new() }
    }
}

/// Fills the target with the next rows. `is_wanted` tells whether a row is wanted: only a wanted row's value
/// may be an error.
///
/// # Errors
/// The errors of the pages and of the numbers.
pub fn fill<V: Pod, E: NumberElements<V>>(
    pages: &mut FlatPages<'_>,
    numbers: &mut E,
    target: Target<'_>,
    is_wanted: impl Fn(usize) -> bool,
) -> Result<()> {
    let mut output: &mut [V] = as_numbers(target.values)?;
    let mut valid = target.valid;
    let mut passed = 0;
    while !output.is_empty() {
        let part = pages.next(numbers.values(), output.len())?;
        let (places, rest) = output.split_at_mut(part.rows.len());
        let (marks, unmarked) = valid.split_at_mut(part.rows.len().min(valid.len()));
        let row_of = |index| is_wanted(passed + index).then_some(part.rows.start + index);
        match part.presence {
            Presence::All => {
                mark_all(marks, 1);
                numbers.read(part.page, places, row_of)?;
            }
            Presence::None => {
                mark_all(marks, 0);
                places.fill(narrowed(part.null_bits));
            }
            Presence::Marked(there) => {
                there.write(marks);
                numbers.read_spread(part.page, &there, narrowed(part.null_bits), places, row_of)?;
            }
        }
        passed += part.rows.len();
        (output, valid) = (rest, unmarked);
    }
    Ok(())
}

impl<P: Word, V: Pod> ScalarDecoder for NumberDecoder<'_, P, V> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut self.numbers, rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        self.pages.left_in_page(&mut self.numbers)
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        fill(&mut self.pages, &mut self.numbers, target, |_| true)
    }

    fn read_among(&mut self, target: Target<'_>, wanted: Wanted<'_>) -> Result<()> {
        fill(&mut self.pages, &mut self.numbers, target, |index| wanted.has(index))
    }

    fn pick(&mut self, places: &[u32], target: Target<'_>) -> Result<()> {
        let mut output: &mut [V] = as_numbers(target.values)?;
        let (mut valid, mut left) = (target.valid, places);
        let mut passed = 0;
        while let Some(&first) = left.first() {
            self.skip(first as usize - passed)?;
            let in_page = self.page_rows()?;
            let inside = left.partition_point(|&place| ((place - first) as usize) < in_page);
            let (some, rest) = left.split_at(inside);
            let count = (some[inside - 1] - first) as usize + 1;
            let part = self.pages.next(&mut self.numbers, count)?;
            let (outputs, others) = output.split_at_mut(inside);
            let (marks, unmarked) = valid.split_at_mut(inside.min(valid.len()));
            self.places.clear();
            match part.presence {
                Presence::All => {
                    mark_all(marks, 1);
                    self.places.extend(some.iter().map(|place| place - first));
                    let row_of = |index: usize| Some(part.rows.start + (some[index] - first) as usize);
                    self.numbers.pick(part.page, &self.places, count, outputs, row_of)?;
                }
                Presence::None => {
                    mark_all(marks, 0);
                    outputs.fill(narrowed(part.null_bits));
                }
                Presence::Marked(there) => {
                    self.there.clear();
                    let mut present = 0;
                    let ranks = there.ranks(some.iter().map(|place| (place - first) as usize));
                    for (index, (is_there, before)) in ranks.enumerate() {
                        if is_there {
                            self.there.push(index);
                            self.places.push(u32::try_from(before).unwrap_or(u32::MAX));
                        }
                        present = before + usize::from(is_there);
                    }
                    outputs.fill(narrowed(part.null_bits));
                    mark_all(marks, 0);
                    self.picked.resize(self.places.len(), V::zeroed());
                    let row_of =
                        |index: usize| Some(part.rows.start + (some[self.there[index]] - first) as usize);
                    self.numbers.pick(part.page, &self.places, present, &mut self.picked, row_of)?;
                    for (&index, &value) in self.there.iter().zip(&self.picked) {
                        outputs[index] = value;
                        if let Some(mark) = marks.get_mut(index) {
                            *mark = 1;
                        }
                    }
                }
            }
            passed = first as usize + count;
            (output, valid, left) = (others, unmarked, rest);
        }
        Ok(())
    }
}
