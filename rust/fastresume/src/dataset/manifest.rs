//! The manifest: the immutable table of the dataset's files, row groups and rows.

use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::arrow::row_source::{Reach, RowSource};
use crate::dataset::file_kind::FileKind;
use crate::dataset::file_schema::FileSchema;
use crate::dataset::file_value::FileValue;
use crate::dataset::fingerprint::{Printed, fingerprint};
use crate::dataset::found_files::{FoundFile, find_all};
use crate::dataset::listing::{self, Listed};
use crate::dataset::manifest_cache::{KnownEntries, ManifestCache};
use crate::dataset::page_checks::PageChecks;
use crate::dataset::path_bytes;
use crate::dataset::table_snapshot::{TableSnapshot, TableValues};
use crate::error::{Error, Result, shown, without_query};
use crate::format::metadata::footer::HASH_BYTES;
use crate::format::metadata::footer_cache::FooterCache;
use crate::format::metadata::size_estimate::SizeEstimate;
use crate::memory::vectors::with_room;
use crate::schema::columns::{Column, Kind};
use crate::source::byte_source::ByteSource;
use crate::source::file_system::FileSystem;
use crate::source::status::{ObjectVersion, Status, Version};

/// The upper limit of row counts, so that every count fits a JSON number.
pub const MAX_ROWS: u64 = 1 << 53;

/// What a value of a column that can't be delivered is taken for.
const UNKNOWN_BYTES: u64 = 16;

/// The largest assumed size of a jagged row, so that sums over columns don't overflow.
const MAX_ROW_BYTES: u64 = 1 << 40;

/// One file of the dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DataFile {
    /// The absolute path.
    #[serde(with = "path_bytes")]
    pub path: PathBuf,
    /// The size in bytes when the footer was read.
    pub size: u64,
    /// The hash of the footer's bytes.
    pub footer_hash: [u8; HASH_BYTES],
    /// What the listing states of an object; none of a local file.
    pub(crate) object: Option<ObjectVersion>,
    /// When a local file was modified last, in nanoseconds since 1970, as it was when this process opened it; else 0.
    #[serde(skip)]
    modified_ns: i64,
    /// Its columns, as an index into the manifest's distinct schemas.
    pub(super) schema: usize,
    /// The number of its first row group, counted over the dataset.
    pub(super) first_group: usize,
}

/// The immutable table of the dataset.
///
/// Invariants: files are in canonical order, with no file twice. `group_starts` ascends from 0 to the number
/// of rows, and has one entry more than there are row groups. Row groups are numbered in file order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Manifest {
    pub(super) files: Vec<DataFile>,
    pub(super) schemas: Vec<FileSchema>,
    pub(super) group_starts: Vec<u64>,
    /// The uncompressed bytes of all row groups, as their footers say.
    data_bytes: u64,
    pub(super) fingerprint: String,
    page_checks: PageChecks,
    /// What the table tells whose files they are.
    pub(super) table_values: Option<TableValues>,
    /// Where the files lie.
    #[serde(skip)]
    pub(crate) file_system: FileSystem,
    /// What footers state of the leaves that are read: each pass asks for them again.
    #[serde(skip)]
    footers: Arc<FooterCache>,
    /// Whether a page was decoded that has no checksum, in this process.
    #[serde(skip)]
    lacks_checksums: Arc<AtomicBool>,
    /// What has the rows, if they lie in no files.
    #[serde(skip)]
    pub(crate) rows: Option<Arc<dyn RowSource>>,
    /// What is to be said of files that have two names.
    #[serde(skip)]
    second_names: Option<String>,
}

/// Where a row group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPlace {
    /// The index of its file.
    pub file: usize,
    /// Its index within the file.
    pub index: usize,
}

/// The time of a file that is modified then; 0 of an object, and of a time that does not fit.
fn modified_ns(status: &Status) -> i64 {
    match status.version {
        Version::Modified { ns, .. } => i64::try_from(ns).unwrap_or(0),
        Version::Object(_) => 0,
    }
}

