//! Objects of S3, GCS, Azure, HTTP servers and the Hugging Face hub as sources of fastresume's core.
//!
//! The core is pure and waits for nothing but local disks. All that waits for a network is here: one asynchronous runtime
//! for each process, the clients of stores, and the reads that are in flight.

mod account;
mod address;
mod block;
mod cache;
mod cached_object;
mod client;
mod counts;
mod credentials;
mod fetch;
mod handed_on;
mod hub;
mod in_flight;
mod object;
mod object_source;
mod option_names;
mod options;
mod outlook;
mod page;
mod plain;
mod process;
mod received;
mod repository;
mod retry;
mod shared;
mod stores;
mod web;

pub use crate::cache::Cache;
pub use crate::counts::{Counts, Snapshot};
pub use crate::credentials::CredentialsOf;
pub use crate::options::Options;
pub use crate::stores::Stores;
