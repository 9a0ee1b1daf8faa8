//! The manifest cache: what footers say, kept in a file or object of the user's choice, so that they need not be
//! read again.
//!
//! An entry is used only if its file still has the same size and version. In all other cases footers are read.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::dataset::file_summary::FileSummary;
use crate::dataset::kept_file::{FileForm, Held, KeptFile};
use crate::error::Result;
use crate::format::metadata::footer::HASH_BYTES;
use crate::format::metadata::integer_bounds::IntegerBounds;
use crate::format::metadata::null_count::NullCount;
use crate::format::metadata::size_estimate::SizeEstimate;
use crate::schema::columns::Column;
use crate::source::file_system::FileSystem;
use crate::source::status::{Status, Version};

/// The number changes with the format of the entries: an older or newer file is not read.
static FORM: FileForm = FileForm {
    what: "the manifest cache",
    magic: b"fastresume manifest cache 11\n",
    name: b"fastresume manifest cache ",
};

/// A file that was modified less than this before its footer was read may change again without a new
/// modification time: some file systems' clocks tick this slowly.
const SETTLED: Duration = Duration::from_secs(2);

/// Where a manifest is cached.
#[derive(Debug, Clone)]
pub struct ManifestCache {
    /// The file, or the address of an object.
    pub path: PathBuf,
    /// The time at which the manifest is opened. (The core reads no clock.)
    pub now: SystemTime,
}

/// All that a cache file holds.
#[derive(Serialize, Deserialize)]
struct CacheContent<'a> {
    #[serde(borrow)]
    entries: Vec<CacheEntry<'a>>,
    schemas: Vec<Vec<Column>>,
}

/// The entry of one file. Entries are in the order of the bytes of their paths.
#[derive(Serialize, Deserialize)]
struct CacheEntry<'a> {
    path: &'a [u8],
    #[serde(borrow)]
    version: Cow<'a, str>,
    size: u64,
    footer_hash: [u8; HASH_BYTES],
    footer_bytes: u64,
    schema: usize,
    group_rows: Vec<u64>,
    data_bytes: u64,
    extents: Vec<(usize, SizeEstimate)>,
    large_pages: Vec<(usize, u64)>,
    nulls: Vec<(usize, NullCount)>,
    bounds: Vec<(usize, IntegerBounds)>,
}

/// The entries of a cache, looked up by path.
#[derive(Default)]
pub(crate) struct KnownEntries<'a> {
    entries: Vec<CacheEntry<'a>>,
    schemas: Vec<Arc<[Column]>>,
}

impl<'a> KnownEntries<'a> {
    /// The entries in the bytes of a cache file; empty if it is not a cache, or damaged.
    pub(crate) fn parse(cache: &ManifestCache, bytes: &'a [u8]) -> Self {
        Self::try_parse(cache, bytes).unwrap_or_default()
    }

    fn try_parse(cache: &ManifestCache, bytes: &'a [u8]) -> Option<Self> {
        let CacheContent { entries, schemas } = postcard::from_bytes(cache.kept().content(bytes)?).ok()?;
        let is_whole = entries.iter().all(|entry| entry.schema < schemas.len());
        let is_sorted = entries.windows(2).all(|pair| pair[0].path < pair[1].path);
        (is_whole && is_sorted)
            .then(|| Self { entries, schemas: schemas.into_iter().map(Into::into).collect() })
    }

    /// The number of files in the cache.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The schemas of the files in the cache.
    pub(crate) fn schemas(&self) -> &[Arc<[Column]>] {
        &self.schemas
    }

    /// The entry of the file with this path and status.
    pub(crate) fn get(&self, path: &[u8], status: &Status) -> Option<FileSummary> {
        let index = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        let entry = &self.entries[index];
        (entry.size == status.size && entry.version == status.version()).then(|| FileSummary {
            size: entry.size,
            footer_hash: entry.footer_hash,
            footer_bytes: entry.footer_bytes,
            columns: Arc::clone(&self.schemas[entry.schema]),
            group_rows: entry.group_rows.clone(),
            data_bytes: entry.data_bytes,
            extents: entry.extents.clone(),
            large_pages: entry.large_pages.clone(),
            nulls: entry.nulls.clone(),
            bounds: entry.bounds.clone(),
        })
    }
}

/// A file that may be cached: its path, its status, its footer's summary, and the number of its schema.
pub(crate) type Cached<'a> = (&'a [u8], &'a Status, &'a FileSummary, usize);

impl ManifestCache {
    fn kept(&self) -> KeptFile<'_> {
        KeptFile { path: &self.path, form: &FORM }
    }

    /// The cache; an empty one if it can't be read, or is too large.
    ///
    /// # Errors
    /// As for [`KeptFile::read`].
    pub(crate) fn read(&self, files: &FileSystem, stop: &AtomicBool) -> Result<Held> {
        self.kept().read(files, stop)
    }

    /// Whether a file's last modification was long enough ago when its footer was read.
    pub(crate) fn has_settled(&self, status: &Status) -> bool {
        let Version::Modified { ns, .. } = status.version else { return true };
        let latest = self.now.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(SETTLED);
        i128::try_from(latest.as_nanos()).is_ok_and(|latest| ns <= latest)
    }

    /// Replaces the cache by these files, sorted by their paths.
    ///
    /// # Errors
    /// `Source` if the file can't be written, or is not a cache of ours.
    pub(crate) fn write<'a>(
        &self,
        files: impl Iterator<Item = Cached<'a>>,
        schemas: Vec<Vec<Column>>,
        place: (&FileSystem, Held, &AtomicBool),
    ) -> Result<()> {
        let entries = files.map(|(path, status, summary, schema)| CacheEntry {
            path,
            version: status.version().into(),
            size: summary.size,
            footer_hash: summary.footer_hash,
            footer_bytes: summary.footer_bytes,
            schema,
            group_rows: summary.group_rows.clone(),
            data_bytes: summary.data_bytes,
            extents: summary.extents.clone(),
            large_pages: summary.large_pages.clone(),
            nulls: summary.nulls.clone(),
            bounds: summary.bounds.clone(),
        });
        let (kept, content) = (self.kept(), CacheContent { entries: entries.collect(), schemas });
        kept.write(|_| postcard::to_allocvec(&content).map_err(|cause| kept.failed(cause)), place)
    }
}
