//! A file of the dataset, opened for decoding.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parquet::basic::Type as Physical;
use parquet::schema::types::ColumnDescPtr;

use crate::arrow::asked_rows::AskedRows;
use crate::dataset::file_value::FileValue;
use crate::dataset::manifest::Manifest;
use crate::dataset::page_checks::PageChecks;
use crate::decode::open_rows::{NoFile, OpenRows};
use crate::error::{Error, Result};
use crate::format::metadata::column_chunk::{ColumnChunk, StatedChunk};
use crate::format::metadata::column_metadata::ColumnMetadata;
use crate::format::metadata::footer::FooterBytes;
use crate::format::metadata::page_header::PageHeader;
use crate::format::metadata::page_index::{PagePlace, read_index};
use crate::format::metadata::writer::Writer;
use crate::format::page::known_pages::KnownPages;
use crate::format::page::locations::PageLocations;
use crate::format::page::pages::Pages;
use crate::format::page::reader::{Buffers, PageReader};
use crate::format::page::scanner::PageScanner;
use crate::memory::pool::Memory;
use crate::schema::columns::Column;
use crate::source::byte_source::ByteSource;
use crate::source::status::{ObjectVersion, Status, Version};

/// The number of files that a reader keeps open.
pub const OPEN_FILES: usize = 8;

/// The header of a dictionary has no statistics, and some 20 bytes.
const DICTIONARY_HEADER_BYTES: u64 = 512;

/// A file of the dataset, opened for decoding.
pub struct OpenFile {
    source: Arc<dyn ByteSource>,
    status: Status,
    leaves: Arc<ColumnMetadata>,
    places: Arc<PageLocations>,
    page_checks: PageChecks,
    lacks_checksums: Arc<AtomicBool>,
    /// Where its column chunk ends, of which only a part is read.
    end: Option<u64>,
    /// Columns of one value, and that.
    values: Arc<[(String, FileValue)]>,
    /// The rows, if they lie in no file.
    rows: Option<Arc<OpenRows>>,
    /// A row group of them that was asked for.
    asked: Option<(usize, Arc<AskedRows>)>,
}

/// What was asked for of a row group.
#[derive(Clone)]
pub enum FetchedBytes {
    /// Bytes of the file.
    Bytes(Arc<dyn ByteSource>),
    /// The rows, by the number of the row group in the file.
    Rows(usize, Arc<AskedRows>),
}

impl FetchedBytes {
    /// Whether nobody else has it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        match self {
            Self::Bytes(source) => Arc::strong_count(source) == 1,
            Self::Rows(_, asked) => Arc::strong_count(asked) == 1,
        }
    }

    /// Whether who waited for it was to stop.
    #[must_use]
    pub fn was_given_up(&self) -> bool {
        matches!(self, Self::Rows(_, asked) if asked.were_given_up())
    }

    /// Whether rows are still waited for.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        matches!(self, Self::Rows(_, asked) if !asked.have_come())
    }

    /// The bytes of memory that rows take, once somebody has taken them.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Bytes(_) => None,
            Self::Rows(_, asked) => asked.bytes(),
        }
    }
}

