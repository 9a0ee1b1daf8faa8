//! Decoders of columns of lists.

pub mod grid;
pub mod pages;
pub mod leaf;
pub mod number;
pub mod byte_array;
pub mod converted;
pub mod nested;
pub mod validity;
pub mod fixed_size;
