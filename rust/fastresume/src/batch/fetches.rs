//! Row groups of objects whose column chunks are on their way: they are asked for before they are decoded, small ones together.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::batch::open_files::OpenFiles;
use crate::decode::open_file::OpenFile;
use crate::error::{Result, locked};
use crate::parallel;
use crate::projection::layout::Layout;
use crate::schema::columns::Column;
use crate::source::byte_source::Source;

/// So many objects are opened at a time.
const OPENED_AT_A_TIME: usize = 8;

/// Row groups that lie side by side are asked for together, up to so many bytes: a small one waits as long as a large one.
const MOST_JOINED_BYTES: u64 = 8 << 20;

/// No more than what is on its way before them, but for so many bytes: the first batch waits for little.
const LEAST_JOINED_BYTES: u64 = 256 << 10;

/// A stretch that may go on waits for the rest as long as so many row groups are on their way before it.
const LEAST_AHEAD: usize = 8;

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
    source: Arc<dyn Source>,
}

impl Fetch {
    fn is_used(&self) -> bool {
        self.unused.is_empty()
    }
}

/// Row groups of one file that are asked for together.
struct Stretch {
    file: Arc<OpenFile>,
    groups: Vec<usize>,
    ranges: Vec<Range<u64>>,
    /// Bytes that are needed, and that lie between the first and the last of them.
    needed: u64,
    span: Range<u64>,
}

impl Stretch {
    fn one(group: usize, file: Arc<OpenFile>, ranges: Vec<Range<u64>>, needed: u64) -> Self {
        let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(start);
        Self { file, groups: vec![group], ranges, needed, span: start..end }
    }

