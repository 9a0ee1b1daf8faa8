//! How pages are checked before they are believed.

use serde::{Deserialize, Serialize};

/// How pages are checked: it changes no row, so no fingerprint tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageChecks {
    /// Whether the checksums of pages that have one are compared.
    pub verifies_checksums: bool,
    /// A page that takes more when it is decompressed is refused.
    pub max_page_bytes: u64,
}

impl Default for PageChecks {
    /// Checksums are compared. Writers end pages after a megabyte, or after a thousand cells: none has more than 1 GiB.
    fn default() -> Self {
        Self { verifies_checksums: true, max_page_bytes: 1 << 30 }
    }
}
