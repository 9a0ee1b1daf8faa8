//! Threads that decode ahead of the training loop, in the order in which batches are needed.

pub mod stream_queue;
pub mod lane_schedule;
pub mod sequence_pass;
pub mod counted;
pub mod sequence_schedule;
pub mod mixed_queue;
pub mod mixed_schedule;
pub mod mixed_segments;
pub mod mixed_lists;
pub mod mixed_windows;
pub mod schedule;
pub mod decode_cost;
pub mod prefetch_queue;
pub mod waiting_segments;
pub mod waiting_lists;
pub mod waits;
pub mod window_segments;
pub mod task;
pub mod task_queue;
pub mod activity;
pub mod memory_bound;
pub mod mixture_bound;
pub mod thread_pool;
pub mod batch_reader;
