//! Decompresses Snappy pages of numbers.
//!
//! The upper half of an 8-byte number repeats an earlier one, and often its lower bytes do as well. So a
//! Snappy page of such numbers consists almost only of *pairs*: a literal of up to four bytes, or none, then
//! a copy of up to sixteen. A usual decoder mostly waits for tags, because each tag tells where the next one
//! is. Here the length of the pair that would begin at a byte is computed for many bytes at once. Then one
//! lookup leads from pair to pair.
//!
//! Source: <https://github.com/google/snappy/blob/main/format_description.txt>

use super::dispatch::chosen;

/// The number of bytes for which lengths are computed at once.
const MEASURED: usize = 256;

/// A pair is read as one word: two tags, four bytes of a literal, and two bytes of a copy's distance.
const WORD: usize = size_of::<u64>();

/// The number of elements without a pair that a page may begin with.
const ALONE: usize = 64;

/// The bytes per further element without a pair. Pages of other data have more such elements, and other
/// decoders are faster for them.
const BYTES_FOR_EACH: usize = 32;

chosen! {
    /// Fills `output` from Snappy's elements, if they are valid and most of them are pairs. Otherwise it
    /// returns `None` with undefined output, and another decoder has to find the error.
    pub fn decompress_numbers(elements: &[u8], output: &mut [u8]) -> Option<()>
        = decompress, for AVX2 decompress
}

#[inline(always)]
fn decompress(elements: &[u8], output: &mut [u8]) -> Option<()> {
    let (mut read, mut written) = (0, 0);
    let mut alone = ALONE;
    let mut lengths = [0; MEASURED];
    while let Some(ahead) = elements.get(read..).and_then(|rest| rest.first_chunk()) {
        measure(ahead, &mut lengths);
        let mut at = 0;
        while let Some(&length) = lengths.get(at) {
            if let Some(expanded) = pair(ahead, at, length, output, written) {
                at += usize::from(length);
                written += expanded;
                continue;
            }
            alone = alone.checked_sub(1)?;
            let (taken, expanded) = element(&elements[read + at..], output, written)?;
            at += taken;
            written += expanded;
        }
        read += at;
        alone += MEASURED / BYTES_FOR_EACH;
    }
    while read < elements.len() {
        let (taken, expanded) = element(&elements[read..], output, written)?;
        read += taken;
        written += expanded;
    }
    (written == output.len()).then_some(())
}

/// Writes the length in bytes of the pair that begins at each byte; 0 if none does.
#[inline(always)]
fn measure(input: &[u8; MEASURED + WORD], lengths: &mut [u8; MEASURED]) {
    let all_if = |is_so: bool| u8::from(is_so).wrapping_neg();
    // Copies of the first two kinds, with one and two bytes behind their tag, whose last bits are 1 and 2.
    let is_copy = |tag: u8| all_if(tag.wrapping_add(1) & 2 != 0);
    let behind = |bytes: usize| &input[bytes..][..MEASURED];
    // A literal of one byte to four, whose tags are 0, 4, 8 and 12, with the tag of a copy behind it.
    let [one, two, three, four] = [2, 3, 4, 5].map(behind);
    for (at, length) in lengths.iter_mut().enumerate() {
        let tag = input[at];
        let copy = (tag & is_copy(tag))
            | (one[at] & all_if(tag == 0))
            | (two[at] & all_if(tag == 4))
            | (three[at] & all_if(tag == 8))
            | (four[at] & all_if(tag == 12));
        let literal = (tag / 4 + 2) & !is_copy(tag);
        *length = (literal + copy % 4 + 1) & is_copy(copy);
    }
}

/// Writes the pair that begins at a byte behind the earlier output. It does so only if the pair has a length,
/// and its copy is short enough and lies before the pair. Returns the number of bytes written; behind them
/// other bytes may be overwritten.
#[inline(always)]
fn pair(
    input: &[u8; MEASURED + WORD],
    at: usize,
    length: u8,
    output: &mut [u8],
    written: usize,
) -> Option<usize> {
    let word = u64::from_le_bytes(*input.get(at..)?.first_chunk()?);
    let has_literal = usize::from(word % 4 == 0);
    let literal = has_literal * ((word / 4 % 4) as usize + 1);
    let copy = word >> (8 * (has_literal + literal));
    let Copy { length: copied, mask, beside } = COPIES[(copy & 0xff) as usize];
    let copied = usize::from(copied);
    let distance = (copy >> 8) as usize & usize::from(mask) | usize::from(beside);
    if length == 0 || copied > 2 * WORD || literal + copied > distance {
        return None;
    }
    // The source is read before the literal is written, and word by word: earlier writes of the same width can
    // be read sooner.
    let source: &[u8; 2 * WORD] = output.get((written + literal).wrapping_sub(distance)..)?.first_chunk()?;
    let source: [u64; 2] = bytemuck::pod_read_unaligned(source);
    let place: &mut [u8; 4 + 2 * WORD] = output.get_mut(written..)?.first_chunk_mut()?;
    place[..WORD].copy_from_slice(&(word >> 8).to_le_bytes());
    place[literal..][..WORD].copy_from_slice(&source[0].to_ne_bytes());
    place[literal + WORD..][..WORD].copy_from_slice(&source[1].to_ne_bytes());
    Some(literal + copied)
}

