//! The memory of one batch: a slot for each field, and which rows were written.

pub mod interleave;
pub mod pending;
pub mod placed_rows;
pub mod row_ids;
pub mod sorter;
pub mod jagged_piece;
pub mod jagged;
pub mod fields;
pub mod jagged_run;
