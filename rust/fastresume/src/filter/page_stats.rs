//! Statistics of pages from page indexes, and values that bloom filters exclude from a row group.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::dataset::manifest::Manifest;
use crate::decode::open_file::OpenFile;
use crate::error::{Error, Result, check};
use crate::filter::row_group_stats::{Bound, RowGroupStats, knows_bounds, nulls};
use crate::format::metadata::bloom_filter::BloomFilter;
use crate::format::metadata::column_chunk::StatedChunk;
use crate::format::metadata::page_index::PageIndex;
use crate::parallel;
use crate::projection::layout::Layout;
use crate::schema::columns::{Column, Kind};

/// The most values that are looked up in bloom filters: of more, some are likely to be there.
pub const MAX_SOUGHT: usize = 1 << 10;

/// So many files of stores are asked at a time, each of which takes a request or two.
const WAITING_THREADS: usize = 16;

/// Of an object, a longer bloom filter is asked for block by block, and only if few values are sought.
const LONGEST_WHOLE_FILTER_BYTES: u64 = 1 << 20;
const FEW_SOUGHT: usize = 4;

/// Bloom filters of so many bytes are asked for together.
const MOST_AHEAD_BYTES: u64 = 16 << 20;

/// Page statistics and excluded values of one column of one row group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PageStats {
    /// The first row of each page, counted within the row group, and the statistics of its rows; empty
    /// without a page index.
    pub pages: Vec<(u64, RowGroupStats)>,
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
) -> Result<Vec<Vec<PageStats>>> {
    if let Some(group) = groups.iter().find(|&&group| group >= manifest.num_groups()) {
        return Err(Error::Argument(format!("there is no row group {group}")));
    }
    let file_of = |group: usize| manifest.place_of(group).file;
    let of_files: Vec<&[usize]> = groups.chunk_by(|&one, &next| file_of(one) == file_of(next)).collect();
    let threads = if manifest.has_objects() { WAITING_THREADS } else { 1 };
    let found = parallel::each(of_files.len(), 1, threads, stop, |index| {
        of_file(manifest, layout, of_files[index], sought, stop)
    });
    Ok(found?.into_iter().flatten().collect())
}

/// The details of row groups of one file.
fn of_file(
    manifest: &Manifest,
    layout: &Layout,
    groups: &[usize],
    sought: &[Vec<Bound>],
    stop: &AtomicBool,
) -> Result<Vec<Vec<PageStats>>> {
    let Some(&first) = groups.first() else { return Ok(Vec::new()) };
    let number = manifest.place_of(first).file;
    let path = &manifest.files()[number].path;
    let columns = layout.columns(manifest.schema_of(number));
    let file = OpenFile::open(manifest, number, columns)?;
    let (mut found, mut ahead) = (Vec::with_capacity(groups.len()), StatsAhead::default());
    for (done, &group) in groups.iter().enumerate() {
        check(stop)?;
        let index = manifest.place_of(group).index;
        if ahead.groups == 0 {
            let rest = groups[done..].iter().map(|&group| manifest.place_of(group).index);
            ahead = StatsAhead::ask(&file, rest, columns, sought).map_err(|error| error.in_file(path))?;
        }
        ahead.groups -= 1;
        let file = ahead.file.as_ref().unwrap_or(&file);
        let mut of_columns = Vec::with_capacity(sought.len());
        for (number, column) in columns.iter().enumerate() {
            let values = sought.get(number).map_or(&[][..], Vec::as_slice);
            let details = details(file, index, column, values);
            of_columns.push(
                details.map_err(|error| error.in_column(&column.name).in_row_group(index).in_file(path))?,
            );
        }
        file.check_unchanged()?;
        found.push(of_columns);
    }
    Ok(found)
}

/// The next row groups whose bloom filters are on their way together, and the file that they are read from.
#[derive(Default)]
struct StatsAhead {
    groups: usize,
    file: Option<OpenFile>,
}

