//! Row groups that are on their way before they are decoded: column chunks of objects, small ones together, and rows of sources.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::batch::open_files::OpenFiles;
use crate::decode::open_file::{FetchedBytes, OpenFile};
use crate::error::{Result, locked};
use crate::parallel;
use crate::schema::columns::Column;

/// So many objects are opened at a time.
const OPENED_AT_A_TIME: usize = 8;

/// Row groups that lie side by side are asked for together, up to so many bytes: a small one waits as long as a large one.
const MOST_JOINED_BYTES: u64 = 8 << 20;

/// No more than what is on its way before them, but for so many bytes: the first batch waits for little.
const LEAST_JOINED_BYTES: u64 = 256 << 10;

/// A stretch that may go on waits for the rest as long as so many row groups are on their way before it.
const LEAST_AHEAD: usize = 8;

/// Of a store that answers at once, no more is held: it is decoded while a processor's cache has it, and its memory is used
/// again.
const NEAR_BYTES: u64 = 32 << 20;

/// So many row groups of sources of rows are asked for and not decoded yet.
const MOST_AWAITED: usize = 8;

/// Row groups that are decoded soon.
pub struct Soon {
    /// Each once; the first one is decoded now.
    pub groups: Vec<usize>,
    /// Whether other rows of them are wanted later, as a shuffled order does.
    pub come_again: bool,
}

/// What was asked for, in the order in which it was used last; what was not used yet comes behind.
pub struct Fetches {
    budget_bytes: u64,
    kept: Mutex<VecDeque<Fetch>>,
    /// Held by the thread that looks ahead.
    is_looking: Mutex<()>,
}

struct Fetch {
    groups: Vec<usize>,
    /// Those of them that were not decoded yet.
    unused: Vec<usize>,
    bytes: u64,
    /// None where nothing had to be asked for.
    asked: Option<FetchedBytes>,
}

impl Fetch {
    /// What takes no network.
    fn at_hand(groups: Vec<usize>) -> Self {
        Self { unused: groups.clone(), groups, bytes: 0, asked: None }
    }

    /// What it takes, as nearly as it is known.
    fn bytes(&self) -> u64 {
        self.asked.as_ref().and_then(FetchedBytes::bytes).unwrap_or(self.bytes)
    }

    /// Whether it was decoded, and nobody decodes it now: others may want the rest of it.
    fn is_idle(&self) -> bool {
        self.is_used() && self.asked.as_ref().is_none_or(FetchedBytes::is_idle)
    }

    fn is_used(&self) -> bool {
        self.unused.is_empty()
    }
}

/// Row groups of one file that are asked for together.
struct FetchStretch {
    file: Arc<OpenFile>,
    groups: Vec<usize>,
    /// The number of the first one in the file.
    index: usize,
    ranges: Vec<Range<u64>>,
    /// Bytes that are needed, and that lie between the first and the last of them.
    needed: u64,
    span: Range<u64>,
}

impl FetchStretch {
    fn one((group, index): (usize, usize), file: Arc<OpenFile>, (ranges, needed): Wanted) -> Self {
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(start);
        Self { file, groups: vec![group], index, ranges, needed, span: start..end }
    }

    /// Takes another one of the same file in, if they have at most so many bytes together, of which nearly all are needed.
    fn join(&mut self, other: Self, most: u64) -> Option<Self> {
        let span = self.span.start.min(other.span.start)..self.span.end.max(other.span.end);
        let (bytes, needed) = (span.end - span.start, self.needed.saturating_add(other.needed));
        if self.file.has_rows() || bytes > most || bytes > needed.saturating_add(needed / 8) {
            return Some(other);
        }
        self.groups.extend(other.groups);
        self.ranges.extend(other.ranges);
        (self.needed, self.span) = (needed, span);
        None
    }

    /// What it takes: where some are joined, the gaps as well.
    fn bytes(&self) -> u64 {
        if self.groups.len() == 1 { self.needed } else { self.span.end - self.span.start }
    }
}

