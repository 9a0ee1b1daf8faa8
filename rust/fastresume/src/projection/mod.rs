//! What the user asked for, resolved against the columns of all files.

pub mod column_rules;
pub mod null_policy;
pub mod padding;
pub mod unify;
pub mod output_types;
pub mod field;
pub mod dictionary_scan;
pub mod stacks;
pub mod layout;
pub mod memory_estimate;
pub mod missing_columns;
