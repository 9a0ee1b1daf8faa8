//! What is there: the files of the dataset, their row groups and rows.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::footer::{Footer, HASH_BYTES};
use crate::listing::{self, Listed};
use crate::schema::{self, Column};
use crate::source::{LocalFile, Source};

/// Rows are counted below this, so that every count fits a JSON number.
pub const MAX_ROWS: u64 = 1 << 53;

/// What a value of a column that can't be delivered is taken for.
const UNKNOWN_BYTES: u64 = 16;

/// Footers are read by at most this many threads: they wait for the disk more than they compute.
const MAX_THREADS: usize = 16;

/// One file of the dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DataFile {
    /// The absolute path.
    pub path: PathBuf,
    /// The size in bytes when the footer was read.
    pub size: u64,
    /// The hash of the footer's bytes.
    pub footer_hash: [u8; HASH_BYTES],
    /// Its columns: an index into the manifest's distinct schemas.
    schema: usize,
    /// The number of its first row group, counted over the dataset.
    first_group: usize,
}

/// The immutable table of the dataset.
///
/// Invariants: files in canonical order, no file twice; `group_starts` ascends from 0 to the number
/// of rows and has one entry more than there are row groups; row groups are numbered in file order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    files: Vec<DataFile>,
    schemas: Vec<Vec<Column>>,
    group_starts: Vec<u64>,
    /// What all row groups decompress to, as their footers say.
    data_bytes: u64,
    fingerprint: String,
}

/// Where a row group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPlace {
    /// The index of its file.
    pub file: usize,
    /// Its index within the file.
    pub index: usize,
}

impl Manifest {
    /// The manifest of the files that `named` means (see [`listing::list`]); footers are read in
    /// parallel. A set `stop` ends the work early.
    ///
    /// # Errors
    /// `Source`, `Data` or `Argument`, for the first file in canonical order that has something wrong:
    /// not there, unreadable, not Parquet, damaged, or the same file twice; `Interrupted` if stopped.
    pub fn open(named: &[PathBuf], stop: &AtomicBool) -> Result<Self> {
        let listed = listing::list(named)?;
        let read = read_all(&listed, stop)?;
        Self::build(&listed, read)
    }

    fn build(listed: &[Listed], read: Vec<Summary>) -> Result<Self> {
        let mut files: Vec<DataFile> = Vec::with_capacity(read.len());
        let mut seen: HashMap<PathBuf, usize> = HashMap::with_capacity(read.len());
        let mut schemas: Vec<Vec<Column>> = Vec::new();
        let mut group_starts = vec![0];
        let mut rows = 0_u64;
        let mut data_bytes = 0_u64;
        let mut fingerprint = blake3::Hasher::new();
        for (listed, summary) in listed.iter().zip(read) {
            if let Some(&first) = seen.get(&summary.canonical) {
                return Err(Error::Argument(format!(
                    "the same file twice: '{}' and '{}'",
                    files[first].path.display(),
                    listed.path.display()
                )));
            }
            seen.insert(summary.canonical, files.len());
            data_bytes = data_bytes.saturating_add(summary.data_bytes);
            let schema = schemas.iter().position(|known| *known == summary.columns).unwrap_or_else(|| {
                schemas.push(summary.columns);
                schemas.len() - 1
            });
            files.push(DataFile {
                path: listed.path.clone(),
                size: summary.size,
                footer_hash: summary.hash,
                schema,
                first_group: group_starts.len() - 1,
            });
            for group_rows in summary.group_rows {
                rows = rows.checked_add(group_rows).filter(|&rows| rows < MAX_ROWS).ok_or_else(|| {
                    Error::data(format!("the dataset has more than {MAX_ROWS} rows")).in_file(&listed.path)
                })?;
                group_starts.push(rows);
            }
            fingerprint.update(&(listed.relative.len() as u64).to_le_bytes());
            fingerprint.update(&listed.relative);
            fingerprint.update(&summary.size.to_le_bytes());
            fingerprint.update(&summary.hash);
        }
        let fingerprint = fingerprint.finalize().to_hex()[..2 * HASH_BYTES].to_owned();
        Ok(Self { files, schemas, group_starts, data_bytes, fingerprint })
    }

