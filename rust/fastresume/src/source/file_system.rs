//! Where files lie: on local disks, or in stores.

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Result, shown};
use crate::source::address::scheme;
use crate::source::byte_source::ByteSource;
use crate::source::local::LocalFile;
use crate::source::status::Status;
use crate::source::store::Store;

/// Local disks, and the stores that addresses name, if there are any.
#[derive(Debug, Clone, Default)]
pub struct FileSystem {
    store: Option<Arc<dyn Store>>,
    read_bytes: u64,
}

impl FileSystem {
    /// Local disks, and these stores, of whose objects so many bytes may be on their way.
    #[must_use]
    pub fn with_store(store: Arc<dyn Store>, read_bytes: u64) -> Self {
        Self { store: Some(store), read_bytes }
    }

    /// How many bytes of objects may be on their way.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The store that an address names; none of a local path.
    ///
    /// # Errors
    /// `Argument` if it is an address and there is no store.
    pub fn store_of(&self, path: &Path) -> Result<Option<&dyn Store>> {
        match (scheme(path), &self.store) {
            (None, _) => Ok(None),
            (Some(_), Some(store)) => Ok(Some(store.as_ref())),
            (Some(_), None) => Err(Error::Argument(format!(
                "only local files can be read here, found the address '{}'",
                shown(path)
            ))),
        }
    }

    /// Opens a file; an object as the one that has the status that was listed.
    ///
    /// # Errors
    /// `Source` if it can't be opened, or is a directory, pipe or device; `Argument` as for `store_of`.
    pub fn open(&self, path: &Path, listed: Option<&Status>) -> Result<(Arc<dyn ByteSource>, Status)> {
        if let (Some(store), Some(status)) = (self.store_of(path)?, listed) {
            return Ok((store.open(path, status)?, status.clone()));
        }
        let file = LocalFile::open(path)?;
        let status = file.status().clone();
        Ok((Arc::new(file), status))
    }
}
