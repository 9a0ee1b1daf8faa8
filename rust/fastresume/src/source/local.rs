//! Bytes at ranges.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Something that gives bytes at ranges: a local file now, an object store behind the same seam.
pub trait Source: Send + Sync {
    /// The size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `Source` if they can't be read; `Data` if the source ends before them.
    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Exactly `length` bytes from `offset`.
    ///
    /// # Errors
    /// As for `read_into`; and `Data`, before any memory is taken, if the source has not so many bytes.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.check(offset, length)?;
        let mut bytes = vec![0; length];
        self.read_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Refuses bytes that lie outside of the source.
    ///
    /// # Errors
    /// `Data`, naming both.
    fn check(&self, offset: u64, length: usize) -> Result<()> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.size()) {
            let reason =
                format!("{length} bytes at {offset} lie outside of the file's {} bytes", self.size());
            return Err(Error::data(reason).in_file(self.path()));
        }
        Ok(())
    }

    /// The path, for messages.
    fn path(&self) -> &Path;
}

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
