//! The requested conversion of a column's values between file and tensor.

use crate::schema::buckets::Buckets;
use crate::schema::types::Dtype;

/// How a column's values are converted, beyond what their type says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Shaping {
    /// Not at all.
    #[default]
    None,
    /// Cast from this type, which they would have.
    Cast(Dtype),
    /// The same, and integers become the nearest float.
    Rounded(Dtype),
    /// Hashed to buckets, from this type, which they would have.
    Hashed(Dtype, Buckets),
    /// Replaced by their codes in the column's vocabulary, from this type, which they would have; and whether
    /// they are strings.
    Coded(Dtype, bool),
}

impl Shaping {
    /// The type that values would have without it; `None` if they are not converted.
    #[must_use]
    pub fn from(self) -> Option<Dtype> {
        match self {
            Self::None => None,
            Self::Cast(dtype) | Self::Rounded(dtype) | Self::Hashed(dtype, _) | Self::Coded(dtype, _) => {
                Some(dtype)
            }
        }
    }
}
