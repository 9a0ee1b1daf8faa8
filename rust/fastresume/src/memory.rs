//! Memory for the values of tensors, which comes back and is used again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use crate::error::{Error, Result};

/// An allocation of more than this is tried before it is made.
const TRIED_BYTES: usize = 1 << 20;

/// Less than this is not worth keeping.
const POOLED_BYTES: usize = 4 << 10;

/// Memory that was let go of, for what needs as much again: fresh memory costs more than what is written to it.
///
/// What comes back is kept as long as the pool lives.
#[derive(Debug)]
pub struct Pool {
    kept: Arc<Mutex<Kept>>,
    limit_bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    by_words: BTreeMap<usize, Vec<Vec<u64>>>,
    bytes: usize,
}

impl Pool {
    /// A pool that keeps at most so many bytes.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self { kept: Arc::default(), limit_bytes }
    }

    /// Memory for so many bytes, which hold anything; it comes back when it is dropped.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn memory(&self, length: usize) -> Result<Memory> {
        if length < POOLED_BYTES {
            return Memory::zeroed(length);
        }
        let home = self.home();
        Ok(Memory { words: home.words(length.div_ceil(8))?, length, pool: Some(home) })
    }

    /// Memory of no bytes, which grows with what the pool kept, and comes back as well.
    #[must_use]
    pub fn growing(&self) -> Memory {
        Memory { words: Vec::new(), length: 0, pool: Some(self.home()) }
    }

    fn home(&self) -> Home {
        Home { kept: Arc::downgrade(&self.kept), limit_bytes: self.limit_bytes }
    }
}

/// The way back to a pool, which does not keep it alive.
#[derive(Debug, Clone)]
struct Home {
    kept: Weak<Mutex<Kept>>,
    limit_bytes: usize,
}

impl Home {
    /// So many words, or some more, which hold anything.
    fn words(&self, count: usize) -> Result<Vec<u64>> {
        let kept = self.kept.upgrade();
        let words = kept.as_ref().and_then(|kept| {
            let mut kept = kept.try_lock().ok()?;
            let (&size, same) = kept.by_words.range_mut(count..=count + count / 8).next()?;
            let words = same.pop()?;
            if same.is_empty() {
                kept.by_words.remove(&size);
            }
            kept.bytes -= size * 8;
            Some(words)
        });
        words.map_or_else(|| zeros(count), Ok)
    }

    fn keep(&self, words: Vec<u64>) {
        let bytes = words.len() * 8;
        // Nobody may ever unlock it again: this may be a child that was forked while another thread held it.
        if bytes >= POOLED_BYTES
            && let Some(kept) = self.kept.upgrade()
            && let Ok(mut kept) = kept.try_lock()
            && (kept.bytes + bytes <= self.limit_bytes || kept.bytes == 0 && self.limit_bytes > 0)
        {
            kept.bytes += bytes;
            kept.by_words.entry(words.len()).or_default().push(words);
        }
    }
}

/// Bytes that are aligned to 8: numbers of any type.
#[derive(Debug, Default)]
pub struct Memory {
    words: Vec<u64>,
    length: usize,
    /// Where the words go in the end, if that is still there.
    pool: Option<Home>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(home) = self.pool.take() {
            home.keep(std::mem::take(&mut self.words));
        }
    }
}

impl Memory {
    /// So many bytes of zeros.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn zeroed(length: usize) -> Result<Self> {
        Ok(Self { words: zeros(length.div_ceil(8))?, length, pool: None })
    }

    /// Memory of no bytes, which grows as this one does.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { words: Vec::new(), length: 0, pool: self.pool.clone() }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Forgets the bytes, and keeps the memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Forgets all bytes but the first so many.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Makes it so many bytes; new ones hold anything that was there before, or zeros.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn resize(&mut self, length: usize) -> Result<()> {
        let words = length.div_ceil(8);
        if words > self.words.len() {
            // What grows bit by bit is not copied each time; room that was made is enough.
            let room = self.words.capacity();
            let words = if words <= room { room } else { words.max(self.words.len() * 3 / 2) };
            self.reserve(words * 8 - self.length)?;
            self.words.resize(words.max(self.words.len()), 0);
        }
        self.length = length;
        Ok(())
    }

    /// Makes room for so many bytes behind those there are.
    ///
    /// # Errors
    /// As for `resize`.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        let words = self.length.saturating_add(bytes).div_ceil(8);
        let Some(home) = &self.pool else {
            let more = words.saturating_sub(self.words.len());
            return self.words.try_reserve_exact(more).map_err(|_| no_memory(words.saturating_mul(8)));
        };
        if words > self.words.len() {
            let mut larger = home.words(words)?;
            let held = self.length.div_ceil(8);
            larger[..held].copy_from_slice(&self.words[..held]);
            home.keep(std::mem::replace(&mut self.words, larger));
        }
        Ok(())
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// As for `resize`.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Result<()> {
        let (start, end) = (self.length, self.length + bytes.len());
        if end > size_of_val(self.words.as_slice()) {
            self.resize(end)?;
        }
        self.length = end;
        self.bytes_mut()[start..].copy_from_slice(bytes);
        Ok(())
    }
}

