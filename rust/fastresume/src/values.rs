//! The values of one data page, in whatever encoding, as plain numbers.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use bytemuck::Pod;
use parquet::basic::Encoding;

use crate::error::{Error, Result};
use crate::hybrid::{CHUNK, Hybrid, Next, single, unpack, varint};

/// A number as a page holds it.
pub trait Number: Pod + Default + std::fmt::Debug {
    /// Its bits in a wider one, or back: only what is an integer comes delta-encoded.
    fn of_integer(integer: i64) -> Option<Self>;
}

macro_rules! numbers {
    ($($integer:ty)*; $($other:ty)*) => {
        $(impl Number for $integer {
            #[allow(clippy::cast_possible_truncation, reason = "deltas are counted modulo the type's size")]
            fn of_integer(integer: i64) -> Option<Self> {
                Some(integer as Self)
            }
        })*
        $(impl Number for $other {
            fn of_integer(_: i64) -> Option<Self> {
                None
            }
        })*
    };
}

// Two bytes are the bits of a half-precision float, one byte is a truth value.
numbers!(i32 i64; f32 f64 u16 u8);

/// The values of a page, as far as they were read. The page's bytes are the caller's.
#[derive(Debug, Clone)]
pub enum Values<P> {
    /// From byte `.0` on.
    Plain(usize),
    /// Truth values, from bit `.0` on.
    Bits(usize),
    /// Indices to the dictionary.
    Dictionary(Hybrid),
    /// Truth values in runs.
    Runs(Hybrid),
    /// Byte k of all values together: where they begin, how many there are, how many were read.
    Split(usize, usize, usize),
    /// Decoded all at once, as far as they were read.
    Decoded(Vec<P>, usize),
}

impl<P: Number> Values<P> {
    /// The `count` values that begin at byte `start` of a page; none if the encoding is not one for them.
    ///
    /// # Errors
    /// `Data` if the page is too short, or contradicts itself.
    pub fn new(encoding: Encoding, bytes: &[u8], start: usize, count: usize) -> Result<Option<Self>> {
        let width = size_of::<P>();
        let is_truth = width == 1;
        let there = bytes.len().saturating_sub(start);
        let enough = |needed: usize| {
            if there < needed {
                return Err(Error::data(format!(
                    "a page of {count} values has {there} bytes for them, {needed} are needed"
                )));
            }
            Ok(())
        };
        Ok(Some(match encoding {
            Encoding::PLAIN if is_truth => {
                enough(count.div_ceil(8))?;
                Self::Bits(start * 8)
            }
            Encoding::PLAIN => {
                enough(count.saturating_mul(width))?;
                Self::Plain(start)
            }
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                // A page of no values may leave out the width.
                let bits = bytes.get(start).copied().unwrap_or(0);
                Self::Dictionary(Hybrid::new(start + 1, usize::from(bits))?)
            }
            Encoding::RLE if is_truth => {
                enough(4)?;
                Self::Runs(Hybrid::new(start + 4, 1)?)
            }
            Encoding::BYTE_STREAM_SPLIT if !is_truth => {
                enough(count.saturating_mul(width))?;
                Self::Split(start, there / width, 0)
            }
            Encoding::DELTA_BINARY_PACKED if P::of_integer(0).is_some() => {
                Self::Decoded(deltas(&bytes[start.min(bytes.len())..], count)?, 0)
            }
            _ => return Ok(None),
        }))
    }

    /// Passes over `count` values.
    ///
    /// # Errors
    /// `Data` if there are fewer.
    pub fn skip(&mut self, bytes: &[u8], count: usize) -> Result<()> {
        match self {
            Self::Plain(start) => *start += count * size_of::<P>(),
            Self::Bits(read) | Self::Split(_, _, read) | Self::Decoded(_, read) => *read += count,
            Self::Dictionary(hybrid) | Self::Runs(hybrid) => hybrid.skip(bytes, count)?,
        }
        Ok(())
    }

    /// The next `output.len()` values.
    ///
    /// # Errors
    /// `Data` if there are fewer, or the dictionary is too small.
    pub fn read(&mut self, bytes: &[u8], dictionary: &[P], output: &mut [P]) -> Result<()> {
        let ends = || Error::data("a page ends before its values do");
        match self {
            Self::Plain(start) => {
                let length = size_of_val(output);
                let source = bytes.get(*start..*start + length).ok_or_else(ends)?;
                bytemuck::cast_slice_mut(output).copy_from_slice(source);
                *start += length;
            }
            Self::Bits(bit) => {
                let places: &mut [u8] = bytemuck::cast_slice_mut(output);
                for place in places {
                    let byte = bytes.get(*bit / 8).ok_or_else(ends)?;
                    *place = byte >> (*bit % 8) & 1;
                    *bit += 1;
                }
            }
            Self::Dictionary(hybrid) => look_up(hybrid, bytes, dictionary, output)?,
            Self::Runs(hybrid) => look_up(hybrid, bytes, bytemuck::cast_slice(&[0_u8, 1]), output)?,
            Self::Split(start, stride, read) => {
                let width = size_of::<P>();
                let places: &mut [u8] = bytemuck::cast_slice_mut(output);
                for byte in 0..width {
                    let first = *start + byte * *stride + *read;
                    let source = bytes.get(first..first + places.len() / width).ok_or_else(ends)?;
                    for (place, &value) in places[byte..].iter_mut().step_by(width).zip(source) {
                        *place = value;
                    }
                }
                *read += places.len() / width;
            }
            Self::Decoded(values, read) => {
                let source = values.get(*read..*read + output.len()).ok_or_else(ends)?;
                output.copy_from_slice(source);
                *read += output.len();
            }
        }
        Ok(())
    }
}

