//! Decodes the numbers of one data page, in any encoding.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use bytemuck::Pod;
use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::format::encoding::byte_array::of_one_length;
use crate::format::encoding::delta::deltas;
use crate::format::encoding::fallback;
use crate::format::encoding::page_values::{Page, PageValues, check_dictionary, check_values};
use crate::format::encoding::rle::{MAX_VALUES, RleHybrid};
use crate::format::encoding::varint::{ends, goes_on};
use crate::memory::vectors::room_for;

/// A number as a page holds it: its bits, whatever their type.
pub trait Word: Pod + Default {
    /// The number in the lowest bits, as delta-encoded integers come.
    fn lowest(bits: u64) -> Self;
}

macro_rules! words {
    ($($word:ty)*) => {
        $(impl Word for $word {
            #[allow(clippy::cast_possible_truncation, reason = "deltas are counted modulo the type's size")]
            fn lowest(bits: u64) -> Self {
                bits as Self
            }
        })*
    };
}

words!(u8 u16 u32 u64);

/// The values of the pages of a column chunk, and how far they were read. The caller holds the pages.
#[derive(Debug)]
pub struct NumberValues<P> {
    is_integer: bool,
    /// The number of values in the dictionary.
    dictionary: usize,
    /// The values of the current page, if they are decoded all at once.
    decoded: Vec<P>,
    /// The indices of picked values.
    indices: Vec<u32>,
    form: NumberForm,
}

/// The encoding of the current page's values.
#[derive(Debug)]
enum NumberForm {
    /// PLAIN: from byte `.0` on.
    Plain(usize),
    /// PLAIN booleans: from bit `.0` on.
    Bits(usize),
    /// Dictionary indices.
    Dictionary(RleHybrid),
    /// RLE booleans, which end before byte `.1`.
    Runs(RleHybrid, usize),
    /// `BYTE_STREAM_SPLIT`: where the values begin, how many there are, how many were read.
    Split(usize, usize, usize),
    /// All values decoded at once, and how many were read.
    Decoded(usize),
}

impl<P: Word> NumberValues<P> {
    /// The values of a chunk with no page open; `is_integer` allows delta encoding.
    pub fn new(is_integer: bool) -> Self {
        Self {
            is_integer,
            dictionary: 0,
            decoded: Vec::new(),
            indices: Vec::new(),
            form: NumberForm::Plain(0),
        }
    }

    /// The next `output.len()` values.
    ///
    /// # Errors
    /// `Data` if there are fewer, or the dictionary is too small.
    pub fn read(&mut self, page: Page<'_>, output: &mut [P]) -> Result<()> {
        let Page { bytes, dictionary } = page;
        match &mut self.form {
            NumberForm::Plain(start) => {
                let length = size_of_val(output);
                let source = bytes.get(*start..*start + length).ok_or_else(ends)?;
                bytemuck::cast_slice_mut(output).copy_from_slice(source);
                *start += length;
            }
            NumberForm::Bits(bit) => {
                let places: &mut [u8] = bytemuck::cast_slice_mut(output);
                for place in places {
                    let byte = bytes.get(*bit / 8).ok_or_else(ends)?;
                    *place = byte >> (*bit % 8) & 1;
                    *bit += 1;
                }
            }
            NumberForm::Dictionary(hybrid) => {
                hybrid.look_up(bytes, entries(dictionary, self.dictionary), output)?;
            }
            NumberForm::Runs(hybrid, end) => {
                hybrid.look_up(&bytes[..*end], bytemuck::cast_slice(&[0_u8, 1]), output)?;
            }
            NumberForm::Split(start, stride, read) => {
                let width = size_of::<P>();
                let places: &mut [u8] = bytemuck::cast_slice_mut(output);
                for byte in 0..width {
                    let first = *start + byte * *stride + *read;
                    let source = bytes.get(first..first + places.len() / width).ok_or_else(ends)?;
                    // With no values left, there is no second byte either.
                    let places = places.get_mut(byte..).unwrap_or_default();
                    for (place, &value) in places.iter_mut().step_by(width).zip(source) {
                        *place = value;
                    }
                }
                *read += places.len() / width;
            }
            NumberForm::Decoded(read) => {
                let source = self.decoded.get(*read..*read + output.len()).ok_or_else(ends)?;
                output.copy_from_slice(source);
                *read += output.len();
            }
        }
        Ok(())
    }