impl OpenFile {
    /// Opens a file of the manifest to read columns, and checks that it has not changed.
    ///
    /// # Errors
    /// `Source` if it can't be opened; `Data` if it is damaged or was changed.
    pub fn open<'a>(
        manifest: &Manifest,
        file: usize,
        columns: impl IntoIterator<Item = &'a Column>,
    ) -> Result<Self> {
        let columns: Vec<&Column> = columns.into_iter().collect();
        let constant = columns.iter().filter(|column| column.given.is_some());
        let values =
            constant.map(|column| (column.name.clone(), manifest.value(file, &column.name))).collect();
        let held = columns.iter().filter(|column| !column.is_constant());
        let numbers: BTreeSet<usize> = held.map(|column| column.leaf).collect();
        let numbers: Vec<usize> = numbers.into_iter().collect();
        let of = &manifest.files()[file];
        if let Some(source) = &manifest.rows {
            let opened = OpenRows::open(manifest, source, file, &numbers);
            let (rows, leaves) = opened.map_err(|error| error.in_file(&of.path))?;
            return Ok(Self {
                status: Status { size: of.size, version: Version::Object(ObjectVersion::default()) },
                source: Arc::new(NoFile),
                leaves,
                places: Arc::default(),
                page_checks: manifest.page_checks(),
                lacks_checksums: Arc::clone(manifest.lacks_checksums()),
                end: None,
                values,
                rows: Some(Arc::new(rows)),
                asked: None,
            });
        }
        // Each answer for an object has its tag: another one is noticed with the first bytes.
        let has_tag = of.object.as_ref().is_some_and(|object| object.tag.is_some());
        let known = manifest.footers().known(of.footer_hash, &numbers).filter(|_| has_tag);
        let (source, status, leaves) = if let Some(leaves) = known {
            let (source, status) = manifest.open_file(file)?;
            (source, status, leaves)
        } else {
            let (source, status, footer) = read_footer(manifest, file)?;
            let leaves = manifest.footers().leaves(footer, numbers);
            (source, status, leaves.map_err(|error: Error| error.in_file(&of.path))?)
        };
        Ok(Self {
            status,
            source,
            leaves,
            places: Arc::default(),
            page_checks: manifest.page_checks(),
            lacks_checksums: Arc::clone(manifest.lacks_checksums()),
            end: None,
            values,
            rows: None,
            asked: None,
        })
    }

    /// The metadata of the leaf columns that are read.
    #[must_use]
    pub fn leaves(&self) -> &ColumnMetadata {
        &self.leaves
    }

    /// The value of a column that has one in the whole file.
    #[must_use]
    pub fn value(&self, name: &str) -> FileValue {
        let found = self.values.iter().find(|(of, _)| of == name);
        found.map_or(FileValue::Missing, |(_, value)| value.clone())
    }

    /// The leaf of the file's schema that a column is read from.
    ///
    /// # Errors
    /// `Data` if the file has no such leaf.
    pub fn leaf(&self, column: &Column) -> Result<ColumnDescPtr> {
        Ok(Arc::clone(&self.leaves.leaf(column.leaf)?.described))
    }

    /// The pages of a column chunk.
    ///
    /// # Errors
    /// `Data` if the row group's metadata contradict each other.
    pub fn pages<'a>(
        &self,
        row_group: usize,
        leaf_number: usize,
        leaf: &ColumnDescPtr,
        buffers: &'a mut Buffers,
    ) -> Result<Pages<'a>> {
        if let Some(rows) = &self.rows {
            let asked = self.asked.as_ref().filter(|(group, _)| *group == row_group);
            return rows.pages(row_group, leaf_number, asked.map(|(_, asked)| asked.as_ref()), buffers);
        }
        let chunk = self.chunk(row_group, leaf_number, leaf)?;
        let (source, places) = (Arc::clone(&self.source), Arc::clone(&self.places));
        let checksums = (self.page_checks.verifies_checksums, Arc::clone(&self.lacks_checksums));
        let stored = PageReader::new(source, chunk, places, checksums, buffers)?;
        Ok(Pages::Stored(stored))
    }

    /// Where a column chunk lies.
    fn chunk(&self, row_group: usize, leaf_number: usize, leaf: &ColumnDescPtr) -> Result<ColumnChunk> {
        let chunk = self.leaves.chunk(row_group, leaf_number)?;
        let rows = self.leaves.rows(row_group);
        let is_flat = leaf.max_rep_level() == 0;
        if is_flat && u64::try_from(chunk.values) != Ok(rows) {
            return Err(Error::data(format!(
                "the column chunk claims {} values, its row group {rows} rows",
                chunk.values
            )));
        }
        let mut chunk = place(chunk, leaf, rows, self.leaves.writer(), self.page_checks.max_page_bytes)?;
        if !self.leaves.writer().counts_dictionary_headers() {
            chunk.end += self.dictionary_header_bytes(chunk.start)?;
        }
        chunk.end = chunk.end.min(self.end.unwrap_or(u64::MAX));
        Ok(chunk)
    }

    /// The length of a page's header, if it is that of a dictionary.
    fn dictionary_header_bytes(&self, start: u64) -> Result<u64> {
        let length = self.source.size().saturating_sub(start).min(DICTIONARY_HEADER_BYTES);
        let bytes = self.source.read(start, usize::try_from(length).unwrap_or(0))?;
        let header = PageHeader::parse(&bytes).ok().filter(|(header, _)| header.is_dictionary());
        Ok(header.map_or(0, |(_, length)| length as u64))
    }

    /// The first row of each data page of a flat column chunk, as its index names them; none if it has none, or names others
    /// than there are.
    ///
    /// # Errors
    /// `Data` if the index is damaged; `Source` if it can't be read.
    pub fn page_starts(&self, row_group: usize, column: &Column) -> Result<Option<Vec<u64>>> {
        let chunk = self.chunk(row_group, column.leaf, &self.leaf(column)?)?;
        let Some(place) = self.leaves.chunk(row_group, column.leaf)?.offset_index() else { return Ok(None) };
        let indexed = read_index(self.source.as_ref(), place, &chunk)?;
        let mut memory = Memory::lent();
        let (source, rows) = (Arc::clone(&self.source), chunk.rows);
        let walk = PageScanner::new(source, chunk, Arc::clone(&self.places), rows, &mut memory)?;
        let are_there = walk.are_pages(&indexed)?;
        Ok(are_there.then(|| indexed.iter().map(|page: &PagePlace| page.first_row).collect()))
    }

    /// Where the column chunks of a row group lie; none that lies outside of the file.
    ///
    /// # Errors
    /// `Data` if the row group has no such column.
    pub fn chunk_ranges(&self, row_group: usize, columns: &[&Column]) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::with_capacity(columns.len());
        for column in columns.iter().filter(|column| !column.is_constant()) {
            let chunk = self.leaves.chunk(row_group, column.leaf)?;
            let start = u64::try_from(chunk.start).unwrap_or(u64::MAX);
            let end = start.saturating_add(u64::try_from(chunk.compressed_bytes).unwrap_or(0));
            ranges.push(start.min(self.source.size())..end.min(self.source.size()));
        }
        Ok(ranges)
    }

    /// The same file, of which that was asked for.
    #[must_use]
    pub fn with(&self, fetched: FetchedBytes) -> Self {
        match fetched {
            FetchedBytes::Bytes(source) => self.read_from(source),
            FetchedBytes::Rows(group, asked) => {
                Self { asked: Some((group, asked)), ..self.read_from(Arc::clone(&self.source)) }
            }
        }
    }

    /// The same file, whose bytes come from here.
    #[must_use]
    pub fn read_from(&self, source: Arc<dyn ByteSource>) -> Self {
        Self {
            source,
            status: self.status.clone(),
            leaves: Arc::clone(&self.leaves),
            places: Arc::clone(&self.places),
            page_checks: self.page_checks,
            lacks_checksums: Arc::clone(&self.lacks_checksums),
            end: self.end,
            values: Arc::clone(&self.values),
            rows: self.rows.clone(),
            asked: self.asked.clone(),
        }
    }

    /// The same file, of which one column chunk is read from a page on, and up to an offset. Where its pages lie is taken
    /// for known.
    ///
    /// # Errors
    /// `Data` if the row group's metadata contradict each other.
    pub fn part(
        &self,
        row_group: usize,
        column: &Column,
        (start, end): (Option<PagePlace>, Option<u64>),
    ) -> Result<Self> {
        let source = Arc::clone(&self.source);
        let part = Self { places: Arc::default(), end, ..self.read_from(source) };
        if self.rows.is_some() {
            // Whatever row comes next, a page begins with it.
            return Ok(part);
        }
        let chunk = part.chunk(row_group, column.leaf, &self.leaf(column)?)?;
        part.places.note(&chunk, start.as_slice());
        part.places.note_checked(&chunk);
        Ok(part)
    }

    /// What is known of the pages of a column chunk, some of which may be damaged.
    ///
    /// # Errors
    /// `Data` if the row group's metadata contradict each other.
    pub fn known_pages(&self, row_group: usize, column: &Column) -> Result<KnownPages> {
        if self.rows.is_some() {
            return Ok(KnownPages::All(OpenRows::places(self.leaves.rows(row_group))));
        }
        let chunk = self.chunk(row_group, column.leaf, &self.leaf(column)?)?;
        let is_trusted = chunk.is_flat() || self.leaves.writer().indexes_list_rows();
        let index = self.leaves.chunk(row_group, column.leaf)?.offset_index().filter(|_| is_trusted);
        let (mut memory, rows) = (Memory::lent(), chunk.rows);
        let walk = PageScanner::new(Arc::clone(&self.source), chunk, Arc::default(), rows, &mut memory)?;
        Ok(walk.known_pages(index))
    }

    /// Begins to read ranges, if that takes a network.
    ///
    /// # Errors
    /// As for [`ByteSource::fetching`].
    pub fn fetching(&self, ranges: &[Range<u64>]) -> Result<Option<Arc<dyn ByteSource>>> {
        self.source.fetching(ranges)
    }

    /// Asks for what is decoded of a row group, if that is waited for, or takes memory of its own.
    ///
    /// # Errors
    /// As for [`Source::fetching`].
    pub fn ask(&self, row_group: usize, ranges: &[Range<u64>]) -> Result<Option<FetchedBytes>> {
        if let Some(rows) = &self.rows {
            return Ok(rows.ask(row_group).map(|asked| FetchedBytes::Rows(row_group, asked)));
        }
        Ok(self.fetching(ranges)?.map(FetchedBytes::Bytes))
    }

    /// Whether its rows lie in no file.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Whether a network answers so soon that little of it need be on its way.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.source.is_near()
    }

    /// What the system said of it when it was opened.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Refuses a file that was changed since it was opened.
    ///
    /// # Errors
    /// `Source`, naming what changed.
    pub fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }

    /// The file's bytes.
    #[must_use]
    pub fn source(&self) -> &dyn ByteSource {
        self.source.as_ref()
    }
}

