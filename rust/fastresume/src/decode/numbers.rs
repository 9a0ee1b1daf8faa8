//! Decodes the values of a page as the numbers that a tensor holds.

use bytemuck::Pod;
use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Marks, WORD};
use crate::format::encoding::number::{NumberValues, Word};
use crate::format::encoding::page_values::{Page, PageValues};
use crate::format::metadata::size_estimate::PAGE_BYTES;
use crate::memory::pool::Memory;
use crate::memory::vectors::resize;
use crate::schema::cast::NumberCast;
use crate::simd;

/// Values that are cast or spread among nulls are decoded this many at a time.
pub const STEP: usize = 1024;

/// A dictionary is cast as a whole if it has at most this many times as many entries as values were asked
/// for.
const FEW: usize = 8;

/// The largest dictionary, in bytes, that is cast as a whole: a plan counts as much for it.
const DELIVERED_BYTES: u64 = PAGE_BYTES;

/// Values whose pages hold `P`, delivered as `V`.
pub struct Numbers<P, V> {
    values: NumberValues<P>,
    delivery: NumberCast,
    dictionary: DictionaryNumbers,
    /// Values of a step, before and after they are cast.
    scratch: StepRoom<P>,
    converted: StepRoom<V>,
    /// Picked values, as the page holds them.
    picked: Vec<P>,
}

/// Room for the values of a step. It is made when it is needed first: most columns are copied as they are, and to clear
/// it for each part of a row group would cost as much as a tenth of the part.
struct StepRoom<T>(Vec<T>);

impl<T: Pod> StepRoom<T> {
    /// The room.
    ///
    /// # Errors
    /// `Argument` if there is no memory for it.
    fn get(&mut self) -> Result<&mut [T]> {
        resize(&mut self.0, STEP + simd::EXPAND_SPARE, T::zeroed())?;
        Ok(&mut self.0)
    }
}

impl<P: Word, V: Pod> Numbers<P, V> {
    /// Values of pages that are not opened yet. `P` and `V` must have the widths of the delivery.
    pub fn new(delivery: NumberCast) -> Self {
        Self {
            values: NumberValues::new(delivery.stored().is_integer()),
            delivery,
            dictionary: DictionaryNumbers::default(),
            scratch: StepRoom(Vec::new()),
            converted: StepRoom(Vec::new()),
            picked: Vec::new(),
        }
    }

    /// Fills the output with some of the next `count` values. `places` ascend, counted from the next value
    /// on. All `count` values are passed.
    ///
    /// # Errors
    /// As for [`NumberElements::read`].
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

/// The values of a dictionary, cast to the numbers that a tensor holds: each once, not as often as an index
/// names it.
#[derive(Default)]
struct DictionaryNumbers {
    numbers: Option<Memory>,
    /// The number of requested values that are looked up in the dictionary.
    asked: usize,
    /// Whether one of its values can't be cast. It may belong to no wanted row.
    has_misfit: bool,
}

impl DictionaryNumbers {
    /// Fills the output with the next values if they are dictionary indices and casting the dictionary is
    /// worth it. Returns whether it did.
    ///
    /// # Errors
    /// As for [`NumberElements::read`].
    fn read<P: Word, V: Pod>(
        &mut self,
        delivery: &NumberCast,
        values: &mut NumberValues<P>,
        page: Page<'_>,
        output: &mut [V],
    ) -> Result<bool> {
        let Some((indices, entries)) = values.indices(page) else { return Ok(false) };
        self.asked += output.len();
        let bytes = entries.len() * size_of::<V>();
        let is_worth_it = bytes as u64 <= DELIVERED_BYTES && entries.len() <= self.asked.saturating_mul(FEW);
        if self.numbers.is_none() && is_worth_it && !self.has_misfit {
            let mut numbers = Memory::lent();
            // Few different sizes, so that freed memory fits the next dictionary.
            numbers.resize(bytes.next_power_of_two())?;
            numbers.truncate(bytes);
            self.has_misfit = !delivery.write(bytemuck::cast_slice(entries), numbers.bytes_mut());
            self.numbers = (!self.has_misfit).then_some(numbers);
        }
        let Some(numbers) = &self.numbers else { return Ok(false) };
        indices.look_up(page.bytes, bytemuck::cast_slice(numbers.bytes()), output)?;
        Ok(true)
    }
}

/// The values of pages as the numbers of a tensor, one by one.
pub trait NumberElements<V> {
    /// The values, to be opened and skipped.
    fn values(&mut self) -> &mut impl PageValues;

    /// Fills the output with the next values of a page. `row_of` returns the row of a value, or `None` if it
    /// is not wanted: then it may have any value.
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

/// Divides an output into steps: which places have a value, the same in whole words, and the places.
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

impl<P: Word, V: Pod> NumberElements<V> for Numbers<P, V> {
    fn values(&mut self) -> &mut impl PageValues {
        self
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
        if self.dictionary.read(&self.delivery, &mut self.values, page, output)? {
            return Ok(());
        }
        for (step, places) in output.chunks_mut(STEP).enumerate() {
            simd::fetch_places(places);
            let numbers = &mut self.scratch.get()?[..places.len()];
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
            let scratch = self.scratch.get()?;
            if self.delivery.is_copied() {
                self.values.read(page, &mut scratch[..present])?;
                simd::expand(bytemuck::cast_slice(scratch), &words, null, places);
                continue;
            }
            let converted = self.converted.get()?;
            let (own, cast) = (&mut scratch[..present], &mut converted[..present]);
            if !self.dictionary.read(&self.delivery, &mut self.values, page, cast)? {
                self.values.read(page, own)?;
                let row_of = |index| row_of(step * STEP + marks.nth_one(index).unwrap_or(0));
                convert(&self.delivery, own, cast, row_of)?;
            }
            simd::expand(converted, &words, null, places);
        }
        Ok(())
    }
}

impl<P: Word, V> PageValues for Numbers<P, V> {
    fn open_dictionary(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        self.dictionary = DictionaryNumbers::default();
        self.values.open_dictionary(bytes, count)
    }

