//! The files of a dataset, and what their footers say of them.

pub mod tables;
pub mod fingerprint;
pub mod file_kind;
pub mod other_files;
pub mod object_listing;
pub mod listing;
pub mod path_bytes;
pub mod file_summary;
pub mod file_schema;
pub mod kept_file;
pub mod manifest_cache;
pub mod found_files;
pub mod page_checks;
pub mod file_value;
pub mod table_snapshot;
pub mod table_type;
pub mod manifest;
pub mod row_parts;
pub mod arrow_files;
pub mod columns_hash;
pub mod file_order;
pub mod hive_partition;
