//! Buffers that are compressed one by one.

use std::io::Read;

use crate::error::{Error, Result};
use crate::ipc::message::BodyCodec;
use crate::memory::vectors::{filled, with_room};

/// Buffers of up to so many bytes get their memory at once: what they state is not trusted further.
const TRUSTED_BYTES: usize = 16 << 20;

/// The bytes in front of a buffer, which state its size.
const STATED_BYTES: usize = 8;

/// The first `wanted` bytes of a buffer, or all of them.
///
/// # Errors
/// `Data` if it is damaged, or has fewer.
pub fn inflated(codec: BodyCodec, stored: &[u8], wanted: Option<usize>) -> Result<Vec<u8>> {
    let Some((head, input)) = stored.split_first_chunk::<STATED_BYTES>() else {
        let nothing = stored.is_empty() && wanted.unwrap_or(0) == 0;
        return if nothing { Ok(Vec::new()) } else { Err(Error::data("a compressed buffer is cut off")) };
    };
    let stated = match i64::from_le_bytes(*head) {
        -1 => input.len(),
        stated => usize::try_from(stated)
            .map_err(|_| Error::data(format!("a compressed buffer claims {stated} bytes")))?,
    };
    let wanted = wanted.unwrap_or(stated);
    if wanted > stated {
        return Err(Error::data(format!("a buffer of {stated} bytes is to hold {wanted}")));
    }
    if i64::from_le_bytes(*head) == -1 {
        let mut copied = with_room(wanted)?;
        copied.extend_from_slice(&input[..wanted]);
        return Ok(copied);
    }
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let failed = |cause: std::io::Error| Error::data(format!("a compressed buffer is damaged: {cause}"));
    let mut output;
    if stated <= TRUSTED_BYTES {
        output = filled(stated, 0)?;
        match codec {
            BodyCodec::Zstd => {
                let written = zstd::bulk::decompress_to_buffer(input, &mut output).map_err(failed)?;
                output.truncate(written);
            }
            BodyCodec::Lz4Frame => {
                lz4_flex::frame::FrameDecoder::new(input).read_exact(&mut output).map_err(failed)?;
            }
        }
    } else {
        // It grows with what comes.
        output = with_room(TRUSTED_BYTES.min(wanted))?;
        let most = wanted as u64;
        match codec {
            BodyCodec::Zstd => {
                let reader = zstd::stream::read::Decoder::new(input).map_err(failed)?;
                reader.take(most).read_to_end(&mut output).map_err(failed)?
            }
            BodyCodec::Lz4Frame => {
                let reader = lz4_flex::frame::FrameDecoder::new(input);
                reader.take(most).read_to_end(&mut output).map_err(failed)?
            }
        };
    }
    if output.len() < wanted {
        return Err(Error::data(format!(
            "a compressed buffer ends after {} bytes, its header states {stated}",
            output.len()
        )));
    }
    output.truncate(wanted);
    Ok(output)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn stored(codec: BodyCodec, plain: &[u8], stated: i64) -> Vec<u8> {
        let packed = match codec {
            BodyCodec::Zstd => zstd::bulk::compress(plain, 1).unwrap(),
            BodyCodec::Lz4Frame => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
        };
        [&stated.to_le_bytes()[..], &packed].concat()
    }

    #[test]
    fn what_is_wanted_comes_out_and_lies_about_sizes_are_errors_without_memory_for_them() {
        for codec in [BodyCodec::Zstd, BodyCodec::Lz4Frame] {
            for length in [0, 1, 1000, TRUSTED_BYTES + 5] {
                let plain: Vec<u8> = (0..length).map(|place| place.to_le_bytes()[0]).collect();
                let whole = stored(codec, &plain, i64::try_from(length).unwrap());
                for wanted in [None, Some(0), Some(length / 2), Some(length)] {
                    let expected = &plain[..wanted.unwrap_or(length)];
                    assert!(inflated(codec, &whole, wanted).unwrap() == expected, "{length} {wanted:?}");
                }
                assert!(inflated(codec, &whole, Some(length + 1)).is_err());
                for stated in [1_i64 << 40, i64::MAX, -2] {
                    let lying = stored(codec, &plain, stated);
                    assert!(inflated(codec, &lying, None).is_err(), "{length} {stated}");
                }
                if length > 0 {
                    assert!(inflated(codec, &whole[..whole.len() / 2], None).is_err());
                }
            }
            let plain = [&(-1_i64).to_le_bytes()[..], b"abc"].concat();
            assert_eq!(inflated(codec, &plain, Some(2)).unwrap(), b"ab");
            assert!(inflated(codec, &plain, Some(4)).is_err() && inflated(codec, b"abc", None).is_err());
        }
    }
}
