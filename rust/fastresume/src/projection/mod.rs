//! What the user asked for, resolved against the columns of all files.

pub mod patterns;
pub mod fill;
pub mod padding;
pub mod rule_value;
pub mod request;
pub mod tensor_plan;
pub mod schemas;
pub mod shape;
pub mod field;
pub mod dictionary_scan;
pub mod known_nulls;
pub mod known_misfits;
pub mod made_tensor;
pub mod instead;
pub mod layout;
pub mod memory_estimate;
