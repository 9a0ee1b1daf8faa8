//! A local file as pages of memory.

use std::fs::File;

use memmap2::{Mmap, MmapOptions};

/// The bytes that a file had when it was opened. The system reads those that are looked at.
///
/// A file that is cut off later ends the process where bytes behind its new end are looked at: writers put another one in
/// its place.
#[derive(Debug)]
pub struct MappedFile(Mmap);

impl MappedFile {
    /// A file of so many bytes; none if it has none, or the system maps no files of its kind.
    #[must_use]
    pub fn of(file: &File, size: u64) -> Option<Self> {
        let length = usize::try_from(size).ok().filter(|&length| length > 0)?;
        // SAFETY: the pages are read alone, and every place in them is checked where it is used: other bytes in them than before
        // are other values, or an error.
        #[allow(unsafe_code, reason = "a file can be mapped in no other way")]
        let mapped = unsafe { MmapOptions::new().len(length).map(file) };
        mapped.ok().map(Self)
    }

    /// All its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
