//! The values of a page as the numbers that a tensor holds.

use bytemuck::Pod;

use crate::bits::{Marks, WORD};
use crate::column::Page;
use crate::error::{Error, Result};
use crate::values::{Values, Word};
use crate::vector;

/// Values that are converted or spread out are decoded so many at a time.
const STEP: usize = 1024;

/// Values whose pages hold `P`, delivered as `V`.
pub struct Numbers<P, V, F> {
    pub values: Values<P>,
    /// The value of the bits; none if they do not fit its type. Of types of one size it is never asked.
    convert: F,
    scratch: [P; STEP + vector::EXPAND_SPARE],
    converted: [V; STEP + vector::EXPAND_SPARE],
}

impl<P: Word, V: Pod, F: Fn(P) -> Option<V>> Numbers<P, V, F> {
    pub fn new(values: Values<P>, convert: F) -> Self {
        Self {
            values,
            convert,
            scratch: [P::default(); STEP + vector::EXPAND_SPARE],
            converted: [V::zeroed(); STEP + vector::EXPAND_SPARE],
        }
    }

    /// Fills the output with the next values of a page; `row_of` tells the row of each.
    ///
    /// # Errors
    /// `Data` if there are fewer, or one does not fit its type.
    pub fn read(&mut self, page: Page<'_>, output: &mut [V], row_of: impl Fn(usize) -> usize) -> Result<()> {
        if size_of::<P>() == size_of::<V>() {
            return self.values.read(page, bytemuck::cast_slice_mut(output));
        }
        for (step, places) in output.chunks_mut(STEP).enumerate() {
            let scratch = &mut self.scratch[..places.len()];
            self.values.read(page, scratch)?;
            for (index, (place, &bits)) in places.iter_mut().zip(scratch.iter()).enumerate() {
                *place = (self.convert)(bits).ok_or_else(|| misfit(row_of(step * STEP + index), bits))?;
            }
        }
        Ok(())
    }

    /// Fills the output with the next values where `there` is 1, and with `null` where it is 0.
    ///
    /// # Errors
    /// As for `read`.
    pub fn read_spread(
        &mut self,
        page: Page<'_>,
        there: &Marks<'_>,
        null: V,
        output: &mut [V],
        row_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        for (step, places) in output.chunks_mut(STEP).enumerate() {
            let marks = there.part(step * STEP..step * STEP + places.len());
            let mut words = [0; STEP / WORD];
            words.iter_mut().zip(marks.words()).for_each(|(place, word)| *place = word);
            let present = marks.ones();
            self.values.read(page, &mut self.scratch[..present])?;
            if size_of::<P>() == size_of::<V>() {
                vector::expand(bytemuck::cast_slice(&self.scratch), &words, null, places);
                continue;
            }
            for (index, (place, &bits)) in self.converted.iter_mut().zip(&self.scratch[..present]).enumerate()
            {
                let row = || row_of(step * STEP + marks.nth_one(index).unwrap_or(0));
                *place = (self.convert)(bits).ok_or_else(|| misfit(row(), bits))?;
            }
            vector::expand(&self.converted, &words, null, places);
        }
        Ok(())
    }
}

/// The memory of numbers as these.
///
/// # Errors
/// `Argument` if it is none of theirs.
pub fn as_numbers<V: Pod>(memory: &mut [u8]) -> Result<&mut [V]> {
    bytemuck::try_cast_slice_mut(memory)
        .map_err(|cause| Error::Argument(format!("a slot does not fit its type: {cause}")))
}

/// The value of the lowest bits.
pub fn narrowed<V: Pod>(bits: u64) -> V {
    bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<V>()])
}

/// What is said of a number that its column's type can't hold: only those of 32 bits may be too large.
fn misfit<P: Word>(row: usize, bits: P) -> Error {
    let value = bytemuck::bytes_of(&bits).first_chunk::<4>().map_or(0, |bytes| i32::from_le_bytes(*bytes));
    Error::data(format!("row {row} of the row group holds {value}, which does not fit the column's type"))
}
