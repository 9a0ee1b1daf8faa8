//! The trait of value decoders, and the page that they decode.

use parquet::basic::Encoding;

use crate::error::{Error, Result};

/// The page that is decoded.
#[derive(Debug, Clone, Copy)]
pub struct Page<'p> {
    /// Its bytes.
    pub bytes: &'p [u8],
    /// The bytes of the dictionary that was opened last, aligned to 8.
    pub dictionary: &'p [u8],
}

/// The values of the pages of a column chunk, and how far they were read. The caller holds a page's bytes.
pub trait PageValues {
    /// Whether the dictionary is needed: otherwise it is not read.
    fn wants_dictionary(&self) -> bool {
        true
    }

    /// Registers a dictionary of `count` values, whose bytes come with each page.
    ///
    /// # Errors
    /// `Data` if it has fewer.
    fn open_dictionary(&mut self, bytes: &[u8], count: usize) -> Result<()>;

    /// Moves to the `count` values that begin at byte `start` of a page.
    ///
    /// # Errors
    /// `Data` if the page is too short, contradicts itself, or has an encoding that these values can't have.
    fn open(&mut self, encoding: Encoding, bytes: &[u8], start: usize, count: usize) -> Result<()>;

    /// Refuses a page that was opened, if it does not end behind its `count` values (not 0). Where their bytes
    /// follow from their number, opening it has done that.
    ///
    /// # Errors
    /// `Data`, saying so.
    fn check_end(&self, _bytes: &[u8], _count: usize) -> Result<()> {
        Ok(())
    }

    /// Whether opening the page would have failed with any other number of values.
    fn is_counted(&self) -> bool {
        false
    }

    /// Passes over `count` values.
    ///
    /// # Errors
    /// `Data` if there are fewer.
    fn skip(&mut self, bytes: &[u8], count: usize) -> Result<()>;
}

/// Refuses a dictionary whose bytes are not `count` values of `width` bytes.
///
/// # Errors
/// `Data`, naming both numbers.
pub fn check_dictionary(bytes: &[u8], count: usize, width: usize) -> Result<()> {
    if count.saturating_mul(width) > bytes.len() {
        return Err(Error::data(format!(
            "the dictionary claims {count} values and has {} bytes",
            bytes.len()
        )));
    }
    Ok(())
}

/// Refuses a page that has fewer bytes than its `count` values need, or more.
///
/// # Errors
/// `Data`, naming both numbers.
pub fn check_values(count: usize, there: usize, needed: usize) -> Result<()> {
    if there < needed || there > needed && count > 0 {
        return Err(Error::data(format!(
            "a page of {count} values has {there} bytes for them, {needed} are needed"
        )));
    }
    Ok(())
}
