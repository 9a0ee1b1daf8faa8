//! The free list: blocks of memory that were freed, until they are reused.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::error::Result;
use crate::memory::block::Block;

/// Smaller blocks are not worth keeping.
pub const KEPT_BYTES: usize = 4 << 10;

/// How much stays when there is no reader: usually another pass follows, and fresh memory costs more than
/// what is written to it. The default window of a shuffled order, and what is decoded beside it, is smaller.
const RESTING_BYTES: usize = 352 << 20;

/// More than any machine has: the sum of what tens of thousands of readers state stays a number.
const MOST_STATED_BYTES: usize = 1 << (usize::BITS - 17);

/// How often a lock is tried that another thread holds. It may never be released: in a forked child, a thread
/// of the parent may have held it.
const TRIES: usize = 100;

/// The store of the process.
pub static STORE: FreeList = FreeList::new();

/// The freed blocks.
///
/// Kept blocks and blocks in use together have a limit: the bytes that the readers have stated, or the peak
/// of bytes in use, whichever is more. Blocks that are too small to be kept don't count. Blocks in use come
/// first.
#[derive(Debug)]
pub struct FreeList {
    kept: Mutex<FreeBlocks>,
    /// The number of readers, and the bytes that they stated: counted beside the lock, which may be refused.
    readers: AtomicUsize,
    stated_bytes: AtomicUsize,
    /// Bytes of blocks in use, and their peak since the first of the present readers began.
    out: AtomicUsize,
    most_out: AtomicUsize,
}

#[derive(Debug)]
struct FreeBlocks {
    by_bytes: BTreeMap<usize, Vec<Block>>,
    bytes: usize,
}

impl FreeBlocks {
    /// Removes blocks, large ones first, until those left have at most `bytes` bytes.
    fn shrink(&mut self, bytes: usize) -> Vec<Block> {
        let mut out = Vec::new();
        while self.bytes > bytes
            && let Some(block) = self.by_bytes.last_entry().and_then(|mut last| last.get_mut().pop())
        {
            self.took(&block);
            out.push(block);
        }
        out
    }

    /// Notes that a block was taken.
    fn took(&mut self, block: &Block) {
        self.bytes -= block.len();
        if self.by_bytes.get(&block.len()).is_some_and(Vec::is_empty) {
            self.by_bytes.remove(&block.len());
        }
    }
}

impl FreeList {
    /// An empty store.
    pub const fn new() -> Self {
        Self {
            kept: Mutex::new(FreeBlocks { by_bytes: BTreeMap::new(), bytes: 0 }),
            readers: AtomicUsize::new(0),
            stated_bytes: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
            most_out: AtomicUsize::new(0),
        }
    }

