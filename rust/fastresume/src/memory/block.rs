//! Blocks of memory from the system: words of the allocator, or whole pages.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::MmapMut;

use crate::error::Result;
use crate::memory::platform;
use crate::memory::vectors::{filled, no_memory};

/// Blocks of this size and larger are whole pages: they begin and end at page bounds, and go back to the
/// system when they are dropped.
pub const PAGED_BYTES: usize = 64 << 10;

/// Bytes of a page, as most systems have them.
const PAGE_BYTES: usize = 4 << 10;

/// Bytes of all mapped pages, and their peak since the last call of [`most_paged`].
static PAGED: AtomicUsize = AtomicUsize::new(0);
static MOST_PAGED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are aligned to 8.
#[derive(Debug)]
pub enum Block {
    /// Words of the allocator.
    Words(Vec<u64>),
    /// Whole pages.
    Pages(SystemPages),
}

/// Locks (pins) pages, so that a device can copy them by itself.
pub trait PageLock: fmt::Debug + Send + Sync {
    /// Locks the pages of these bytes; returns whether they are locked. The address is that of a page.
    fn lock(&self, address: usize, bytes: usize) -> bool;

    /// Unlocks what was locked there, before the pages go back to the system.
    fn unlock(&self, address: usize, bytes: usize);
}

/// Whole pages, which are counted, and what has locked them.
#[derive(Debug)]
pub struct SystemPages(MmapMut, Option<&'static dyn PageLock>);

impl SystemPages {
    fn zeroed(bytes: usize, is_used_again: bool) -> Result<Self> {
        let whole = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or_else(|| no_memory(bytes))?;
        let map = MmapMut::map_anon(whole).map_err(|_| no_memory(bytes))?;
        // Maps that lie side by side become one, so that huge pages hold small blocks as well. A system
        // without them loses nothing. A virtual machine may have to ask its host for each: that pays where
        // memory is written many times.
        if is_used_again {
            platform::ask_for_huge_pages(&map);
        }
        note_paged(whole);
        Ok(Self(map, None))
    }

    /// Adds pages of zeros behind these, up to so many bytes; returns whether it could. None is copied: the system moves them.
    fn grow(&mut self, bytes: usize) -> bool {
        let old = self.0.len();
        let Some(whole) = bytes.checked_next_multiple_of(PAGE_BYTES).filter(|_| self.1.is_none()) else {
            return false;
        };
        let is_longer = platform::lengthen(&mut self.0, whole);
        if is_longer {
            note_paged(whole - old);
        }
        is_longer
    }
}

/// Counts so many bytes more of mapped pages.
fn note_paged(bytes: usize) {
    MOST_PAGED.fetch_max(PAGED.fetch_add(bytes, Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

impl Drop for SystemPages {
    fn drop(&mut self) {
        if let Some(lock) = self.1 {
            lock.unlock(self.0.as_ptr().expose_provenance(), self.0.len());
        }
        PAGED.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// The peak of mapped bytes since the last call, without those of the allocator.
pub fn most_paged() -> usize {
    MOST_PAGED.swap(PAGED.load(Ordering::Relaxed), Ordering::Relaxed)
}

impl Default for Block {
    fn default() -> Self {
        Self::Words(Vec::new())
    }
}

impl Block {
    /// A block of zeros, with `bytes` bytes or some more.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn zeroed(bytes: usize) -> Result<Self> {
        Self::made(bytes, true)
    }

    /// The same for bytes of which so many are held at once that few blocks may be used again.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn zeroed_for_once(bytes: usize) -> Result<Self> {
        Self::made(bytes, false)
    }

    fn made(bytes: usize, is_used_again: bool) -> Result<Self> {
        if bytes < PAGED_BYTES {
            return filled(bytes.div_ceil(8), 0).map(Self::Words);
        }
        SystemPages::zeroed(bytes, is_used_again).map(Self::Pages)
    }

    /// Makes it `bytes` bytes or some more, if its pages can be moved; returns whether it did.
    pub fn grow(&mut self, bytes: usize) -> bool {
        match self {
            Self::Words(_) => false,
            Self::Pages(pages) => pages.grow(bytes),
        }
    }

    /// Locks its pages, if it has any and they are not locked; returns whether they are locked.
    pub fn lock(&mut self, lock: &'static dyn PageLock) -> bool {
        let Self::Pages(SystemPages(map, locked)) = self else { return false };
        if locked.is_none() && lock.lock(map.as_mut_ptr().expose_provenance(), map.len()) {
            *locked = Some(lock);
        }
        locked.is_some()
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Words(words) => bytemuck::cast_slice(words),
            Self::Pages(pages) => &pages.0,
        }
    }

    /// The bytes, to be written.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Words(words) => bytemuck::cast_slice_mut(words),
            Self::Pages(pages) => &mut pages.0,
        }
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Words(words) => 8 * words.len(),
            Self::Pages(pages) => pages.0.len(),
        }
    }
}
