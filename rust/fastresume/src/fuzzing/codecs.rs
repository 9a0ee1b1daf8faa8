//! Fuzz targets for codecs, compared with the libraries that they are from.

use std::io::Read;

use parquet::basic::Compression;

use super::choices::{Choices, compression_of};
use crate::format::compression::codec::Codec;
use crate::simd::decompress_numbers;

/// Snappy elements, decompressed by our own decoder and by the library's. Then the input as a page that the
/// library compresses.
pub fn snappy(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (stated, elements) = (choices.number(), choices.rest);
    let input = [&varint(stated)[..], elements].concat();
    let mut expected = vec![1; stated];
    let is_sound =
        snap::raw::Decoder::new().decompress(&input, &mut expected).is_ok_and(|written| written == stated);
    let mut output = vec![2; stated];
    if decompress_numbers(elements, &mut output).is_some() {
        assert!(is_sound && output == expected, "elements that the library reads as others");
    }
    let Ok(mut codec) = Codec::new(Compression::SNAPPY) else { return };
    output.fill(3);
    assert_eq!(codec.decompress(&input, &mut output).is_ok(), is_sound);
    assert!(!is_sound || output == expected);
    if let Some(page) = codec.as_it_is(&input, stated) {
        assert!(is_sound && page == expected, "a page that is as it is expands to another");
    }
    let Ok(packed) = snap::raw::Encoder::new().compress_vec(elements) else { return };
    let mut output = vec![4; elements.len()];
    assert!(codec.decompress(&packed, &mut output).is_ok() && output == elements);
    output.fill(5);
    let start = packed.len().min(varint(elements.len()).len());
    let own = decompress_numbers(&packed[start..], &mut output);
    assert!(own.is_none() || output == elements, "what was compressed expands to other bytes");
}

/// A page of any codec, compared with what the library reads from the stream.
pub fn codecs(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let compression = compression_of(choices.byte());
    let (stated, input) = (choices.number(), choices.rest);
    let Ok(mut codec) = Codec::new(compression) else { return };
    // A guard behind the page must never be written.
    let mut output = vec![7; stated + 64];
    let is_sound = codec.decompress(input, &mut output[..stated]).is_ok();
    assert!(output[stated..].iter().all(|&byte| byte == 7), "{compression} writes after the page");
    if let Some(page) = codec.as_it_is(input, stated) {
        assert!(is_sound && page == &output[..stated]);
    }
    let expected = match compression {
        Compression::UNCOMPRESSED => Some(input.to_vec()),
        Compression::ZSTD(_) => zstd::Decoder::new(input).ok().and_then(|reader| read(reader, stated)),
        Compression::GZIP(_) => read(flate2::read::MultiGzDecoder::new(input), stated),
        Compression::LZ4_RAW => lz4_flex::block::decompress(input, stated).ok(),
        _ => return,
    };
    if let Some(expected) = expected.filter(|_| is_sound) {
        assert!(output[..stated] == expected, "{compression}: a page expands to other bytes");
    }
    // The codec is used again, as for the next page.
    let mut again = vec![0; stated];
    assert_eq!(codec.decompress(input, &mut again).is_ok(), is_sound);
    assert!(!is_sound || again == output[..stated]);
}

/// The contents of a stream, up to one byte beyond the expected size.
fn read(reader: impl Read, stated: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(stated as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A varint: seven bits per byte.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
    bytes
}
