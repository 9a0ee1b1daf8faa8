//! The values of a page as the numbers that a tensor holds.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::column::Page;
use crate::error::{Error, Result};
use crate::values::{Values, Word};

/// Values that are converted or spread out are decoded so many at a time.
const STEP: usize = 1024;

/// Values whose pages hold `P`, delivered as `V`.
pub struct Numbers<P, V, F> {
    pub values: Values<P>,
    /// The value of the bits; none if they do not fit its type. Of types of one size it is never asked.
    convert: F,
    scratch: [P; STEP],
    _delivered: PhantomData<V>,
}

impl<P: Word, V: Pod, F: Fn(P) -> Option<V>> Numbers<P, V, F> {
    pub fn new(values: Values<P>, convert: F) -> Self {
        Self { values, convert, scratch: [P::default(); STEP], _delivered: PhantomData }
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
        there: &[u8],
        null: V,
        output: &mut [V],
        row_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        for (step, (places, there)) in output.chunks_mut(STEP).zip(there.chunks(STEP)).enumerate() {
            self.values.read(page, &mut self.scratch[..bytecount::count(there, 1)])?;
            let mut next = 0;
            for (index, (place, &is_there)) in places.iter_mut().zip(there).enumerate() {
                let bits = self.scratch[next % STEP];
                *place = if is_there == 0 {
                    null
                } else if size_of::<P>() == size_of::<V>() {
                    bytemuck::cast(bits)
                } else {
                    (self.convert)(bits).ok_or_else(|| misfit(row_of(step * STEP + index), bits))?
                };
                next += usize::from(is_there);
            }
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
