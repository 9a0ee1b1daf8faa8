//! The manifest cache: what footers say, kept in a file or object of the user's choice, so that they need not be
//! read again.
//!
//! The file has a line that names format and version, then the hash of what follows, then the entries. It is
//! used only if line and hash are right. An entry is used only if its file still has the same size and
//! version. In all other cases footers are read. A new cache is written beside the old one, and then moved
//! into its place. So any number of processes may read and write it at once: the last one wins.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::dataset::file_summary::Summary;
use crate::error::{Error, Result};
use crate::format::metadata::footer::HASH_BYTES;
use crate::format::metadata::null_count::NullCount;
use crate::format::metadata::size_estimate::Extent;
use crate::schema::columns::Column;
use crate::source::file_system::FileSystem;
use crate::source::status::{Status, Version};

/// The number changes with the format of the entries: an older or newer file is not read.
const MAGIC: &[u8] = b"fastresume manifest cache 9\n";

/// How the files of all format versions begin.
const NAME: &[u8] = b"fastresume manifest cache ";

const CHECK_BYTES: usize = blake3::OUT_LEN;

/// A larger file is not a cache: this is room for millions of files.
const MAX_CACHE_BYTES: u64 = 2 << 30;

/// A file that was modified less than this before its footer was read may change again without a new
/// modification time: some file systems' clocks tick this slowly.
const SETTLED: Duration = Duration::from_secs(2);

/// How many names are tried for the temporary file.
const MAX_TRIES: u32 = 1000;

/// Where a manifest is cached.
#[derive(Debug, Clone)]
pub struct Cache {
    /// The file, or the address of an object.
    pub path: PathBuf,
    /// The time at which the manifest is opened. (The core reads no clock.)
    pub now: SystemTime,
}

/// What is in the place of a cache.
pub(crate) struct Held {
    /// The bytes of a cache; empty if there is none.
    pub bytes: Vec<u8>,
    /// Why the object that is there is not to be replaced. A file is looked at when it is.
    refusal: Option<Error>,
}

/// All that a cache file holds.
#[derive(Serialize, Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    entries: Vec<Entry<'a>>,
    schemas: Vec<Vec<Column>>,
}

/// The entry of one file. Entries are in the order of the bytes of their paths.
#[derive(Serialize, Deserialize)]
struct Entry<'a> {
    path: &'a [u8],
    #[serde(borrow)]
    version: Cow<'a, str>,
    size: u64,
    footer_hash: [u8; HASH_BYTES],
    footer_bytes: u64,
    schema: usize,
    group_rows: Vec<u64>,
    data_bytes: u64,
    extents: Vec<(usize, Extent)>,
    large_pages: Vec<(usize, u64)>,
    nulls: Vec<(usize, NullCount)>,
}

/// The entries of a cache, looked up by path.
#[derive(Default)]
pub(crate) struct Known<'a> {
    entries: Vec<Entry<'a>>,
    schemas: Vec<Arc<[Column]>>,
}

impl<'a> Known<'a> {
    /// The entries in the bytes of a cache file; empty if it is not a cache, or damaged.
    pub(crate) fn parse(bytes: &'a [u8]) -> Self {
        Self::try_parse(bytes).unwrap_or_default()
    }

    fn try_parse(bytes: &'a [u8]) -> Option<Self> {
        let (check, content) = bytes.strip_prefix(MAGIC)?.split_at_checked(CHECK_BYTES)?;
        if blake3::hash(content).as_bytes() != check {
            return None;
        }
        let Content { entries, schemas } = postcard::from_bytes(content).ok()?;
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
    pub(crate) fn get(&self, path: &[u8], status: &Status) -> Option<Summary> {
        let index = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        let entry = &self.entries[index];
        (entry.size == status.size && entry.version == status.version()).then(|| Summary {
            size: entry.size,
            footer_hash: entry.footer_hash,
            footer_bytes: entry.footer_bytes,
            columns: Arc::clone(&self.schemas[entry.schema]),
            group_rows: entry.group_rows.clone(),
            data_bytes: entry.data_bytes,
            extents: entry.extents.clone(),
            large_pages: entry.large_pages.clone(),
            nulls: entry.nulls.clone(),
        })
    }
}

/// A file that may be cached: its path, its status, its footer's summary, and the number of its schema.
pub(crate) type Cached<'a> = (&'a [u8], &'a Status, &'a Summary, usize);

