//! Decompresses Brotli pages, with memory that earlier pages freed.
//!
//! The crate's own allocator takes all of it anew for each page, and a law (`no_codec_asks_for_memory_page_by_page`) fails with it.
//!
//! The decoder writes each page into a window of its own first. A window is as long as the page at least, or has 16 MiB,
//! and is a power of two.

use std::cell::Cell;

use brotli::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, HuffmanCode, SliceWrapper, SliceWrapperMut,
};

use crate::error::{Error, Result};
use crate::memory::vectors::exact_room_for;

/// The largest window of RFC 7932. (Large-window Brotli, with up to 1 GiB, is another format, and no Parquet
/// codec.)
pub const MOST_WINDOW_BYTES: usize = 1 << 24;

/// The decoder's smallest window, except for pages that are smaller still.
const LEAST_WINDOW_BYTES: usize = 1 << 10;

/// Room behind a window for the longest word that may begin in it.
const WINDOW_SLACK_BYTES: usize = 1 << 10;

/// The largest context map: 256 block types with 64 contexts each.
const SMALL_BYTES: usize = 256 * 64;

/// The codes of one tree, and those of the tables of block types, fit into this many. More trees take another
/// piece.
const SMALL_CODES: usize = 2 << 10;

/// The most trees of a group.
const SMALL_WORDS: usize = 256;

/// Decompresses Brotli pages, and keeps the memory for that.
pub struct Brotli {
    bytes: FreeMemory<u8>,
    words: FreeMemory<u32>,
    codes: FreeMemory<HuffmanCode>,
}

impl Brotli {
    pub fn new() -> Self {
        Self {
            bytes: FreeMemory::new(SMALL_BYTES),
            words: FreeMemory::new(SMALL_WORDS),
            codes: FreeMemory::new(SMALL_CODES),
        }
    }

    /// Fills `output` from `input`, and returns the size of the decompressed input. It stops after one byte
    /// beyond the output, which counts as too much.
    ///
    /// # Errors
    /// `Data` if the input is damaged, ends too soon, or goes on behind its end. Also if it asks for a larger
    /// window than a page of `output`'s size needs.
    pub fn decompress(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let stated = output.len();
        let window = stated.clamp(LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES).next_power_of_two();
        self.bytes.most.set(SMALL_BYTES.max(window + WINDOW_SLACK_BYTES));
        let mut state = BrotliState::new_strict(&self.bytes, &self.words, &self.codes);
        // Allocated at its final length, so that it never has to be moved.
        state.set_initial_ring_buffer_size(u32::try_from(window).unwrap_or(0));
        let (mut left, mut read, mut room, mut filled) = (input.len(), 0, stated, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut filled,
            output,
            &mut 0,
            &mut state,
        );
        match result {
            BrotliResult::ResultSuccess if left == 0 => Ok(filled),
            BrotliResult::ResultSuccess => Err(Error::data(format!("{left} bytes follow the end of Brotli"))),
            BrotliResult::NeedsMoreOutput => Ok(stated + 1),
            BrotliResult::NeedsMoreInput => Err(Error::data("Brotli ends too soon")),
            BrotliResult::ResultFailure if self.bytes.has_refused.take() => Err(Error::data(format!(
                "Brotli asks for more memory than a page of {stated} bytes needs, which its header states"
            ))),
            BrotliResult::ResultFailure => Err(Error::data(format!("{:?}", state.error_code))),
        }
    }
}

/// Memory that pages freed. All small pieces have one length, so that each fits any small request; a window
/// keeps its length. Of the large pieces, one that is too short is freed before a longer one is allocated. So
/// there are never more pieces than one page had at a time.
struct FreeMemory<T> {
    small: usize,
    /// The longest piece that may be allocated.
    most: Cell<usize>,
    has_refused: Cell<bool>,
    free: Cell<Vec<Vec<T>>>,
}

