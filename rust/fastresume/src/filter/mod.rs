//! What statistics, page indexes and bloom filters say of the values that a condition asks for.

pub mod cached_rows;
pub mod filter_layout;
pub mod row_group_stats;
pub mod page_stats;
