//! Decodes rows of a row group to columns of numbers.

pub mod decoder;
pub mod open_rows;
pub mod open_file;
pub mod row_picker;
pub mod numbers;
pub mod converter;
pub mod flat;
pub mod list;
pub mod factory;
pub mod survey;
pub mod mended;