impl<T> FreeMemory<T> {
    fn new(small: usize) -> Self {
        Self { small, most: Cell::new(usize::MAX), has_refused: Cell::default(), free: Cell::default() }
    }

    /// The shortest free piece that is long enough, or else the longest one, which is then freed.
    fn place(&self, free: &[Vec<T>], length: usize) -> Option<usize> {
        let is_small = length <= self.small;
        let of_kind = || (0..free.len()).filter(|&place| (free[place].len() <= self.small) == is_small);
        let fitting = of_kind().filter(|&place| free[place].len() >= length);
        fitting
            .min_by_key(|&place| free[place].len())
            .or_else(|| of_kind().max_by_key(|&place| free[place].len()))
    }
}

impl<T: Clone + Default> Allocator<T> for &FreeMemory<T> {
    type AllocatedMemory = DecoderMemory<T>;

    /// Memory with any content. If there is none, an empty piece, which the decoder treats as an error.
    fn alloc_cell(&mut self, length: usize) -> DecoderMemory<T> {
        if length > self.most.get() {
            self.has_refused.set(true);
            return DecoderMemory::default();
        }
        if length == 0 {
            return DecoderMemory::default();
        }
        let mut free = self.free.take();
        let mut values = match self.place(&free, length) {
            Some(place) => free.swap_remove(place),
            None => Vec::new(),
        };
        self.free.set(free);
        let size = length.max(self.small);
        if values.len() < size {
            values = Vec::new();
            if exact_room_for(&mut values, size).is_err() {
                return DecoderMemory::default();
            }
            values.resize(size, T::default());
        }
        DecoderMemory { values, length }
    }

    fn free_cell(&mut self, piece: DecoderMemory<T>) {
        if !piece.values.is_empty() {
            let mut free = self.free.take();
            free.push(piece.values);
            self.free.set(free);
        }
    }
}

/// Memory that the decoder holds: the first values of a piece.
#[derive(Default)]
struct DecoderMemory<T> {
    values: Vec<T>,
    length: usize,
}

impl<T> SliceWrapper<T> for DecoderMemory<T> {
    fn slice(&self) -> &[T] {
        &self.values[..self.length]
    }
}

