//! Names that a directory or a pattern means, on disks and in stores.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Whether a file is one of Parquet by its name: a directory means no others.
pub fn is_parquet(name: impl AsRef<OsStr>) -> bool {
    name.as_ref().as_bytes().ends_with(b".parquet")
}

/// Whether a name means something beside the data: what does not spell its first character out leaves it out.
pub fn is_left_out(name: impl AsRef<OsStr>) -> bool {
    matches!(name.as_ref().as_bytes().first(), Some(b'_' | b'.'))
}

/// Whether a file has the checksum of another: no wildcard means it.
pub fn is_checksum(name: impl AsRef<OsStr>) -> bool {
    name.as_ref().as_bytes().ends_with(b".crc")
}
