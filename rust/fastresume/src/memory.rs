//! Memory for the values of tensors, which comes back and is used again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};

/// An allocation of more than this is tried before it is made.
const TRIED_BYTES: usize = 64 << 20;

/// Less than this is not worth keeping.
const POOLED_BYTES: usize = 4 << 10;

/// Memory that was let go of, for what needs as much again: fresh memory costs more than what is written to it.
///
/// Copies are the same pool. What comes back is kept as long as a copy lives.
#[derive(Debug, Clone)]
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
        memory.pool = Some(self.clone());
        Ok(memory)
    }

    fn keep(&self, words: Vec<u64>) {
        // Nobody may ever unlock it again: this may be a child that was forked while another thread held it.
        if let Ok(mut kept) = self.kept.try_lock()
            && kept.bytes + words.len() * 8 <= self.limit_bytes
        {
            kept.bytes += words.len() * 8;
            kept.by_words.entry(words.len()).or_default().push(words);
        }
    }
}

/// Bytes that are aligned to 8: numbers of any type.
#[derive(Debug, Default)]
pub struct Memory {
    words: Vec<u64>,
    length: usize,
    /// Where the words go in the end.
    pool: Option<Pool>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.keep(std::mem::take(&mut self.words));
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
            // What grows bit by bit is not copied each time.
            let words = words.max(2 * self.words.len());
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
