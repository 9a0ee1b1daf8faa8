//! Names that a directory or a pattern means, on disks and in stores.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Of which kind the files are that a directory means: their names say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Parquet.
    Parquet,
    /// Arrow's files and streams.
    Arrow,
}

impl FileKind {
    /// How names of such files end.
    #[must_use]
    pub fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Parquet => &[".parquet"],
            Self::Arrow => &[".arrow", ".arrows", ".feather", ".ipc"],
        }
    }

    /// Whether a file is one of them by its name.
    pub fn has(self, name: impl AsRef<OsStr>) -> bool {
        let name = name.as_ref().as_bytes();
        self.suffixes().iter().any(|suffix| name.ends_with(suffix.as_bytes()))
    }

    /// How their names end, for people.
    #[must_use]
    pub fn endings(self) -> String {
        self.suffixes().join(" or ")
    }
}

/// Whether a name means something beside the data: what does not spell its first character out leaves it out.
pub fn is_left_out(name: impl AsRef<OsStr>) -> bool {
    matches!(name.as_ref().as_bytes().first(), Some(b'_' | b'.'))
}

/// Whether a file has the checksum of another: no wildcard means it.
pub fn is_checksum(name: impl AsRef<OsStr>) -> bool {
    name.as_ref().as_bytes().ends_with(b".crc")
}