impl StatsAhead {
    /// Asks for the bloom filters of the first of some row groups, at least one, if that takes a network.
    fn ask(
        file: &OpenFile,
        groups: impl Iterator<Item = usize>,
        columns: &[Column],
        sought: &[Vec<Bound>],
    ) -> Result<Self> {
        let (mut ranges, mut count, mut bytes) = (Vec::new(), 0, 0);
        let asked = columns.iter().zip(sought).filter(|(column, values)| {
            !column.is_constant() && column.given.is_none() && (1..=MAX_SOUGHT).contains(&values.len())
        });
        let asked: Vec<_> = asked.collect();
        for group in groups {
            for (column, values) in &asked {
                let filter = whole_filter(file, file.leaves().chunk(group, column.leaf)?, values);
                bytes += filter.as_ref().map_or(0, |filter| filter.end - filter.start);
                ranges.extend(filter);
            }
            count += 1;
            if bytes >= MOST_AHEAD_BYTES {
                break;
            }
        }
        let source = if ranges.is_empty() { None } else { file.fetching(&ranges)? };
        Ok(Self { groups: count, file: source.map(|source| file.read_from(source)) })
    }
}

/// Where the bloom filter of a chunk lies, if it is asked for as a whole.
fn whole_filter(file: &OpenFile, chunk: &StatedChunk, sought: &[Bound]) -> Option<Range<u64>> {
    let (offset, length) = chunk.bloom_filter()?;
    let length = length.filter(|&length| is_looked_at(file, Some(length), sought))?;
    let (size, end) = (file.source().size(), offset.saturating_add(length));
    (length <= LONGEST_WHOLE_FILTER_BYTES).then_some(offset.min(size)..end.min(size))
}

/// Whether a bloom filter of such a length costs no more than it may save.
fn is_looked_at(file: &OpenFile, length: Option<u64>, sought: &[Bound]) -> bool {
    let is_whole = length.is_some_and(|length| length <= LONGEST_WHOLE_FILTER_BYTES);
    !sought.is_empty() && (!file.source().is_remote() || is_whole || sought.len() <= FEW_SOUGHT)
}

fn details(file: &OpenFile, group: usize, column: &Column, sought: &[Bound]) -> Result<PageStats> {
    if column.is_constant() || column.given.is_some() {
        return Ok(PageStats::default());
    }
    let chunk = file.leaves().chunk(group, column.leaf)?;
    let pages = pages(file, group, column, chunk)?;
    let absent = if sought.len() > MAX_SOUGHT { Vec::new() } else { absent(file, column, chunk, sought)? };
    Ok(PageStats { pages, absent })
}

fn pages(
    file: &OpenFile,
    group: usize,
    column: &Column,
    chunk: &StatedChunk,
) -> Result<Vec<(u64, RowGroupStats)>> {
    let is_flat = file.leaf(column)?.max_rep_level() == 0;
    // To believe an index takes the headers of all its pages. In a store they cost as much as the chunk, which is read then
    // anyway: the index would have its bytes asked for twice.
    let is_trusted = is_flat && column.kind != Kind::List && !file.source().is_remote();
    let Some(place) = chunk.column_index().filter(|_| is_trusted) else {
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
        let is_trusted = has_bounds && !index.is_null(page);
        let bounds = is_trusted.then(|| Bound::of_plain(low, column).zip(Bound::of_plain(high, column)));
        (first, RowGroupStats::new(bounds.flatten(), nulls))
    });
    Ok(each.collect())
}

/// The indices of the sought values that are surely not in a column chunk.
fn absent(file: &OpenFile, column: &Column, chunk: &StatedChunk, sought: &[Bound]) -> Result<Vec<usize>> {
    let mut filter = None;
    let is_looked_at = |(_, length): &(u64, Option<u64>)| is_looked_at(file, *length, sought);
    if let Some((offset, length)) = chunk.bloom_filter().filter(is_looked_at) {
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
