//! A part of a source of rows, opened for decoding.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use crate::arrow::field::Field;
use crate::arrow::leaf::Leaf;
use crate::arrow::row_source::{RowGroup, RowSource};
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result, locked};
use crate::format::metadata::column_metadata::Leaves;
use crate::format::metadata::footer::FooterBytes;
use crate::format::metadata::page_index::PagePlace;
use crate::format::page::made_pages::MadePages;
use crate::format::page::pages::Pages;
use crate::format::page::reader::Buffers;
use crate::source::byte_source::Source;

/// So many bytes of row groups are held for those who decode other parts or columns of them, if there are several.
const MOST_BYTES: u64 = 256 << 20;

/// So many row groups are held at most.
const MOST_GROUPS: usize = 16;

/// Where damage is looked for, so many rows are tried together.
const TRIED_ROWS: u64 = 1024;

type Opened = Arc<OnceLock<Result<Arc<RowGroup>>>>;

/// A part of a source of rows, and the row groups of it that were read last.
pub struct OpenRows {
    source: Arc<dyn RowSource>,
    part: usize,
    /// The columns that are read, ascending.
    columns: Vec<usize>,
    /// The leaves that are read, by their ascending numbers.
    leaves: Vec<(usize, Leaf)>,
    opened: Mutex<VecDeque<(usize, Opened)>>,
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
    ) -> Result<(Self, Leaves)> {
        let footer = FooterBytes::of(source.footer().to_vec()).parse()?;
        let groups = manifest.groups_of(part);
        let group_rows = groups.map(|group| manifest.group_rows(group)).map(|rows| rows.end - rows.start);
        let told = Leaves::of_rows(&footer, numbers, group_rows.collect())?;
        let paths = Field::leaves(source.fields());
        let mut leaves = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let path = paths.get(number).cloned().ok_or_else(|| Error::data("a column is missing"))?;
            leaves.push((number, Leaf::new(path, &told.leaf(number)?.described)));
        }
        let mut columns: Vec<usize> = leaves.iter().map(|(_, leaf)| leaf.column()).collect();
        columns.dedup();
        Ok((Self { source: Arc::clone(source), part, columns, leaves, opened: Mutex::default() }, told))
    }

    /// The pages of a leaf of a row group.
    ///
    /// # Errors
    /// Those of the source; `Data` if the leaf is not among those that are read.
    pub fn pages<'a>(&self, group: usize, number: usize, buffers: &'a mut Buffers) -> Result<Pages<'a>> {
        let found = self.leaves.binary_search_by_key(&number, |(number, _)| *number);
        let found = found.map_err(|_| Error::data(format!("leaf {number} is not read")))?;
        let leaf = self.leaves[found].1.clone();
        let rows = self.rows(group)?;
        Ok(Pages::Made(MadePages::new(rows, self.source.fields(), leaf, buffers)?))
    }

    /// Where damage may begin and end in a row group of so many rows.
    #[must_use]
    pub fn places(rows: u64) -> Vec<PagePlace> {
        let step = usize::try_from(TRIED_ROWS).unwrap_or(1);
        let each = (0..rows).step_by(step);
        each.map(|row| PagePlace { offset: row, first_row: row, told_rows: None }).collect()
    }

    /// A row group, which whoever wants it first reads for all.
    fn rows(&self, group: usize) -> Result<Arc<RowGroup>> {
        let slot = {
            let mut opened = locked(&self.opened);
            let place = opened.iter().position(|(number, _)| *number == group);
            let slot =
                place.and_then(|place| opened.remove(place)).map_or_else(Opened::default, |(_, slot)| slot);
            opened.push_front((group, Arc::clone(&slot)));
            slot
        };
        let read = slot.get_or_init(|| self.source.read(self.part, group, &self.columns)).clone();
        let mut opened = locked(&self.opened);
        if read.is_err() {
            // It is asked for again by who wants it next.
            opened.retain(|(_, other)| !Arc::ptr_eq(other, &slot));
        }
        let mut bytes = 0_u64;
        let mut kept = 0;
        opened.retain(|(_, slot)| {
            let own = slot.get().and_then(|read| read.as_ref().ok()).map_or(0, |rows| rows.bytes());
            bytes = bytes.saturating_add(own);
            kept += 1;
            kept == 1 || bytes <= MOST_BYTES && kept <= MOST_GROUPS
        });
        read
    }
}

/// No bytes: what is read lies in no file.
pub struct NoFile;

impl Source for NoFile {
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