    /// The next indices of a page of dictionary indices, and the dictionary's values.
    pub fn indices<'p>(&mut self, page: Page<'p>) -> Option<(&mut RleHybrid, &'p [P])> {
        let NumberForm::Dictionary(indices) = &mut self.form else { return None };
        Some((indices, entries(page.dictionary, self.dictionary)))
    }

    /// Some of the next `count` values. `places` ascend, counted from the next value on. All `count` values
    /// are passed.
    ///
    /// # Errors
    /// As for `read`.
    pub fn pick(&mut self, page: Page<'_>, places: &[u32], count: usize, output: &mut [P]) -> Result<()> {
        let Page { bytes, dictionary } = page;
        let picked = output.iter_mut().zip(places);
        let width = size_of::<P>();
        match &mut self.form {
            NumberForm::Plain(start) => {
                let source = bytes.get(*start..*start + count * width).ok_or_else(ends)?;
                for (output, &place) in picked {
                    *output = bytemuck::pod_read_unaligned(&source[place as usize * width..][..width]);
                }
                *start += count * width;
            }
            NumberForm::Bits(bit) => {
                for (output, &place) in picked {
                    let bit = *bit + place as usize;
                    let byte = bytes.get(bit / 8).ok_or_else(ends)?;
                    *output = P::lowest((byte >> (bit % 8) & 1).into());
                }
                *bit += count;
            }
            NumberForm::Dictionary(hybrid) => {
                let dictionary = entries(dictionary, self.dictionary);
                hybrid.pick_from(dictionary, bytes, (places, count), &mut self.indices, output)?;
            }
            NumberForm::Runs(hybrid, end) => {
                let dictionary = [P::lowest(0), P::lowest(1)];
                hybrid.pick_from(&dictionary, &bytes[..*end], (places, count), &mut self.indices, output)?;
            }
            NumberForm::Split(start, stride, read) => {
                for (output, &place) in picked {
                    for (byte, output) in bytemuck::bytes_of_mut(output).iter_mut().enumerate() {
                        let at = *start + byte * *stride + *read + place as usize;
                        *output = *bytes.get(at).ok_or_else(ends)?;
                    }
                }
                *read += count;
            }
            NumberForm::Decoded(read) => {
                let source = self.decoded.get(*read..*read + count).ok_or_else(ends)?;
                picked.for_each(|(output, &place)| *output = source[place as usize]);
                *read += count;
            }
        }
        Ok(())
    }
}

impl<P: Word> PageValues for NumberValues<P> {
    fn open_dictionary(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        check_dictionary(bytes, count, size_of::<P>())?;
        self.dictionary = count;
        Ok(())
    }

