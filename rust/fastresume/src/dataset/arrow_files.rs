//! Files of Arrow's format as a source of rows.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arrow::field::ArrowField;
use crate::arrow::row_source::{Reach, RowGroup, RowSource, Waiting};
use crate::dataset::file_kind::FileKind;
use crate::dataset::listing::{self, Listed};
use crate::dataset::path_bytes;
use crate::dataset::row_parts::RowPart;
use crate::error::{Error, Result, check_thread, locked, stop_of_thread, stopped_by};
use crate::ipc::file_bytes::FileBytes;
use crate::ipc::ipc_file::{IpcFile, schema_message};
use crate::ipc::open_ipc_file::OpenIpcFile;
use crate::parallel;
use crate::source::file_system::FileSystem;
use crate::source::local::CHANGED;
use crate::source::status::{ObjectVersion, Status, Version};

/// So long a thread waits before it looks whether it is to stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// So many files are held open.
const OPEN_FILES: usize = 64;

/// At most this many threads open files: they wait for the disk more than they compute.
const MAX_THREADS: usize = 16;

/// A file that was found, and the message of its schema.
struct FoundSchema {
    listed: Listed,
    status: Status,
    schema: Vec<u8>,
}

/// Files of Arrow's format, of which the schemas were read.
pub struct ArrowSchemas {
    file_system: FileSystem,
    found: Vec<FoundSchema>,
}

/// A file, and how it is known that it is still the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KnownFile {
    #[serde(with = "path_bytes")]
    path: PathBuf,
    size: u64,
    modified_ns: Option<i128>,
    object: Option<ObjectVersion>,
    file: IpcFile,
}

/// Files of Arrow's format, whose batches are known. It is pickled as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ArrowFiles {
    files: Vec<KnownFile>,
    #[serde(skip)]
    file_system: FileSystem,
}

/// Files of Arrow's format as a source of rows.
pub struct ArrowFileRows {
    fields: Vec<ArrowField>,
    footer: Vec<u8>,
    files: ArrowFiles,
    reach: Reach,
    /// Of each file the batches of its row groups.
    groups: Vec<Vec<Range<usize>>>,
    opened: Mutex<VecDeque<(usize, Arc<OpenIpcFile>)>>,
}

impl ArrowSchemas {
    /// The files that paths mean, in generations, and the schema of each.
    ///
    /// # Errors
    /// As for [`listing::list`]; `Data` if a file is none of Arrow's; `Source` if one can't be read.
    pub fn list(file_system: FileSystem, named: &[Vec<PathBuf>], stop: &AtomicBool) -> Result<Self> {
        let listed = listing::list_generations(&file_system, named, FileKind::Arrow, stop)?;
        let found = parallel::each(listed.len(), 1, MAX_THREADS, stop, |number| {
            let listed = listed[number].clone();
            let (source, status) = file_system.open(&listed.path, listed.status.as_ref())?;
            let schema = schema_message(&FileBytes::new(source));
            let schema = schema.map_err(|error| error.in_file(&listed.path))?;
            Ok(FoundSchema { listed, status, schema })
        })?;
        let listed: Vec<Listed> = found.iter().map(|found| found.listed.clone()).collect();
        // Of files under two names the manifest says nothing: names of segments alone differ there.
        listing::check_distinct(&listed, found.iter().map(|found| &found.status))?;
        Ok(Self { file_system, found })
    }

    /// The schemas that differ, each as its message, with the first file that has it.
    #[must_use]
    pub fn distinct(&self) -> Vec<(&Path, &[u8])> {
        let mut found: Vec<(&Path, &[u8])> = Vec::new();
        for FoundSchema { listed, schema, .. } in &self.found {
            if !found.iter().rev().any(|(_, known)| known == schema) {
                found.push((&listed.path, schema));
            }
        }
        found
    }

    /// The files, of all of which these are the fields. Of each batch the metadata are read.
    ///
    /// # Errors
    /// `Data` if one is damaged, or has other fields; `Source` if it can't be read; `Interrupted`.
    pub fn open(&self, fields: &[ArrowField], stop: &AtomicBool) -> Result<ArrowFiles> {
        let files = parallel::each(self.found.len(), 1, MAX_THREADS, stop, |number| {
            let FoundSchema { listed, status, .. } = &self.found[number];
            let (source, now) = self.file_system.open(&listed.path, listed.status.as_ref())?;
            if let Some(change) = status.change(&now) {
                return Err(Error::unsettled(CHANGED, &listed.path, change));
            }
            let file = IpcFile::open(&FileBytes::new(source), fields);
            let file = file.map_err(|error| error.in_file(&listed.path))?;
            let modified_ns = match status.version {
                Version::Modified { ns, .. } => Some(ns),
                Version::Object(_) => None,
            };
            let path = listed.path.clone();
            Ok(KnownFile { path, size: status.size, modified_ns, object: status.object().cloned(), file })
        })?;
        Ok(ArrowFiles { files, file_system: self.file_system.clone() })
    }
}

impl ArrowFiles {
    /// The same files, which lie there.
    #[must_use]
    pub fn in_file_system(self, file_system: FileSystem) -> Self {
        Self { file_system, ..self }
    }

    /// What a manifest knows of them.
    #[must_use]
    pub fn parts(&self) -> Vec<RowPart> {
        let part = |KnownFile { path, file, .. }: &KnownFile| RowPart {
            name: path.clone(),
            group_rows: file.group_rows(),
            hash: file.hash,
        };
        self.files.iter().map(part).collect()
    }

