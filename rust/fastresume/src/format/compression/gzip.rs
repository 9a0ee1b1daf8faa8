//! Decompresses gzip pages, with one decoder for all of them.
//!
//! flate2 inflates; members are read here, since its reader of these allocates 48 KB for each page. A law
//! (`no_codec_asks_for_memory_page_by_page`) fails with it.
//!
//! Source: RFC 1952 (members, their headers and trailers) around RFC 1951 (what is between these).

use flate2::{Decompress, DecompressError, FlushDecompress, Status};

use crate::error::{Error, Result};

/// The optional parts of a member's header, by the bits of its flags.
const HEADER_CHECKSUM: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Decompresses gzip pages. Its state is 48 KB, and is allocated once.
pub struct Gzip {
    inflater: Decompress,
}

impl Gzip {
    pub fn new() -> Self {
        Self { inflater: Decompress::new(false) }
    }

    /// Fills `output` with the contents of all members of `input`, and returns their size. It stops after one
    /// byte beyond the output, which counts as too much.
    ///
    /// # Errors
    /// `Data` if a member is damaged, ends too soon, or has another checksum or size than it states. Also if
    /// anything but a member follows one.
    pub fn decompress(&mut self, mut input: &[u8], output: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        loop {
            let body = behind_header(input).ok_or_else(|| Error::data("a header of gzip is damaged"))?;
            let room = &mut output[filled..];
            let (read, written) = self.inflate(body, room)?;
            if written > room.len() {
                return Ok(filled + written);
            }
            let trailer = body.get(read..).and_then(|rest| {
                let (checksum, rest) = rest.split_first_chunk::<4>()?;
                let (length, rest) = rest.split_first_chunk::<4>()?;
                Some((u32::from_le_bytes(*checksum), u32::from_le_bytes(*length), rest))
            });
            let (checksum, length, rest) = trailer.ok_or_else(ends_too_soon)?;
            let member = &room[..written];
            let found = crc32fast::hash(member);
            if found != checksum {
                return Err(Error::data(format!("the checksum is {found:08x}, gzip states {checksum:08x}")));
            }
            // The size is stated modulo 2^32.
            if member.len() as u64 & u64::from(u32::MAX) != u64::from(length) {
                return Err(Error::data(format!(
                    "a member has {} bytes, gzip states {length}",
                    member.len()
                )));
            }
            filled += written;
            if rest.is_empty() {
                return Ok(filled);
            }
            input = rest;
        }
    }

    /// Inflates what is between header and trailer. Returns the bytes that it took and made; one byte that it
    /// made may be beyond the room.
    fn inflate(&mut self, body: &[u8], room: &mut [u8]) -> Result<(usize, usize)> {
        let failed = |cause: DecompressError| Error::data(cause);
        self.inflater.reset(false);
        // The input is complete and all output has room, so no window is kept.
        let mut status = self.inflater.decompress(body, room, FlushDecompress::Finish).map_err(failed)?;
        if status != Status::StreamEnd && self.written() == room.len() {
            let rest = body.get(self.read()..).unwrap_or_default();
            status = self.inflater.decompress(rest, &mut [0], FlushDecompress::Finish).map_err(failed)?;
        }
        let (read, written) = (self.read(), self.written());
        if status == Status::StreamEnd || written > room.len() {
            Ok((read, written))
        } else {
            Err(ends_too_soon())
        }
    }

    fn read(&self) -> usize {
        usize::try_from(self.inflater.total_in()).unwrap_or(usize::MAX)
    }

    fn written(&self) -> usize {
        usize::try_from(self.inflater.total_out()).unwrap_or(usize::MAX)
    }
}

/// The bytes behind the header of a member.
fn behind_header(input: &[u8]) -> Option<&[u8]> {
    let (start, mut rest) = input.split_first_chunk::<10>()?;
    let [0x1f, 0x8b, 8, flags, ..] = *start else { return None };
    if flags & RESERVED != 0 {
        return None;
    }
    if flags & EXTRA != 0 {
        let (length, extra) = rest.split_first_chunk::<2>()?;
        rest = extra.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            rest = &rest[rest.iter().position(|&byte| byte == 0)? + 1..];
        }
    }
    if flags & HEADER_CHECKSUM != 0 {
        let found = crc32fast::hash(&input[..input.len() - rest.len()]);
        let (stated, behind) = rest.split_first_chunk::<2>()?;
        if found & 0xffff != u32::from(u16::from_le_bytes(*stated)) {
            return None;
        }
        rest = behind;
    }
    Some(rest)
}

