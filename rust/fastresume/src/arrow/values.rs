//! Values of arrays in the form that a page of plain values has.

use std::ops::Range;

use parquet::basic::Type as Physical;

use crate::arrow::array::{Array, bit, contradicts};
use crate::arrow::bits::Bits;
use crate::arrow::field::{ArrowForm, Meaning};
use crate::arrow::levels::At;
use crate::error::{Error, Result};
use crate::memory::vectors::{resize, room_for};

/// Milliseconds of a day.
const DAY_MILLIS: i64 = 86_400_000;

/// How a file of the same rows holds values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredValues {
    /// Their type.
    pub physical: Physical,
    /// The bytes of each, if they have one length that the type does not tell.
    pub length: usize,
}

impl StoredValues {
    /// Bytes of a value; 0 of bits and of those that differ in length.
    fn width(self) -> usize {
        match self.physical {
            Physical::INT32 | Physical::FLOAT => 4,
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => 12,
            Physical::FIXED_LEN_BYTE_ARRAY => self.length,
            Physical::BOOLEAN | Physical::BYTE_ARRAY => 0,
        }
    }
}

/// Appends the values that are there, as a page of plain values holds them.
///
/// # Errors
/// `Data` if the array contradicts itself, or a value does not fit.
pub fn add(
    form: ArrowForm,
    array: &Array,
    at: &At,
    stored: StoredValues,
    output: &mut Vec<u8>,
) -> Result<()> {
    match form {
        // Where nothing is there, buffers may end before the place where it would be.
        _ if at.count() == 0 => Ok(()),
        ArrowForm::Bool => add_bits(array, at, output),
        ArrowForm::Bytes { .. } | ArrowForm::Views => add_texts(form, array, at, output),
        ArrowForm::Fixed(width, meaning) => add_fixed((width, meaning), array, at, stored, output),
        _ => Err(contradicts("it has no values of its own")),
    }
}

/// Where in the buffer of an array some values lie, if a page of plain values holds these very bytes.
///
/// # Errors
/// `Data` if the buffer ends before them.
pub fn same(
    form: ArrowForm,
    array: &Array,
    (start, length): (usize, usize),
    stored: StoredValues,
) -> Result<Option<Range<usize>>> {
    let ArrowForm::Fixed(width, Meaning::Same | Meaning::Integer { .. }) = form else { return Ok(None) };
    if width != stored.width() {
        return Ok(None);
    }
    let first = array.offset.checked_add(start).and_then(|first| first.checked_mul(width));
    let places =
        first.zip(length.checked_mul(width)).and_then(|(first, all)| Some(first..first.checked_add(all)?));
    let outside = || contradicts("its values end too early");
    let bytes = array.buffer(0)?.len();
    places.filter(|places| places.end <= bytes).map(Some).ok_or_else(outside)
}

fn add_bits(array: &Array, at: &At, output: &mut Vec<u8>) -> Result<()> {
    let bits = array.buffer(0)?;
    room_for(output, at.count().div_ceil(8))?;
    if let At::Run(start, length) = *at {
        let run = Bits::sliced(bits, array.offset + start, length)?;
        output.extend_from_slice(run.ok_or_else(|| contradicts("its bits end before its values"))?.bytes());
        return Ok(());
    }
    let (mut byte, mut filled) = (0_u8, 0);
    at.each(|place| {
        let set =
            bit(bits, array.offset + place).ok_or_else(|| contradicts("its bits end before its values"))?;
        byte |= u8::from(set) << filled;
        filled += 1;
        if filled == 8 {
            output.push(byte);
            (byte, filled) = (0, 0);
        }
        Ok(())
    })?;
    if filled > 0 {
        output.push(byte);
    }
    Ok(())
}

fn add_texts(form: ArrowForm, array: &Array, at: &At, output: &mut Vec<u8>) -> Result<()> {
    at.each(|place| {
        let text = array.text(form, place)?;
        let length = u32::try_from(text.len()).map_err(|_| {
            Error::refused(format!("a value has {} bytes, at most 2^32 are read", text.len()))
        })?;
        room_for(output, 4 + text.len())?;
        output.extend_from_slice(&length.to_le_bytes());
        output.extend_from_slice(text);
        Ok(())
    })
}

