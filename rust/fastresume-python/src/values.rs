//! Plain values that the core gives to Python: frozen, and with a name for each part.

use fastresume::memory_bound::MemoryBound as CoreMemoryBound;
use pyo3::prelude::*;

/// The most that reading what is left of a pass takes, in bytes, as near as footers tell.
#[pyclass(frozen, get_all, module = "fastresume._core")]
#[allow(clippy::struct_field_names, reason = "names say their units")]
pub struct MemoryBound {
    /// What a rank holds in decoded rows, dictionaries and footers, over all its readers.
    rank_bytes: u64,
    /// What each thread that decodes adds to that.
    thread_bytes: u64,
    /// What one reader keeps of footers, which is in `rank_bytes`.
    footer_bytes: u64,
    /// What a thread has while it opens a file, which is in `thread_bytes`.
    opening_bytes: u64,
}

impl From<CoreMemoryBound> for MemoryBound {
    fn from(bound: CoreMemoryBound) -> Self {
        let CoreMemoryBound { rank_bytes, thread_bytes, footer_bytes, opening_bytes } = bound;
        Self { rank_bytes, thread_bytes, footer_bytes, opening_bytes }
    }
}
