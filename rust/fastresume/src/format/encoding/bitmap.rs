//! Bitmaps, as Arrow has them: one bit for each value of a page, from the lowest bit on.

use std::ops::Range;

use crate::simd;

/// Bits of a word.
pub const WORD: usize = u64::BITS as usize;

/// A bitmap, from the lowest bit of the first word on.
#[derive(Debug, Default)]
pub struct Bitmap {
    /// One word more than the bits need; bits behind the last one are 0.
    words: Vec<u64>,
    length: usize,
}

impl Bitmap {
    /// Sets it to `length` zeros.
    pub fn clear(&mut self, length: usize) {
        self.words.clear();
        self.words.resize(length.div_ceil(WORD) + 1, 0);
        self.length = length;
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// Sets the bits from number `place` on that are 1 in `word`; none of these lies behind the last bit.
    #[inline]
    pub fn add(&mut self, place: usize, word: u64) {
        let inside = place % WORD;
        if let Some([low, high]) = self.words.get_mut(place / WORD..place / WORD + 2) {
            *low |= word << inside;
            // In two steps, because a word can't be shifted by 64 places.
            *high |= word >> 1 >> (WORD - 1 - inside);
        }
    }

    /// Sets consecutive bits.
    #[inline]
    pub fn add_run(&mut self, run: Range<usize>) {
        let mut place = run.start;
        while place < run.end {
            let some = (run.end - place).min(WORD - place % WORD);
            if some == WORD {
                let whole = (run.end - place) / WORD;
                self.words[place / WORD..place / WORD + whole].fill(u64::MAX);
                place += whole * WORD;
            } else {
                self.add(place, lowest(some));
                place += some;
            }
        }
    }

    /// Sets it to `count` bits; `word` returns each word. Bits behind the last one are cleared.
    pub fn set(&mut self, count: usize, word: impl Fn(usize) -> u64) {
        self.words.clear();
        self.words.extend((0..count.div_ceil(WORD)).map(word));
        if let Some(last) = self.words.last_mut().filter(|_| !count.is_multiple_of(WORD)) {
            *last &= lowest(count % WORD);
        }
        self.words.push(0);
        self.length = count;
    }

    /// Sets it to the result of `word` on each pair of words of two bitmaps of one length. `word` must return
    /// zeros for zeros.
    pub fn combine(&mut self, one: &Self, other: &Self, word: impl Fn(u64, u64) -> u64) {
        self.words.clear();
        self.words.extend(one.words.iter().zip(&other.words).map(|(&one, &other)| word(one, other)));
        self.length = one.length;
    }

    /// The words, from the lowest bit of the first one on.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.length.div_ceil(WORD)]
    }

    pub fn all(&self) -> Marks<'_> {
        self.part(0..self.length)
    }

    /// The bits of a range.
    pub fn part(&self, range: Range<usize>) -> Marks<'_> {
        Marks { words: &self.words, range }
    }
}

/// Some consecutive bits, counted from their first one.
#[derive(Debug, Clone)]
pub struct Marks<'a> {
    words: &'a [u64],
    range: Range<usize>,
}

