//! What becomes of nulls: refused, masked or filled.

use crate::error::{Error, Result};

/// What becomes of a null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// It is an error.
    Refused,
    /// It is marked as not valid; its value is zeros, its row empty.
    Masked,
    /// It becomes the value of these bits (the lowest ones), its row empty.
    Filled(u64),
}

impl Nulls {
    /// The bits that stand for a null.
    ///
    /// # Errors
    /// `Data` if there is none to be: row `row` of the row group has one.
    pub fn bits(self, row: usize) -> Result<u64> {
        match self {
            Self::Refused => Err(Error::data(format!(
                "row {row} of the row group is null; .mask_null() or .fill_null(value) says what becomes of it"
            ))),
            Self::Masked => Ok(0),
            Self::Filled(bits) => Ok(bits),
        }
    }
}
