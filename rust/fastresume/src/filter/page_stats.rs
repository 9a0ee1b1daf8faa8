//! Statistics of pages from page indexes, and values that bloom filters exclude from a row group.

use std::sync::atomic::AtomicBool;

use crate::dataset::manifest::Manifest;
use crate::decode::open_file::OpenFile;
use crate::error::{Error, Result, check};
use crate::filter::row_group_stats::{Bound, Facts, knows_bounds, nulls};
use crate::format::metadata::bloom_filter::BloomFilter;
use crate::format::metadata::column_chunk::StatedChunk;
use crate::format::metadata::page_index::PageIndex;
use crate::projection::layout::Layout;
use crate::schema::columns::{Column, Kind};

/// The most values that are looked up in bloom filters: of more, some are likely to be there.
pub const MAX_SOUGHT: usize = 1 << 10;

/// Page statistics and excluded values of one column of one row group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    /// The first row of each page, counted within the row group, and the statistics of its rows; empty
    /// without a page index.
    pub pages: Vec<(u64, Facts)>,
    /// The indices of the sought values that are surely not there.
    pub absent: Vec<usize>,
}

/// The details of some row groups: for each, those of the columns of a layout's fields, field after field.
/// `sought` are the values that each of these columns is compared with.
///
/// # Errors
/// `Data` or `Source` if a file can't be opened, was changed, or has a damaged index or bloom filter;
/// `Argument` if there is no such row group; `Interrupted` if stopped.
pub fn read(
    manifest: &Manifest,
    layout: &Layout,
    groups: &[usize],
    sought: &[Vec<Bound>],
    stop: &AtomicBool,
) -> Result<Vec<Vec<Details>>> {
    let mut found = Vec::with_capacity(groups.len());
    let mut open: Option<(usize, OpenFile)> = None;
    for &group in groups {
        check(stop)?;
        if group >= manifest.num_groups() {
            return Err(Error::Argument(format!("there is no row group {group}")));
        }
        let place = manifest.place_of(group);
        let path = &manifest.files()[place.file].path;
        let columns = layout.columns(manifest.schema_of(place.file));
        let file = match open.take().filter(|(file, _)| *file == place.file) {
            Some(known) => known,
            None => (place.file, OpenFile::open(manifest, place.file, columns)?),
        };
        let mut of_columns = Vec::with_capacity(sought.len());
        for (index, column) in columns.iter().enumerate() {
            let values = sought.get(index).map_or(&[][..], Vec::as_slice);
            let details = details(&file.1, place.index, column, values);
            of_columns
                .push(details.map_err(|error| {
                    error.in_column(&column.name).in_row_group(place.index).in_file(path)
                })?);
        }
        file.1.check_unchanged()?;
        found.push(of_columns);
        open = Some(file);
    }
    Ok(found)
}

fn details(file: &OpenFile, group: usize, column: &Column, sought: &[Bound]) -> Result<Details> {
    if column.is_constant() || column.given.is_some() {
        return Ok(Details::default());
    }
    let chunk = file.leaves().chunk(group, column.leaf)?;
    let pages = pages(file, group, column, chunk)?;
    let absent = if sought.len() > MAX_SOUGHT { Vec::new() } else { absent(file, column, chunk, sought)? };
    Ok(Details { pages, absent })
}

fn pages(file: &OpenFile, group: usize, column: &Column, chunk: &StatedChunk) -> Result<Vec<(u64, Facts)>> {
    let is_flat = file.leaf(column)?.max_rep_level() == 0;
    let Some(place) = chunk.column_index().filter(|_| is_flat && column.kind != Kind::List) else {
        return Ok(Vec::new());
    };
    let Some(starts) = file.page_starts(group, column)? else { return Ok(Vec::new()) };
    let index = PageIndex::read(file.source(), place, starts.len())?;
    let (leaf, rows, writer) =
        (file.leaves().leaf(column.leaf)?, file.leaves().rows(group), file.leaves().writer());
    let has_bounds = knows_bounds(leaf, column, writer);
    let each = starts.iter().enumerate().map(|(page, &first)| {
        let end = starts.get(page + 1).copied().unwrap_or(rows);
        let stated = if index.is_null(page) { Some(end - first) } else { index.nulls(page) };
        let nulls = nulls(leaf, column, stated, writer);
        let (low, high) = index.bounds(page);
        let is_told = has_bounds && !index.is_null(page);
        let bounds = is_told.then(|| Bound::of_plain(low, column).zip(Bound::of_plain(high, column)));
        (first, Facts::new(bounds.flatten(), nulls))
    });
    Ok(each.collect())
}

/// The indices of the sought values that are surely not in a column chunk.
fn absent(file: &OpenFile, column: &Column, chunk: &StatedChunk, sought: &[Bound]) -> Result<Vec<usize>> {
    let mut filter = None;
    if let Some((offset, length)) = chunk.bloom_filter().filter(|_| !sought.is_empty()) {
        filter = BloomFilter::open(file.source(), offset, length)?;
    }
    // The bounds of numbers are values that are there: a filter that lacks one of them is none of this chunk.
    if let Some(found) = &filter {
        for bound in chunk.bounds.into_iter().flatten() {
            if found.excludes(&bound.to_le_bytes())? {
                filter = None;
                break;
            }
        }
    }
    let mut absent = Vec::new();
    for (number, value) in sought.iter().enumerate() {
        // A value that the type can't hold is nowhere.
        let Some(plain) = value.plain(column) else { continue };
        let mut is_absent = true;
        for bytes in plain {
            is_absent = is_absent && filter.as_ref().map_or(Ok(false), |filter| filter.excludes(&bytes))?;
        }
        if is_absent {
            absent.push(number);
        }
    }
    Ok(absent)
}
