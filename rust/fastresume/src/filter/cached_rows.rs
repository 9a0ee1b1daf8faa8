//! The rows that a filter kept, in a file or object beside the manifest's.
//!
//! They are used only for the same files, filter and rows, and for columns that mean the same in each file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::dataset::kept_file::{FileForm, KeptFile};
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result, shown};
use crate::intervals::set::Intervals;
use crate::order::selection::Selection;

/// The number changes with what is kept.
static FORM: FileForm =
    FileForm { what: "the filter's cache", magic: b"fastresume filter 3\n", name: b"fastresume filter " };

type RowsKey = [u8; blake3::OUT_LEN];

/// Where the rows are kept, and all that they depend on.
#[derive(Debug, Clone)]
pub struct CachedRows {
    path: PathBuf,
    key: RowsKey,
}

impl CachedRows {
    /// Those that `filter` keeps of the rows selected in a manifest. It reads columns of these `names` (of any, without them),
    /// and values that stand in paths.
    ///
    /// # Errors
    /// `Data` if there is no memory.
    pub fn new(
        path: PathBuf,
        (manifest, selection): (&Manifest, &Selection),
        filter: &[u8],
        (names, of_paths): (Option<&[String]>, &[String]),
    ) -> Result<Self> {
        let columns = manifest.columns_hash(names, of_paths)?;
        // Rows that were found without verified checksums are none for those who want them verified.
        let verifies = [u8::from(manifest.page_checks().verifies_checksums)];
        let selected = selection.hash().unwrap_or_default();
        // A file may be written again with the same size and footer.
        let mut versions = blake3::Hasher::new();
        for file in manifest.files() {
            versions.update(file.version().as_bytes()).update(b";");
        }
        let (files, versions) = (manifest.fingerprint(), versions.finalize());
        let mut hasher = blake3::Hasher::new();
        for part in [
            files.as_bytes(),
            versions.as_bytes(),
            selected.as_bytes(),
            columns.as_bytes(),
            &verifies,
            filter,
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Ok(Self { path, key: hasher.finalize().into() })
    }

    fn kept(&self) -> KeptFile<'_> {
        KeptFile { path: &self.path, form: &FORM }
    }

    /// The rows; nothing if they are not kept, or damaged.
    ///
    /// # Errors
    /// `Argument` if a file of something else is there, or the address is one that nothing reads; `Interrupted` once `stop`
    /// is set.
    pub fn rows(&self, manifest: &Manifest, stop: &AtomicBool) -> Result<Option<Intervals>> {
        let kept = self.kept();
        if let Ok(Some(kind)) = kept.other() {
            let path = shown(&self.path);
            return Err(Error::Argument(format!(
                "cache= would keep what the filter selects in '{path}': {kind}"
            )));
        }
        let held = kept.read(&manifest.file_system, stop)?;
        let content = kept.content(&held.bytes).and_then(|content| postcard::from_bytes(content).ok());
        let rows =
            content.and_then(|(key, rows): (RowsKey, Vec<Range<u64>>)| (key == self.key).then_some(rows));
        Ok(rows.and_then(|rows| Intervals::new(rows).ok()))
    }

    /// Keeps the rows of a selection in place of what is there.
    ///
    /// # Errors
    /// `Source` if they can't be written; `Interrupted` once `stop` is set.
    pub fn keep(&self, manifest: &Manifest, selection: &Selection, stop: &AtomicBool) -> Result<()> {
        let (kept, files) = (self.kept(), &manifest.file_system);
        let all = Intervals::full(manifest.num_rows());
        let rows = selection.intervals().unwrap_or(&all).ranges();
        let content = |_: &[u8]| {
            postcard::to_allocvec(&(self.key, rows)).map_err(|cause: postcard::Error| kept.failed(cause))
        };
        kept.write(content, (files, kept.read(files, stop)?, stop))
    }
}