/// What is said of a file that is not what its footer said.
const CHANGED: &str = "the file was changed since the dataset was opened";

/// The footer of a file of the manifest, which has not changed.
///
/// # Errors
/// `Source` if the file can't be opened; `Data` if it is damaged or was changed.
pub fn read_footer(manifest: &Manifest, file: usize) -> Result<(Arc<dyn ByteSource>, Status, FooterBytes)> {
    let (source, status) = manifest.open_file(file)?;
    let file = &manifest.files()[file];
    let changed = |what: &str| Error::data(format!("{CHANGED}: {what}")).in_file(&file.path);
    let other_size = format!("it had {} bytes, it has {}", file.size, source.size());
    match source.size().cmp(&file.size) {
        // A file that was cut off is damaged; one that has more is another one.
        Ordering::Less => return Err(changed(&other_size)),
        Ordering::Greater => {
            return Err(Error::refused(format!("{CHANGED}: {other_size}")).in_file(&file.path));
        }
        Ordering::Equal => {}
    }
    let footer = FooterBytes::read(source.as_ref()).map_err(|error| error.in_file(&file.path))?;
    if footer.hash != file.footer_hash {
        return Err(changed(
            "its footer differs, though its size does not; if cache=fr.Cache(manifest=...) was given, that file is stale: \
             remove it",
        ));
    }
    Ok((source, status, footer))
}