fn ends_too_soon() -> Error {
    Error::data("gzip ends too soon")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn member(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn numbers(count: u32) -> Vec<u8> {
        (0..count).flat_map(|number| (number * number % 1000).to_le_bytes()).collect()
    }

    /// The library's own reader of members, with which ours must agree.
    fn library(input: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut output = Vec::new();
        let mut reader = flate2::bufread::MultiGzDecoder::new(input).take(size as u64 + 1);
        reader.read_to_end(&mut output).ok()?;
        (output.len() == size).then_some(output)
    }

    fn ours(gzip: &mut Gzip, input: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut output = vec![0; size];
        (gzip.decompress(input, &mut output).ok()? == size).then_some(output)
    }

    #[test]
    fn members_are_read_as_one_page_wherever_they_end_and_empty_ones_add_nothing() {
        let (plain, empty) = (numbers(5000), member(&[]));
        let mut gzip = Gzip::new();
        for cut in [0, 1, 4096, plain.len()] {
            let (front, back) = plain.split_at(cut);
            let input = [&empty[..], &member(front), &empty, &empty, &member(back), &empty].concat();
            assert_eq!(ours(&mut gzip, &input, plain.len()).as_deref(), Some(&plain[..]), "cut at {cut}");
            assert_eq!(gzip.decompress(&input, &mut vec![0; plain.len() + 1]).unwrap(), plain.len());
            assert_eq!(gzip.decompress(&input, &mut vec![0; plain.len() - 1]).unwrap(), plain.len());
        }
        assert_eq!(gzip.decompress(&empty, &mut []).unwrap(), 0, "a page of no bytes");
        assert!(gzip.decompress(&[], &mut []).is_err(), "no bytes are no page");
    }

    #[test]
    fn a_page_that_goes_on_behind_the_stated_size_counts_one_byte_more() {
        let input = member(&vec![7; 1 << 20]);
        let mut gzip = Gzip::new();
        for size in [0, 1, 1000, 40_000, (1 << 20) - 1] {
            assert_eq!(gzip.decompress(&input, &mut vec![0; size]).unwrap(), size + 1);
        }
        let twice = [member(&[7; 1000]), member(&[8])].concat();
        assert_eq!(gzip.decompress(&twice, &mut [0; 1000]).unwrap(), 1001);
    }

    #[test]
    fn whatever_a_header_may_have_is_passed_over() {
        let plain = numbers(100);
        let bare = member(&plain);
        let text = [1, 2, 3].repeat(100);
        for flags in 0..32_u8 {
            let mut header = bare[..10].to_vec();
            header[3] = flags;
            if flags & EXTRA != 0 {
                header.extend(300_u16.to_le_bytes());
                header.extend(&text);
            }
            for _ in 0..(flags & (NAME | COMMENT)).count_ones() {
                header.extend(b"a name\0");
            }
            if flags & HEADER_CHECKSUM != 0 {
                header.extend(&crc32fast::hash(&header).to_le_bytes()[..2]);
            }
            let mut input = [&header[..], &bare[10..]].concat();
            assert_eq!(
                ours(&mut Gzip::new(), &input, plain.len()).as_deref(),
                Some(&plain[..]),
                "{flags:#b}"
            );
            for length in 0..header.len() {
                assert!(ours(&mut Gzip::new(), &input[..length], plain.len()).is_none());
            }
            input[3] |= 1 << 5;
            assert!(ours(&mut Gzip::new(), &input, plain.len()).is_none(), "a flag that nobody knows");
            input[3] = flags;
            input[4] ^= 1;
            let is_checked = flags & HEADER_CHECKSUM != 0;
            assert_eq!(ours(&mut Gzip::new(), &input, plain.len()).is_none(), is_checked, "another time");
        }
    }

    #[test]
    fn what_is_damaged_ends_too_soon_or_goes_on_is_an_error_and_the_next_page_is_none() {
        let plain = numbers(300);
        let input = member(&plain);
        let mut gzip = Gzip::new();
        for length in 0..input.len() {
            assert!(gzip.decompress(&input[..length], &mut vec![0; plain.len()]).is_err(), "{length} bytes");
        }
        for trail in [&[0][..], &[0; 20], b"garbage", &input[..9]] {
            let input = [&input[..], trail].concat();
            assert!(gzip.decompress(&input, &mut vec![0; plain.len()]).is_err(), "{trail:?} behind it");
        }
        for place in 1..=8 {
            let mut input = input.clone();
            let place = input.len() - place;
            input[place] ^= 1;
            let error = gzip.decompress(&input, &mut vec![0; plain.len()]).unwrap_err().to_string();
            assert!(error.contains("gzip states"), "{error}");
        }
        for place in 0..input.len() * 8 {
            let mut input = input.clone();
            input[place / 8] ^= 1 << (place % 8);
            assert!(
                ours(&mut gzip, &input, plain.len()) == library(&input, plain.len()),
                "bit {place} is another"
            );
        }
        assert_eq!(ours(&mut gzip, &input, plain.len()), Some(plain));
    }
}
