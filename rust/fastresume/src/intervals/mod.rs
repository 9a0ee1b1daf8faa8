//! Interval sets: sorted sets of rows or positions, as half-open ranges.

pub mod set;
pub mod arrays;
