//! Blocks of memory that are pinned, reused and counted, and which tensors own.

pub mod vectors;
pub mod platform;
pub mod block;
pub mod free_list;
pub mod pool;
