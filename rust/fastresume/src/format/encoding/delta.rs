//! Delta-encoded integers (`DELTA_BINARY_PACKED`).
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/Encodings.md>

use crate::error::{Error, Result};
use crate::format::encoding::bit_packing::{single, unpack};
use crate::format::encoding::rle::{CHUNK, MAX_VALUES};
use crate::format::encoding::varint::varint;

/// Passes `count` delta-encoded integers to `push`, and returns the bytes that they take.
///
/// # Errors
/// `Data` if there are fewer, or they contradict their header.
pub fn deltas(bytes: &[u8], count: usize, mut push: impl FnMut(i64)) -> Result<usize> {
    let damaged = |what: &str| Error::data(format!("a delta-encoded page {what}"));
    if count == 0 {
        return Ok(0);
    }
    if count > MAX_VALUES {
        return Err(damaged(&format!("has {count} values, at most {MAX_VALUES} are read")));
    }
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
    if each == 0 || each % 8 != 0 || each * parts != block || stated != count as u64 {
        return Err(damaged(&format!(
            "claims {stated} values (its header {count}), in blocks of {block} in {parts} parts"
        )));
    }
    let mut packed = [0; CHUNK];
    let mut given = 1;
    push(value);
    while given < count {
        let least = zigzag(varint(bytes, &mut position)?);
        let widths = bytes.get(position..position + parts).ok_or_else(|| damaged("ends early"))?;
        position += parts;
        for &width in widths {
            if given == count {
                break;
            }
            let width = usize::from(width);
            if width > 64 {
                return Err(damaged(&format!("packs differences of {width} bits")));
            }
            // The padding of the last miniblock may be left out.
            let wanted = each.min(count - given);
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
                        push(value);
                    }
                } else {
                    for place in index..index + some {
                        let delta = single(source, width, place).cast_signed();
                        value = value.wrapping_add(least).wrapping_add(delta);
                        push(value);
                    }
                }
                index += some;
            }
            given += wanted;
            position += each * width / 8;
        }
    }
    Ok(position)
}

fn zigzag(word: u64) -> i64 {
    (word >> 1).cast_signed() ^ -(word & 1).cast_signed()
}
