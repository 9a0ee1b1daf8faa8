//! The values of a page as the numbers that a tensor holds.

use bytemuck::Pod;

use crate::bits::{Marks, WORD};
use crate::column::{Page, PageValues};
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::values::{Values, Word};
use crate::vector;

/// Values that are converted or spread out are decoded so many at a time.
pub const STEP: usize = 1024;

/// Values whose pages hold `P`, delivered as `V`.
pub struct Numbers<P, V> {
    pub values: Values<P>,
    delivery: Delivery,
    scratch: [P; STEP + vector::EXPAND_SPARE],
    converted: [V; STEP + vector::EXPAND_SPARE],
    /// Values that were picked, as the page holds them.
    picked: Vec<P>,
}

impl<P: Word, V: Pod> Numbers<P, V> {
    /// Values that were not opened yet; the delivery's numbers have the bytes of these types.
    pub fn new(delivery: Delivery) -> Self {
        Self {
            values: Values::new(delivery.stored().is_integer()),
            delivery,
            scratch: [P::default(); STEP + vector::EXPAND_SPARE],
            converted: [V::zeroed(); STEP + vector::EXPAND_SPARE],
            picked: Vec::new(),
        }
    }

    /// Fills the output with some of the next `count` values, ascending ones that are counted from the next one
    /// on; all of them are passed.
    ///
    /// # Errors
    /// As for [`Elements::read`].
    pub fn pick(
        &mut self,
        page: Page<'_>,
        places: &[u32],
        count: usize,
        output: &mut [V],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        if self.delivery.is_copied() {
            return self.values.pick(page, places, count, bytemuck::cast_slice_mut(output));
        }
        self.picked.resize(places.len(), P::default());
        self.values.pick(page, places, count, &mut self.picked)?;
        convert(&self.delivery, &self.picked, output, row_of)
    }
}

/// The values of pages as the numbers of a tensor, one by one.
pub trait Elements<V> {
    /// The values, to be opened and passed.
    fn values(&mut self) -> &mut impl PageValues;

    /// Fills the output with the next values of a page; `row_of` tells the row of each, or that nobody wants it,
    /// so that it may be anything.
    ///
    /// # Errors
    /// `Data` if there are fewer, or one does not fit its type.
    fn read(
        &mut self,
        page: Page<'_>,
        output: &mut [V],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()>;

    /// Fills the output with the next values where `there` is 1, and with `null` where it is 0.
    ///
    /// # Errors
    /// As for `read`.
    fn read_spread(
        &mut self,
        page: Page<'_>,
        there: &Marks<'_>,
        null: V,
        output: &mut [V],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()>;
}

/// The places of an output, a step at a time: which of them have a value, the same in whole words, and the places.
pub fn steps<'a, V: Pod>(
    there: &'a Marks<'_>,
    output: &'a mut [V],
) -> impl Iterator<Item = (Marks<'a>, [u64; STEP / WORD], &'a mut [V])> {
    output.chunks_mut(STEP).enumerate().map(|(step, places)| {
        let marks = there.part(step * STEP..step * STEP + places.len());
        let mut words = [0; STEP / WORD];
        words.iter_mut().zip(marks.words()).for_each(|(place, word)| *place = word);
        (marks, words, places)
    })
}

impl<P: Word, V: Pod> Elements<V> for Numbers<P, V> {
    fn values(&mut self) -> &mut impl PageValues {
        &mut self.values
    }

    fn read(
        &mut self,
        page: Page<'_>,
        output: &mut [V],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        if self.delivery.is_copied() {
            return self.values.read(page, bytemuck::cast_slice_mut(output));
        }
        for (step, places) in output.chunks_mut(STEP).enumerate() {
            vector::fetch_places(places);
            let numbers = &mut self.scratch[..places.len()];
            self.values.read(page, numbers)?;
            convert(&self.delivery, numbers, places, |index| row_of(step * STEP + index))?;
        }
        Ok(())
    }

    fn read_spread(
        &mut self,
        page: Page<'_>,
        there: &Marks<'_>,
        null: V,
        output: &mut [V],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        for (step, (marks, words, places)) in steps(there, output).enumerate() {
            let present = marks.ones();
            self.values.read(page, &mut self.scratch[..present])?;
            if self.delivery.is_copied() {
                vector::expand(bytemuck::cast_slice(&self.scratch), &words, null, places);
                continue;
            }
            let row_of = |index| row_of(step * STEP + marks.nth_one(index).unwrap_or(0));
            convert(&self.delivery, &self.scratch[..present], &mut self.converted[..present], row_of)?;
            vector::expand(&self.converted, &words, null, places);
        }
        Ok(())
    }
}

/// Writes all numbers as those of the other type.
fn convert<P: Pod, V: Pod>(
    delivery: &Delivery,
    numbers: &[P],
    places: &mut [V],
    row_of: impl Fn(usize) -> Option<usize>,
) -> Result<()> {
    if delivery.write(bytemuck::cast_slice(numbers), bytemuck::cast_slice_mut(places)) {
        return Ok(());
    }
    for (index, (number, place)) in numbers.iter().zip(places).enumerate() {
        let number = bytemuck::bytes_of(number);
        if !delivery.write(number, bytemuck::bytes_of_mut(place))
            && let Some(row) = row_of(index)
        {
            let misfit = delivery.misfit(number);
            return Err(Error::data(format!("row {row} of the row group holds {misfit}")));
        }
    }
    Ok(())
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
