//! Arrow's arrays, as a producer lends them: their types, and their rows as levels and plain values.

pub mod bits;
pub mod field;
pub mod array;
pub mod leaf;
pub mod leaf_hash;
pub mod levels;
pub mod values;
pub mod row_source;
pub mod asked_rows;
pub mod held_rows;
