//! What gives bytes at ranges, wherever they lie.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::memory::vectors::filled;
use crate::source::mapped::MappedFile;

/// Something that gives bytes at ranges: a local file now, an object store behind the same seam.
pub trait ByteSource: Send + Sync {
    /// The size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `ByteSource` if they can't be read; `Data` if the source ends before them.
    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Exactly `length` bytes from `offset`.
    ///
    /// # Errors
    /// As for `read_into`; and `Data`, before any memory is taken, if the source has not so many bytes.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.check(offset, length)?;
        let mut bytes = filled(length, 0)?;
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

    /// Refuses a source that is not what it was when it was opened.
    ///
    /// # Errors
    /// `ByteSource`, naming what changed.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// The same bytes, of which these ranges are on their way from now on; none where reading them waits for no network.
    ///
    /// # Errors
    /// `ByteSource` if they can't be asked for.
    fn fetching(&self, ranges: &[Range<u64>]) -> Result<Option<Arc<dyn ByteSource>>> {
        let _ = ranges;
        Ok(None)
    }

    /// Leaves what small reads brought of it to whoever opens it next, if that is all of it.
    fn hand_on(&self) {}

    /// All its bytes as pages of memory, which the system reads when they are looked at; none where it can't be mapped.
    fn mapped(&self) -> Option<MappedFile> {
        None
    }

    /// Whether each read of it takes a request of its own.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether a network answers so soon that little need be on its way.
    fn is_near(&self) -> bool {
        false
    }

    /// The path, for messages.
    fn path(&self) -> &Path;
}
