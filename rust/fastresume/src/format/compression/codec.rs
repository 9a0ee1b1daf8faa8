//! Decompresses a page into exactly as many bytes as its header states.

use std::io::Read;

use parquet::basic::Compression;

use crate::error::{Error, Result};
use crate::format::compression::brotli::Brotli;
use crate::format::compression::gzip::Gzip;
use crate::format::encoding::varint::varint;
use crate::simd::{decompress_numbers, literal_length};

/// A page codec. It keeps what is worth reusing from page to page.
pub enum Codec {
    None,
    Snappy(snap::raw::Decoder),
    Zstd(Box<zstd::bulk::Decompressor<'static>>),
    Gzip(Gzip),
    Brotli(Brotli),
    Lz4Raw,
    Lz4,
}

impl Codec {
    /// Whether pages are not compressed.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    pub fn new(compression: Compression) -> Result<Self> {
        Ok(match compression {
            Compression::UNCOMPRESSED => Self::None,
            Compression::SNAPPY => Self::Snappy(snap::raw::Decoder::new()),
            Compression::ZSTD(_) => Self::Zstd(Box::new(zstd::bulk::Decompressor::new().map_err(failed)?)),
            Compression::GZIP(_) => Self::Gzip(Gzip::new()),
            Compression::BROTLI(_) => Self::Brotli(Brotli::new()),
            Compression::LZ4_RAW => Self::Lz4Raw,
            Compression::LZ4 => Self::Lz4,
            Compression::LZO => return Err(Error::data("the codec LZO is not supported")),
        })
    }

    /// The end of the input, if it holds the page of `stated` bytes uncompressed. A codec that finds nothing
    /// to compress, as in indices of a few bits, may have put only lengths in front of it.
    ///
    /// Source: <https://github.com/google/snappy/blob/main/format_description.txt>
    pub fn as_it_is<'a>(&self, input: &'a [u8], stated: usize) -> Option<&'a [u8]> {
        let Self::Snappy(_) = self else { return None };
        let (&tag, rest) = elements(input, stated)?.split_first()?;
        let (length, page) = (tag % 4 == 0).then(|| literal_length(tag, rest))??;
        (page.len() == stated && length == stated).then_some(page)
    }

    /// Fills `output` from `input`.
    ///
    /// Never writes more than the stated size, whatever the input would expand to.
    ///
    /// # Errors
    /// `Data` if the input is damaged or expands to another size.
    pub fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<()> {
        let stated = output.len();
        let written = match self {
            Self::None => {
                let same = input.len() == stated;
                if same {
                    output.copy_from_slice(input);
                }
                if same { stated } else { input.len() }
            }
            Self::Snappy(decoder) => snappy(decoder, input, output)?,
            Self::Zstd(decoder) => decoder.decompress_to_buffer(input, output).map_err(failed)?,
            Self::Gzip(decoder) => decoder.decompress(input, output).map_err(failed)?,
            Self::Brotli(decoder) => decoder.decompress(input, output).map_err(failed)?,
            Self::Lz4Raw => lz4_flex::block::decompress_into(input, output).map_err(failed)?,
            Self::Lz4 => lz4(input, output)?,
        };
        if written == stated {
            Ok(())
        } else {
            Err(Error::data(format!("a page expands to {written} bytes, its header states {stated}")))
        }
    }
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::data(format!("can't decompress: {cause}"))
}

/// The most bytes of the length in front of Snappy's data: a number of 32 bits.
const MAX_LENGTH_BYTES: usize = 5;

/// Pages of numbers have a decoder of our own. It leaves all other pages, and damaged ones, to the library's.
fn snappy(decoder: &mut snap::raw::Decoder, input: &[u8], output: &mut [u8]) -> Result<usize> {
    match elements(input, output.len()).and_then(|elements| decompress_numbers(elements, output)) {
        Some(()) => Ok(output.len()),
        None => decoder.decompress(input, output).map_err(failed),
    }
}

/// Snappy's input behind its length, if that states as many bytes as the header.
fn elements(input: &[u8], stated: usize) -> Option<&[u8]> {
    let mut position = 0;
    let expanded = varint(input, &mut position).ok()?;
    (expanded == stated as u64 && position <= MAX_LENGTH_BYTES).then(|| &input[position..])
}

/// Reads until the output is full; one byte beyond it counts as too much.
fn read_all(mut reader: impl Read, output: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < output.len() {
        match reader.read(&mut output[filled..]).map_err(failed)? {
            0 => return Ok(filled),
            count => filled += count,
        }
    }
    Ok(filled + reader.read(&mut [0]).map_err(failed)?)
}

/// The deprecated LZ4 codec, for which writers used three formats: Hadoop's framing (blocks behind two
/// big-endian lengths), LZ4's own frames, or a bare block.
///
/// Each page has a new frame decoder, with memory of its own: it owns its input, and can't be restarted. No
/// current writer writes frames.
///
/// Source: <https://github.com/apache/parquet-format/blob/master/Compression.md>
fn lz4(input: &[u8], output: &mut [u8]) -> Result<usize> {
    if let Some(written) = lz4_hadoop(input, output) {
        return Ok(written);
    }
    let framed = read_all(lz4_flex::frame::FrameDecoder::new(input), output);
    match framed {
        Ok(written) if written == output.len() => Ok(written),
        _ => lz4_flex::block::decompress_into(input, output).map_err(failed),
    }
}

