//! Memory for the values of tensors, which is returned to a pool and reused.

use crate::error::Result;
use crate::memory::block::Block;
pub use crate::memory::block::{PAGED_BYTES, PageLock, most_paged};
use crate::memory::free_list::{FreeList, KEPT_BYTES, STORE};
pub use crate::memory::vectors::{check_reserve, may_be_refused, note_reserve};

/// Where a reader gets memory: freed memory comes first, because fresh memory costs more than what is written
/// to it.
#[derive(Debug)]
pub struct Pool {
    store: Option<&'static FreeList>,
    stated_bytes: usize,
}

impl Pool {
    /// A pool for a reader that states how many bytes it needs. One that states 0 frees memory for ever.
    #[must_use]
    pub fn new(stated_bytes: usize) -> Self {
        Self::of(&STORE, stated_bytes)
    }

    fn of(store: &'static FreeList, stated_bytes: usize) -> Self {
        if stated_bytes == 0 {
            return Self { store: None, stated_bytes };
        }
        store.begin(stated_bytes);
        Self { store: Some(store), stated_bytes }
    }

    /// Memory of `length` bytes with any content; it returns to the pool when it is dropped.
    ///
    /// From `PAGED_BYTES` on it begins and ends at page bounds.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn memory(&self, length: usize) -> Result<Memory> {
        let store = self.store.filter(|_| length >= KEPT_BYTES);
        let block = store.map_or_else(|| Block::zeroed(length), |store| store.take(length))?;
        Ok(Memory { block, length, store })
    }

    /// Empty memory, which grows by freed blocks, and returns to the pool as well.
    #[must_use]
    pub fn growing(&self) -> Memory {
        Memory { block: Block::default(), length: 0, store: self.store }
    }
}

/// Returns the memory that is kept for later readers to the system.
pub fn release() {
    STORE.release();
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(store) = self.store {
            store.end(self.stated_bytes);
        }
    }
}

/// Bytes that are aligned to 8, for numbers of any type.
#[derive(Debug, Default)]
pub struct Memory {
    block: Block,
    length: usize,
    /// Where the block is returned to when it is dropped.
    store: Option<&'static FreeList>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(store) = self.store {
            store.give(std::mem::take(&mut self.block));
        }
    }
}

impl Memory {
    /// Empty memory, which is returned to the pool of the process.
    #[must_use]
    pub fn lent() -> Self {
        Self { block: Block::default(), length: 0, store: Some(&STORE) }
    }

