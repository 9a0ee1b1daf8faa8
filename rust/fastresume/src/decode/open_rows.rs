//! A part of a source of rows, opened for decoding.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::arrow::asked_rows::AskedRows;
use crate::arrow::field::ArrowField;
use crate::arrow::leaf::ArrowLeaf;
use crate::arrow::row_source::{Reach, RowGroup, RowSource};
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result, locked};
use crate::format::metadata::column_metadata::ColumnMetadata;
use crate::format::metadata::page_index::PagePlace;
use crate::format::page::made_pages::MadePages;
use crate::format::page::pages::Pages;
use crate::format::page::reader::Buffers;
use crate::source::byte_source::ByteSource;

/// So many row groups are held where that takes no memory; else one.
const MOST_GROUPS: usize = 16;

/// Where damage is looked for, so many rows are tried together.
const TRIED_ROWS: u64 = 1024;

/// A part of a source of rows, and the row groups of it that were read last.
pub struct OpenRows {
    source: Arc<dyn RowSource>,
    part: usize,
    /// The columns that are read, ascending.
    columns: Vec<usize>,
    /// The leaves that are read, by their ascending numbers, and the field of the column of each.
    leaves: Vec<(usize, Arc<(ArrowField, ArrowLeaf)>)>,
    opened: Mutex<VecDeque<(usize, Arc<AskedRows>)>>,
}

impl OpenRows {
    /// Opens a part to read leaves, by their ascending numbers.
    ///
    /// # Errors
    /// `Data` if there are no such leaves.
    pub fn open(
        manifest: &Manifest,
        source: &Arc<dyn RowSource>,
        part: usize,
        numbers: &[usize],
    ) -> Result<(Self, Arc<ColumnMetadata>)> {
        let groups = manifest.groups_of(part);
        let group_rows = groups.map(|group| manifest.group_rows(group)).map(|rows| rows.end - rows.start);
        let metadata = manifest.footers().leaves_of_rows(source.footer(), numbers, group_rows.collect())?;
        let paths = ArrowField::leaves(source.fields());
        let mut leaves = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let path = paths.get(number).cloned().ok_or_else(|| Error::data("a column is missing"))?;
            let leaf = ArrowLeaf::new(path, &metadata.leaf(number)?.described);
            let field = source.fields().get(leaf.column()).cloned();
            leaves.push((number, Arc::new((field.ok_or_else(|| Error::data("a column is missing"))?, leaf))));
        }
        let mut columns: Vec<usize> = leaves.iter().map(|(_, of)| of.1.column()).collect();
        columns.dedup();
        Ok((Self { source: Arc::clone(source), part, columns, leaves, opened: Mutex::default() }, metadata))
    }

    /// Asks for a row group, where rows take memory or are waited for.
    #[must_use]
    pub fn ask(&self, group: usize) -> Option<Arc<AskedRows>> {
        (self.source.reach() != Reach::AtHand).then(|| self.asked(group))
    }

    fn asked(&self, group: usize) -> Arc<AskedRows> {
        let waiting = Arc::clone(&self.source).ask(self.part, group, self.columns.clone());
        Arc::new(AskedRows::new(waiting))
    }

    /// The pages of a leaf of a row group, whose rows somebody may have asked for.
    ///
    /// # Errors
    /// Those of the source; `Data` if the leaf is not among those that are read.
    pub fn pages<'a>(
        &self,
        group: usize,
        number: usize,
        asked: Option<&AskedRows>,
        buffers: &'a mut Buffers,
    ) -> Result<Pages<'a>> {
        let found = self.leaves.binary_search_by_key(&number, |(number, _)| *number);
        let found = found.map_err(|_| Error::data(format!("leaf {number} is not read")))?;
        let leaf = Arc::clone(&self.leaves[found].1);
        let rows = asked.map_or_else(|| self.rows(group), AskedRows::rows)?;
        Ok(Pages::Made(MadePages::new(rows, leaf, buffers)))
    }

    /// Where damage may begin and end in a row group of so many rows.
    #[must_use]
    pub fn places(rows: u64) -> Vec<PagePlace> {
        let step = usize::try_from(TRIED_ROWS).unwrap_or(1);
        let each = (0..rows).step_by(step);
        each.map(|row| PagePlace { offset: row, first_row: row, index_rows: None }).collect()
    }

    /// A row group, which whoever wants it first reads for all.
    fn rows(&self, group: usize) -> Result<Arc<RowGroup>> {
        let most = if self.source.reach() == Reach::AtHand { MOST_GROUPS } else { 1 };
        let asked = {
            let mut opened = locked(&self.opened);
            let place = opened.iter().position(|(number, _)| *number == group);
            let known = place.and_then(|place| opened.remove(place));
            let asked = known.map_or_else(|| self.asked(group), |(_, asked)| asked);
            opened.push_front((group, Arc::clone(&asked)));
            opened.truncate(most);
            asked
        };
        let read = asked.rows();
        if read.is_err() {
            // It is asked for again by who wants it next.
            locked(&self.opened).retain(|(_, other)| !Arc::ptr_eq(other, &asked));
        }
        read
    }
}

/// No bytes: what is read lies in no file.
pub struct NoFile;

impl ByteSource for NoFile {
    fn size(&self) -> u64 {
        0
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check(offset, buffer.len())
    }

    fn path(&self) -> &Path {
        Path::new("")
    }
}
