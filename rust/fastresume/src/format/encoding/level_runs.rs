//! Decodes levels from a page's bytes: the RLE/bit-packed hybrid, and the deprecated `BIT_PACKED` encoding.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Bitmap, WORD, lowest};
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::encoding::varint::{ends, varint};

/// Reads levels of so many bits each, plane by plane, or gives the level that all of them have; `may_be_cut` allows the last group
/// not to be filled up, as some writers have it.
///
/// # Errors
/// `Data` if the bytes end before them or go on behind them, or one is larger than the largest and stands in a run.
pub fn read_hybrid<const WIDTH: usize>(
    planes: &mut [Bitmap],
    bytes: &[u8],
    count: usize,
    largest: u8,
    may_be_cut: bool,
) -> Result<Option<u8>> {
    if count == 0 {
        // They may take no bytes at all.
        return Ok(Some(0));
    }
    let (mut position, mut read) = (0, 0);
    while read < count {
        let header = varint(bytes, &mut position)?;
        let stated = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        let rest = bytes.get(position..).unwrap_or_default();
        let run = if header & 1 == 0 { Some(*rest.first().ok_or_else(ends)?) } else { None };
        if let Some(level) = run.filter(|&level| level > largest) {
            return Err(too_high(level, largest));
        }
        if read == 0 {
            if run.is_some() && stated >= count {
                return check_end(bytes, position + 1).map(|()| run);
            }
            check_count(count)?;
            for plane in planes.iter_mut() {
                plane.clear(count);
            }
        }
        if let Some(level) = run {
            let end = read + stated.min(count - read);
            for (bit, plane) in planes.iter_mut().enumerate().take(WIDTH) {
                if level >> bit & 1 == 1 {
                    plane.add_run(read..end);
                }
            }
            position += 1;
            read = end;
        } else {
            let stated_bytes = stated.saturating_mul(WIDTH);
            if stated_bytes > rest.len() && !may_be_cut {
                return Err(ends());
            }
            let held = if stated_bytes > rest.len() { rest.len() * 8 / WIDTH } else { stated * 8 };
            let end = read + held.min(count - read);
            add_packed::<WIDTH>(planes, rest, read..end);
            position += stated_bytes.min(rest.len());
            read = end;
        }
        if let [only] = planes {
            (position, read) = add_turns(only, bytes, position, read..count);
        }
    }
    check_end(bytes, position).map(|()| None)
}

/// Refuses bytes behind the last level: a page whose header states other levels than it has would be read otherwise.
fn check_end(bytes: &[u8], position: usize) -> Result<()> {
    if position < bytes.len() {
        return Err(Error::data(format!(
            "a page's levels take {position} bytes, {} are stated",
            bytes.len()
        )));
    }
    Ok(())
}

/// Adds levels of one bit while a short run and a few packed groups alternate, as they do where nulls are
/// scattered. Returns the byte and the level behind them.
#[inline]
fn add_turns(levels: &mut Bitmap, bytes: &[u8], mut position: usize, range: Range<usize>) -> (usize, usize) {
    let mut place = range.start;
    while place + 2 * WORD <= range.end
        && let Some([run, level, groups, packed @ ..]) =
            bytes.get(position..).and_then(<[u8]>::first_chunk::<11>)
        && (run % 2, groups % 2) == (0, 1)
        && (2..128).contains(run)
        && *level <= 1
        && (3..18).contains(groups)
    {
        let (same, groups) = (usize::from(run / 2), usize::from(groups / 2));
        let packed = u64::from_le_bytes(*packed) & u64::MAX >> (WORD - 8 * groups);
        levels.add(place, u64::from(*level).wrapping_neg() & lowest(same) | packed << same);
        if same + 8 * groups > WORD {
            levels.add(place + WORD, packed >> (WORD - same));
        }
        place += same + 8 * groups;
        position += 3 + groups;
    }
    (position, place)
}

/// Adds levels that are packed from the lowest bit on.
#[inline]
fn add_packed<const WIDTH: usize>(planes: &mut [Bitmap], bytes: &[u8], range: Range<usize>) {
    // In whole groups of eight, so that each step begins at a byte.
    let step = WORD / WIDTH / 8 * 8;
    let (mut place, mut start) = (range.start, 0);
    while place < range.end {
        let some = step.min(range.end - place);
        let word = word_at(bytes, start) & lowest(some * WIDTH);
        match planes {
            [only] => only.add(place, word),
            [low, high] => {
                low.add(place, even_bits(word));
                high.add(place, even_bits(word >> 1));
            }
            _ => {
                for (bit, plane) in planes.iter_mut().enumerate() {
                    let levels = (0..some).map(|level| (word >> (level * WIDTH + bit) & 1) << level);
                    plane.add(place, levels.sum());
                }
            }
        }
        place += some;
        start += step / 8 * WIDTH;
    }
}

/// Up to eight bytes as a word.
#[inline]
fn word_at(bytes: &[u8], start: usize) -> u64 {
    let rest = bytes.get(start..).unwrap_or_default();
    if let Some(word) = rest.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// Every other bit of a word, from the lowest one on, moved together.
#[inline]
fn even_bits(word: u64) -> u64 {
    let mut bits = word & 0x5555_5555_5555_5555;
    bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
    bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
    bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
    (bits | bits >> 16) & 0x0000_0000_ffff_ffff
}

/// `BIT_PACKED` (deprecated): one level, packed from the highest bit on.
pub fn from_the_top(bytes: &[u8], width: usize, index: usize) -> u8 {
    (index * width..(index + 1) * width).fold(0, |level, bit| {
        let byte = bytes.get(bit / 8).copied().unwrap_or(0);
        level << 1 | (byte >> (7 - bit % 8) & 1)
    })
}

/// The error for a level above the column's largest.
pub fn too_high(found: u8, largest: u8) -> Error {
    Error::data(format!("a page holds the level {found}, {largest} is the largest"))
}

/// Refuses more levels than are kept: a few bytes of runs can state many.
fn check_count(count: usize) -> Result<()> {
    if count > MAX_VALUES {
        return Err(Error::data(format!("a page has {count} levels, at most {MAX_VALUES} are read")));
    }
    Ok(())
}