impl<T> SliceWrapperMut<T> for DecoderMemory<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.values[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn packed(plain: &[u8], quality: u32, window_bits: u32) -> Vec<u8> {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, quality, window_bits);
        encoder.write_all(plain).unwrap();
        encoder.into_inner()
    }

    /// A page with some of everything: text of a few words, numbers, noise.
    fn page(length: usize, seed: u32) -> Vec<u8> {
        let mut random = seed;
        let mut next = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16).to_le_bytes()
        };
        let mut page = Vec::new();
        while page.len() < length {
            match (page.len() >> 12) % 3 {
                0 => page.extend([b"time ", b"down ", b"life ", b"left "][usize::from(next()[0] % 4)]),
                1 => page.extend([next()[0] % 10, 0, 0, 0]),
                _ => page.push(next()[0]),
            }
        }
        page.truncate(length);
        page
    }

    /// What a new decoder of the library returns, if that has `size` bytes.
    fn library(input: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut output = Vec::new();
        let mut reader = brotli::Decompressor::new(input, input.len().max(1)).take(size as u64 + 1);
        reader.read_to_end(&mut output).ok()?;
        (output.len() == size).then_some(output)
    }

    fn ours(brotli: &mut Brotli, input: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut output = vec![0; size];
        (brotli.decompress(input, &mut output).ok()? == size).then_some(output)
    }

    impl Brotli {
        /// The numbers of bytes and pieces that are kept.
        fn kept(&self) -> (usize, usize) {
            fn of<T>(pool: &FreeMemory<T>) -> (usize, usize) {
                let free = pool.free.take();
                let bytes = free.iter().map(|piece| piece.capacity() * size_of::<T>()).sum();
                let pieces = free.len();
                pool.free.set(free);
                (bytes, pieces)
            }
            let kept = [of(&self.bytes), of(&self.words), of(&self.codes)];
            kept.into_iter().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
        }
    }

    #[test]
    fn pages_of_any_size_quality_and_window_are_read_with_what_the_ones_before_left() {
        let mut brotli = Brotli::new();
        for length in [0, 1, 2, 1000, 1024, 1025, 65_536, 70_000, (1 << 20) + 1] {
            for (quality, window_bits) in [(0, 10), (1, 22), (5, 16), (9, 22), (9, 24)] {
                let plain = page(length, quality);
                let input = packed(&plain, quality, window_bits);
                assert!(ours(&mut brotli, &input, length).as_ref() == Some(&plain), "{length}, {quality}");
                if length > 0 {
                    assert_eq!(ours(&mut brotli, &input, length - 1), None);
                }
                assert_eq!(brotli.decompress(&input, &mut vec![0; length + 1]).unwrap(), length);
            }
        }
    }

    #[test]
    fn what_is_damaged_ends_too_soon_or_goes_on_is_an_error_and_the_next_page_is_none() {
        let plain = page(6000, 3);
        let mut brotli = Brotli::new();
        for quality in [1, 5, 9] {
            let input = packed(&plain, quality, 22);
            for length in (0..input.len()).step_by(3) {
                assert!(brotli.decompress(&input[..length], &mut vec![0; plain.len()]).is_err(), "{length}");
            }
            for trail in [&[0][..], b"garbage", &input] {
                let input = [&input[..], trail].concat();
                assert!(brotli.decompress(&input, &mut vec![0; plain.len()]).is_err(), "{trail:?} behind it");
            }
            // Each bit of a byte comes, as 8 and the step have no divisor in common.
            for place in (0..input.len() * 8).step_by(7) {
                let mut input = input.clone();
                input[place / 8] ^= 1 << (place % 8);
                let found = ours(&mut brotli, &input, plain.len());
                assert!(found == ours(&mut Brotli::new(), &input, plain.len()), "bit {place} is another");
                // The library ignores bytes behind the end; we refuse them.
                assert!(found.is_none() || found == library(&input, plain.len()), "bit {place} is another");
            }
            assert!(ours(&mut brotli, &input, plain.len()) == Some(plain.clone()));
        }
    }

    #[test]
    fn what_is_kept_is_a_window_and_some_tables_whatever_pages_there_were() {
        let mut brotli = Brotli::new();
        for round in 0..20_u32 {
            let length = [300_000, 5000, 900_000, 70_000, 20][round as usize % 5];
            let plain = page(length, round);
            let input = packed(&plain, [1, 9, 5][round as usize % 3], 22);
            assert!(ours(&mut brotli, &input, length) == Some(plain));
        }
        let (bytes, pieces) = brotli.kept();
        // Three maps and a window, small or large; three lists of trees; three tables and three groups, small
        // or large.
        assert!(bytes < (1 << 20) + (1 << 19) && pieces <= 17, "{bytes} bytes in {pieces} pieces");
    }

    #[test]
    fn a_bomb_gets_no_memory_and_a_large_window_is_not_known() {
        let bomb = packed(&vec![7; 32 << 20], 5, 24);
        for size in [0, 80, 100_000] {
            let mut brotli = Brotli::new();
            let error = brotli.decompress(&bomb, &mut vec![0; size]).unwrap_err().to_string();
            assert!(error.contains(&format!("a page of {size} bytes")), "{error}");
            assert!(brotli.kept().0 < 1 << 18);
        }
        // With a small window, the first byte that is too much ends it.
        let bomb = packed(&vec![7; 1 << 20], 5, 10);
        assert_eq!(Brotli::new().decompress(&bomb, &mut [0; 5000]).unwrap(), 5001);
        // The large format: a window of 2^30 bytes (the last six bits of 0xde), with nothing in it.
        let large = [0x11, 0xde];
        assert_eq!(library(&large, 0), Some(Vec::new()));
        assert!(Brotli::new().decompress(&large, &mut []).is_err());
    }
}