/// What the tag of a copy says: its length, a mask of the two bytes behind the tag, and the part of the
/// distance in the tag itself.
#[derive(Clone, Copy)]
struct Copy {
    length: u8,
    mask: u16,
    beside: u16,
}

/// Copies by their tags; length 0 for the tags of literals.
const COPIES: [Copy; 256] = {
    let mut copies = [Copy { length: 0, mask: 0, beside: 0 }; 256];
    let mut tag = 0;
    loop {
        copies[tag as usize] = match tag % 4 {
            0 => copies[tag as usize],
            1 => Copy { length: 4 + (tag >> 2 & 7), mask: 0xff, beside: (tag as u16 >> 5) << 8 },
            _ => Copy { length: 1 + (tag >> 2), mask: 0xffff, beside: 0 },
        };
        if tag == u8::MAX {
            break copies;
        }
        tag += 1;
    }
};

/// Writes the first element behind the earlier output. Returns its length in bytes and the number of bytes
/// written, or `None` if it is damaged.
#[inline(never)]
fn element(elements: &[u8], output: &mut [u8], written: usize) -> Option<(usize, usize)> {
    let (&tag, rest) = elements.split_first()?;
    if tag % 4 == 0 {
        let (length, rest) = literal_length(tag, rest)?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        output.get_mut(written..)?.get_mut(..length)?.copy_from_slice(bytes);
        return Some((elements.len() - rest.len(), length));
    }
    let Copy { length, beside, .. } = COPIES[usize::from(tag)];
    let (distance, rest) = rest.split_at_checked(if tag % 4 == 3 { 4 } else { usize::from(tag % 4) })?;
    let distance = usize::try_from(number(distance)).ok()? | usize::from(beside);
    let start = written.checked_sub(distance).filter(|_| distance > 0)?;
    let length = usize::from(length);
    let output = output.get_mut(start..written + length)?;
    // The source may end within the copy itself: then it is repeated.
    let mut copied = 0;
    while copied < length {
        let step = distance.min(length - copied);
        output.copy_within(copied..copied + step, distance + copied);
        copied += step;
    }
    Some((elements.len() - rest.len(), length))
}

/// The length of a literal, and the bytes behind that length. The tag holds the length less one if that is
/// below 60, else the bytes behind the tag do.
pub fn literal_length(tag: u8, behind: &[u8]) -> Option<(usize, &[u8])> {
    let bytes = usize::from(tag >> 2).saturating_sub(59);
    let (length, rest) = behind.split_at_checked(bytes)?;
    let less_one = if bytes == 0 { u64::from(tag >> 2) } else { number(length) };
    Some((usize::try_from(less_one + 1).ok()?, rest))
}

