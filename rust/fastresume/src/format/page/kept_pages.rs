//! Decompressed pages that more than one part of a row group needs: dictionaries, and pages amid which a part ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use parquet::basic::Compression;

use crate::error::locked;
use crate::memory::pool::Memory;

/// So many bytes are kept at most: those of the columns that come first.
pub const KEPT_PAGES_BYTES: u64 = 32 << 20;

/// How many bytes of pages are kept of so many row groups at a time, where the rows of the largest one take so many: no more than
/// these, though they may take less than their dictionaries do.
pub fn most_kept(group_bytes: u64, groups: u64) -> u64 {
    group_bytes.min(KEPT_PAGES_BYTES).saturating_mul(groups).min(4 * KEPT_PAGES_BYTES)
}

/// Decompressed pages of row groups, for all threads that decode parts of these.
#[derive(Debug)]
pub struct KeptPages {
    most_bytes: u64,
    most_groups: usize,
    kept: Mutex<PagesByGroup>,
}

/// Which page of a row group it is, and what its bytes were made of. Of damaged files, columns may overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageKey {
    /// Where the column chunk begins.
    pub chunk: u64,
    /// Its offset.
    pub offset: u64,
    pub compression: Compression,
}

#[derive(Debug, Default)]
struct PagesByGroup {
    bytes: u64,
    /// How often a row group was begun.
    begun: u64,
    groups: BTreeMap<usize, GroupPages>,
}

/// The pages of a row group.
#[derive(Debug, Default)]
struct GroupPages {
    /// When it was begun last.
    begun: u64,
    /// Whether its last rows were decoded: others are let go of later.
    is_done: bool,
    bytes: u64,
    by_offset: BTreeMap<u64, (PageKey, Arc<Memory>)>,
}

impl PagesByGroup {
    /// The row group that was begun longest ago, of those whose last rows were decoded if there are any.
    fn oldest(&self) -> Option<usize> {
        let each = self.groups.iter();
        each.min_by_key(|(_, pages)| (!pages.is_done, pages.begun)).map(|(&group, _)| group)
    }

    /// Another row group than this one whose last rows were decoded.
    fn done_beside(&self, group: usize) -> Option<usize> {
        self.oldest().filter(|oldest| *oldest != group && self.groups[oldest].is_done)
    }

    /// Lets go of a row group's pages.
    fn let_go(&mut self, group: usize) -> Option<GroupPages> {
        let pages = self.groups.remove(&group)?;
        self.bytes -= pages.bytes;
        Some(pages)
    }
}

impl KeptPages {
    /// Keeps pages of so many row groups, and no more bytes than these; memory that was used before may take an eighth more.
    pub fn new(most_bytes: u64, most_groups: usize) -> Self {
        Self { most_bytes, most_groups: most_groups.max(1), kept: Mutex::default() }
    }

    /// Begins with a row group, or goes on with it. Those of others are forgotten if there are too many.
    pub fn begin(&self, group: usize) {
        let mut kept = locked(&self.kept);
        kept.begun += 1;
        let begun = kept.begun;
        let pages = kept.groups.entry(group).or_default();
        (pages.begun, pages.is_done) = (begun, false);
        let oldest = if kept.groups.len() > self.most_groups { kept.oldest() } else { None };
        let dropped = oldest.and_then(|oldest| kept.let_go(oldest));
        drop(kept);
        drop(dropped);
    }

    /// Notes that the last rows of a row group are decoded: nobody is expected to need its pages behind them.
    pub fn note_done(&self, group: usize) {
        if let Some(pages) = locked(&self.kept).groups.get_mut(&group) {
            pages.is_done = true;
        }
    }

    /// A dictionary of a row group, if it was kept.
    pub fn get(&self, group: usize, key: &PageKey) -> Option<Arc<Memory>> {
        let kept = locked(&self.kept);
        let (known, page) = kept.groups.get(&group)?.by_offset.get(&key.offset)?;
        (known == key).then(|| Arc::clone(page))
    }

    /// Takes a page of a row group out, if it was kept.
    pub fn take(&self, group: usize, key: &PageKey) -> Option<Memory> {
        let mut kept = locked(&self.kept);
        let pages = kept.groups.get_mut(&group)?;
        let (_, page) = pages.by_offset.get(&key.offset).filter(|(known, _)| known == key)?;
        let bytes = page.len() as u64;
        let (_, page) = pages.by_offset.remove(&key.offset)?;
        pages.bytes -= bytes;
        kept.bytes -= bytes;
        Arc::into_inner(page)
    }

