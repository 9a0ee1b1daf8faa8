//! The manifest of rows that lie in no Parquet file: what their source states of them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parquet::schema::types::SchemaDescriptor;

use crate::arrow::array::contradicts;
use crate::arrow::field::ArrowField;
use crate::arrow::leaf::{ArrowLeaf, column_of};
use crate::arrow::leaf_hash::{FoundHash, LeafHash};
use crate::arrow::row_source::{RowGroup, RowSource};
use crate::dataset::file_summary::{FileSummary, arrow_fields};
use crate::dataset::found_files::FoundFile;
use crate::dataset::listing::Listed;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result, shown};
use crate::format::metadata::footer::{FooterBytes, HASH_BYTES};
use crate::format::metadata::null_count::NullCount;
use crate::format::metadata::size_estimate::SizeEstimate;
use crate::parallel;
use crate::schema::columns::{self, Column, Dtype, Kind};
use crate::source::file_system::FileSystem;
use crate::source::status::{Status, Version};

/// So many rows tell how large lists and texts are.
const SAMPLED_ROWS: usize = 1024;

/// So many rows are hashed, and then it is looked whether to stop.
const HASHED_ROWS: usize = 1 << 16;

/// Where these rows have more values than that, fewer rows tell it.
const MOST_SAMPLED_VALUES: usize = 1 << 24;

/// The bytes of an offset, where the values of a row end.
const OFFSET_BYTES: u64 = size_of::<i64>() as u64;

/// A part of a source of rows: for a dataset, it is what a file is.
#[derive(Debug, Clone)]
pub struct RowPart {
    /// Its name, which no other part has.
    pub name: PathBuf,
    /// The rows of each row group.
    pub group_rows: Vec<u64>,
    /// What differs if its content does.
    pub hash: [u8; HASH_BYTES],
}

impl Manifest {
    /// The manifest of parts of a source of rows, in their order. `wanted` says which of the columns may be read: of others it
    /// is not asked how large their rows are.
    ///
    /// # Errors
    /// `Argument` if two parts have one name; `Data` if the source contradicts itself, or has a type that can't be read; what
    /// reading the first rows fails with, where lists or texts are among the columns.
    pub fn of_rows(
        source: Arc<dyn RowSource>,
        parts: &[RowPart],
        wanted: impl Fn(&[&str]) -> Result<HashSet<String>>,
    ) -> Result<Self> {
        let mut names = HashSet::new();
        if let Some(twice) = parts.iter().find(|part| !names.insert(&part.name)) {
            let name = shown(&twice.name);
            return Err(Error::Argument(format!("two segments have one name: '{name}'")));
        }
        let footer = FooterBytes::of(source.footer().to_vec());
        let footer_bytes = footer.count() as u64;
        let footer = footer.parse()?;
        let described = footer.file().schema_descr();
        let paths = checked_leaves(source.fields(), described)?;
        let columns: Arc<[Column]> = columns::columns(described, &arrow_fields(footer.file())?).into();
        let own = columns.iter().filter(|column| column.kind != Kind::Mask);
        let names: Vec<&str> = own.map(|column| column.name.as_str()).collect();
        let sizes = sampled(source.as_ref(), parts, (&columns, &wanted(&names)?), &paths)?;
        let counted = columns
            .iter()
            .map(|column| NullCount::uncounted(column, described.column(column.leaf).max_def_level()));
        let nulls: Vec<_> = counted.enumerate().filter(|(_, count)| *count != NullCount::default()).collect();
        let mut listed = Vec::with_capacity(parts.len());
        let mut found = Vec::with_capacity(parts.len());
        for (number, part) in parts.iter().enumerate() {
            let rows: u64 = part.group_rows.iter().fold(0, |rows, &more| rows.saturating_add(more));
            let extent = |&(column, mean): &(usize, u64)| {
                (column, SizeEstimate { bytes: mean.saturating_mul(rows), densest: mean, large: 0 })
            };
            let summary = FileSummary {
                size: rows,
                footer_hash: part.hash,
                footer_bytes,
                columns: Arc::clone(&columns),
                group_rows: part.group_rows.clone(),
                data_bytes: 0,
                extents: sizes.iter().map(extent).collect(),
                large_pages: Vec::new(),
                nulls: if rows > 0 { nulls.clone() } else { Vec::new() },
                bounds: Vec::new(),
            };
            let version = Version::Modified { ns: 0, node: (0, number as u64) };
            listed.push(Listed { path: part.name.clone(), status: None });
            found.push(FoundFile { status: Status { size: rows, version }, summary, was_known: false });
        }
        Ok(Self::build(FileSystem::default(), &listed, &found)?.in_rows(source))
    }
}

/// The leaves of arrays of these fields, which must be those that files of the same columns have.
fn checked_leaves(fields: &[ArrowField], described: &SchemaDescriptor) -> Result<Vec<ArrowLeaf>> {
    let paths = ArrowField::leaves(fields);
    if paths.len() != described.num_columns() {
        return Err(Error::data(format!(
            "the columns have {} leaves, files of them {}",
            paths.len(),
            described.num_columns()
        )));
    }
    Ok(paths.into_iter().zip(described.columns()).map(|(path, leaf)| ArrowLeaf::new(path, leaf)).collect())
}

