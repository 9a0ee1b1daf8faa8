//! Decoders of flat columns: one value, or a null, in each row.

pub mod pages;
pub mod number;
pub mod byte_array;
pub mod byte_array_codes;
pub mod split;
pub mod fixed_len;
pub mod validity;
pub mod given;
