//! Fuzz targets for levels, as pages have them, and for the bitmaps that they become.

use parquet::basic::Encoding;

use super::choices::{Choices, Steps};
use crate::format::encoding::bitmap::{Bitmap, Marks};
use crate::format::encoding::levels::Levels;
use crate::format::encoding::varint::varint;

/// Levels in the hybrid, behind their length or with a stated one, or in the deprecated packing. They are
/// compared with levels that are read one by one.
pub fn levels(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (largest, kind) = (choices.byte().max(1), choices.byte() % 3);
    let (count, start) = (choices.number(), usize::from(choices.byte() % 8));
    let (mut steps, page) = (choices.steps(), choices.rest);
    let how = match kind {
        0 => (Encoding::RLE, None),
        1 => (Encoding::RLE, Some(page.len().saturating_sub(start))),
        #[expect(deprecated, reason = "old files have it")]
        _ => (Encoding::BIT_PACKED, None),
    };
    let mut found = Levels::default();
    // What was read before must not matter.
    _ = found.read(&[3, 0xff, 3, 0xff], 0, 8, 7, (Encoding::RLE, Some(4)));
    let end = found.read(page, start, count, largest, how).ok();
    let expected = page.get(start..).and_then(|levels| one_by_one(levels, count, largest, kind));
    let Some((expected, taken)) = expected else { return assert_eq!(end, None, "levels that are damaged") };
    assert_eq!(end, Some(start + taken));
    let mut bits = Bitmap::default();
    let all: Vec<u8> = (0..=largest).chain(largest.checked_add(1)).collect();
    for &level in &all[all.len().saturating_sub(9)..] {
        found.at_least(level, &mut bits);
        let expected = expected.iter().map(|&found| found >= level);
        assert!(bits.all().each().eq(expected), "level {level} of {count}");
    }
    let level = 1 + u8::try_from(steps.below(usize::from(largest))).unwrap_or(0);
    found.at_least(level, &mut bits);
    let start = steps.below(count + 1);
    let range = start..start + steps.below(count - start + 1);
    let expected: Vec<bool> = expected[range.clone()].iter().map(|&found| found >= level).collect();
    check(&bits.part(range), &expected, &mut steps);
}

/// Levels one by one, and the bytes that they take.
fn one_by_one(bytes: &[u8], count: usize, largest: u8, kind: u8) -> Option<(Vec<u8>, usize)> {
    let width = (8 - largest.leading_zeros()) as usize;
    let bit = |bytes: &[u8], bit: usize| bytes.get(bit / 8).copied().unwrap_or(0) >> (bit % 8) & 1;
    let of_bits = |bits: &mut dyn Iterator<Item = u8>| bits.fold(0, |level, bit| level << 1 | bit);
    let (bytes, taken) = match kind {
        0 => {
            let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
            (bytes[4..].get(..length)?, 4 + length)
        }
        1 => (bytes, bytes.len()),
        _ => {
            if count > 0 && one_by_one(bytes, count, largest, 0).is_some() {
                return None;
            }
            let taken = (count * width).div_ceil(8);
            let packed = bytes.get(..taken)?;
            let from_the_top = |at: usize| bit(packed, at / 8 * 8 + 7 - at % 8);
            let level = |index: usize| of_bits(&mut (index * width..(index + 1) * width).map(from_the_top));
            let levels: Vec<u8> = (0..count).map(level).collect();
            return levels.iter().all(|&level| level <= largest).then_some((levels, taken));
        }
    };
    let (mut levels, mut position) = (Vec::new(), 0);
    while levels.len() < count {
        let header = varint(bytes, &mut position).ok()?;
        let stated = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        let left = count - levels.len();
        if header % 2 == 0 {
            let level = *bytes.get(position)?;
            position += 1;
            if level > largest {
                return None;
            }
            levels.extend(std::iter::repeat_n(level, stated.min(left)));
        } else {
            let packed = &bytes[position.min(bytes.len())..];
            let is_whole = stated.saturating_mul(width) <= packed.len();
            if !is_whole && kind == 1 {
                return None;
            }
            let held = if is_whole { stated * 8 } else { packed.len() * 8 / width };
            let level = |index: usize| {
                of_bits(&mut (index * width..(index + 1) * width).rev().map(|at| bit(packed, at)))
            };
            levels.extend((0..held.min(left)).map(level));
            position += stated.saturating_mul(width).min(packed.len());
        }
    }
    let is_at_end = count == 0 || position == bytes.len();
    (is_at_end && levels.iter().all(|&level| level <= largest)).then_some((levels, taken))
}

/// Compares the methods of a bitmap with the same on booleans.
fn check(marks: &Marks<'_>, expected: &[bool], steps: &mut Steps) {
    let ones: Vec<usize> = (0..expected.len()).filter(|&place| expected[place]).collect();
    assert!(marks.each().eq(expected.iter().copied()));
    assert_eq!((marks.len(), marks.ones()), (expected.len(), ones.len()));
    assert_eq!(marks.first_zero(), expected.iter().position(|&bit| !bit));
    let before = steps.below(ones.len() + 2);
    assert_eq!(marks.nth_one(before), ones.get(before).copied().ok_or(ones.len()));
    let places: Vec<usize> = steps.places(expected.len()).into_iter().map(|place| place as usize).collect();
    let ranks = places.iter().map(|&place| (expected[place], ones.partition_point(|&one| one < place)));
    assert!(marks.ranks(places.iter().copied()).eq(ranks));
    let mut written = vec![9; expected.len()];
    marks.write(&mut written);
    assert!(written.iter().zip(expected).all(|(&found, &bit)| found == u8::from(bit)));
}
