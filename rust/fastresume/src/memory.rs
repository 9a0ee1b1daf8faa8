//! Memory for the values of tensors, which comes back and is used again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use crate::error::{Error, Result};

/// An allocation of more than this is tried before it is made.
const TRIED_BYTES: usize = 64 << 20;

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
        let words = self.kept.try_lock().ok().and_then(|mut kept| {
            let words = kept.by_words.get_mut(&length.div_ceil(8))?.pop()?;
            kept.bytes -= words.len() * 8;
            Some(words)
        });
        let mut memory = match words {
            Some(words) => Memory { words, length, pool: None },
            None => Memory::zeroed(length)?,
        };
        memory.pool = Some(Home { kept: Arc::downgrade(&self.kept), limit_bytes: self.limit_bytes });
        Ok(memory)
    }
}

fn keep(kept: &Mutex<Kept>, limit_bytes: usize, words: Vec<u64>) {
    // Nobody may ever unlock it again: this may be a child that was forked while another thread held it.
    if let Ok(mut kept) = kept.try_lock()
        && kept.bytes + words.len() * 8 <= limit_bytes
    {
        kept.bytes += words.len() * 8;
        kept.by_words.entry(words.len()).or_default().push(words);
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

/// The way back to a pool, which does not keep it alive.
#[derive(Debug)]
struct Home {
    kept: Weak<Mutex<Kept>>,
    limit_bytes: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(home) = self.pool.take()
            && let Some(kept) = home.kept.upgrade()
        {
            keep(&kept, home.limit_bytes, std::mem::take(&mut self.words));
        }
    }
}

impl Memory {
    /// So many bytes of zeros.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn zeroed(length: usize) -> Result<Self> {
        let words = length.div_ceil(8);
        // A refused allocation would end the process, so a large one is tried before.
        if length > TRIED_BYTES && Vec::<u64>::new().try_reserve_exact(words).is_err() {
            return Err(no_memory(length));
        }
        Ok(Self { words: vec![0; words], length, pool: None })
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

    /// Makes it so many bytes; new ones hold anything that was there before, or zeros.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn resize(&mut self, length: usize) -> Result<()> {
        let words = length.div_ceil(8);
        if words > self.words.len() {
            // What grows bit by bit is not copied each time; room that was made is enough.
            let room = self.words.capacity();
            let words = if words <= room { room } else { words.max(2 * self.words.len()) };
            self.reserve(words * 8 - self.length)?;
            self.words.resize(words, 0);
        }
        self.length = length;
        Ok(())
    }

    /// Makes room for so many bytes behind those there are.
    ///
    /// # Errors
    /// As for `resize`.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        let words = (self.length + bytes).div_ceil(8);
        let more = words.saturating_sub(self.words.len());
        self.words.try_reserve_exact(more).map_err(|_| no_memory(words.saturating_mul(8)))
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// As for `resize`.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<()> {
        let start = self.length;
        if start > 0 {
            self.resize(start + bytes.len())?;
            self.bytes_mut()[start..].copy_from_slice(bytes);
            return Ok(());
        }
        // What is empty takes whole words, which are not cleared before they are written.
        self.words.clear();
        self.reserve(bytes.len())?;
        let (whole, rest) = bytes.as_chunks::<8>();
        match bytemuck::try_cast_slice(whole.as_flattened()) {
            Ok(words) => self.words.extend_from_slice(words),
            Err(_) => self.words.extend(whole.iter().map(|word| u64::from_ne_bytes(*word))),
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.words.extend((!rest.is_empty()).then_some(u64::from_ne_bytes(last)));
        self.length = bytes.len();
        Ok(())
    }
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
}