    /// Keeps a page, unless its row group was forgotten or there is no room for it: row groups whose last rows were decoded make
    /// room.
    pub fn keep(&self, group: usize, key: PageKey, page: Arc<Memory>) {
        let mut kept = locked(&self.kept);
        let is_new = |own: &GroupPages| !own.by_offset.contains_key(&key.offset);
        if !kept.groups.get(&group).is_some_and(is_new) {
            return;
        }
        let bytes = page.len() as u64;
        let mut dropped = Vec::new();
        while kept.bytes + bytes > self.most_bytes
            && let Some(done) = kept.done_beside(group)
        {
            dropped.extend(kept.let_go(done));
        }
        if kept.bytes + bytes <= self.most_bytes
            && let Some(pages) = kept.groups.get_mut(&group)
        {
            pages.bytes += bytes;
            pages.by_offset.insert(key.offset, (key, page));
            kept.bytes += bytes;
        }
        drop(kept);
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: usize) -> Arc<Memory> {
        Arc::new(Memory::from(vec![0_u64; bytes / 8]))
    }

    fn key(offset: u64) -> PageKey {
        PageKey { chunk: 4, offset, compression: Compression::SNAPPY }
    }

    #[test]
    fn pages_are_kept_until_another_row_group_is_begun_and_as_long_as_there_is_room() {
        let pages = KeptPages::new(1000, 1);
        let length = |group, key: PageKey| pages.get(group, &key).map(|found| found.len());
        pages.begin(3);
        pages.keep(3, key(40), page(80));
        let other = PageKey { compression: Compression::UNCOMPRESSED, ..key(40) };
        pages.keep(3, other, page(88));
        assert_eq!(length(3, key(40)), Some(80));
        assert_eq!(length(3, other), None, "another codec makes other bytes of it");
        assert_eq!(
            length(3, PageKey { chunk: 5, ..key(40) }),
            None,
            "another column may have another header"
        );
        assert_eq!(length(3, key(41)), None);
        assert_eq!(length(2, key(40)), None, "another file may have one there");
        pages.keep(3, key(50), page(928));
        assert_eq!(length(3, key(50)), None, "too many bytes");
        pages.keep(3, key(60), page(920));
        pages.begin(3);
        assert_eq!(length(3, key(60)), Some(920));
        pages.begin(4);
        pages.keep(3, key(40), page(80));
        assert_eq!((length(3, key(40)), length(4, key(40))), (None, None));
        pages.keep(4, key(40), page(96));
        assert_eq!(length(4, key(40)), Some(96));
    }

    #[test]
    fn pages_of_several_row_groups_are_kept_and_those_that_are_taken_make_room() {
        let pages = KeptPages::new(1000, 2);
        pages.begin(3);
        pages.keep(3, key(40), page(400));
        pages.begin(7);
        pages.keep(7, key(40), page(400));
        pages.begin(3);
        pages.keep(3, key(50), page(400));
        let length = |group, offset| pages.get(group, &key(offset)).map(|found| found.len());
        assert_eq!([length(3, 40), length(7, 40), length(3, 50)], [Some(400), Some(400), None]);
        assert_eq!(pages.take(3, &key(50)).map(|page| page.len()), None);
        assert_eq!(pages.take(3, &key(40)).map(|page| page.len()), Some(400));
        assert_eq!(pages.take(3, &key(40)).map(|page| page.len()), None, "it was taken");
        pages.keep(3, key(50), page(600));
        assert_eq!(length(3, 50), Some(600));
        pages.begin(9);
        assert_eq!([length(7, 40), length(3, 50)], [None, Some(600)], "the oldest one is forgotten");
        pages.keep(9, key(40), page(400));
        assert_eq!(length(9, 40), Some(400));
        pages.note_done(9);
        pages.begin(11);
        assert_eq!([length(9, 40), length(3, 50)], [None, Some(600)], "what is done goes first");
        pages.note_done(3);
        pages.keep(11, key(40), page(600));
        assert_eq!([length(11, 40), length(3, 50)], [Some(600), None], "and makes room");
    }

    #[test]
    fn no_more_is_kept_than_rows_take() {
        let most = KEPT_PAGES_BYTES;
        assert_eq!([most_kept(700, 1), most_kept(700, 3), most_kept(u64::MAX, 1)], [700, 2100, most]);
        assert_eq!(most_kept(u64::MAX, u64::MAX), 4 * most);
    }
}
