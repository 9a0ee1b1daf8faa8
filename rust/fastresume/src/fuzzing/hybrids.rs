//! Fuzz targets for the RLE/bit-packed hybrid, read in all kinds of steps.

use bytemuck::Pod;

use super::choices::{Choices, Steps};
use crate::format::encoding::bit_packing::BitPacking;
use crate::format::encoding::rle::{CHUNK, DecodedRun, EncodedRun, RleHybrid};
use crate::format::encoding::varint::varint;

/// The most integers that are compared: a few bytes of runs can state many.
const MOST: usize = 4000;

/// Integers behind their width, read one by one as far as they go; and whether more follow.
fn one_by_one(bytes: &[u8]) -> Option<(Vec<u32>, bool)> {
    let width = usize::from(bytes.first().copied().unwrap_or(0));
    let (mut integers, mut position) = (Vec::new(), 1);
    if width > 32 {
        return None;
    }
    while integers.len() < MOST {
        let Ok(header) = varint(bytes, &mut position) else { return Some((integers, false)) };
        let stated = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        let rest = &bytes[position..];
        if header % 2 == 0 {
            let Some(value) = rest.get(..width.div_ceil(8)) else { return Some((integers, false)) };
            let value = value.iter().rfold(0, |value, &byte| value << 8 | u32::from(byte));
            integers.extend(std::iter::repeat_n(value, stated.min(MOST)));
            position += width.div_ceil(8);
        } else {
            let is_whole = stated.saturating_mul(width) <= rest.len();
            let held = if is_whole { stated.saturating_mul(8) } else { rest.len() * 8 / width };
            let bit = |at: usize| u32::from(rest[at / 8] >> (at % 8) & 1);
            let integer =
                |index: usize| (0..width).rfold(0, |value, place| value << 1 | bit(index * width + place));
            integers.extend((0..held.min(MOST)).map(integer));
            position += stated.saturating_mul(width).min(rest.len());
        }
    }
    Some((integers, true))
}

/// Whether a run of length 0 is among the integers of this width: the oracle takes it for the padding of a
/// page.
pub fn have_padding(bytes: &[u8], width: usize) -> bool {
    let mut position = 0;
    while let Ok(header) = varint(bytes, &mut position) {
        if header == 0 {
            return true;
        }
        let stated = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        let held = if header % 2 == 0 { width.div_ceil(8) } else { stated.saturating_mul(width) };
        position = position.saturating_add(held);
    }
    false
}

/// A hybrid behind its width: encoded runs, unpacked integers, skips and picks, in any order. It is compared
/// with integers that are read one by one, and must end where these do.
pub fn hybrids(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (mut steps, bytes) = (choices.steps(), choices.rest);
    let (Ok(mut hybrid), Some((expected, has_more))) = (RleHybrid::indices(bytes, 0), one_by_one(bytes))
    else {
        assert!(RleHybrid::indices(bytes, 0).is_err() && one_by_one(bytes).is_none());
        return;
    };
    let mut buffer = [0; CHUNK];
    let mut done = 0;
    loop {
        let left = expected.len() - done;
        if has_more && left < 1500 {
            return;
        }
        let most = [2, 70, 1400][steps.below(3)];
        let most = 1 + steps.below(most);
        let rest = &expected[done..];
        let passed = match steps.below(5) {
            0 => hybrid.stretch(bytes, most).map(|stretch| match stretch {
                EncodedRun::Repeated(value, count) => {
                    assert!(count > 0 && rest[..count].iter().all(|&expected| expected == value));
                    count
                }
                EncodedRun::Packed(packed) => check(&packed, &rest[..packed.count], &mut steps),
            }),
            1 => hybrid.next(bytes, most, &mut buffer).map(|next| match next {
                DecodedRun::Repeated(value, count) => {
                    assert!(count > 0 && rest[..count].iter().all(|&expected| expected == value));
                    count
                }
                DecodedRun::Unpacked(integers) => {
                    assert_eq!(integers, &rest[..integers.len()]);
                    integers.len()
                }
            }),
            2 => hybrid.skip(bytes, most).map(|()| most),
            _ => {
                let places = steps.places(most);
                let mut found = vec![0; places.len()];
                hybrid.pick(bytes, &places, &mut found).map(|()| {
                    assert!(found.iter().zip(&places).all(|(found, &place)| *found == rest[place as usize]));
                    places.last().map_or(0, |&last| last as usize + 1)
                })
            }
        };
        let Ok(passed) = passed else {
            return assert!(most > left || left == 0, "{left} integers are left, {most} are not there");
        };
        assert!(passed <= left, "{left} integers are left, {passed} were read");
        done += passed;
    }
}

/// Unpacks bit-packed integers, and looks them up in tables of every width; returns how many there are.
fn check(packed: &BitPacking<'_>, expected: &[u32], steps: &mut Steps) -> usize {
    let mut buffer = vec![7; packed.count + 16];
    assert_eq!(packed.unpack(&mut buffer), expected);
    let most = expected.iter().copied().max().unwrap_or(0) as usize;
    let length = [most.saturating_add(1), steps.below(300), most][steps.below(3)].min(5000);
    look_up::<u8>(packed, expected, length, |index| (index * 31 % 251) as u8);
    look_up::<u16>(packed, expected, length, |index| (index * 31) as u16);
    look_up::<u32>(packed, expected, length, |index| (index * 31) as u32);
    look_up::<u64>(packed, expected, length, |index| (index as u64) << 33 | 5);
    expected.len()
}

fn look_up<P: Pod + PartialEq>(
    packed: &BitPacking<'_>,
    expected: &[u32],
    length: usize,
    value: impl Fn(usize) -> P,
) {
    let table: Vec<P> = (0..length).map(value).collect();
    let mut output = vec![P::zeroed(); expected.len()];
    match packed.look_up(&table, &mut output) {
        Ok(()) => {
            let is_right = |(found, index): (&P, &u32)| table.get(*index as usize) == Some(found);
            assert!(output.iter().zip(expected).all(is_right), "values of a table of {length}");
        }
        Err(index) => assert!(index as usize >= length && expected.contains(&index), "{index} of {length}"),
    }
}
