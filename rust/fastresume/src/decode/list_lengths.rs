//! How many elements each list of a row group has: levels alone are decoded, never a value.

use crate::dataset::manifest::Manifest;
use crate::decode::flat::validity::Unread;
use crate::decode::open_file::OpenFile;
use crate::error::{Error, Result};
use crate::format::encoding::bitmap::Bits;
use crate::format::encoding::levels::Levels;
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::page::reader::{Buffers, Pages};
use crate::schema::columns::{Column, Kind};

/// The lengths of the lists of these columns in one row group, which must be alike in each row. Null lists have none.
///
/// # Errors
/// `Data` if a column is no list of values, the lengths of two of them differ, or the file is damaged; `Source` if it
/// can't be read.
pub fn of_group(manifest: &Manifest, group: usize, names: &[String]) -> Result<Vec<u64>> {
    let place = manifest.place_of(group);
    let path = &manifest.files()[place.file].path;
    let there = manifest.columns(manifest.schema_of(place.file));
    let mut found: Option<(&str, Vec<u64>)> = None;
    for name in names {
        let told = |error: Error| error.in_column(name).in_row_group(place.index).in_file(path);
        let column = there.iter().find(|column| column.name == *name && column.kind != Kind::Mask);
        let column = column.ok_or_else(|| told(Error::data("there is no such column")))?;
        if column.lists != 1 || !matches!(column.kind, Kind::List) {
            let reason =
                format!("rows are packed by lists of values, found the type {}", column.type_of_rows());
            return Err(told(Error::data(reason)));
        }
        let own = of_column(manifest, place.file, place.index, column).map_err(told)?;
        if let Some((first, lengths)) = &found {
            if let Some(row) = (0..own.len()).find(|&row| own[row] != lengths[row]) {
                let reason = format!(
                    "columns are packed alike where their lists have the same lengths: row {row} of the row group has \
                     {} elements here, and {} in '{first}'",
                    own[row], lengths[row]
                );
                return Err(told(Error::data(reason)));
            }
        } else {
            found = Some((name, own));
        }
    }
    Ok(found.map(|(_, lengths)| lengths).unwrap_or_default())
}

fn of_column(manifest: &Manifest, file: usize, index: usize, column: &Column) -> Result<Vec<u64>> {
    let open = OpenFile::open(manifest, file, [column])?;
    let rows = open.leaves().rows(index);
    let leaf = open.leaf(column)?;
    let mut buffers = Buffers::default();
    let pages = open.pages(index, column.leaf, &leaf, &mut buffers)?;
    let level = |level: i16| u8::try_from(level).unwrap_or(u8::MAX);
    let lengths = lengths(pages, level(leaf.max_rep_level()), level(leaf.max_def_level()), column.element)?;
    if lengths.len() as u64 != rows {
        return Err(Error::data(format!(
            "the column chunk has {} rows, its row group {rows}",
            lengths.len()
        )));
    }
    open.check_unchanged()?;
    Ok(lengths)
}

/// The number of elements of each row; a definition level of at least `element` is one.
fn lengths(mut pages: Pages<'_>, repetition: u8, definition: u8, element: u8) -> Result<Vec<u64>> {
    let (mut levels, mut goes_on, mut there) = (Levels::default(), Bits::default(), Bits::default());
    let mut found: Vec<u64> = Vec::new();
    while let Some(page) = pages.open(&mut Unread)? {
        let (bytes, count) = (pages.page().bytes, page.num_values);
        if count > MAX_VALUES {
            return Err(Error::data(format!("a page has {count} values, at most {MAX_VALUES} are read")));
        }
        let (repetition_bytes, definition_bytes) = page.level_bytes.unzip();
        let how = (page.repetition_encoding, repetition_bytes);
        let start = levels.read(bytes, 0, count, repetition, how)?;
        levels.at_least(1, &mut goes_on);
        levels.read(bytes, start, count, definition, (page.definition_encoding, definition_bytes))?;
        levels.at_least(element, &mut there);
        let before = found.len();
        for (goes_on, there) in goes_on.part(0..count).each().zip(there.part(0..count).each()) {
            if !goes_on {
                found.push(0);
            }
            match found.last_mut() {
                Some(length) => *length += u64::from(there),
                None => return Err(Error::data("row 0 of the row group has no beginning")),
            }
        }
        page.check_rows(found.len() - before)?;
        pages.check_group_rows(found.len())?;
    }
    Ok(found)
}