    /// Takes another one of the same file in, if they have at most so many bytes together, of which nearly all are needed.
    fn join(&mut self, other: Self, most: u64) -> Option<Self> {
        let span = self.span.start.min(other.span.start)..self.span.end.max(other.span.end);
        let (bytes, needed) = (span.end - span.start, self.needed.saturating_add(other.needed));
        if bytes > most || bytes > needed.saturating_add(needed / 8) {
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
    /// that already. What fails here fails again when it is decoded, and is told then.
    pub fn look_ahead(&self, files: &OpenFiles, layout: &Layout, groups: &[usize], stop: &AtomicBool) {
        let Ok(_looking) = self.is_looking.try_lock() else { return };
        let new: Vec<usize> = groups.iter().copied().filter(|&group| !self.has(group)).collect();
        let file_of = |group: usize| files.manifest.place_of(group).file;
        let of_files: Vec<&[usize]> = new.chunk_by(|&one, &next| file_of(one) == file_of(next)).collect();
        let most = MOST_JOINED_BYTES.min(self.budget_bytes / 4);
        // To open a file takes a request, for which its footer waits.
        let open = |groups_of_file: &[usize]| {
            let mut stretches: Vec<Stretch> = Vec::new();
            let mut before = self.unused(|fetch| fetch.bytes);
            for &group in groups_of_file {
                let file = files.open(file_of(group), layout)?;
                let (ranges, needed) = ranges(group, &file, files, layout)?;
                let one = Stretch::one(group, file, ranges, needed);
                if groups.first() == Some(&group) {
                    // It is decoded now: it waits for no other bytes, and for no other file.
                    self.ahead(one)?;
                } else {
                    let most = before.max(LEAST_JOINED_BYTES).min(most);
                    let apart = match stretches.last_mut() {
                        Some(last) => last.join(one, most),
                        None => Some(one),
                    };
                    if apart.is_some() {
                        before += stretches.last().map_or(0, Stretch::bytes);
                    }
                    stretches.extend(apart);
                }
            }
            Ok(stretches)
        };
        let mut open_end = None;
        for of_files in of_files.chunks(OPENED_AT_A_TIME) {
            let opened =
                parallel::each(of_files.len(), 1, of_files.len(), stop, |index| open(of_files[index]));
            let Ok(opened) = opened else { return };
            for stretch in opened.into_iter().flatten() {
                let Some(whole) = open_end.replace(stretch) else { continue };
                if !self.ahead(whole).is_ok_and(|had_room| had_room) {
                    return;
                }
            }
        }
        // The last one goes on with what comes ahead next.
        let is_due = |last: &Stretch| last.bytes() > most / 2 || self.is_little(groups.len());
        if let Some(last) = open_end.filter(is_due) {
            drop(self.ahead(last));
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
    /// `Data` if its metadata contradict each other; `Source` if the bytes can't be asked for.
    pub fn fetched(
        &self,
        group: usize,
        file: &Arc<OpenFile>,
        files: &OpenFiles,
        layout: &Layout,
    ) -> Result<Arc<OpenFile>> {
        let (ranges, bytes) = ranges(group, file, files, layout)?;
        let source = self.used(group, bytes, || file.fetching(&ranges))?;
        Ok(source.map_or_else(|| Arc::clone(file), |source| Arc::new(file.read_from(source))))
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
        ask: impl FnOnce() -> Result<Option<Arc<dyn Source>>>,
    ) -> Result<Option<Arc<dyn Source>>> {
        let mut kept = locked(&self.kept);
        if let Some(at) = kept.iter().position(|fetch| fetch.groups.contains(&group))
            && let Some(mut found) = kept.remove(at)
        {
            let source = Arc::clone(&found.source);
            found.unused.retain(|&unused| unused != group);
            let behind = kept.iter().take_while(|fetch| fetch.is_used()).count();
            kept.insert(if found.is_used() { behind } else { at }, found);
            return Ok(Some(source));
        }
        self.make_room(&mut kept, bytes);
        let Some(source) = ask()? else { return Ok(None) };
        let behind = kept.iter().take_while(|fetch| fetch.is_used()).count();
        let fetch = Fetch { groups: vec![group], unused: Vec::new(), bytes, source: Arc::clone(&source) };
        kept.insert(behind, fetch);
        Ok(Some(source))
    }

    /// Asks for what is decoded soon, if there is room for it; whether there was.
    ///
    /// # Errors
    /// `Source` if it can't be asked for.
    fn ahead(&self, stretch: Stretch) -> Result<bool> {
        let bytes = stretch.bytes();
        self.put(stretch.groups, bytes, || stretch.file.fetching(&stretch.ranges))
    }

    /// Row groups that are decoded soon, if there is room for them; whether there was.
    ///
    /// # Errors
    /// As `ask` has.
    fn put(
        &self,
        groups: Vec<usize>,
        bytes: u64,
        ask: impl FnOnce() -> Result<Option<Arc<dyn Source>>>,
    ) -> Result<bool> {
        let mut kept = locked(&self.kept);
        if kept.iter().any(|fetch| groups.iter().any(|group| fetch.groups.contains(group))) {
            return Ok(true);
        }
        if !self.make_room(&mut kept, bytes) {
            return Ok(false);
        }
        if let Some(source) = ask()? {
            kept.push_back(Fetch { unused: groups.clone(), groups, bytes, source });
        }
        Ok(true)
    }

    /// Lets go of what was decoded, the oldest first, until so many bytes have room; whether they have.
    fn make_room(&self, kept: &mut VecDeque<Fetch>, bytes: u64) -> bool {
        let mut held: u64 = kept.iter().map(|fetch| fetch.bytes).sum();
        while held.saturating_add(bytes) > self.budget_bytes {
            // What a thread still decodes is not let go: others may want the rest of it.
            let idle = kept.iter().position(|fetch| fetch.is_used() && Arc::strong_count(&fetch.source) == 1);
            let Some(gone) = idle.and_then(|at| kept.remove(at)) else { return held == 0 };
            held -= gone.bytes;
        }
        true
    }
}

/// The column chunks that are read of a row group, and their bytes.
fn ranges(
    group: usize,
    file: &OpenFile,
    files: &OpenFiles,
    layout: &Layout,
) -> Result<(Vec<Range<u64>>, u64)> {
    let place = files.manifest.place_of(group);
    let columns: Vec<&Column> = layout.columns(files.manifest.schema_of(place.file)).iter().collect();
    let mut ranges = file.chunk_ranges(place.index, &columns)?;
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

    struct Nothing;

    impl Source for Nothing {
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
    fn source() -> Result<Option<Arc<dyn Source>>> {
        Ok(Some(Arc::new(Nothing)))
    }

    fn never() -> Result<Option<Arc<dyn Source>>> {
        panic!("it was asked for before")
    }

    #[test]
    fn what_is_ahead_waits_for_room_and_what_was_used_gives_way() {
        let fetches = Fetches::new(100);
        assert!(fetches.used(0, 60, source).unwrap().is_some());
        assert!(fetches.put(vec![1], 40, source).unwrap());
        assert!(fetches.put(vec![1], 40, never).unwrap());
        assert!(fetches.used(0, 60, never).unwrap().is_some());
        // The first one was used, and nobody decodes it.
        assert!(fetches.put(vec![2], 40, source).unwrap());
        assert!(!fetches.has(0));
        assert!(!fetches.put(vec![3], 40, never).unwrap());
        let held = fetches.used(1, 40, never).unwrap();
        assert!(!fetches.put(vec![3], 40, never).unwrap());
        drop(held);
        assert!(fetches.put(vec![3], 40, source).unwrap());
        // What is decoded now goes whatever the budget is.
        assert!(fetches.used(4, 1000, source).unwrap().is_some());
    }

    #[test]
    fn row_groups_that_came_together_go_together_when_all_were_used() {
        let fetches = Fetches::new(100);
        assert!(fetches.put(vec![0, 1, 2], 90, source).unwrap());
        for group in 0..3 {
            assert!(!fetches.put(vec![3], 40, never).unwrap());
            assert!(fetches.used(group, 30, never).unwrap().is_some());
        }
        assert!(fetches.put(vec![3], 40, source).unwrap());
        assert!(!fetches.has(1));
    }
}