fn zeros(words: usize) -> Result<Vec<u64>> {
    // A refused allocation would end the process, so a large one is tried before.
    if words > TRIED_BYTES / 8 && Vec::<u64>::new().try_reserve_exact(words).is_err() {
        return Err(no_memory(words.saturating_mul(8)));
    }
    Ok(vec![0; words])
}

fn no_memory(bytes: usize) -> Error {
    Error::Argument(format!("no memory for a tensor of {bytes} bytes: batches are too large"))
}

impl From<Vec<u64>> for Memory {
    fn from(words: Vec<u64>) -> Self {
        Self { length: 8 * words.len(), words, pool: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_added_as_a_vector_adds_them() {
        for lengths in [[0, 1, 7, 8, 9, 100], [8, 8, 0, 3, 16, 1], [5, 0, 0, 200, 1, 64]] {
            for reserved in [0, 50, 1000] {
                let (mut memory, mut expected) = (Memory::default(), Vec::new());
                for round in 0..2 {
                    memory.clear();
                    expected.clear();
                    memory.reserve(reserved).unwrap();
                    for (byte, length) in (round..).zip(lengths) {
                        memory.extend(&vec![byte; length]).unwrap();
                        expected.extend(vec![byte; length]);
                        assert_eq!(memory.bytes(), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn memory_comes_back_to_its_pool_up_to_the_limit() {
        let pool = Pool::new(3 * POOLED_BYTES);
        let mut one = pool.memory(2 * POOLED_BYTES).unwrap();
        one.bytes_mut().fill(7);
        let other = pool.memory(2 * POOLED_BYTES).unwrap();
        assert_eq!(other.bytes()[0], 0, "two that live at once are not the same");
        drop(one);
        drop(other);
        assert_eq!(pool.memory(2 * POOLED_BYTES).unwrap().bytes()[0], 7, "what came back is taken again");
        assert_eq!(pool.memory(POOLED_BYTES).unwrap().bytes()[0], 0, "of another size it is not");
        assert!(pool.kept.lock().unwrap().bytes <= 3 * POOLED_BYTES);
    }

    #[test]
    fn memory_that_grows_takes_what_the_pool_kept_and_gives_back_what_it_had() {
        let pool = Pool::new(1 << 24);
        let kept = || pool.kept.lock().unwrap().bytes;
        let grow = || {
            let (mut memory, mut expected) = (pool.growing(), Vec::new());
            for byte in 0..200_u8 {
                let bytes = vec![byte; 97 * usize::from(byte)];
                memory.extend(&bytes).unwrap();
                expected.extend(bytes);
                assert_eq!(memory.bytes(), expected);
            }
            memory.truncate(97);
            assert_eq!(memory.another().len(), 0);
            assert_eq!(memory.bytes(), [1; 97]);
        };
        grow();
        let after_one = kept();
        assert!(after_one > 97 * 199 * 100, "what was too small came back as well");
        grow();
        assert_eq!(kept(), after_one, "nothing else was needed");
    }

    #[test]
    fn one_piece_is_kept_however_large_it_is_but_not_by_a_pool_of_nothing() {
        for (limit, kept) in [(1, true), (0, false)] {
            let pool = Pool::new(limit);
            for _ in 0..2 {
                drop((pool.memory(2 * POOLED_BYTES).unwrap(), pool.memory(3 * POOLED_BYTES).unwrap()));
            }
            let bytes = pool.kept.lock().unwrap().bytes;
            assert_eq!(bytes > 0, kept);
            assert!(bytes <= 3 * POOLED_BYTES);
        }
    }
}