    fn open(&mut self, encoding: Encoding, bytes: &[u8], start: usize, count: usize) -> Result<()> {
        let width = size_of::<P>();
        let is_truth = width == 1;
        let there = bytes.len().saturating_sub(start);
        let enough = |needed: usize| check_values(count, there, needed);
        self.form = match encoding {
            Encoding::PLAIN if is_truth => {
                enough(count.div_ceil(8))?;
                NumberForm::Bits(start * 8)
            }
            Encoding::PLAIN => {
                enough(count.saturating_mul(width))?;
                NumberForm::Plain(start)
            }
            // A dictionary of booleans makes no sense, and could hold other bytes.
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY if !is_truth => {
                NumberForm::Dictionary(RleHybrid::indices(bytes, start)?)
            }
            Encoding::RLE if is_truth => {
                let (first, end) = (start + 4, runs_end(bytes, start)?);
                let runs = RleHybrid::new(first, 1)?;
                if count > 0 {
                    runs.check_end(&bytes[..end], count)?;
                }
                NumberForm::Runs(runs, end)
            }
            Encoding::BYTE_STREAM_SPLIT if !is_truth => {
                enough(count.saturating_mul(width))?;
                NumberForm::Split(start, there / width, 0)
            }
            Encoding::DELTA_BINARY_PACKED if self.is_integer => {
                self.decoded.clear();
                room_for(&mut self.decoded, count.min(MAX_VALUES))?;
                let end = deltas(bytes.get(start..).unwrap_or_default(), count, |value| {
                    self.decoded.push(P::lowest(value.cast_unsigned()));
                })?;
                if end < there && count > 0 {
                    return Err(goes_on(there - end));
                }
                NumberForm::Decoded(0)
            }
            // In the specification, half-precision floats are byte arrays of two bytes.
            Encoding::DELTA_BYTE_ARRAY if width == 2 => {
                let texts = of_one_length(bytes.get(start..).unwrap_or_default(), count, width)?;
                self.decoded.clear();
                room_for(&mut self.decoded, count)?;
                self.decoded.extend(texts.chunks_exact(width).map(bytemuck::pod_read_unaligned::<P>));
                NumberForm::Decoded(0)
            }
            _ => {
                let values = bytes.get(start..).unwrap_or_default();
                fallback::decode(encoding, self.is_integer, values, count, &mut self.decoded)?;
                NumberForm::Decoded(0)
            }
        };
        Ok(())
    }

    fn check_end(&self, bytes: &[u8], count: usize) -> Result<()> {
        match &self.form {
            NumberForm::Dictionary(hybrid) => hybrid.check_end(bytes, count),
            _ => Ok(()),
        }
    }

    fn is_counted(&self) -> bool {
        matches!(self.form, NumberForm::Plain(_) | NumberForm::Split(..))
    }

    fn skip(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        match &mut self.form {
            NumberForm::Plain(start) => *start += count * size_of::<P>(),
            NumberForm::Bits(read) | NumberForm::Split(_, _, read) | NumberForm::Decoded(read) => {
                *read += count;
            }
            NumberForm::Dictionary(hybrid) => hybrid.skip(bytes, count)?,
            NumberForm::Runs(hybrid, end) => hybrid.skip(&bytes[..*end], count)?,
        }
        Ok(())
    }
}

/// The byte behind runs that have their length in front of them, at byte `start`.
///
/// # Errors
/// `Data` if the page ends before them.
fn runs_end(bytes: &[u8], start: usize) -> Result<usize> {
    let rest = bytes.get(start..).unwrap_or_default();
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(ends)?;
    let length = u32::from_le_bytes(*length) as usize;
    if length != rest.len() {
        return Err(Error::data(format!(
            "a page's runs of truth values claim {length} bytes, the page has {} left",
            rest.len()
        )));
    }
    Ok(start + 4 + length)
}

/// The `count` values of a dictionary.
fn entries<P: Pod>(dictionary: &[u8], count: usize) -> &[P] {
    bytemuck::cast_slice(&dictionary[..count * size_of::<P>()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_truth_values_end_where_their_length_says() {
        // A group of eight ones; behind it the page has another one that is in none of its runs.
        let page = |length| [length, 0, 0, 0, 3, 0xff, 3, 0xff];
        let read = |bytes: &[u8], count| {
            let mut values = NumberValues::<u8>::new(false);
            values.open(Encoding::RLE, bytes, 0, count)?;
            let mut found = vec![0; count];
            values.read(Page { bytes, dictionary: &[] }, &mut found).map(|()| found)
        };
        assert_eq!(read(&page(2)[..6], 8).unwrap(), [1; 8]);
        assert_eq!(read(&page(4), 16).unwrap(), [1; 16]);
        assert_eq!(read(&page(2)[..6], 9).unwrap_err().to_string(), "a page ends before its values do");
        assert_eq!(read(&page(4), 8).unwrap_err().to_string(), "a page has 2 bytes after its values");
        for length in [2, 5] {
            let error = read(&page(length), 8).unwrap_err().to_string();
            let expected = format!("a page's runs of truth values claim {length} bytes, the page has 4 left");
            assert_eq!(error, expected);
        }
    }
}
