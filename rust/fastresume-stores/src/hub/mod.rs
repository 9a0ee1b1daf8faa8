//! The Hugging Face hub as a store.

pub mod client;
mod failure;
pub mod store;
mod tree;
