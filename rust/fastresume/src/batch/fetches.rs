//! Row groups of objects whose column chunks are on their way: they are asked for before they are decoded.

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

/// What was asked for, in the order in which it was used last; what was not used yet comes behind.
pub struct Fetches {
    budget_bytes: u64,
    kept: Mutex<VecDeque<Fetch>>,
    /// Held by the thread that looks ahead.
    is_looking: Mutex<()>,
}

struct Fetch {
    group: usize,
    bytes: u64,
    is_used: bool,
    source: Arc<dyn Source>,
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
        // To open a file takes a request, for which its footer waits.
        let ask = |group: usize| {
            let file = files.open(files.manifest.place_of(group).file, layout)?;
            let (ranges, bytes) = ranges(group, &file, files, layout)?;
            self.ahead(group, bytes, || file.fetching(&ranges))
        };
        for groups in new.chunks(OPENED_AT_A_TIME) {
            let asked = parallel::each(groups.len(), 1, groups.len(), stop, |index| ask(groups[index]));
            if !asked.is_ok_and(|asked| asked.into_iter().all(|had_room| had_room)) {
                return;
            }
        }
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
        locked(&self.kept).iter().any(|fetch| fetch.group == group)
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
        if let Some(at) = kept.iter().position(|fetch| fetch.group == group)
            && let Some(found) = kept.remove(at)
        {
            let source = Arc::clone(&found.source);
            let behind = kept.iter().take_while(|fetch| fetch.is_used).count();
            kept.insert(behind, Fetch { is_used: true, ..found });
            return Ok(Some(source));
        }
        self.make_room(&mut kept, bytes);
        let Some(source) = ask()? else { return Ok(None) };
        let behind = kept.iter().take_while(|fetch| fetch.is_used).count();
        kept.insert(behind, Fetch { group, bytes, is_used: true, source: Arc::clone(&source) });
        Ok(Some(source))
    }

    /// A row group that is decoded soon, if there is room for it; whether there was.
    ///
    /// # Errors
    /// As `ask` has.
    fn ahead(
        &self,
        group: usize,
        bytes: u64,
        ask: impl FnOnce() -> Result<Option<Arc<dyn Source>>>,
    ) -> Result<bool> {
        let mut kept = locked(&self.kept);
        if kept.iter().any(|fetch| fetch.group == group) {
            return Ok(true);
        }
        if !self.make_room(&mut kept, bytes) {
            return Ok(false);
        }
        if let Some(source) = ask()? {
            kept.push_back(Fetch { group, bytes, is_used: false, source });
        }
        Ok(true)
    }

    /// Lets go of what was decoded, the oldest first, until so many bytes have room; whether they have.
    fn make_room(&self, kept: &mut VecDeque<Fetch>, bytes: u64) -> bool {
        let mut held: u64 = kept.iter().map(|fetch| fetch.bytes).sum();
        while held.saturating_add(bytes) > self.budget_bytes {
            // What a thread still decodes is not let go: others may want the rest of it.
            let idle = kept.iter().position(|fetch| fetch.is_used && Arc::strong_count(&fetch.source) == 1);
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
        assert!(fetches.ahead(1, 40, source).unwrap());
        assert!(fetches.ahead(1, 40, never).unwrap());
        assert!(fetches.used(0, 60, never).unwrap().is_some());
        // The first one was used, and nobody decodes it.
        assert!(fetches.ahead(2, 40, source).unwrap());
        assert!(!fetches.has(0));
        assert!(!fetches.ahead(3, 40, never).unwrap());
        let held = fetches.used(1, 40, never).unwrap();
        assert!(!fetches.ahead(3, 40, never).unwrap());
        drop(held);
        assert!(fetches.ahead(3, 40, source).unwrap());
        // What is decoded now goes whatever the budget is.
        assert!(fetches.used(4, 1000, source).unwrap().is_some());
    }
}
