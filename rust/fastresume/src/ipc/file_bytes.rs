//! The bytes of a file, which are mapped if that is possible.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::arrow::array::Lent;
use crate::error::Result;
use crate::source::byte_source::ByteSource;
use crate::source::mapped::MappedFile;

/// A file, and its pages if it is mapped.
#[derive(Clone)]
pub struct FileBytes {
    source: Arc<dyn ByteSource>,
    mapped: Option<Arc<MappedFile>>,
}

/// Bytes of a mapped file.
struct MappedPiece {
    file: Arc<MappedFile>,
    places: Range<usize>,
}

impl Lent for MappedPiece {
    fn bytes(&self) -> &[u8] {
        self.file.bytes().get(self.places.clone()).unwrap_or_default()
    }
}

impl FileBytes {
    /// Those of a file that is open.
    #[must_use]
    pub fn new(source: Arc<dyn ByteSource>) -> Self {
        let mapped = source.mapped().map(Arc::new);
        Self { source, mapped }
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.source.size()
    }

    fn places(&self, offset: u64, length: u64) -> Result<Range<usize>> {
        let too_many = usize::MAX;
        let [offset, length] = [offset, length].map(|number| usize::try_from(number).unwrap_or(too_many));
        self.source.check(offset as u64, length)?;
        Ok(offset..offset + length)
    }

    /// Bytes that stay as long as they are held.
    ///
    /// # Errors
    /// `Data` if the file ends before them; `Source` if they can't be read.
    pub fn lent(&self, offset: u64, length: u64) -> Result<Arc<dyn Lent>> {
        let places = self.places(offset, length)?;
        Ok(match &self.mapped {
            Some(file) => Arc::new(MappedPiece { file: Arc::clone(file), places }),
            None => Arc::new(self.source.read(offset, places.len())?),
        })
    }

    /// Bytes that are looked at now.
    ///
    /// # Errors
    /// As for `lent`.
    pub fn read(&self, offset: u64, length: u64) -> Result<Cow<'_, [u8]>> {
        let places = self.places(offset, length)?;
        match self.mapped.as_ref().and_then(|file| file.bytes().get(places.clone())) {
            Some(bytes) => Ok(Cow::Borrowed(bytes)),
            None => self.source.read(offset, places.len()).map(Cow::Owned),
        }
    }

    /// The same bytes, of which these are on their way, where that takes a network.
    ///
    /// # Errors
    /// `Source` if they can't be asked for.
    pub fn fetching(&self, ranges: &[Range<u64>]) -> Result<Self> {
        let fetching = if ranges.is_empty() { None } else { self.source.fetching(ranges)? };
        Ok(fetching.map_or_else(|| self.clone(), |source| Self { source, mapped: None }))
    }

    /// Refuses a file that is not what it was when it was opened.
    ///
    /// # Errors
    /// `Source`, naming what changed.
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }
}
