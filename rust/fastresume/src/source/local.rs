//! Bytes of local files.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::source::byte_source::ByteSource;
use crate::source::mapped::MappedFile;
use crate::source::status::{SECOND_NS, Status, Version};

/// What the system lacks, and not the file: `ENOMEM`, `ENFILE` and `EMFILE`.
const NO_MEMORY: i32 = 12;
const NO_FILE_OF_SYSTEM: i32 = 23;
const NO_FILE_OF_PROCESS: i32 = 24;

/// The status of a file, which is not opened.
///
/// # Errors
/// `Source` if the system does not say, or it is a directory, pipe or device.
pub fn status(path: &Path) -> Result<Status> {
    let status = std::fs::metadata(path).map_err(|cause| Error::source("can't open", path, cause))?;
    if !status.is_file() {
        return Err(Error::source("can't read", path, "not a regular file"));
    }
    Ok(status_of(&status))
}

fn status_of(found: &Metadata) -> Status {
    let ns = i128::from(found.mtime()) * SECOND_NS + i128::from(found.mtime_nsec());
    Status { size: found.size(), version: Version::Modified { ns, node: (found.dev(), found.ino()) } }
}

/// What is said of a file that is another one than before.
pub const CHANGED: &str = "the file was changed while it was read:";

/// A local file, read at positions (no shared file offset, so any number of threads may read).
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    status: Status,
    path: PathBuf,
}

impl LocalFile {
    /// Opens a regular file, or a link to one.
    ///
    /// # Errors
    /// `Source` if it can't be opened or is a directory, pipe or device.
    pub fn open(path: &Path) -> Result<Self> {
        // Before opening: to open a pipe waits for its writer.
        status(path)?;
        let failed = |cause: std::io::Error| match cause.raw_os_error() {
            Some(NO_MEMORY | NO_FILE_OF_SYSTEM | NO_FILE_OF_PROCESS) => {
                Error::unsettled("can't open", path, cause)
            }
            _ => Error::source("can't open", path, cause),
        };
        let file = File::open(path).map_err(failed)?;
        let status = status_of(&file.metadata().map_err(failed)?);
        Ok(Self { file, status, path: path.to_owned() })
    }

    /// What the system said of it when it was opened.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }
}

impl ByteSource for LocalFile {
    fn size(&self) -> u64 {
        self.status.size
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len())?;
        self.file.read_exact_at(buffer, offset).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Error::data("the file became shorter while it was read").in_file(&self.path)
            }
            _ => Error::source("can't read", &self.path, cause),
        })
    }

    /// Both the file that is open and the one that its path names now: whoever opens it again would get that one.
    fn check_unchanged(&self) -> Result<()> {
        for now in [self.file.metadata(), std::fs::metadata(&self.path)] {
            let now = now.map_err(|cause| Error::source(CHANGED, &self.path, cause))?;
            if let Some(change) = self.status.change(&status_of(&now)) {
                return Err(Error::unsettled(CHANGED, &self.path, change));
            }
        }
        Ok(())
    }

    fn mapped(&self) -> Option<MappedFile> {
        MappedFile::of(&self.file, self.status.size)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