impl Fetches {
    pub fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, kept: Mutex::default(), is_looking: Mutex::default() }
    }

    /// Asks for row groups that are decoded soon, in this order, as far as there is room for them. Another thread may do
    /// that already. What fails here fails again when it is decoded, with its error.
    pub fn look_ahead(&self, files: &OpenFiles, soon: &Soon, stop: &AtomicBool) {
        let Ok(_looking) = self.is_looking.try_lock() else { return };
        let groups = &soon.groups;
        if !soon.come_again {
            self.let_go_of_rows(groups);
        }
        let mut rooms = MOST_AWAITED.saturating_sub(self.awaited());
        let may_be_asked = |group: &usize| {
            let is_wanted = files.sources.is_far(*group) && !self.has(*group);
            let takes_room = is_wanted && files.sources.group(*group).source.manifest.holds_rows();
            let has_room = !takes_room || rooms > 0;
            rooms -= usize::from(takes_room && has_room);
            is_wanted && has_room
        };
        let new: Vec<usize> = groups.iter().copied().filter(may_be_asked).collect();
        let file_of = |group: usize| files.sources.group(group).file;
        let of_files: Vec<&[usize]> = new.chunk_by(|&one, &next| file_of(one) == file_of(next)).collect();
        let most = MOST_JOINED_BYTES.min(self.budget_bytes / 4);
        // To open a file takes a request, for which its footer waits.
        let open = |groups_of_file: &[usize]| {
            let mut stretches: Vec<FetchStretch> = Vec::new();
            let mut before = self.unused(Fetch::bytes);
            for &group in groups_of_file {
                let is_now = groups.first() == Some(&group);
                let opened = files.open(file_of(group));
                let file = opened.inspect_err(|error| {
                    // Who decodes it has that error at once, and does not wait a second time.
                    if is_now {
                        files.note_failed(file_of(group), error.clone());
                    }
                })?;
                let wanted = wanted(group, &file, files)?;
                let one = FetchStretch::one((group, files.sources.group(group).index), file, wanted);
                if is_now {
                    // It is decoded now: it waits for no other bytes, and for no other file.
                    self.ahead(one, soon.come_again)?;
                } else {
                    let most = before.max(LEAST_JOINED_BYTES).min(most);
                    let apart = match stretches.last_mut() {
                        Some(last) => last.join(one, most),
                        None => Some(one),
                    };
                    if apart.is_some() {
                        before += stretches.last().map_or(0, FetchStretch::bytes);
                    }
                    stretches.extend(apart);
                }
            }
            Ok(stretches)
        };
        let mut open_end = None;
        for of_files in of_files.chunks(OPENED_AT_A_TIME) {
            let threads = if files.sources.has_objects() { of_files.len() } else { 1 };
            let opened = parallel::each(of_files.len(), 1, threads, stop, |index| open(of_files[index]));
            let Ok(opened) = opened else { return };
            for stretch in opened.into_iter().flatten() {
                let Some(whole) = open_end.replace(stretch) else { continue };
                if !self.ahead(whole, soon.come_again).is_ok_and(|had_room| had_room) {
                    return;
                }
            }
        }
        // The last one goes on with what comes ahead next.
        let is_due = |last: &FetchStretch| last.bytes() > most / 2 || self.is_little(groups.len());
        if let Some(last) = open_end.filter(is_due) {
            drop(self.ahead(last, soon.come_again));
        }
    }

    /// Whether little is on its way, of so many row groups that are decoded soon.
    fn is_little(&self, soon: usize) -> bool {
        self.unused(|fetch| fetch.unused.len() as u64) < LEAST_AHEAD.max(soon / 2) as u64
    }

    /// The sum over what is on its way, or there and not all decoded.
    fn unused(&self, part: impl Fn(&Fetch) -> u64) -> u64 {
        locked(&self.kept).iter().filter(|fetch| !fetch.is_used()).map(part).sum()
    }

    /// The same file, of whose row group the bytes are on their way.
    ///
    /// # Errors
    /// `Data` if its metadata contradict each other; `ByteSource` if the bytes can't be asked for.
    pub fn fetched(&self, group: usize, file: &Arc<OpenFile>, files: &OpenFiles) -> Result<Arc<OpenFile>> {
        let (ranges, bytes) = wanted(group, file, files)?;
        let asked = self.used(group, bytes, || file.ask(files.sources.group(group).index, &ranges))?;
        Ok(asked.map_or_else(|| Arc::clone(file), |asked| Arc::new(file.with(asked))))
    }

    /// Whether a row group was asked for.
    fn has(&self, group: usize) -> bool {
        locked(&self.kept).iter().any(|fetch| fetch.groups.contains(&group))
    }

    /// A row group that is decoded now, which is asked for if nobody did before. What was decoded gives way to it.
    ///
    /// # Errors
    /// As `ask` has.
    fn used(
        &self,
        group: usize,
        bytes: u64,
        ask: impl FnOnce() -> Result<Option<FetchedBytes>>,
    ) -> Result<Option<FetchedBytes>> {
        let mut kept = locked(&self.kept);
        kept.retain(|fetch| !fetch.asked.as_ref().is_some_and(FetchedBytes::was_given_up));
        if let Some(at) = kept.iter().position(|fetch| fetch.groups.contains(&group))
            && let Some(mut found) = kept.remove(at)
        {
            let asked = found.asked.clone();
            found.unused.retain(|&unused| unused != group);
            let behind = kept.iter().take_while(|fetch| fetch.is_used()).count();
            match (&asked, found.is_used()) {
                (None, true) => {}
                (_, true) => kept.insert(behind, found),
                (_, false) => kept.insert(at, found),
            }
            return Ok(asked);
        }
        make_room(&mut kept, bytes, self.budget_bytes);
        let asked = ask()?;
        if asked.is_some() {
            let behind = kept.iter().take_while(|fetch| fetch.is_used()).count();
            let fetch = Fetch { groups: vec![group], unused: Vec::new(), bytes, asked: asked.clone() };
            kept.insert(behind, fetch);
        }
        Ok(asked)
    }

    /// Lets go of rows that were decoded, but for those that come soon.
    fn let_go_of_rows(&self, soon: &[usize]) {
        let is_soon = |fetch: &Fetch| fetch.groups.iter().any(|group| soon.contains(group));
        let is_over = |fetch: &Fetch| {
            matches!(fetch.asked, Some(FetchedBytes::Rows(..))) && fetch.is_idle() && !is_soon(fetch)
        };
        locked(&self.kept).retain(|fetch| !is_over(fetch));
    }

    /// Asks for what is decoded soon, if there is room for it; whether there was.
    ///
    /// # Errors
    /// `ByteSource` if it can't be asked for.
    fn ahead(&self, stretch: FetchStretch, come_again: bool) -> Result<bool> {
        let bytes = stretch.bytes();
        // One is on its way while another one is decoded.
        let near = NEAR_BYTES.max(bytes.saturating_mul(2)).min(self.budget_bytes);
        let most = if stretch.file.is_near() && !come_again { near } else { self.budget_bytes };
        self.put(stretch.groups, bytes, most, || stretch.file.ask(stretch.index, &stretch.ranges))
    }

    /// How many row groups of sources of rows are waited for.
    fn awaited(&self) -> usize {
        let kept = locked(&self.kept);
        kept.iter().filter(|fetch| fetch.asked.as_ref().is_some_and(FetchedBytes::is_awaited)).count()
    }

    /// Row groups that are decoded soon, if there is room for them below `most` bytes; whether there was.
    ///
    /// # Errors
    /// As `ask` has.
    fn put(
        &self,
        groups: Vec<usize>,
        bytes: u64,
        most: u64,
        ask: impl FnOnce() -> Result<Option<FetchedBytes>>,
    ) -> Result<bool> {
        let mut kept = locked(&self.kept);
        if kept.iter().any(|fetch| groups.iter().any(|group| fetch.groups.contains(group))) {
            return Ok(true);
        }
        if !make_room(&mut kept, bytes, most) {
            return Ok(false);
        }
        let at_hand = Fetch::at_hand(groups);
        kept.push_back(match ask()? {
            Some(asked) => Fetch { bytes, asked: Some(asked), ..at_hand },
            None => at_hand,
        });
        Ok(true)
    }
}

