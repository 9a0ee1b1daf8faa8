//! Sizes that a file states, as lengths in memory.

use crate::error::{Error, Result};
use crate::memory::pool::Memory;

/// Makes room for so many bytes.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
pub fn grow(buffer: &mut Memory, size: usize) -> Result<()> {
    if buffer.len() < size {
        let grown = buffer.reserve(size - buffer.len()).and_then(|()| buffer.resize(size));
        grown.map_err(|_| Error::Argument(format!("no memory for a page of {size} bytes")))?;
    }
    Ok(())
}

/// A count as a length.
///
/// # Errors
/// `Data` if there can't be so many bytes.
pub fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("{count} bytes do not fit the address space")))
}