impl DataFile {
    /// What differs if its content does, as far as this process knows.
    #[must_use]
    pub fn version(&self) -> String {
        match &self.object {
            Some(object) => object.version(),
            None => self.modified_ns.to_string(),
        }
    }

    /// The same, if this process has opened the file, or a listing states it.
    #[must_use]
    pub fn known_version(&self) -> Option<String> {
        (self.object.is_some() || self.modified_ns != 0).then(|| self.version())
    }

    pub(super) fn printed(&self) -> Printed<'_> {
        Printed { path: without_query(&self.path), size: self.size, footer_hash: &self.footer_hash }
    }
}

impl Manifest {
    /// Opens the files that `named` means (see [`listing::list`]), and reads their footers in parallel.
    /// Setting `stop` ends the work early.
    ///
    /// # Errors
    /// For the first file in canonical order with a fault: `Source`, `Data` or `Argument` if it is missing,
    /// unreadable, not Parquet, damaged, or listed twice. `Interrupted` if stopped.
    pub fn open(named: &[PathBuf], stop: &AtomicBool) -> Result<Self> {
        Self::open_in(FileSystem::default(), &[named.to_vec()], None, stop)
    }

    /// The same for files that may be objects of a store, in generations, and as a table has them if they are one's.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_in(
        file_system: FileSystem,
        named: &[Vec<PathBuf>],
        table: Option<&TableSnapshot>,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let listed = listing::list_generations(&file_system, named, FileKind::Parquet, stop)?;
        let found = find_all(&file_system, &listed, &KnownEntries::default(), stop)?;
        Self::build(file_system, &listed, &found)?.of_table(table, &listed, &found)
    }

    /// The same files as a table has them.
    fn of_table(self, table: Option<&TableSnapshot>, listed: &[Listed], found: &[FoundFile]) -> Result<Self> {
        let Some(table) = table else { return Ok(self) };
        let (found, table_values) = table.applied(listed, found)?;
        Ok(Self { table_values: Some(table_values), ..Self::build(self.file_system, listed, &found)? })
    }

    /// Opens the same manifest without reading the footers of files that the cache knows unchanged. Adds the
    /// others to the cache. Also returns whether the cache could be written: the manifest does not need it.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_cached(
        file_system: FileSystem,
        named: &[Vec<PathBuf>],
        table: Option<&TableSnapshot>,
        cache: &ManifestCache,
        stop: &AtomicBool,
    ) -> Result<(Self, Result<()>)> {
        let listed = listing::list_generations(&file_system, named, FileKind::Parquet, stop)?;
        let mut held = cache.read(&file_system, stop)?;
        let bytes = std::mem::take(&mut held.bytes);
        let known = KnownEntries::parse(cache, &bytes);
        let found = find_all(&file_system, &listed, &known, stop)?;
        let manifest = Self::build(file_system, &listed, &found)?;
        let is_kept = |found: &FoundFile| found.was_known || cache.has_settled(&found.status);
        let (kept, new) = found.iter().fold((0, false), |(kept, new), found| {
            (kept + usize::from(is_kept(found)), new || (is_kept(found) && !found.was_known))
        });
        if !new && kept == known.len() {
            return Ok((manifest.of_table(table, &listed, &found)?, Ok(())));
        }
        let files = listed.iter().zip(&found).zip(&manifest.files).filter(|((_, found), _)| is_kept(found));
        let mut files: Vec<_> = files.collect();
        files.retain(|((listed, _), _)| without_query(&listed.path) == listed.path);
        files.sort_unstable_by_key(|((listed, _), _)| listed.path.as_os_str().as_bytes());
        let entries = files.into_iter().map(|((listed, found), file)| {
            (listed.path.as_os_str().as_bytes(), &found.status, &found.summary, file.schema)
        });
        let schemas = manifest.schemas.iter().map(|schema| schema.columns.clone()).collect();
        let written = cache.write(entries, schemas, (&manifest.file_system, held, stop));
        Ok((manifest.of_table(table, &listed, &found)?, written))
    }

    pub(super) fn build(file_system: FileSystem, listed: &[Listed], found: &[FoundFile]) -> Result<Self> {
        let second_names = listing::check_distinct(listed, found.iter().map(|found| &found.status))?;
        let mut files: Vec<DataFile> = Vec::with_capacity(found.len());
        let mut schemas: Vec<FileSchema> = Vec::new();
        let mut numbers: HashMap<&[Column], usize> = HashMap::new();
        let mut group_starts =
            with_room(1 + found.iter().map(|found| found.summary.group_rows.len()).sum::<usize>())?;
        group_starts.push(0);
        let mut rows = 0_u64;
        let mut data_bytes = 0_u64;
        for (index, (listed, FoundFile { summary, status, .. })) in listed.iter().zip(found).enumerate() {
            data_bytes = data_bytes.saturating_add(summary.data_bytes);
            // Mostly the schema of the file before, which shares the same memory.
            let is_same = index > 0 && Arc::ptr_eq(&summary.columns, &found[index - 1].summary.columns);
            let schema = match files.last() {
                Some(file) if is_same => file.schema,
                _ => *numbers.entry(&summary.columns).or_insert_with(|| {
                    schemas.push(FileSchema::new(summary, index));
                    schemas.len() - 1
                }),
            };
            schemas[schema].add(index, summary);
            files.push(DataFile {
                path: listed.path.clone(),
                size: summary.size,
                footer_hash: summary.footer_hash,
                object: status.object().cloned(),
                modified_ns: modified_ns(status),
                schema,
                first_group: group_starts.len() - 1,
            });
            for group_rows in &summary.group_rows {
                rows = rows.checked_add(*group_rows).filter(|&rows| rows < MAX_ROWS).ok_or_else(|| {
                    Error::data(format!("the dataset has more than {MAX_ROWS} rows")).in_file(&listed.path)
                })?;
                group_starts.push(rows);
            }
        }
        let fingerprint = fingerprint(files.iter().map(DataFile::printed));
        let footers = Arc::default();
        let page_checks = PageChecks::default();
        Ok(Self {
            files,
            schemas,
            group_starts,
            data_bytes,
            fingerprint,
            page_checks,
            table_values: None,
            file_system,
            footers,
            lacks_checksums: Arc::default(),
            rows: None,
            second_names,
        })
    }

    /// The same parts, whose rows this source has.
    #[must_use]
    pub fn in_rows(self, source: Arc<dyn RowSource>) -> Self {
        Self { rows: Some(source), ..self }
    }

    /// The row groups of a file.
    #[must_use]
    pub fn groups_of(&self, file: usize) -> Range<usize> {
        let end = self.files.get(file + 1).map_or(self.num_groups(), |next| next.first_group);
        self.files[file].first_group..end
    }

    /// What is to be said of files that were found under two names, where they were opened.
    #[must_use]
    pub fn second_names(&self) -> Option<&str> {
        self.second_names.as_deref()
    }

    /// The same files, whose pages are checked in this way.
    #[must_use]
    pub fn with_page_checks(self, page_checks: PageChecks) -> Self {
        Self { page_checks, ..self }
    }

    /// The same files, which lie there.
    #[must_use]
    pub fn in_file_system(self, file_system: FileSystem) -> Self {
        Self { file_system, ..self }
    }

    /// The column of a name of which the table tells the values.
    #[must_use]
    pub fn table_column(&self, name: &str) -> Option<&Column> {
        self.table_values.as_ref().and_then(|values| values.column(name))
    }

    /// The first file whose names of columns do not mean what they mean in the table whose files these are.
    #[must_use]
    pub fn renamed_file(&self) -> Option<&Path> {
        let file = self.table_values.as_ref().and_then(TableValues::renamed)?;
        Some(&self.files[file].path)
    }

    /// The value of a column in all rows of a file: that of the table, or of the path.
    #[must_use]
    pub fn value(&self, file: usize, name: &str) -> FileValue {
        let value = self.table_values.as_ref().and_then(|values| values.value(file, name));
        value.unwrap_or_else(|| FileValue::of(&self.files[file].path, name))
    }

    /// Whether files are objects of a store.
    #[must_use]
    pub fn has_objects(&self) -> bool {
        self.files.iter().any(|file| file.object.is_some())
    }

    /// Whether rows that lie in no file take memory until they are decoded.
    #[must_use]
    pub fn holds_rows(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.reach() != Reach::AtHand)
    }

    /// Whether rows that lie in no file are waited for.
    #[must_use]
    pub fn awaits_rows(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.reach() == Reach::Far)
    }

    /// How many bytes of objects may be on their way, or of rows be held.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.file_system.read_bytes()
    }

    /// Opens a file.
    ///
    /// # Errors
    /// As for [`FileSystem::open`].
    pub(crate) fn open_file(&self, file: usize) -> Result<(Arc<dyn ByteSource>, Status)> {
        let DataFile { path, size, object, .. } = &self.files[file];
        let listed = object.clone().map(|object| Status { size: *size, version: Version::Object(object) });
        self.file_system.open(path, listed.as_ref())
    }

    /// How pages are checked.
    #[must_use]
    pub fn page_checks(&self) -> PageChecks {
        self.page_checks
    }

    /// Whether a page was decoded that has no checksum, in this process.
    #[must_use]
    pub fn lacks_checksums(&self) -> &Arc<AtomicBool> {
        &self.lacks_checksums
    }

    /// The number of rows.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.group_starts.last().copied().unwrap_or(0)
    }

    /// The files, in canonical order.
    #[must_use]
    pub fn files(&self) -> &[DataFile] {
        &self.files
    }

    /// The metadata that footers gave.
    #[must_use]
    pub(crate) fn footers(&self) -> &FooterCache {
        &self.footers
    }

    /// The hash of relative paths, sizes and footers, in canonical order: 32 hexadecimal digits.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The number of row groups.
    #[must_use]
    pub fn num_groups(&self) -> usize {
        self.group_starts.len() - 1
    }

    /// The first row of every row group, then the number of rows.
    #[must_use]
    pub fn group_starts(&self) -> &[u64] {
        &self.group_starts
    }

    /// The first row group of every file, then the number of row groups.
    pub fn file_groups(&self) -> impl Iterator<Item = usize> {
        self.files.iter().map(|file| file.first_group).chain([self.num_groups()])
    }

    /// Bytes of a row over all columns: as tensors, or as uncompressed pages, whichever is more.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        let width = |index| self.column_bytes(0, index);
        let widths = self.schemas.first().map_or(0, |_| (0..self.columns(0).len()).map(width).sum());
        (self.data_bytes / self.num_rows().max(1)).max(widths).max(1)
    }

    /// Bytes of a row of a column in files of a schema, as a tensor.
    #[must_use]
    pub fn column_bytes(&self, schema: usize, index: usize) -> u64 {
        let Some(column) = self.columns(schema).get(index) else { return 0 };
        match column.dtype {
            Some(_) if column.kind.is_jagged() => self.jagged_row_bytes(schema, index),
            // It has no values of its own.
            Some(_) if column.kind == Kind::Mask => 0,
            Some(_) => column.row_bytes() as u64,
            None => UNKNOWN_BYTES,
        }
    }

    /// Mean bytes of a row of a jagged column as delivered, rounded up, over the files of the schema. It is
    /// as near as footers tell, and at most 2^40. 0 for another column.
    #[must_use]
    pub fn jagged_row_bytes(&self, schema: usize, column: usize) -> u64 {
        let mean = |extent: SizeEstimate| extent.bytes.div_ceil(self.lived(schema).rows.max(1));
        self.extent(schema, column).map_or(0, mean).min(MAX_ROW_BYTES)
    }

    /// The size of the rows of a jagged column in files of a schema; `None` for another column.
    #[must_use]
    pub fn extent(&self, schema: usize, column: usize) -> Option<SizeEstimate> {
        let extents = &self.lived(schema).extents;
        let found = extents.binary_search_by_key(&column, |&(column, _)| column).ok()?;
        Some(extents[found].1)
    }

    /// The most bytes of a column's pages, in files of a schema, beyond what writers make where cells are
    /// small.
    #[must_use]
    pub fn large_page_bytes(&self, schema: usize, column: usize) -> u64 {
        self.lived(schema).large_pages.get(&column).copied().unwrap_or(0)
    }

    /// What the files of a schema are like together.
    #[must_use]
    pub fn schema(&self, schema: usize) -> &FileSchema {
        &self.schemas[schema]
    }

    /// The rows of the largest row group.
    #[must_use]
    pub fn largest_group(&self) -> u64 {
        self.group_starts.windows(2).map(|group| group[1] - group[0]).max().unwrap_or(0)
    }

    /// The row numbers of a row group.
    #[must_use]
    pub fn group_rows(&self, group: usize) -> Range<u64> {
        self.group_starts[group]..self.group_starts[group + 1]
    }

    /// The row group that holds a row: the last one that starts at or before it, so never an empty one.
    #[must_use]
    pub fn group_of(&self, row: u64) -> usize {
        self.group_starts.partition_point(|&start| start <= row) - 1
    }

    /// The file of a row group, and the group's index in it.
    #[must_use]
    pub fn place_of(&self, group: usize) -> GroupPlace {
        let file = self.files.partition_point(|file| file.first_group <= group) - 1;
        GroupPlace { file, index: group - self.files[file].first_group }
    }

    /// The row numbers of a file.
    #[must_use]
    pub fn file_rows(&self, file: usize) -> Range<u64> {
        let groups = self.groups_of(file);
        self.group_starts[groups.start]..self.group_starts[groups.end]
    }

    /// The files that a path names, as [`listing::list`] finds them: their numbers, ascending.
    ///
    /// # Errors
    /// As for `listing::list`; `Argument` if a file is not of this dataset.
    pub fn files_of(&self, named: PathBuf, stop: &AtomicBool) -> Result<Vec<usize>> {
        if self.rows.is_some() {
            let found = self.files.iter().position(|file| file.path == named);
            let missing =
                || Error::Argument(format!("the segment '{}' is not of this dataset", shown(&named)));
            return Ok(vec![found.ok_or_else(missing)?]);
        }
        let mut found = Vec::new();
        // Files of one root are also in the order of their whole paths; those of several generations need not be.
        let mut sorted: Vec<usize> = (0..self.files.len()).collect();
        sorted.sort_by_key(|&file| self.files[file].path.as_os_str().as_bytes());
        for listed in listing::list(&self.file_system, &[named], FileKind::Parquet, stop)? {
            let path = listed.path.as_os_str().as_bytes();
            let place =
                sorted.binary_search_by_key(&path, |&file| self.files[file].path.as_os_str().as_bytes());
            found.push(place.map(|place| sorted[place]).map_err(|_| {
                Error::Argument(format!("the file '{}' is not of this dataset", shown(&listed.path)))
            })?);
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The distinct schemas, each with the first file that has it, in canonical order.
    pub fn schemas(&self) -> impl Iterator<Item = (&[Column], &Path)> {
        let first = |schema: &FileSchema| self.files[schema.first_file].path.as_path();
        let each = (0..self.schemas.len()).map(|schema| self.lived(schema));
        each.map(move |schema| (schema.columns.as_slice(), first(schema)))
    }

    /// Which of the distinct schemas a file has.
    #[must_use]
    pub fn schema_of(&self, file: usize) -> usize {
        self.files[file].schema
    }

    /// The columns of one of the distinct schemas.
    #[must_use]
    pub fn columns(&self, schema: usize) -> &[Column] {
        &self.lived(schema).columns
    }

    /// The schema, or the first one with rows if its files have none: what these say of columns does not matter.
    fn lived(&self, schema: usize) -> &FileSchema {
        let own = &self.schemas[schema];
        let other = || self.schemas.iter().find(|schema| schema.rows > 0);
        if own.rows > 0 { own } else { other().unwrap_or(own) }
    }
}