/// The error for a column whose type can't be delivered.
pub fn undeliverable(column: &Column) -> Error {
    Error::refused(format!("the type {} can't be delivered", column.type_name))
}

/// Bytes of one plain value; 0 for booleans, `None` if values differ in length.
pub fn value_bytes(leaf: &ColumnDescPtr) -> Option<usize> {
    match leaf.physical_type() {
        Physical::INT32 | Physical::FLOAT => Some(4),
        Physical::INT64 | Physical::DOUBLE => Some(8),
        Physical::INT96 => Some(12),
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(leaf.type_length()).ok(),
        Physical::BYTE_ARRAY => None,
        Physical::BOOLEAN => Some(0),
    }
}

fn place(
    stated: &StatedChunk,
    leaf: &ColumnDescPtr,
    rows: u64,
    writer: Writer,
    most_page_bytes: u64,
) -> Result<ColumnChunk> {
    let start = stated.start;
    let end = start.checked_add(stated.compressed_bytes);
    let (Ok(start), Some(Ok(end))) = (u64::try_from(start), end.map(u64::try_from)) else {
        return Err(Error::data(format!(
            "the column chunk claims to start at {start} and to have {} bytes",
            stated.compressed_bytes
        )));
    };
    let levels =
        [leaf.max_rep_level(), leaf.max_def_level()].map(|level| u8::try_from(level).unwrap_or(u8::MAX));
    Ok(ColumnChunk {
        start,
        end,
        index: stated.offset_index().filter(|_| levels[0] > 0 && writer.indexes_list_rows()),
        rows,
        values: stated.values.unsigned_abs(),
        uncompressed_bytes: u64::try_from(stated.uncompressed_bytes).unwrap_or(0),
        most_page_bytes,
        compression: stated.compression,
        value_bytes: value_bytes(leaf),
        levels: levels.into(),
        encodings: stated.encodings,
        writer,
    })
}
