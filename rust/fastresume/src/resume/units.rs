//! Units: what a dataset counts in the place of rows, as its states know them.

use std::sync::Arc;

use crate::order::selection::Selection;

/// Sequences or bins that the selected rows of files are put together to, each of rows of one file.
#[derive(Debug, Clone)]
pub struct Units {
    selection: Arc<Selection>,
    file_starts: Vec<u64>,
    rule: String,
}

impl Units {
    /// Units of stretches of consecutive rows, which no unit reaches out of. `starts` has the first unit of each
    /// stretch, `file_starts` that of each file; both end with the number of units. `rule` says how rows become units.
    #[must_use]
    pub fn new(starts: &[u64], file_starts: Vec<u64>, rule: String) -> Self {
        Self { selection: Arc::new(Selection::everything(starts)), file_starts, rule }
    }

    /// All of them, as an order takes them.
    #[must_use]
    pub fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    /// How many are of the first files.
    #[must_use]
    pub fn of_files(&self, files: usize) -> u64 {
        self.file_starts.get(files).copied().unwrap_or_else(|| self.selection.count())
    }

    /// The hash of the selected rows, and of how they become units.
    #[must_use]
    pub fn hash(&self, rows: &Selection) -> String {
        let text = format!("{} {}", self.rule, rows.hash().unwrap_or_default());
        blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
    }
}
