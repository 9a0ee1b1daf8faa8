//! Bytes of local files.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::source::byte_source::Source;

/// A local file, read at positions (no shared file offset, so any number of threads may read).
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    size: u64,
    path: PathBuf,
}

impl LocalFile {
    /// Opens a regular file, or a link to one.
    ///
    /// # Errors
    /// `Source` if it can't be opened or is a directory, pipe or device.
    pub fn open(path: &Path) -> Result<Self> {
        // Before opening: to open a pipe waits for its writer.
        let status = std::fs::metadata(path).map_err(|cause| Error::source("can't open", path, cause))?;
        if !status.is_file() {
            return Err(Error::source("can't read", path, "not a regular file"));
        }
        let file = File::open(path).map_err(|cause| Error::source("can't open", path, cause))?;
        Ok(Self { file, size: status.len(), path: path.to_owned() })
    }
}

impl Source for LocalFile {
    fn size(&self) -> u64 {
        self.size
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

    fn path(&self) -> &Path {
        &self.path
    }
}