impl Cache {
    /// The cache; an empty one if it can't be read, or is too large.
    ///
    /// # Errors
    /// `Argument` if its address is one that nothing reads; `Interrupted` once `stop` is set.
    pub(crate) fn read(&self, files: &FileSystem, stop: &AtomicBool) -> Result<Held> {
        let Some(store) = files.store_of(&self.path)? else {
            return Ok(Held { bytes: self.try_read().unwrap_or_default(), refusal: None });
        };
        let found = match store.whole(&self.path, MAX_CACHE_BYTES, stop) {
            Err(cause @ (Error::Argument(_) | Error::Interrupted)) => return Err(cause),
            found => found.map(Option::unwrap_or_default).map_err(|cause| self.failed(cause)),
        };
        let kept = found.and_then(|bytes| match kind_of(&bytes) {
            Some(kind) => Err(self.failed(kind)),
            None => Ok(bytes),
        });
        let (bytes, refusal) = kept.map_or_else(|cause| (Vec::new(), Some(cause)), |bytes| (bytes, None));
        Ok(Held { bytes, refusal })
    }

    fn try_read(&self) -> Option<Vec<u8>> {
        // Checked before opening: opening a pipe waits for its writer.
        let status = std::fs::metadata(&self.path).ok()?;
        if !status.is_file() || status.len() > MAX_CACHE_BYTES {
            return None;
        }
        let mut file = File::open(&self.path).ok()?;
        let mut bytes = vec![0; MAGIC.len()];
        file.read_exact(&mut bytes).ok()?;
        if bytes != MAGIC {
            return None;
        }
        file.take(MAX_CACHE_BYTES).read_to_end(&mut bytes).ok()?;
        Some(bytes)
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
        (file_system, held, stop): (&FileSystem, Held, &AtomicBool),
    ) -> Result<()> {
        let entries = files.map(|(path, status, summary, schema)| Entry {
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
        });
        let content = Content { entries: entries.collect(), schemas };
        let content = postcard::to_allocvec(&content).map_err(|cause| self.failed(cause))?;
        let hash = blake3::hash(&content);
        let parts = [MAGIC, hash.as_bytes(), &content];
        if let Some(store) = file_system.store_of(&self.path)? {
            if let Some(refusal) = held.refusal {
                return Err(refusal);
            }
            return store.put(&self.path, parts.concat(), stop).map_err(|cause| match cause {
                Error::Interrupted => cause,
                cause => self.failed(cause),
            });
        }
        self.check_replaceable()?;
        let (path, file) = self.beside()?;
        let written = write_whole(file, &parts).and_then(|()| std::fs::rename(&path, &self.path));
        written.map_err(|cause| {
            drop(std::fs::remove_file(&path));
            self.failed(cause)
        })
    }

    fn failed(&self, cause: impl std::fmt::Display) -> Error {
        Error::source("can't write the manifest cache", &self.path, cause)
    }

    /// Refuses to replace what was named by mistake: a device, or a file that something else wrote.
    fn check_replaceable(&self) -> Result<()> {
        let Ok(status) = std::fs::metadata(&self.path) else { return Ok(()) };
        if !status.is_file() {
            return Err(self.failed("it is not a regular file"));
        }
        let mut start = Vec::new();
        let read =
            File::open(&self.path).and_then(|file| file.take(NAME.len() as u64).read_to_end(&mut start));
        match read {
            Ok(_) => kind_of(&start).map_or(Ok(()), |kind| Err(self.failed(kind))),
            Err(cause) => Err(self.failed(cause)),
        }
    }

    /// A new file in the cache's folder, which nobody else writes.
    fn beside(&self) -> Result<(PathBuf, File)> {
        let name = self.path.file_name().ok_or_else(|| self.failed("it has no file name"))?.to_string_lossy();
        let folder = self.path.parent().unwrap_or(Path::new(""));
        for index in 0..MAX_TRIES {
            let path = folder.join(format!(".{name}.{}-{index}.tmp", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
                Err(cause) => return Err(self.failed(cause)),
            }
        }
        Err(self.failed("its folder is full of unfinished ones"))
    }
}

/// What bytes are, by their beginning, if they are no cache.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    let start = &bytes[..bytes.len().min(NAME.len())];
    // The file may have been cut off.
    if NAME.starts_with(start) {
        return None;
    }
    let is_parquet = start.starts_with(b"PAR1");
    Some(if is_parquet {
        "it is a parquet file"
    } else {
        "it is a file of something else; remove it, or name another"
    })
}

fn write_whole(mut file: File, parts: &[&[u8]]) -> std::io::Result<()> {
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_all()
}
