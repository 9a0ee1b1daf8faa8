//! Row spans of one row group to columns, written into slots that the caller gives.
//!
//! [`ColumnDecoder`] is the seam: what decodes behind it may change, what it is asked may not.

use crate::error::Result;

/// Where the values of a column go: value i is element `first + i * step` of `elements`.
#[derive(Debug)]
pub struct Target<'a> {
    /// The memory, aligned to 8 bytes and a whole number of elements long.
    pub memory: &'a mut [u8],
    /// The element of the first value.
    pub first: usize,
    /// From one value's element to the next one's: 1, or the columns of a matrix.
    pub step: usize,
    /// How many values go there.
    pub rows: usize,
}

/// Decodes one column of one row group from its start to its end.
pub trait ColumnDecoder {
    /// Passes over `rows` values without delivering them.
    ///
    /// # Errors
    /// `Data` if there are fewer, or their pages are damaged; `Source` if they can't be read.
    fn skip(&mut self, rows: usize) -> Result<()>;

    /// Writes the next `target.rows` values into the target.
    ///
    /// # Errors
    /// As for `skip`; and `Data` if a value is null or does not fit its type.
    fn read(&mut self, target: Target<'_>) -> Result<()>;
}
