//! Arrow's files and streams: their messages, and the arrays in the bodies of these.

pub mod flat_table;
pub mod message;
pub mod inflate;
pub mod dictionary_ids;
pub mod batch_arrays;
pub mod joined;
pub mod file_bytes;
pub mod ipc_file;
pub mod open_ipc_file;
