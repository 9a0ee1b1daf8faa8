//! What becomes of the values of a column between the file and the tensor.

use crate::schema::buckets::Buckets;
use crate::schema::types::Dtype;

/// What a column's values become, besides what their type says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Shaping {
    /// Nothing else.
    #[default]
    None,
    /// Numbers of another type than this one, which they would be.
    Cast(Dtype),
    /// The buckets of values, which would be of this type.
    Hashed(Dtype, Buckets),
    /// The codes of values, which would be of this type, in the column's vocabulary; and whether they are text.
    Coded(Dtype, bool),
}
