//! What statistics, page indexes and bloom filters can say of a condition.

pub mod filter_layout;
pub mod row_group_stats;
pub mod page_stats;