/// The values of the dictionary that the next indices of a hybrid name.
fn look_up<P: Number>(hybrid: &mut Hybrid, bytes: &[u8], dictionary: &[P], output: &mut [P]) -> Result<()> {
    let mut indices = [0; CHUNK];
    let mut done = 0;
    let missing = |index: u32| {
        Error::data(format!("a page names value {index} of a dictionary that has {}", dictionary.len()))
    };
    while done < output.len() {
        match hybrid.next(bytes, output.len() - done, &mut indices)? {
            Next::Repeated(index, count) => {
                let value = dictionary.get(index as usize).ok_or_else(|| missing(index))?;
                output[done..done + count].fill(*value);
                done += count;
            }
            Next::Unpacked(count) => {
                let largest = indices[..count].iter().copied().fold(0, u32::max);
                if largest as usize >= dictionary.len() {
                    return Err(missing(largest));
                }
                for (place, &index) in output[done..done + count].iter_mut().zip(&indices[..count]) {
                    *place = dictionary[index as usize];
                }
                done += count;
            }
        }
    }
    Ok(())
}

/// All values of a delta-encoded page.
fn deltas<P: Number>(bytes: &[u8], count: usize) -> Result<Vec<P>> {
    let damaged = |what: &str| Error::data(format!("a delta-encoded page {what}"));
    let mut position = 0;
    let block_values = varint(bytes, &mut position)?;
    let blocks = varint(bytes, &mut position)?;
    let stated = varint(bytes, &mut position)?;
    let mut value = zigzag(varint(bytes, &mut position)?);
    let block = usize::try_from(block_values).ok().filter(|values| *values <= 1 << 20);
    let parts = usize::try_from(blocks).ok().filter(|&parts| (1..=1 << 10).contains(&parts));
    let (Some(block), Some(parts)) = (block, parts) else {
        return Err(damaged(&format!("claims blocks of {block_values} values in {blocks} parts")));
    };
    let each = block / parts;
    if each == 0 || each % 8 != 0 || each * parts != block || stated < count as u64 {
        return Err(damaged(&format!(
            "claims {stated} values (its header {count}), in blocks of {block} in {parts} parts"
        )));
    }
    let mut values = Vec::with_capacity(count);
    let mut packed = [0; CHUNK];
    let push = |values: &mut Vec<P>, value: i64| values.extend(P::of_integer(value));
    if count > 0 {
        push(&mut values, value);
    }
    while values.len() < count {
        let least = zigzag(varint(bytes, &mut position)?);
        let widths = bytes.get(position..position + parts).ok_or_else(|| damaged("ends early"))?;
        position += parts;
        for &width in widths {
            if values.len() == count {
                break;
            }
            let width = usize::from(width);
            if width > 64 {
                return Err(damaged(&format!("packs differences of {width} bits")));
            }
            // What fills up the last part may be left out.
            let wanted = each.min(count - values.len());
            let source = bytes.get(position..).unwrap_or_default();
            if (wanted * width).div_ceil(8) > source.len() {
                return Err(damaged("ends early"));
            }
            let mut index = 0;
            while index < wanted {
                let some = CHUNK.min(wanted - index);
                if width <= 32 {
                    unpack(source, width, index, &mut packed[..some]);
                    for &delta in &packed[..some] {
                        value = value.wrapping_add(least).wrapping_add(i64::from(delta));
                        push(&mut values, value);
                    }
                } else {
                    for place in index..index + some {
                        let delta = single(source, width, place).cast_signed();
                        value = value.wrapping_add(least).wrapping_add(delta);
                        push(&mut values, value);
                    }
                }
                index += some;
            }
            position += each * width / 8;
        }
    }
    Ok(values)
}

fn zigzag(word: u64) -> i64 {
    (word >> 1).cast_signed() ^ -(word & 1).cast_signed()
}
