//! What the files of a dataset that share one schema are like together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dataset::file_summary::FileSummary;
use crate::format::metadata::integer_bounds::IntegerBounds;
use crate::format::metadata::null_count::NullCount;
use crate::format::metadata::size_estimate::SizeEstimate;
use crate::schema::columns::Column;

/// The columns of the files that share one schema.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileSchema {
    pub columns: Vec<Column>,
    /// The first of these files.
    pub first_file: usize,
    /// The rows of these files.
    pub rows: u64,
    /// The number of each jagged column, and the size of its rows.
    pub extents: Vec<(usize, SizeEstimate)>,
    /// For each column with large pages, their bytes beyond what writers usually make.
    pub large_pages: BTreeMap<usize, u64>,
    /// For each column that may have nulls, how many footers count, and the first file of which they count some.
    pub nulls: BTreeMap<usize, (NullCount, usize)>,
    /// For each column of integers of which footers tell bounds, these, and the files that hold the least and the greatest.
    pub bounds: BTreeMap<usize, (IntegerBounds, [usize; 2])>,
    /// The most bytes, and the most row groups, of any footer.
    pub footer: FooterSize,
}

/// The sizes of the largest footers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FooterSize {
    /// The bytes of the largest footer.
    pub bytes: u64,
    /// The most row groups of one footer.
    pub row_groups: u64,
}

impl FileSchema {
    /// That of a file, without its rows.
    pub fn new(first: &FileSummary, first_file: usize) -> Self {
        let extents = first.extents.iter().map(|&(column, _)| (column, SizeEstimate::default())).collect();
        let columns = first.columns.to_vec();
        Self {
            columns,
            first_file,
            rows: 0,
            extents,
            large_pages: BTreeMap::new(),
            nulls: BTreeMap::new(),
            bounds: BTreeMap::new(),
            footer: FooterSize::default(),
        }
    }

    /// Adds what a file of a number has.
    pub fn add(&mut self, file: usize, summary: &FileSummary) {
        self.rows = summary.group_rows.iter().fold(self.rows, |rows, &more| rows.saturating_add(more));
        for ((_, extent), (_, more)) in self.extents.iter_mut().zip(&summary.extents) {
            *extent = extent.and(*more);
        }
        for &(column, more) in &summary.large_pages {
            let bytes = self.large_pages.entry(column).or_default();
            *bytes = more.max(*bytes);
        }
        for &(column, more) in &summary.nulls {
            let (count, first) = self.nulls.entry(column).or_insert((NullCount::default(), file));
            if count.least == 0 {
                *first = file;
            }
            *count = count.and(more);
        }
        for &(column, more) in &summary.bounds {
            let (bounds, files) = self.bounds.entry(column).or_insert((more, [file; 2]));
            if more.least < bounds.least {
                files[0] = file;
            }
            if more.greatest > bounds.greatest {
                files[1] = file;
            }
            *bounds = bounds.and(more);
        }
        let FooterSize { bytes, row_groups } = &mut self.footer;
        *bytes = summary.footer_bytes.max(*bytes);
        *row_groups = (summary.group_rows.len() as u64).max(*row_groups);
    }
}