    fn open(&mut self, encoding: Encoding, bytes: &[u8], start: usize, count: usize) -> Result<()> {
        self.values.open(encoding, bytes, start, count)
    }

    fn check_end(&self, bytes: &[u8], count: usize) -> Result<()> {
        self.values.check_end(bytes, count)
    }

    fn is_counted(&self) -> bool {
        self.values.is_counted()
    }

    fn skip(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        self.values.skip(bytes, count)
    }
}

/// Casts all numbers to the other type.
fn convert<P: Pod, V: Pod>(
    delivery: &NumberCast,
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
            return Err(Error::refused(format!("row {row} of the row group holds {misfit}")));
        }
    }
    Ok(())
}

/// The bytes of memory as numbers.
///
/// # Errors
/// `Argument` if the memory's size or alignment does not fit them.
pub fn as_numbers<V: Pod>(memory: &mut [u8]) -> Result<&mut [V]> {
    bytemuck::try_cast_slice_mut(memory)
        .map_err(|cause| Error::Argument(format!("a slot does not fit its type: {cause}")))
}

/// The value in the lowest bits.
pub fn narrowed<V: Pod>(bits: u64) -> V {
    bytemuck::pod_read_unaligned(&bits.to_le_bytes()[..size_of::<V>()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::encoding::bit_packing::tests::pack;
    use crate::schema::buckets::Buckets;
    use crate::schema::types::Dtype;

    const ROWS: usize = 8 * 8;

    /// A page of dictionary indices. Each entry is named equally often, but the last `but` of them never.
    fn page(entries: &[u64], but: usize) -> (Vec<u8>, Vec<u64>) {
        let named: Vec<u64> =
            (0..ROWS as u64).map(|index| index * 7 % (entries.len() - but) as u64).collect();
        // Indices of 8 bits, in groups of eight.
        let mut bytes = vec![8, 2 * 8 + 1];
        bytes.extend(pack(&named, 8));
        (bytes, named.iter().map(|&index| entries[usize::try_from(index).unwrap()]).collect())
    }

    fn opened(numbers: &mut impl PageValues, bytes: &[u8], entries: &[u64]) {
        numbers.open_dictionary(bytemuck::cast_slice(entries), entries.len()).unwrap();
        numbers.open(Encoding::RLE_DICTIONARY, bytes, 0, ROWS).unwrap();
    }

    #[test]
    fn values_by_a_dictionary_are_delivered_as_each_of_them_would_be() {
        let buckets = NumberCast::hashed(Dtype::Int64, Buckets { count: 1000, seed: 3 }).unwrap();
        let cast = NumberCast::new(Dtype::Int64, Dtype::Uint64).unwrap();
        for delivery in [buckets, cast] {
            let mut numbers = Numbers::<u64, u64>::new(delivery);
            // Dictionaries that are cast at once, or later.
            for count in [1_u64, 9, 100, 200, 250] {
                for steps in [1, 3, ROWS] {
                    let entries: Vec<u64> = (0..count).map(|index| index * index + count).collect();
                    let (bytes, named) = page(&entries, 0);
                    opened(&mut numbers, &bytes, &entries);
                    let page = Page { bytes: &bytes, dictionary: bytemuck::cast_slice(&entries) };
                    let mut found = vec![0; ROWS];
                    for places in found.chunks_mut(ROWS.div_ceil(steps)) {
                        numbers.read(page, places, Some).unwrap();
                    }
                    let mut expected = vec![0; ROWS];
                    assert!(
                        delivery.write(bytemuck::cast_slice(&named), bytemuck::cast_slice_mut(&mut expected))
                    );
                    assert_eq!(found, expected, "{count} values, {steps} steps");
                }
            }
        }
    }

    #[test]
    fn a_misfit_of_a_dictionary_is_an_error_in_the_first_row_that_names_it() {
        let delivery = NumberCast::new(Dtype::Int64, Dtype::Int32).unwrap();
        let mut entries: Vec<u64> = (0..20).collect();
        entries[19] = 1 << 40;
        for but in [1, 0] {
            let mut numbers = Numbers::<u64, u32>::new(delivery);
            let (bytes, named) = page(&entries, but);
            opened(&mut numbers, &bytes, &entries);
            let page = Page { bytes: &bytes, dictionary: bytemuck::cast_slice(&entries) };
            let mut found = vec![0; ROWS];
            let read = numbers.read(page, &mut found, |index| Some(1000 + index));
            let first = named.iter().position(|&value| value == 1 << 40);
            match first {
                None => {
                    read.unwrap();
                    assert!(found.iter().zip(&named).all(|(&found, &value)| u64::from(found) == value));
                }
                Some(first) => {
                    let message = read.unwrap_err().to_string();
                    assert!(message.contains(&format!("row {} of", 1000 + first)), "{message}");
                }
            }
        }
    }
}