/// Of each jagged column, its number and the mean bytes of a row as it is delivered, by the first rows there are; the least
/// of those that are not wanted.
fn sampled(
    source: &dyn RowSource,
    parts: &[RowPart],
    (columns, wanted): (&[Column], &HashSet<String>),
    leaves: &[ArrowLeaf],
) -> Result<Vec<(usize, u64)>> {
    let numbered = columns.iter().enumerate();
    let jagged: Vec<_> = numbered.filter(|(_, of)| of.dtype.is_some() && of.kind.is_jagged()).collect();
    let is_wanted = |column: &Column| wanted.contains(&column.name);
    let first_of = |(part, of): (usize, &RowPart)| {
        of.group_rows.iter().position(|&rows| rows > 0).map(|group| (part, group))
    };
    let Some((part, group)) =
        parts.iter().enumerate().find_map(first_of).filter(|_| jagged.iter().any(|(_, of)| is_wanted(of)))
    else {
        return Ok(jagged.into_iter().map(|(number, _)| (number, OFFSET_BYTES)).collect());
    };
    let own = jagged.iter().filter(|(_, column)| is_wanted(column));
    let mut asked: Vec<usize> = own.map(|(_, column)| leaves[column.leaf].column()).collect();
    asked.sort_unstable();
    asked.dedup();
    let rows = source.first(part, group, &asked, SAMPLED_ROWS)?;
    let each = jagged.into_iter().map(|(number, column)| {
        let mean = is_wanted(column).then(|| row_bytes(source.fields(), &rows, column, &leaves[column.leaf]));
        // What is wrong with them is an error of who reads them.
        (number, mean.and_then(Result::ok).unwrap_or(OFFSET_BYTES))
    });
    Ok(each.collect())
}

/// The mean bytes of the first rows of a column.
fn row_bytes(fields: &[ArrowField], rows: &RowGroup, column: &Column, leaf: &ArrowLeaf) -> Result<u64> {
    let (batch, _) = rows.batch(0).ok_or_else(|| contradicts("it has no rows"))?;
    let field = fields.get(leaf.column()).ok_or_else(|| contradicts("a column is missing"))?;
    let array = column_of(&batch.columns, leaf.column())?;
    let (mut count, mut page) = (batch.rows.min(SAMPLED_ROWS), Vec::new());
    let shape = loop {
        let most = if count == 1 { usize::MAX } else { MOST_SAMPLED_VALUES };
        if let Some(shape) = leaf.page(field, array, (0, count), most, &mut page)? {
            break shape;
        }
        count = (count / 2).max(1);
    };
    let (repetition, definition) = shape.level_bytes;
    let values = match column.kind {
        Kind::List | Kind::Lists => shape.values * column.dtype.map_or(1, Dtype::width),
        _ => page.len() - repetition - definition,
    };
    let is_nested = column.kind.is_nested() || column.lists > 1;
    let inner = if is_nested { shape.values as u64 * OFFSET_BYTES } else { 0 };
    Ok((values as u64 + inner).div_ceil(count as u64) + OFFSET_BYTES)
}

/// Of each part, a hash of what all its rows hold: the same however arrays are cut, and whatever lies under nulls.
///
/// # Errors
/// Those of reading; `Data` if arrays contradict themselves; `Interrupted` once `stop` is set.
pub fn digests(
    source: &dyn RowSource,
    part_groups: &[usize],
    stop: &AtomicBool,
) -> Result<Vec<[u8; HASH_BYTES]>> {
    let footer = FooterBytes::of(source.footer().to_vec()).parse()?;
    let leaves = checked_leaves(source.fields(), footer.file().schema_descr())?;
    let count = leaves.len().max(1);
    let each = parallel::each(part_groups.len() * count, 1, parallel::cores(), stop, |number| {
        let (part, leaf) = (number / count, leaves.get(number % count));
        let mut hash = LeafHash::default();
        let mut rows = 0;
        for group in 0..part_groups[part] {
            let column = leaf.map(ArrowLeaf::column);
            let read = source.read(part, group, column.as_slice())?;
            let mut row = 0;
            while let Some((batch, first)) = read.batch(row) {
                let mut start = first;
                while let Some(leaf) = leaf.filter(|_| start < batch.rows) {
                    crate::error::check(stop)?;
                    let some = HASHED_ROWS.min(batch.rows - start);
                    let array = column_of(&batch.columns, leaf.column())?;
                    leaf.hash(&source.fields()[leaf.column()], array, (start, some), &mut hash)?;
                    start += some;
                }
                row += batch.rows - first;
            }
            rows += read.rows();
        }
        Ok((rows, hash.found()))
    })?;
    let (rows, found): (Vec<usize>, Vec<FoundHash>) = each.into_iter().unzip();
    let of_leaves = FoundHash::of_leaves(&found);
    let found = rows.chunks(count).zip(of_leaves.chunks(count)).map(|(rows, leaves)| {
        let mut hasher = blake3::Hasher::new();
        for (rows, both) in rows.iter().zip(leaves) {
            hasher.update(&(*rows as u64).to_le_bytes());
            for hash in both {
                hasher.update(hash.as_bytes());
            }
        }
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(&hasher.finalize().as_bytes()[..HASH_BYTES]);
        hash
    });
    Ok(found.collect())
}