fn add_fixed(
    (width, meaning): (usize, Meaning),
    array: &Array,
    at: &At,
    stored: StoredValues,
    output: &mut Vec<u8>,
) -> Result<()> {
    let (bytes, wide) = (array.buffer(0)?, stored.width());
    let outside = || contradicts("its values end too early");
    let value = |place: usize| {
        let start = (array.offset + place).checked_mul(width).ok_or_else(outside)?;
        bytes.get(start..start + width).ok_or_else(outside)
    };
    let run = |start: usize, count: usize| {
        let first = (array.offset + start).checked_mul(width).ok_or_else(outside)?;
        let end = count.checked_mul(width).and_then(|all| first.checked_add(all));
        bytes.get(first..end.ok_or_else(outside)?).ok_or_else(outside)
    };
    room_for(output, at.count().saturating_mul(wide))?;
    match meaning {
        Meaning::Same | Meaning::Integer { .. } if width == wide => match at {
            At::Run(start, length) => {
                output.extend_from_slice(run(*start, *length)?);
                Ok(())
            }
            At::Some(start, there) if width == 4 => add_some::<4>(run(*start, there.count())?, there, output),
            At::Some(start, there) if width == 8 => add_some::<8>(run(*start, there.count())?, there, output),
            At::Some(..) | At::Each(_) => {
                macro_rules! of {
                    ($($width:literal)*) => {
                        match width {
                            $($width => at.each(|place| {
                                let value: &[u8; $width] = value(place)?.first_chunk().ok_or_else(outside)?;
                                output.extend_from_slice(value);
                                Ok(())
                            }),)*
                            _ => at.each(|place| {
                                output.extend_from_slice(value(place)?);
                                Ok(())
                            }),
                        }
                    };
                }
                of!(2 4 8 16)
            }
        },
        Meaning::Integer { is_signed } if wide == 4 && width < 4 => match (at, width, is_signed) {
            (At::Run(start, length), 1, true) => {
                add_wider(run(*start, *length)?, |of| i8::from_le_bytes(of).into(), output)
            }
            (At::Run(start, length), 1, false) => {
                add_wider(run(*start, *length)?, |of| u8::from_le_bytes(of).into(), output)
            }
            (At::Run(start, length), 2, true) => {
                add_wider(run(*start, *length)?, |of| i16::from_le_bytes(of).into(), output)
            }
            (At::Run(start, length), 2, false) => {
                add_wider(run(*start, *length)?, |of| u16::from_le_bytes(of).into(), output)
            }
            _ => at.each(|place| {
                output.extend_from_slice(&integer(value(place)?, is_signed).to_le_bytes()[..4]);
                Ok(())
            }),
        },
        Meaning::DayMillis if wide == 4 => at.each(|place| {
            let day = integer(value(place)?, true).div_euclid(DAY_MILLIS);
            let day = i32::try_from(day)
                .map_err(|_| Error::refused(format!("the date of day {day} can't be delivered")))?;
            output.extend_from_slice(&day.to_le_bytes());
            Ok(())
        }),
        Meaning::Seconds => at.each(|place| {
            let seconds = integer(value(place)?, true);
            let wrong = || Error::refused(format!("{seconds} seconds do not fit milliseconds of 64 bits"));
            let millis = seconds.checked_mul(1000).ok_or_else(wrong)?;
            if wide == 4 {
                output.extend_from_slice(&i32::try_from(millis).map_err(|_| wrong())?.to_le_bytes());
            } else {
                output.extend_from_slice(&millis.to_le_bytes());
            }
            Ok(())
        }),
        Meaning::Decimal if (1..=32).contains(&wide) => at.each(|place| {
            let value = value(place)?;
            let fill = if value.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
            if value.iter().skip(wide).any(|&byte| byte != fill) {
                return Err(Error::refused("a decimal has more digits than its type"));
            }
            let mut number = [fill; 32];
            let kept = value.len().min(wide);
            number[..kept].copy_from_slice(&value[..kept]);
            if stored.physical == Physical::FIXED_LEN_BYTE_ARRAY {
                number[..wide].reverse();
            }
            output.extend_from_slice(&number[..wide]);
            Ok(())
        }),
        _ => Err(contradicts("values have another width than those of their type")),
    }
}

/// Appends values as integers of 4 bytes.
fn add_wider<const N: usize>(
    values: &[u8],
    wider: impl Fn([u8; N]) -> i32,
    output: &mut Vec<u8>,
) -> Result<()> {
    let (values, _) = values.as_chunks::<N>();
    let begun = output.len();
    resize(output, begun + values.len() * size_of::<i32>(), 0)?;
    let (room, _) = output[begun..].as_chunks_mut::<4>();
    for (place, value) in room.iter_mut().zip(values) {
        *place = wider(*value).to_le_bytes();
    }
    Ok(())
}