/// Lets go of what was decoded, the oldest first, until so many bytes have room below `most`; whether they have.
fn make_room(kept: &mut VecDeque<Fetch>, bytes: u64, most: u64) -> bool {
    let mut held: u64 = kept.iter().map(Fetch::bytes).sum();
    while held.saturating_add(bytes) > most {
        let idle = kept.iter().position(Fetch::is_idle);
        let Some(gone) = idle.and_then(|at| kept.remove(at)) else { return held == 0 };
        held = held.saturating_sub(gone.bytes());
    }
    true
}

/// The column chunks that are read of a row group; and their bytes, or those of its rows if these lie in no file.
type Wanted = (Vec<Range<u64>>, u64);

fn wanted(group: usize, file: &OpenFile, files: &OpenFiles) -> Result<Wanted> {
    let of = files.sources.group(group);
    if file.has_rows() {
        return Ok((Vec::new(), (of.rows.end - of.rows.start).saturating_mul(of.held_row_bytes)));
    }
    let columns: Vec<&Column> = of.source.layout.columns(of.schema).iter().collect();
    let mut ranges = file.chunk_ranges(of.index, &columns)?;
    // One leaf may be delivered more than once.
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges.dedup();
    let bytes = ranges.iter().map(|range| range.end - range.start).sum();
    Ok((ranges, bytes))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::source::byte_source::ByteSource;

    struct Nothing;

    impl ByteSource for Nothing {
        fn size(&self) -> u64 {
            0
        }

        fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            self.check(offset, buffer.len())
        }

        fn path(&self) -> &Path {
            Path::new("nothing")
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "a source answers so")]
    fn source() -> Result<Option<FetchedBytes>> {
        Ok(Some(FetchedBytes::Bytes(Arc::new(Nothing))))
    }

    fn never() -> Result<Option<FetchedBytes>> {
        panic!("it was asked for before")
    }

    #[test]
    fn what_is_ahead_waits_for_room_and_what_was_used_gives_way() {
        let fetches = Fetches::new(100);
        assert!(fetches.used(0, 60, source).unwrap().is_some());
        assert!(fetches.put(vec![1], 40, 100, source).unwrap());
        assert!(fetches.put(vec![1], 40, 100, never).unwrap());
        assert!(fetches.used(0, 60, never).unwrap().is_some());
        // The first one was used, and nobody decodes it.
        assert!(fetches.put(vec![2], 40, 100, source).unwrap());
        assert!(!fetches.has(0));
        assert!(!fetches.put(vec![3], 40, 100, never).unwrap());
        let held = fetches.used(1, 40, never).unwrap();
        assert!(!fetches.put(vec![3], 40, 100, never).unwrap());
        drop(held);
        assert!(fetches.put(vec![3], 40, 100, source).unwrap());
        // What is decoded now goes whatever the budget is.
        assert!(fetches.used(4, 1000, source).unwrap().is_some());
    }

    #[test]
    fn row_groups_that_came_together_go_together_when_all_were_used() {
        let fetches = Fetches::new(100);
        assert!(fetches.put(vec![0, 1, 2], 90, 100, source).unwrap());
        for group in 0..3 {
            assert!(!fetches.put(vec![3], 40, 100, never).unwrap());
            assert!(fetches.used(group, 30, never).unwrap().is_some());
        }
        assert!(fetches.put(vec![3], 40, 100, source).unwrap());
        assert!(!fetches.has(1));
    }

    #[test]
    fn of_a_near_store_little_is_held() {
        let fetches = Fetches::new(100);
        assert!(fetches.put(vec![0], 30, 60, source).unwrap());
        assert!(fetches.put(vec![1], 30, 60, source).unwrap());
        assert!(!fetches.put(vec![2], 30, 60, never).unwrap());
        assert!(fetches.used(0, 30, never).unwrap().is_some());
        assert!(fetches.put(vec![2], 30, 60, source).unwrap());
        assert!(!fetches.has(0));
        // A farther store may have the rest.
        assert!(fetches.put(vec![3], 30, 100, source).unwrap());
    }

    #[test]
    fn what_takes_no_network_takes_no_room_and_is_forgotten_when_it_was_used() {
        let fetches = Fetches::new(100);
        let at_hand = || Ok(None);
        assert!(fetches.put(vec![0, 1], 90, 100, at_hand).unwrap());
        assert!(fetches.put(vec![2], 90, 100, source).unwrap());
        for group in 0..2 {
            assert!(fetches.has(group));
            assert!(fetches.used(group, 45, never).unwrap().is_none());
        }
        assert!(!fetches.has(1));
        assert!(fetches.used(3, 1000, at_hand).unwrap().is_none());
        assert!(!fetches.has(3));
    }
}