/// A little-endian number of at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        /// A number of `[0, end)`.
        fn below(&mut self, end: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(((self.0 >> 32) * u64::from(end)) >> 32).unwrap()
        }

        /// A number of `[1, most]`.
        fn up_to(&mut self, most: u32) -> u32 {
            1 + self.below(most)
        }
    }

    /// Adds an element, before which `written` bytes were written; returns how many it writes.
    fn put(elements: &mut Vec<u8>, written: u32, has_rare: bool, random: &mut Random) -> u32 {
        let written = written.max(1);
        let literal = |length: u32, elements: &mut Vec<u8>, random: &mut Random| {
            let (header, bytes) = match length - 1 {
                less_one @ ..60 => (less_one << 2, 1),
                less_one @ ..256 => (60 << 2 | less_one << 8, 2),
                less_one => (61 << 2 | less_one << 8, 3),
            };
            elements.extend(&header.to_le_bytes()[..bytes]);
            elements.extend((0..length).map(|_| random.below(256).to_le_bytes()[0]));
            length
        };
        match random.below(if has_rare { 12 } else { 9 }) {
            0..4 => literal(random.up_to(4), elements, random),
            4..7 => {
                let (length, distance) = (3 + random.up_to(8), random.up_to(written.min(2047)));
                let element = distance >> 8 << 5 | (length - 4) << 2 | 1 | (distance & 0xff) << 8;
                elements.extend(&element.to_le_bytes()[..2]);
                length
            }
            7..9 => {
                let length = random.up_to(if has_rare { 64 } else { 20 });
                let element = (length - 1) << 2 | 2 | random.up_to(written.min(65535)) << 8;
                elements.extend(&element.to_le_bytes()[..3]);
                length
            }
            9 => {
                let length = random.up_to(64);
                elements.push(((length - 1) << 2 | 3).to_le_bytes()[0]);
                elements.extend(random.up_to(written).to_le_bytes());
                length
            }
            10 => literal(random.up_to(60), elements, random),
            _ => literal(random.up_to(300), elements, random),
        }
    }

    /// What the library decompresses from these elements, if they are valid.
    fn expected(elements: &[u8], length: usize) -> Option<Vec<u8>> {
        let length = length.to_le_bytes().map(u32::from);
        let length = length[0] | length[1] << 8 | length[2] << 16;
        let input: Vec<u8> =
            (0..4).map(|index| (length >> (7 * index) & 0x7f | 0x80).to_le_bytes()[0]).collect();
        snap::raw::Decoder::new().decompress_vec(&[&input[..], &[0], elements].concat()).ok()
    }

    /// Whether these were decompressed; if so, the result must be the library's.
    fn is_right(elements: &[u8], length: usize) -> bool {
        let (mut output, mut twin) = (vec![0x5a; length], vec![0xa5; length]);
        let done = decompress_numbers(elements, &mut output).is_some();
        assert_eq!(done, decompress(elements, &mut twin).is_some(), "for any processor");
        if done {
            let expected = expected(elements, length);
            assert!(Some(&output) == expected.as_ref() && Some(&twin) == expected.as_ref(), "{elements:?}");
        }
        done
    }

    #[test]
    fn any_elements_are_decompressed_as_the_library_does_or_not_at_all() {
        let mut random = Random(17);
        let (mut done, mut refused) = (0, 0);
        for round in 0..4000 {
            let (mut elements, mut written) = (Vec::new(), 0);
            let wanted = random.up_to(6000) as usize;
            while elements.len() < wanted {
                written += put(&mut elements, written, round % 2 == 0, &mut random);
            }
            let written = written as usize;
            if is_right(&elements, written) {
                done += 1;
            } else {
                refused += 1;
            }
            is_right(&elements, written + 1);
            is_right(&elements, written - 1);
            // Another byte may change all elements that follow it.
            let at = random.below(u32::try_from(elements.len()).unwrap()) as usize;
            elements[at] = random.below(256).to_le_bytes()[0];
            is_right(&elements, written);
            is_right(&elements[..at], written);
        }
        assert!(done > 500 && refused > 500, "{done} done, {refused} not");
    }

    #[test]
    fn pages_of_numbers_are_decompressed_and_others_are_left_to_the_library() {
        let mut random = Random(3);
        let mut numbers = |number: &mut dyn FnMut(u64, &mut Random) -> u64| -> Vec<u8> {
            (0..20_000).flat_map(|index| number(index, &mut random).to_le_bytes()).collect()
        };
        let packed = |bytes: &[u8]| {
            let packed = snap::raw::Encoder::new().compress_vec(bytes).unwrap();
            let length = packed.iter().position(|&byte| byte < 0x80).unwrap() + 1;
            packed[length..].to_vec()
        };
        for page in [
            numbers(&mut |_, random| random.below(1 << 20).into()),
            numbers(&mut |_, random| random.below(1 << 31).into()),
            numbers(&mut |index, random| random.below(1 << (index % 30)).into()),
            numbers(&mut |index, random| {
                1_700_000_000_000_000 + 1000 * index + u64::from(random.below(1000))
            }),
            numbers(&mut |_, random| f64::from(random.below(1000)).to_bits()),
        ] {
            let elements = packed(&page);
            assert!(is_right(&elements, page.len()));
            for end in [0, 1, 100, elements.len() - 1] {
                assert!(!is_right(&elements[..end], page.len()), "the first {end} bytes of it");
            }
            assert!(!is_right(&elements, page.len() + 1));
            assert!(!is_right(&elements, page.len() - 1));
        }
        let text = include_bytes!("snappy.rs");
        assert!(!is_right(&packed(text), text.len()), "text");
    }
}