impl<'a> Marks<'a> {
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// All of them as words, from the lowest bit of the first one on; bits behind the last one are 0.
    #[inline]
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (first, inside) = (self.range.start / WORD, self.range.start % WORD);
        let count = self.len().div_ceil(WORD);
        let used = lowest(self.len() - count.saturating_sub(1) * WORD);
        let words = self.words.get(first..=first + count).unwrap_or_default();
        words.windows(2).enumerate().map(move |(index, pair)| {
            // In two steps, because a word can't be shifted by 64 places.
            let word = pair[0] >> inside | pair[1] << 1 << (WORD - 1 - inside);
            if index + 1 == count { word & used } else { word }
        })
    }

    /// Each bit.
    pub fn each(&self) -> impl Iterator<Item = bool> + use<'a> {
        let words = self.words().flat_map(|word| (0..WORD).map(move |place| word >> place & 1 == 1));
        words.take(self.len())
    }

    /// How many bits are 1.
    pub fn ones(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    /// For each of some ascending bits: whether it is 1, and how many 1s lie before it.
    pub fn ranks(&self, bits: impl Iterator<Item = usize>) -> impl Iterator<Item = (bool, usize)> {
        let ones = |word: u64| word.count_ones() as usize;
        let (words, start) = (self.words, self.range.start);
        let mut at = start / WORD;
        // The 1s before the word that a bit is in, less those before the first bit.
        let outside = words.get(at).map_or(0, |&word| ones(word & lowest(start % WORD)));
        let mut passed = 0;
        bits.map(move |bit| {
            let (word, inside) = ((start + bit) / WORD, (start + bit) % WORD);
            passed += words[at..word].iter().map(|&word| ones(word)).sum::<usize>();
            at = word;
            let before = passed + ones(words[at] & lowest(inside)) - outside;
            (words[at] >> inside & 1 == 1, before)
        })
    }

    /// The index of the first 0.
    pub fn first_zero(&self) -> Option<usize> {
        let place = self.words().enumerate().find(|(_, word)| *word != u64::MAX);
        place
            .map(|(index, word)| index * WORD + word.trailing_ones() as usize)
            .filter(|&bit| bit < self.len())
    }

    /// The index of the 1 that has `before` 1s before it; the error is the number of 1s if there are not
    /// more.
    pub fn nth_one(&self, before: usize) -> Result<usize, usize> {
        let mut passed = 0;
        for (index, mut word) in self.words().enumerate() {
            let ones = word.count_ones() as usize;
            if passed + ones > before {
                for _ in passed..before {
                    word &= word - 1;
                }
                return Ok(index * WORD + word.trailing_zeros() as usize);
            }
            passed += ones;
        }
        Err(passed)
    }

    /// A part of it.
    pub fn part(&self, range: Range<usize>) -> Marks<'a> {
        let first = self.range.start;
        Marks { words: self.words, range: first + range.start..first + range.end }
    }

    /// Writes each bit as a byte.
    pub fn write(&self, output: &mut [u8]) {
        simd::write_bits(self.words(), output);
    }
}

/// A word whose lowest `count` bits are 1.
#[inline]
pub fn lowest(count: usize) -> u64 {
    if count >= WORD { u64::MAX } else { (1 << count) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bitmap of runs of ones and whole words.
    fn made(length: usize) -> (Bitmap, Vec<u8>) {
        let (mut bits, mut expected) = (Bitmap::default(), vec![0; length]);
        bits.clear(1000);
        bits.add_run(0..1000);
        bits.clear(length);
        for (index, start) in (0..length).step_by(97).enumerate() {
            let end = length.min(start + [1, 90, 64, 30, 97][index % 5]);
            if index % 3 == 0 {
                let word = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(index as u64 + 1) & lowest(end - start);
                bits.add(start, word);
                for bit in 0..WORD.min(end - start) {
                    expected[start + bit] = u8::from(word >> bit & 1 == 1);
                }
            } else {
                bits.add_run(start..end);
                expected[start..end].fill(1);
            }
        }
        (bits, expected)
    }

    #[test]
    fn any_part_of_them_is_counted_searched_and_written() {
        for length in [1, 63, 64, 65, 640, 1000] {
            let (bits, expected) = made(length);
            assert_eq!(bits.len(), length);
            for start in (0..=length).step_by(13) {
                for end in (start..=length).step_by(29) {
                    let (marks, expected) = (bits.part(0..end).part(start..end), &expected[start..end]);
                    let ones: Vec<usize> = (0..end - start).filter(|&bit| expected[bit] == 1).collect();
                    assert_eq!(marks.ones(), ones.len());
                    assert_eq!(marks.first_zero(), expected.iter().position(|&bit| bit == 0));
                    for step in [1, 5, 70] {
                        let some = (0..end - start).step_by(step);
                        let ranks = some
                            .clone()
                            .map(|bit| (expected[bit] == 1, ones.iter().filter(|&&one| one < bit).count()));
                        assert!(marks.ranks(some).eq(ranks));
                    }
                    assert_eq!(marks.nth_one(ones.len()), Err(ones.len()));
                    for before in (0..ones.len()).step_by(29) {
                        assert_eq!(marks.nth_one(before), Ok(ones[before]));
                    }
                    let mut written = vec![9; end - start];
                    marks.write(&mut written);
                    assert_eq!(written, expected);
                }
            }
        }
    }

    #[test]
    fn what_is_set_by_words_ends_with_its_last_bit() {
        let mut bits = Bitmap::default();
        bits.set(70, |_| u64::MAX);
        assert_eq!(bits.words(), [u64::MAX, 63]);
        assert_eq!((bits.all().ones(), bits.all().first_zero()), (70, None));
    }
}
