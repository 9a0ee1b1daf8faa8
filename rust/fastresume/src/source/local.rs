//! Bytes of local files.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::source::byte_source::Source;

/// What the system says of a regular file, and what differs if it is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status {
    /// The size in bytes.
    pub size: u64,
    /// The time of its last modification in nanoseconds since 1970.
    pub modified_ns: i128,
    /// The device and the number on it: two paths of one file have the same. (Links share it, too.)
    pub node: (u64, u64),
}

impl Status {
    /// The status of a file, which is not opened.
    ///
    /// # Errors
    /// `Source` if the system does not say, or it is a directory, pipe or device.
    pub fn of(path: &Path) -> Result<Self> {
        let status = std::fs::metadata(path).map_err(|cause| Error::source("can't open", path, cause))?;
        if !status.is_file() {
            return Err(Error::source("can't read", path, "not a regular file"));
        }
        Ok(Self::from(&status))
    }

    /// What differs if the content does: of a local file, the time of its last modification in nanoseconds
    /// (an object store would say its `ETag`).
    #[must_use]
    pub fn version(&self) -> String {
        self.modified_ns.to_string()
    }

    /// What became of a file with this status, as far as it shows; nothing if that is the status now.
    #[must_use]
    pub fn change(&self, now: &Self) -> Option<String> {
        if now.node != self.node {
            return Some("another file has taken its place".into());
        }
        if now.size != self.size {
            return Some(format!("it had {} bytes, it has {}", self.size, now.size));
        }
        let seconds = |ns: i128| format!("{}.{:09}", ns.div_euclid(SECOND_NS), ns.rem_euclid(SECOND_NS));
        (now.modified_ns != self.modified_ns).then(|| {
            let [before, now] = [self, now].map(|status| seconds(status.modified_ns));
            format!("it was modified {now} s after 1970, and before that {before} s")
        })
    }
}

impl From<&Metadata> for Status {
    fn from(found: &Metadata) -> Self {
        let modified_ns = i128::from(found.mtime()) * SECOND_NS + i128::from(found.mtime_nsec());
        Self { size: found.size(), modified_ns, node: (found.dev(), found.ino()) }
    }
}

const SECOND_NS: i128 = 1_000_000_000;

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
        Status::of(path)?;
        let failed = |cause| Error::source("can't open", path, cause);
        let file = File::open(path).map_err(failed)?;
        let status = Status::from(&file.metadata().map_err(failed)?);
        Ok(Self { file, status, path: path.to_owned() })
    }

    /// What the system said of it when it was opened.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }
}

impl Source for LocalFile {
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
        let changed = |cause: String| Error::source(CHANGED, &self.path, cause);
        for now in [self.file.metadata(), std::fs::metadata(&self.path)] {
            let now = now.map_err(|cause| changed(cause.to_string()))?;
            if let Some(change) = self.status.change(&Status::from(&now)) {
                return Err(changed(change));
            }
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
