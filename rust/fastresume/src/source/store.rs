//! What lists and opens objects, which lie in no local file system.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::error::Result;
use crate::source::byte_source::ByteSource;
use crate::source::status::Status;

/// An object, as a listing tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// The whole address.
    pub path: PathBuf,
    /// Its size and tag.
    pub status: Status,
}

/// Stores of objects, asked by their addresses. It may be shared by threads, and used in a forked child.
pub trait Store: Debug + Send + Sync {
    /// The address of the bucket, host or repository that an address lies in: nothing above it can be listed.
    ///
    /// # Errors
    /// `Argument` as for `list`.
    fn root(&self, address: &Path) -> Result<PathBuf>;

    /// The object of this address if there is one; else all objects whose address begins with it and a slash.
    ///
    /// # Errors
    /// `Source` if the store does not answer, or not to this user; `Argument` if no store has such addresses, or an
    /// option is wrong; `Interrupted` once `stop` is set.
    fn list(&self, address: &Path, stop: &AtomicBool) -> Result<Vec<ListedObject>>;

    /// Whether there is an object of this address, or one below it.
    ///
    /// # Errors
    /// As for `list`.
    fn has(&self, address: &Path, stop: &AtomicBool) -> Result<bool>;

    /// All bytes of an object, if there is one.
    ///
    /// # Errors
    /// As for `list`; `Source` if it has more bytes than so many.
    fn whole(&self, address: &Path, most_bytes: u64, stop: &AtomicBool) -> Result<Option<Vec<u8>>>;

    /// Puts an object in the place of what there is: it is there as a whole, or not at all.
    ///
    /// # Errors
    /// As for `list`; `Source` if the store is only read.
    fn put(&self, address: &Path, bytes: Vec<u8>, stop: &AtomicBool) -> Result<()>;

    /// An object, to be read as long as it has this status.
    ///
    /// # Errors
    /// `Argument` as for `list`. The store is not asked.
    fn open(&self, address: &Path, status: &Status) -> Result<Arc<dyn ByteSource>>;
}
