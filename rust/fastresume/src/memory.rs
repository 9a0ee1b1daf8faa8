//! Memory for the values of tensors.

use crate::error::{Error, Result};

/// An allocation of more than this is tried before it is made.
const TRIED_BYTES: usize = 64 << 20;

/// Bytes that are aligned to 8: numbers of any type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    words: Vec<u64>,
    length: usize,
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
            return Err(Error::Argument(format!(
                "no memory for a tensor of {length} bytes: batches are too large"
            )));
        }
        Ok(Self { words: vec![0; words], length })
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

    /// Makes it so many bytes; new ones hold anything that was there before, or zeros.
    pub fn resize(&mut self, length: usize) {
        let words = length.div_ceil(8);
        if words > self.words.len() {
            // What grows bit by bit is not copied each time.
            self.words.resize(words.max(2 * self.words.len()), 0);
        }
        self.length = length;
    }

    /// Makes room for so many bytes behind those there are.
    pub fn reserve(&mut self, bytes: usize) {
        let words = (self.length + bytes).div_ceil(8);
        self.words.reserve(words.saturating_sub(self.words.len()));
    }

    /// Adds bytes at the end.
    pub fn extend(&mut self, bytes: &[u8]) {
        let start = self.length;
        self.resize(start + bytes.len());
        self.bytes_mut()[start..].copy_from_slice(bytes);
    }

    /// The words that hold the bytes, the last one filled up with zeros.
    #[must_use]
    pub fn into_words(self) -> Vec<u64> {
        self.words
    }
}

impl From<Vec<u64>> for Memory {
    fn from(words: Vec<u64>) -> Self {
        Self { length: 8 * words.len(), words }
    }
}
