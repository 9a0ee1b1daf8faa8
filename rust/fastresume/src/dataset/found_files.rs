//! The files of a listing as they are found: by a cache of what footers state, or by their footers.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::dataset::file_summary::FileSummary;
use crate::dataset::listing::Listed;
use crate::dataset::manifest_cache::KnownEntries;
use crate::error::{Error, Result, shown};
use crate::parallel;
use crate::schema::columns::Column;
use crate::source::file_system::FileSystem;
use crate::source::local;
use crate::source::status::Status;

/// At most this many threads read footers: they wait for the disk more than they compute.
const MAX_THREADS: usize = 16;

/// So many files that can't be read are looked for.
const MOST_FAILED: usize = 100;

/// A thread takes this many files at a time, which lie together.
const FILES_AT_A_TIME: usize = 16;

/// A file as the system sees it, and what its footer stated, now or when it was cached.
pub struct FoundFile {
    /// What the system says of it.
    pub status: Status,
    /// What its footer tells.
    pub summary: FileSummary,
    /// Whether that is of a cache.
    pub was_known: bool,
}

/// The schemas found so far: each is kept once, however many files have it.
#[derive(Default)]
struct FoundSchemas(Mutex<HashSet<Arc<[Column]>>>);

impl FoundSchemas {
    fn shared(&self, columns: Arc<[Column]>) -> Arc<[Column]> {
        let Ok(mut met) = self.0.lock() else { return columns };
        if let Some(known) = met.get(&columns) {
            return Arc::clone(known);
        }
        met.insert(Arc::clone(&columns));
        columns
    }
}

/// What each of the listed files is: as the cache tells of a file that it knows, else by its footer.
///
/// # Errors
/// `Source` if a file can't be asked or read; `Data` if its footer is damaged; `Interrupted`.
pub fn find_all(
    files: &FileSystem,
    listed: &[Listed],
    known: &KnownEntries<'_>,
    stop: &AtomicBool,
) -> Result<Vec<FoundFile>> {
    let schemas = FoundSchemas::default();
    known.schemas().iter().for_each(|columns| drop(schemas.shared(Arc::clone(columns))));
    let find = |Listed { path, status: stated }: &Listed| {
        // Before the footer is read: a file that changes in between is not taken for the one that it became.
        let status = stated.clone().map_or_else(|| local::status(path), Ok)?;
        if let Some(summary) = known.get(path.as_os_str().as_bytes(), &status) {
            return Ok(FoundFile { status, summary, was_known: true });
        }
        let read = FileSummary::read(files, path, stated.as_ref())?;
        let summary = FileSummary { columns: schemas.shared(read.columns), ..read };
        Ok(FoundFile { status, summary, was_known: false })
    };
    let failed = AtomicUsize::new(0);
    let found = parallel::each(listed.len(), FILES_AT_A_TIME, MAX_THREADS, stop, |index| {
        let found = find(&listed[index]);
        // Where no file can be read, not each of a hundred thousand is tried.
        if found.is_err() && failed.fetch_add(1, Ordering::Relaxed) >= MOST_FAILED {
            return found.map(Ok);
        }
        Ok(found)
    })?;
    let wrong = |(listed, found): (&Listed, &Result<FoundFile>)| {
        Some((listed.path.clone(), found.as_ref().err()?.clone()))
    };
    let wrong: Vec<_> = listed.iter().zip(&found).filter_map(wrong).collect();
    match wrong.as_slice() {
        [] => found.into_iter().collect(),
        [(_, error)] => Err(error.clone()),
        [(_, first), ..] => Err(all_of(first, &wrong)),
    }
}

/// One error of all files that can't be read.
fn all_of(first: &Error, wrong: &[(PathBuf, Error)]) -> Error {
    let names: Vec<_> = wrong.iter().map(|(path, _)| format!("'{}'", shown(path))).collect();
    let message = format!(
        "can't read {} files, the first for this: {first}. Mend them, or leave them out of paths: [{}]",
        wrong.len(),
        names.join(", ")
    );
    if matches!(first, Error::Data { .. }) { Error::data(message) } else { Error::Source(message) }
}