    /// Empty memory with room for so many bytes that are on their way; it returns to the pool of the process.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn for_what_comes(bytes: usize) -> Result<Self> {
        let block = STORE.take_or(bytes, Block::zeroed_for_once)?;
        Ok(Self { block, length: 0, store: Some(&STORE) })
    }

    /// Empty memory, which grows as this one does.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { block: Block::default(), length: 0, store: self.store }
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.block.bytes()[..self.length]
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.block.bytes_mut()[..self.length]
    }

    /// Locks its pages, if it consists of pages, for as long as they are reused; returns whether they are
    /// locked.
    pub fn lock(&mut self, lock: &'static dyn PageLock) -> bool {
        self.block.lock(lock)
    }

    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Removes the bytes, and keeps the memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Removes all bytes but the first `length`.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The same bytes, in memory that is not much larger than they are.
    ///
    /// # Errors
    /// As for `resize`.
    pub fn fitted(self) -> Result<Self> {
        if self.block.len() / 2 <= self.length {
            return Ok(self);
        }
        let mut fitted = self.another();
        fitted.extend(self.bytes())?;
        Ok(fitted)
    }

    /// Resizes it to `length` bytes; new bytes have any content, or are zeros.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn resize(&mut self, length: usize) -> Result<()> {
        if length > self.block.len() {
            // Memory that grows bit by bit is not moved each time.
            let bytes = length.max(self.block.len() / 2 * 3);
            self.reserve(bytes - self.length)?;
        }
        self.length = length;
        Ok(())
    }

    /// Reserves room for `bytes` more bytes.
    ///
    /// # Errors
    /// As for `resize`.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        let wanted = self.length.saturating_add(bytes);
        if wanted <= self.block.len() {
            return Ok(());
        }
        // Pages that were not written to are no memory yet, and those that were are not there twice.
        if self.store.is_none() && self.block.grow(wanted) {
            return Ok(());
        }
        if self.length == 0 {
            // Nothing is copied, so that both need not exist at once.
            self.put(Block::default());
        }
        let mut larger = self.store.map_or_else(|| Block::zeroed(wanted), |store| store.take(wanted))?;
        larger.bytes_mut()[..self.length].copy_from_slice(self.bytes());
        self.put(larger);
        Ok(())
    }

    /// Replaces the block by another.
    fn put(&mut self, block: Block) {
        let old = std::mem::replace(&mut self.block, block);
        if let Some(store) = self.store {
            store.give(old);
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As for `resize`.
    #[inline]
    pub fn extend(&mut self, bytes: &[u8]) -> Result<()> {
        let (start, end) = (self.length, self.length + bytes.len());
        if end > self.block.len() {
            self.resize(end)?;
        }
        self.length = end;
        self.bytes_mut()[start..].copy_from_slice(bytes);
        Ok(())
    }
}

impl From<Vec<u64>> for Memory {
    fn from(words: Vec<u64>) -> Self {
        Self { length: 8 * words.len(), block: Block::Words(words), store: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

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
    fn memory_that_grows_takes_what_was_let_go_of_and_gives_back_what_it_had() {
        static OWN: FreeList = FreeList::new();
        let pool = Pool::of(&OWN, 1 << 24);
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
        let after_one = OWN.bytes();
        assert!(after_one > 97 * 199 * 100, "what was too small came back as well");
        grow();
        assert_eq!(OWN.bytes(), after_one, "nothing else was needed");
    }

    #[test]
    fn a_pool_of_nothing_gives_memory_that_does_not_come_back() {
        static OWN: FreeList = FreeList::new();
        for (stated, comes_back) in [(1, true), (0, false)] {
            drop(Pool::of(&OWN, stated).memory(2 * KEPT_BYTES).unwrap());
            assert_eq!(OWN.bytes() > 0, comes_back);
            OWN.release();
        }
    }

    /// Notes what is locked; refuses all blocks but the first few.
    #[derive(Debug)]
    struct Noted {
        locked: Mutex<BTreeMap<usize, usize>>,
        most: usize,
    }

    impl PageLock for Noted {
        fn lock(&self, address: usize, bytes: usize) -> bool {
            let mut locked = self.locked.lock().unwrap();
            assert_eq!((address % 4096, bytes % 4096), (0, 0));
            locked.len() < self.most && locked.insert(address, bytes).is_none()
        }

        fn unlock(&self, address: usize, bytes: usize) {
            assert_eq!(self.locked.lock().unwrap().remove(&address), Some(bytes));
        }
    }

    #[test]
    fn pages_are_locked_once_and_unlocked_before_they_go() {
        static OWN: FreeList = FreeList::new();
        static LOCK: Noted = Noted { locked: Mutex::new(BTreeMap::new()), most: 1 };
        let locked = || LOCK.locked.lock().unwrap().clone();
        let pool = Pool::of(&OWN, 1 << 24);
        assert!(!pool.memory(PAGED_BYTES - 1).unwrap().lock(&LOCK), "it may share its pages with others");
        for _ in 0..3 {
            let mut memory = pool.memory(3 * PAGED_BYTES).unwrap();
            assert!(memory.lock(&LOCK));
            assert!(memory.lock(&LOCK));
            let at = memory.bytes().as_ptr().addr();
            assert_eq!(locked(), [(at, 3 * PAGED_BYTES)].into());
            let mut other = pool.memory(3 * PAGED_BYTES).unwrap();
            assert!(!other.lock(&LOCK), "what can't be locked is memory as any other");
            other.bytes_mut().fill(1);
            drop(other);
        }
        let mut memory = pool.memory(3 * PAGED_BYTES).unwrap();
        memory.lock(&LOCK);
        memory.resize(9 * PAGED_BYTES).unwrap();
        drop(memory);
        assert_eq!(locked().len(), 1);
        OWN.release();
        assert!(locked().is_empty());
    }

    #[test]
    fn pages_that_grow_keep_their_bytes() {
        let mut memory = Pool::new(0).growing();
        let bytes: Vec<u8> = (0..=250).cycle().take(9 * PAGED_BYTES).collect();
        memory.extend(&bytes).unwrap();
        memory.reserve(1000 * PAGED_BYTES).unwrap();
        assert_eq!(memory.bytes(), bytes);
        memory.resize(1009 * PAGED_BYTES).unwrap();
        assert!(memory.bytes()[9 * PAGED_BYTES..].iter().all(|&byte| byte == 0));
        assert!(memory.reserve(usize::MAX).is_err());
        assert_eq!(memory.bytes()[..9 * PAGED_BYTES], bytes);
    }

    #[test]
    fn large_memory_is_whole_pages() {
        let pool = Pool::new(0);
        for length in [PAGED_BYTES, PAGED_BYTES + 1, 3_000_000] {
            let mut memory = pool.memory(length).unwrap();
            assert_eq!(memory.len(), length);
            assert_eq!(memory.bytes().as_ptr().addr() % 4096, 0);
            assert_eq!(memory.block.len() % 4096, 0);
            assert!(memory.bytes().iter().all(|&byte| byte == 0));
            memory.bytes_mut().fill(1);
            memory.resize(2 * length).unwrap();
            assert!(memory.bytes()[..length].iter().all(|&byte| byte == 1));
            assert!(memory.bytes()[length..].iter().all(|&byte| byte == 0));
        }
        assert!(pool.memory(usize::MAX).is_err());
        assert!(pool.memory(1 << 60).is_err());
    }
}