    /// Notes that a reader begins, which states how many bytes it needs.
    pub fn begin(&self, stated_bytes: usize) {
        self.stated_bytes.fetch_add(stated_bytes.min(MOST_STATED_BYTES), Ordering::Relaxed);
        if self.readers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.most_out.store(self.out.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Notes that a reader ends, which had stated `stated_bytes`.
    pub fn end(&self, stated_bytes: usize) {
        self.stated_bytes.fetch_sub(stated_bytes.min(MOST_STATED_BYTES), Ordering::Relaxed);
        if self.readers.fetch_sub(1, Ordering::Relaxed) == 1 {
            let dropped = self.kept().map(|mut kept| kept.shrink(RESTING_BYTES));
            drop(dropped);
        }
    }

    /// A block of `bytes` bytes, or some more, with any content.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn take(&self, bytes: usize) -> Result<Block> {
        self.take_or(bytes, Block::zeroed)
    }

    /// The same; a function makes it if none is kept.
    ///
    /// # Errors
    /// As for that function.
    pub fn take_or(&self, bytes: usize, fresh: fn(usize) -> Result<Block>) -> Result<Block> {
        let block = match self.take_kept(bytes) {
            Some(block) => block,
            None => fresh(bytes)?,
        };
        let out = self.out.fetch_add(block.len(), Ordering::Relaxed) + block.len();
        self.most_out.fetch_max(out, Ordering::Relaxed);
        Ok(block)
    }

    /// A kept block. If none fits, it makes room for a new one, unless blocks of this size are never kept.
    fn take_kept(&self, bytes: usize) -> Option<Block> {
        if bytes < KEPT_BYTES {
            return None;
        }
        let mut kept = self.kept()?;
        let fitting = kept.by_bytes.range_mut(bytes..=bytes.saturating_add(bytes / 8)).next();
        if let Some(block) = fitting.and_then(|(_, same)| same.pop()) {
            kept.took(&block);
            return Some(block);
        }
        let room = self.room().saturating_sub(bytes);
        let dropped = kept.shrink(room);
        drop(kept);
        drop(dropped);
        None
    }

    /// Takes a block back.
    pub fn give(&self, block: Block) {
        let bytes = block.len();
        self.out.fetch_sub(bytes, Ordering::Relaxed);
        if bytes >= KEPT_BYTES
            && let Some(mut kept) = self.kept()
            && kept.bytes + bytes <= self.room()
        {
            kept.bytes += bytes;
            kept.by_bytes.entry(bytes).or_default().push(block);
        }
    }

    /// Returns the kept blocks to the system.
    pub fn release(&self) {
        let dropped = self.kept().map(|mut kept| kept.shrink(0));
        drop(dropped);
    }

    /// The number of bytes that may be kept now.
    fn room(&self) -> usize {
        if self.readers.load(Ordering::Relaxed) == 0 {
            return RESTING_BYTES;
        }
        let most = self.stated_bytes.load(Ordering::Relaxed).max(self.most_out.load(Ordering::Relaxed));
        most.saturating_sub(self.out.load(Ordering::Relaxed))
    }

    fn kept(&self) -> Option<MutexGuard<'_, FreeBlocks>> {
        (0..TRIES).find_map(|_| {
            std::hint::spin_loop();
            self.kept.try_lock().ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl FreeList {
        pub fn bytes(&self) -> usize {
            self.kept().unwrap().bytes
        }
    }

    #[test]
    fn what_came_back_is_taken_again_and_nothing_of_another_size() {
        let store = FreeList::new();
        store.begin(0);
        for bytes in [2 * KEPT_BYTES, 3 << 20] {
            let mut one = store.take(bytes).unwrap();
            one.bytes_mut().fill(7);
            let other = store.take(bytes).unwrap();
            assert_eq!(other.bytes()[0], 0, "two that are out at once are not the same");
            store.give(one);
            store.give(other);
            let found = [store.take(bytes).unwrap(), store.take(bytes).unwrap()];
            assert_eq!(found.iter().filter(|block| block.bytes()[0] == 7).count(), 1);
            assert_eq!(store.take(bytes / 2).unwrap().bytes()[0], 0);
            assert_eq!(store.bytes(), 0);
            for block in found {
                store.give(block);
            }
        }
        store.give(store.take(KEPT_BYTES - 8).unwrap());
        assert_eq!(store.take(KEPT_BYTES - 8).unwrap().len(), KEPT_BYTES - 8);
    }

    #[test]
    fn what_is_too_little_to_be_kept_makes_no_room_for_itself() {
        let store = FreeList::new();
        store.begin(100 * KEPT_BYTES);
        store.give(store.take(100 * KEPT_BYTES).unwrap());
        assert_eq!(store.take(8).unwrap().len(), 8);
        assert_eq!(store.bytes(), 100 * KEPT_BYTES);
    }

    #[test]
    fn what_is_kept_and_what_is_out_are_never_more_than_was_stated_or_was_out_at_once() {
        for stated in [0, 100 * KEPT_BYTES, 1000 * KEPT_BYTES] {
            let store = FreeList::new();
            store.begin(stated);
            let (mut out, mut most) = (Vec::<Block>::new(), 0);
            for round in 0_usize..2000 {
                let bytes = KEPT_BYTES * (1 + round * 7919 % 40) / 3;
                if round * 31 % 97 < 50 {
                    out.push(store.take(bytes).unwrap());
                } else if !out.is_empty() {
                    store.give(out.swap_remove(round * 13 % out.len()));
                }
                let now: usize = out.iter().map(Block::len).sum();
                most = most.max(now);
                assert!(store.bytes() + now <= most.max(stated) + 40 * KEPT_BYTES / 3 / 8);
            }
            assert!(store.bytes() > 0 || stated == 0);
        }
    }

    #[test]
    fn when_nobody_reads_no_more_than_the_rest_is_kept() {
        let store = FreeList::new();
        store.begin(usize::MAX);
        store.begin(usize::MAX);
        let blocks: Vec<Block> = (0..9).map(|_| store.take(RESTING_BYTES / 8).unwrap()).collect();
        for block in blocks {
            store.give(block);
        }
        store.end(usize::MAX);
        assert_eq!(store.bytes(), RESTING_BYTES / 8 * 9);
        store.end(usize::MAX);
        assert_eq!(store.bytes(), RESTING_BYTES);
        store.begin(RESTING_BYTES / 8 * 3);
        assert!(store.take(RESTING_BYTES / 4).is_ok());
        assert_eq!(store.bytes(), RESTING_BYTES / 8, "what does not fit makes room for what is needed");
    }

    #[test]
    fn readers_are_counted_while_another_thread_has_the_blocks() {
        let store = FreeList::new();
        let held = store.kept().unwrap();
        store.begin(100 * KEPT_BYTES);
        store.begin(usize::MAX);
        store.end(usize::MAX);
        drop(held);
        assert_eq!(store.room(), 100 * KEPT_BYTES);
        let held = store.kept().unwrap();
        store.end(100 * KEPT_BYTES);
        drop(held);
        assert_eq!(store.room(), RESTING_BYTES);
    }
}
