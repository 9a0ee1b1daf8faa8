//! Which rows, or tokens of rows, each sequence and each bin of a dataset is made of.

pub mod stretches;
pub mod row_costs;
pub mod sequence_table;
pub mod bin_table;
pub mod unit_table;
pub mod rule;
pub mod index_cache;
pub mod index;
