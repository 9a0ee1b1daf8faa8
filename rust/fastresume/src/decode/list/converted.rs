//! The elements of lists that are held as values of one length, and become numbers: INT96.

use bytemuck::Pod;

use crate::decode::convert::Converter;
use crate::decode::flat::fixed_len::FixedValues;
use crate::decode::numbers::{Elements, STEP, steps};
use crate::error::Result;
use crate::format::encoding::bitmap::Marks;
use crate::format::encoding::page_values::{Page, PageValues};
use crate::simd;

/// The numbers of values of one length.
pub struct ConvertedValues {
    values: FixedValues,
    converter: Converter,
}

impl ConvertedValues {
    /// Values of `length` bytes (not 0).
    pub fn new(length: usize, converter: Converter) -> Self {
        Self { values: FixedValues::new(length, false), converter }
    }
}

impl<V: Pod> Elements<V> for ConvertedValues {
    fn values(&mut self) -> &mut impl PageValues {
        &mut self.values
    }

    fn read(
        &mut self,
        page: Page<'_>,
        output: &mut [V],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        let (converter, count) = (self.converter, output.len());
        let mut places = output.iter_mut().enumerate();
        self.values.each(page, count, |value| {
            let Some((index, place)) = places.next() else { return Ok(()) };
            let row = row_of(index);
            let fits = converter.convert(value, bytemuck::bytes_of_mut(place), row.unwrap_or(0));
            // One that nobody wants may be any.
            if row.is_some() { fits } else { Ok(()) }
        })
    }

    fn read_spread(
        &mut self,
        page: Page<'_>,
        there: &Marks<'_>,
        null: V,
        output: &mut [V],
        row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        let mut scratch = [V::zeroed(); STEP + simd::EXPAND_SPARE];
        for (step, (marks, words, places)) in steps(there, output).enumerate() {
            let row_of = |index| row_of(step * STEP + marks.nth_one(index).unwrap_or(0));
            self.read(page, &mut scratch[..marks.ones()], row_of)?;
            simd::expand(&scratch, &words, null, places);
        }
        Ok(())
    }
}