/// Appends the values of which a bit is 1: each is written, and the next one in its place where it is not there.
fn add_some<const N: usize>(values: &[u8], there: &Bits, output: &mut Vec<u8>) -> Result<()> {
    let (values, _) = values.as_chunks::<N>();
    let begun = output.len();
    // One more than there are: what is not there at the end is written behind them.
    resize(output, begun + (there.ones() + 8) * N, 0)?;
    let (room, _) = output[begun..].as_chunks_mut::<N>();
    let mut filled = 0;
    for (eight, &byte) in values.chunks(8).zip(there.bytes()) {
        let Some(next) = room.get_mut(filled..) else { break };
        if byte == u8::MAX
            && let (Some(next), [_, _, _, _, _, _, _, _]) = (next.get_mut(..8), eight)
        {
            next.copy_from_slice(eight);
            filled += 8;
            continue;
        }
        let mut own = 0;
        for (bit, value) in eight.iter().enumerate() {
            if let Some(place) = next.get_mut(own) {
                *place = *value;
            }
            own += usize::from(byte >> bit & 1);
        }
        filled += own;
    }
    output.truncate(begun + there.ones() * N);
    Ok(())
}

/// An integer of at most eight bytes.
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "bits are taken as they are")]
fn integer(bytes: &[u8], is_signed: bool) -> i64 {
    let mut word =
        if is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0) { [0xff; 8] } else { [0; 8] };
    let kept = bytes.len().min(8);
    word[..kept].copy_from_slice(&bytes[..kept]);
    u64::from_le_bytes(word) as i64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Asserts that the values of which a bit is 1 are appended to what is there.
    fn assert_some<const N: usize>(count: usize, is_there: impl Fn(usize) -> bool) {
        let values: Vec<u8> = (0..count * N).map(|place| place.to_le_bytes()[0] ^ 0x5a).collect();
        let there = Bits::of((0..count).map(|place| Ok(is_there(place)))).unwrap();
        let places = (0..count).filter(|&place| is_there(place));
        let own = places.flat_map(|place| values[place * N..(place + 1) * N].to_vec());
        let expected: Vec<u8> = [7, 8, 9].into_iter().chain(own).collect();
        let mut found = vec![7, 8, 9];
        add_some::<N>(&values, &there, &mut found).unwrap();
        assert_eq!(found, expected, "{count} values of {N} bytes");
    }

    #[test]
    fn short_integers_are_appended_as_4_bytes_wherever_a_run_of_them_begins() {
        let bytes: Vec<u8> = (0..=255).collect();
        let stored = StoredValues { physical: Physical::INT32, length: 0 };
        for (width, is_signed) in [(1, true), (1, false), (2, true), (2, false)] {
            let form = ArrowForm::Fixed(width, Meaning::Integer { is_signed });
            let array = Array {
                length: 256 / width - 3,
                offset: 3,
                validity: None,
                buffers: vec![Arc::new(bytes.clone())],
                children: vec![],
                dictionary: None,
            };
            for (start, length) in [(0, 0), (0, 1), (5, 20), (0, array.length)] {
                let (mut found, mut expected) = (vec![7], vec![7]);
                add(form, &array, &At::Run(start, length), stored, &mut found).unwrap();
                for place in 3 + start..3 + start + length {
                    let value = integer(&bytes[place * width..][..width], is_signed);
                    expected.extend(i32::try_from(value).unwrap().to_le_bytes());
                }
                assert_eq!(found, expected, "{length} of {width} bytes from {start} on");
            }
            let beyond = At::Run(1, array.length);
            assert!(add(form, &array, &beyond, stored, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn values_are_appended_where_a_bit_is_1_however_many_lie_between_them() {
        for count in (0..=26).chain([64, 100, 1000]) {
            let random = |place: usize| place.wrapping_mul(0x9e37_79b9).rotate_left(11) & 4 > 0;
            let ways: [&dyn Fn(usize) -> bool; 7] = [
                &|_| true,
                &|_| false,
                &|place| place == 0,
                &|place| place + 1 == count,
                &|place| place / 8 % 2 == 0,
                &|place| place % 9 != 8,
                &random,
            ];
            for is_there in ways {
                assert_some::<4>(count, is_there);
                assert_some::<8>(count, is_there);
            }
        }
    }
}