/// Hadoop's framing: the bytes of what was written at once, uncompressed, and for them one block or several behind their lengths.
fn lz4_hadoop(mut input: &[u8], output: &mut [u8]) -> Option<usize> {
    let mut filled = 0_usize;
    while !input.is_empty() {
        let mut left = big_endian(&mut input)?;
        while left > 0 {
            let length = big_endian(&mut input)?;
            let (block, rest) = input.split_at_checked(length)?;
            let room = output.get_mut(filled..filled.checked_add(left)?)?;
            let written =
                lz4_flex::block::decompress_into(block, room).ok().filter(|&written| written > 0)?;
            filled += written;
            left -= written;
            input = rest;
        }
    }
    (filled == output.len()).then_some(filled)
}

/// The length that comes next.
fn big_endian(input: &mut &[u8]) -> Option<usize> {
    let (length, rest) = input.split_first_chunk::<4>()?;
    *input = rest;
    usize::try_from(u32::from_be_bytes(*length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_snappy_left_as_it_is_is_the_end_of_its_input() {
        let codec = Codec::new(Compression::SNAPPY).unwrap();
        let mut random = 1_u64;
        let mut byte = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random.to_be_bytes()[0]
        };
        for length in [1, 2, 59, 60, 61, 255, 256, 257, 65535, 65536, 65537, 200_000] {
            let page: Vec<u8> = (0..length).map(|_| byte()).collect();
            // The varint of its length, and a tag with the length that some writer needs, or a longer one.
            let mut stated = Vec::new();
            let mut left = length;
            while left >= 0x80 {
                stated.push(u8::try_from(left & 0x7f).unwrap() | 0x80);
                left >>= 7;
            }
            stated.push(u8::try_from(left).unwrap());
            let last = u32::try_from(length - 1).unwrap();
            let short = u8::try_from(last).ok().filter(|last| *last < 60);
            let long = (1..=4_u8).filter(|bytes| u64::from(last) >> (8 * bytes) == 0);
            let long = long
                .map(|bytes| [&[(59 + bytes) << 2][..], &last.to_le_bytes()[..usize::from(bytes)]].concat());
            for tag in short.map(|last| vec![last << 2]).into_iter().chain(long) {
                let input = [&stated[..], &tag, &page].concat();
                assert_eq!(codec.as_it_is(&input, length), Some(&page[..]), "{length} bytes, tag {tag:?}");
                let mut output = vec![0; length];
                Codec::new(Compression::SNAPPY).unwrap().decompress(&input, &mut output).unwrap();
                assert_eq!(output, page);
                assert_eq!(codec.as_it_is(&input, length + 1), None, "another size is stated");
                assert_eq!(codec.as_it_is(&input[..input.len() - 1], length), None, "a byte is missing");
                assert_eq!(codec.as_it_is(&input[..input.len() - 1], length - 1), None);
                assert_eq!(codec.as_it_is(&[&input[..], &[0]].concat(), length), None, "a byte too many");
            }
        }
        for input in [&[][..], &[5], &[5, 0xfc], &[5, 0xf0], &[0x80; 20], &[5, 1, 0, 0, 0, 0, 0]] {
            assert_eq!(codec.as_it_is(input, 5), None);
        }
        let same = vec![7; 1000];
        let packed = snap::raw::Encoder::new().compress_vec(&same).unwrap();
        assert_eq!(codec.as_it_is(&packed, 1000), None);
        assert_eq!(
            Codec::None.as_it_is(&same, 1000),
            None,
            "nothing is in front of it: the page is the input"
        );
    }

    #[test]
    fn a_bomb_stops_at_the_stated_size() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &vec![7; 1 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        let mut output = vec![0; 1000];
        let mut codec = Codec::new(Compression::GZIP(parquet::basic::GzipLevel::default())).unwrap();
        let error = codec.decompress(&bomb, &mut output).unwrap_err().to_string();
        assert!(error.contains("1001") && error.contains("1000"), "{error}");
        let mut output = vec![0; 1 << 20];
        codec.decompress(&bomb, &mut output).unwrap();
        assert!(output.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn all_three_meanings_of_lz4_are_read() {
        let plain: Vec<u8> = (0..100_u8).cycle().take(5000).collect();
        let block = lz4_flex::block::compress(&plain);
        let mut hadoop = Vec::new();
        hadoop.extend(u32::try_from(plain.len()).unwrap().to_be_bytes());
        hadoop.extend(u32::try_from(block.len()).unwrap().to_be_bytes());
        hadoop.extend(&block);
        let mut inner = u32::try_from(plain.len()).unwrap().to_be_bytes().to_vec();
        for part in plain.chunks(1300) {
            let block = lz4_flex::block::compress(part);
            inner.extend(u32::try_from(block.len()).unwrap().to_be_bytes());
            inner.extend(&block);
        }
        let two = [&inner[..], &inner].concat();
        let mut output = vec![0; 2 * plain.len()];
        Codec::Lz4.decompress(&two, &mut output).unwrap();
        assert_eq!(output, plain.repeat(2), "each of two parts has several blocks");
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        std::io::Write::write_all(&mut encoder, &plain).unwrap();
        let framed = encoder.finish().unwrap();
        for input in [block, hadoop, inner, framed] {
            let mut output = vec![0; plain.len()];
            Codec::Lz4.decompress(&input, &mut output).unwrap();
            assert_eq!(output, plain);
        }
    }
}
