//! Objects of S3, GCS, Azure, HTTP servers and the Hugging Face hub as sources of fastresume's core.
//!
//! The core is pure and waits for nothing but local disks. All that waits for a network is here: one asynchronous runtime
//! for each process, the clients of stores, and the reads that are in flight.
//!
//! ```
//! use std::path::Path;
//! use std::sync::atomic::AtomicBool;
//!
//! use fastresume::Store;
//! use fastresume_stores::{Options, Stores};
//!
//! let stores = Stores::new(Options::default(), None);
//! assert_eq!(stores.root(Path::new("s3://bucket/day=1/a.parquet"))?, Path::new("s3://bucket"));
//! let refused = stores.list(Path::new("ftp://host/a.parquet"), &AtomicBool::new(false)).unwrap_err();
//! assert!(refused.to_string().starts_with("nothing reads the address"));
//! # Ok::<(), fastresume::Error>(())
//! ```

mod account;
mod address;
mod block;
mod cache;
mod cached_object;
mod client;
mod counts;
mod credentials;
mod fetched;
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
pub use crate::retry::Patience;
pub use crate::stores::Stores;
