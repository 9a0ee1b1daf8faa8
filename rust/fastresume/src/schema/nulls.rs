//! How nulls are handled: refused, masked or filled.

use crate::error::{Error, Result};

/// How a null is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nulls {
    /// It is an error.
    Refused,
    /// It is marked as not valid; its value is zeros, or its row empty.
    Masked,
    /// It gets the value of these (lowest) bits, or an empty row.
    Filled(u64),
}

impl Nulls {
    /// The bits of a null's value.
    ///
    /// # Errors
    /// `Data` if nulls are refused; it names row `row` of the row group.
    pub fn bits(self, row: usize) -> Result<u64> {
        match self {
            Self::Refused => Err(Error::refused(format!(
                "row {row} of the row group is null; .mask_null() or .fill_null(value) says what happens to it"
            ))),
            Self::Masked => Ok(0),
            Self::Filled(bits) => Ok(bits),
        }
    }
}