    /// The number of rows.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.group_starts.last().copied().unwrap_or(0)
    }

    /// The files, in canonical order.
    #[must_use]
    pub fn files(&self) -> &[DataFile] {
        &self.files
    }

    /// The hash of relative paths, sizes and footers, in canonical order: 32 hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The number of row groups.
    #[must_use]
    pub fn num_groups(&self) -> usize {
        self.group_starts.len() - 1
    }

    /// The first row of every row group, and the number of rows.
    #[must_use]
    pub fn group_starts(&self) -> &[u64] {
        &self.group_starts
    }

    /// The first row group of every file, and the number of row groups.
    pub fn file_groups(&self) -> impl Iterator<Item = usize> {
        self.files.iter().map(|file| file.first_group).chain([self.num_groups()])
    }

    /// Bytes of a row over all columns, as tensors or as its pages decompress to, whichever are more.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        let width = |column: &Column| column.dtype.map_or(UNKNOWN_BYTES, |dtype| dtype.width() as u64);
        let widths = self.schemas.first().map_or(0, |columns| columns.iter().map(width).sum());
        (self.data_bytes / self.num_rows().max(1)).max(widths).max(1)
    }

    /// Mean bytes of a row of a jagged column, as delivered, rounded up.
    #[must_use]
    pub fn jagged_row_bytes(&self, _schema: usize, _column: usize) -> u64 {
        self.row_bytes()
    }

    /// The rows of the largest row group.
    #[must_use]
    pub fn largest_group(&self) -> u64 {
        self.group_starts.windows(2).map(|group| group[1] - group[0]).max().unwrap_or(0)
    }

    /// The row numbers of a row group.
    #[must_use]
    pub fn group_rows(&self, group: usize) -> Range<u64> {
        self.group_starts[group]..self.group_starts[group + 1]
    }

    /// The row group that holds a row: the last that starts at or before it, so never an empty one.
    #[must_use]
    pub fn group_of(&self, row: u64) -> usize {
        self.group_starts.partition_point(|&start| start <= row) - 1
    }

    /// The file of a row group, and the group's index in it.
    #[must_use]
    pub fn place_of(&self, group: usize) -> GroupPlace {
        let file = self.files.partition_point(|file| file.first_group <= group) - 1;
        GroupPlace { file, index: group - self.files[file].first_group }
    }

    /// The row numbers of a file.
    #[must_use]
    pub fn file_rows(&self, file: usize) -> Range<u64> {
        let end = self.files.get(file + 1).map_or(self.num_groups(), |next| next.first_group);
        self.group_starts[self.files[file].first_group]..self.group_starts[end]
    }

    /// The row numbers of the files that a path names, as [`listing::list`] finds them.
    ///
    /// # Errors
    /// As for `listing::list`; `Argument` if a file is not of this dataset, or they do not lie together.
    pub fn rows_of(&self, named: PathBuf) -> Result<Range<u64>> {
        let mut found = Vec::new();
        for listed in listing::list(&[named])? {
            let file = self.files.iter().position(|file| file.path == listed.path);
            found.push(file.ok_or_else(|| {
                Error::Argument(format!("the file '{}' is not of this dataset", listed.path.display()))
            })?);
        }
        found.sort_unstable();
        match found[..] {
            [first, .., last] if last - first + 1 != found.len() => Err(Error::Argument(format!(
                "its files do not lie together in the dataset's order: '{}' and '{}'",
                self.files[first].path.display(),
                self.files[last].path.display()
            ))),
            [first, ..] => Ok(self.file_rows(first).start..self.file_rows(found[found.len() - 1]).end),
            [] => Ok(0..0),
        }
    }

    /// The distinct schemas, each with the first file that has it, in canonical order.
    pub fn schemas(&self) -> impl Iterator<Item = (&[Column], &Path)> {
        self.schemas.iter().enumerate().filter_map(|(index, columns)| {
            let file = self.files.iter().find(|file| file.schema == index)?;
            Some((columns.as_slice(), file.path.as_path()))
        })
    }

    /// Which of the distinct schemas a file has.
    #[must_use]
    pub fn schema_of(&self, file: usize) -> usize {
        self.files[file].schema
    }

    /// The columns of one of the distinct schemas.
    #[must_use]
    pub fn columns(&self, schema: usize) -> &[Column] {
        &self.schemas[schema]
    }
}

/// What the manifest keeps of one file's footer.
struct Summary {
    canonical: PathBuf,
    size: u64,
    hash: [u8; HASH_BYTES],
    columns: Vec<Column>,
    group_rows: Vec<u64>,
    data_bytes: u64,
}

impl Summary {
    fn read(path: &Path) -> Result<Self> {
        let source = LocalFile::open(path)?;
        let footer = Footer::read(&source)?;
        let canonical = path.canonicalize().map_err(|cause| Error::source("can't resolve", path, cause))?;
        let groups = footer.metadata.row_groups();
        let bytes = groups.iter().map(|group| u64::try_from(group.total_byte_size()).unwrap_or(0));
        Ok(Self {
            canonical,
            data_bytes: bytes.fold(0, u64::saturating_add),
            size: source.size(),
            hash: footer.hash,
            columns: schema::columns(footer.metadata.file_metadata().schema_descr()),
            // Not negative: the footer was checked.
            group_rows: groups.iter().map(|group| group.num_rows().unsigned_abs()).collect(),
        })
    }
}

fn read_all(listed: &[Listed], stop: &AtomicBool) -> Result<Vec<Summary>> {
    let threads = listed.len().min(MAX_THREADS);
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(usize::MAX);
    let done = Mutex::new(Vec::with_capacity(listed.len()));
    let work = || {
        let mut mine = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= listed.len() || stop.load(Ordering::Relaxed) || index > failed.load(Ordering::Relaxed)
            {
                break;
            }
            let read = Summary::read(&listed[index].path);
            if read.is_err() {
                failed.fetch_min(index, Ordering::Relaxed);
            }
            mine.push((index, read));
        }
        if let Ok(mut done) = done.lock() {
            done.append(&mut mine);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without a thread more, those there are read all.
            drop(std::thread::Builder::new().spawn_scoped(scope, work));
        }
        work();
    });
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, read)| read).collect()
}