    /// Opens one, if it is still what it was.
    fn open(&self, number: usize) -> Result<OpenIpcFile> {
        let Some(KnownFile { path, size, modified_ns, object, .. }) = self.files.get(number) else {
            return Err(Error::data(format!("there is no file {number}")));
        };
        let listed = object.clone().map(|object| Status { size: *size, version: Version::Object(object) });
        let (source, now) = self.file_system.open(path, listed.as_ref())?;
        let is_other = match (modified_ns, &now.version) {
            (Some(before), Version::Modified { ns, .. }) => before != ns,
            _ => false,
        };
        if is_other || now.size != *size {
            let message = format!("it had {size} bytes when the dataset was opened, it has {}", now.size);
            return Err(Error::unsettled(CHANGED, path, message));
        }
        Ok(OpenIpcFile::new(FileBytes::new(source)))
    }
}

impl ArrowFileRows {
    /// The rows of files of these fields; a Parquet file of the same columns would have this footer.
    #[must_use]
    pub fn new(fields: Vec<ArrowField>, footer: Vec<u8>, files: ArrowFiles) -> Self {
        let groups = files.files.iter().map(|known| known.file.groups()).collect();
        let reach = files.files.iter().map(|known| match known {
            KnownFile { object: Some(_), .. } => Reach::Far,
            KnownFile { file, .. } if file.is_packed => Reach::Near,
            KnownFile { .. } => Reach::AtHand,
        });
        let reach = reach.max().unwrap_or(Reach::AtHand);
        Self { fields, footer, files, reach, groups, opened: Mutex::default() }
    }

    fn opened(&self, number: usize) -> Result<Arc<OpenIpcFile>> {
        let mut opened = locked(&self.opened);
        let found = opened.iter().position(|(of, _)| *of == number).and_then(|place| opened.remove(place));
        if let Some((_, file)) = found {
            opened.push_front((number, Arc::clone(&file)));
            return Ok(file);
        }
        drop(opened);
        let file = Arc::new(self.files.open(number)?);
        let mut opened = locked(&self.opened);
        opened.push_front((number, Arc::clone(&file)));
        opened.truncate(OPEN_FILES);
        Ok(file)
    }

    /// Some batches of a file.
    fn batches(
        &self,
        part: usize,
        batches: Range<usize>,
        columns: &[usize],
        rows: u64,
    ) -> Result<Arc<RowGroup>> {
        let Some(KnownFile { file, path, .. }) = self.files.files.get(part) else {
            return Err(Error::data(format!("there is no file {part}")));
        };
        let read = || {
            let found = self.opened(part)?.read(file, &self.fields, batches, columns)?;
            RowGroup::new(found, usize::try_from(rows).unwrap_or(usize::MAX))
        };
        read().map(Arc::new).map_err(|error| error.in_file(path)).inspect_err(|error| {
            if matches!(error, Error::Unsettled(_) | Error::Source(_)) {
                locked(&self.opened).retain(|(of, _)| *of != part);
            }
        })
    }

    fn group(&self, part: usize, group: usize) -> Result<Range<usize>> {
        let found = self.groups.get(part).and_then(|groups| groups.get(group)).cloned();
        found.ok_or_else(|| Error::data(format!("file {part} has no row group {group}")))
    }

    fn rows(&self, part: usize, batches: Range<usize>) -> u64 {
        let batches = self.files.files.get(part).and_then(|known| known.file.batches.get(batches));
        batches.unwrap_or_default().iter().map(|batch| batch.rows).sum()
    }
}

impl std::fmt::Debug for ArrowFileRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ArrowFileRows").field("files", &self.groups.len()).finish_non_exhaustive()
    }
}

impl RowSource for ArrowFileRows {
    fn fields(&self) -> &[ArrowField] {
        &self.fields
    }

    fn footer(&self) -> &[u8] {
        &self.footer
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    /// Of objects it is asked in a thread of its own.
    fn ask(self: Arc<Self>, part: usize, group: usize, columns: Vec<usize>) -> Waiting {
        let (sender, answered) = channel();
        let (of, asked, stop) = (Arc::clone(&self), columns.clone(), stop_of_thread());
        let read = move || stopped_by(stop, || drop(sender.send(of.read(part, group, &asked))));
        let is_begun = self.reach == Reach::Far && thread::Builder::new().spawn(read).is_ok();
        Box::new(move || {
            if !is_begun {
                return self.read(part, group, &columns);
            }
            loop {
                match answered.recv_timeout(PATIENCE) {
                    Ok(found) => return found,
                    Err(RecvTimeoutError::Timeout) => check_thread()?,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::data("the thread that read it gave up"));
                    }
                }
            }
        })
    }

    fn read(&self, part: usize, group: usize, columns: &[usize]) -> Result<Arc<RowGroup>> {
        let batches = self.group(part, group)?;
        let rows = self.rows(part, batches.clone());
        self.batches(part, batches, columns, rows)
    }

    fn first(&self, part: usize, group: usize, columns: &[usize], most: usize) -> Result<Arc<RowGroup>> {
        let batches = self.group(part, group)?;
        let mut end = batches.start;
        let mut rows = 0;
        while end < batches.end && rows < most as u64 {
            rows += self.rows(part, end..end + 1);
            end += 1;
        }
        self.batches(part, batches.start..end, columns, rows)
    }
}
