//! The files of all sources that are open.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::batch::sources::Sources;
use crate::decode::open_file::{OPEN_FILES, OpenFile};
use crate::error::{Error, Result, locked};
use crate::source::local::CHANGED;
use crate::source::status::{Status, Version};

/// So many objects, or parts of a source, stay open, which takes no file of the system's: their footers were read.
const OPEN_OBJECTS: usize = 256;

/// The files that were opened last.
pub struct OpenFiles {
    pub sources: Arc<Sources>,
    most: usize,
    files: Mutex<VecDeque<(usize, Arc<OpenFile>)>>,
    /// When each file was modified last, in nanoseconds since 1970, as it was when it was opened last.
    modified: Mutex<Vec<i64>>,
    /// What could not be opened ahead of its use, which is due.
    failed: Mutex<Vec<(usize, Error)>>,
}

impl OpenFiles {
    pub fn new(sources: Arc<Sources>) -> Self {
        let each = if sources.are_far() { OPEN_OBJECTS } else { OPEN_FILES };
        let most = sources.each().len().saturating_mul(each).min(OPEN_OBJECTS);
        Self { sources, most, files: Mutex::default(), modified: Mutex::default(), failed: Mutex::default() }
    }

    /// A file, counted over all sources, opened for the columns that its source has a layout of.
    ///
    /// # Errors
    /// As for [`OpenFile::open`]; `Source` if it was modified since it was open before.
    pub fn open(&self, index: usize) -> Result<Arc<OpenFile>> {
        if let Some((_, file)) = locked(&self.files).iter().find(|(open, _)| *open == index) {
            return Ok(Arc::clone(file));
        }
        if let Some(error) = self.take_failed(index) {
            return Err(error);
        }
        let (source, number) = self.sources.file(index);
        let columns = source.layout.columns(source.manifest.schema_of(number));
        let file = Arc::new(OpenFile::open(&source.manifest, number, columns)?);
        self.check_still(index, &file)?;
        let mut files = locked(&self.files);
        files.push_front((index, Arc::clone(&file)));
        files.truncate(self.most);
        Ok(file)
    }

    /// Notes that a file could not be opened, for whoever opens it next.
    pub fn note_failed(&self, index: usize, error: Error) {
        locked(&self.failed).push((index, error));
    }

    fn take_failed(&self, index: usize) -> Option<Error> {
        let mut failed = locked(&self.failed);
        let place = failed.iter().position(|(of, _)| *of == index)?;
        Some(failed.swap_remove(place).1)
    }

    /// Refuses a file that was modified since it was open before, though its footer is the same.
    fn check_still(&self, index: usize, file: &OpenFile) -> Result<()> {
        let now = file.status();
        // An object is opened as the one that was listed.
        let Version::Modified { ns, node } = now.version else { return Ok(()) };
        let mut modified = locked(&self.modified);
        // As nobody's files are: a time that does not fit is not compared.
        modified.resize(self.sources.num_files(), i64::MIN);
        let before = std::mem::replace(&mut modified[index], i64::try_from(ns).unwrap_or(i64::MIN));
        let then = Status { size: now.size, version: Version::Modified { ns: before.into(), node } };
        match then.change(now) {
            Some(change) if before != i64::MIN => {
                let (source, number) = self.sources.file(index);
                Err(Error::unsettled(CHANGED, &source.manifest.files()[number].path, change))
            }
            _ => Ok(()),
        }
    }
}
