//! Threads that decode ahead of the training loop, in the order in which batches are needed.

pub mod stream_queue;
pub mod schedule;
pub mod decode_cost;
pub mod prefetch_queue;
pub mod task_queue;
pub mod activity;
pub mod memory_bound;
pub mod thread_pool;
