//! How many elements each list of a row group has: levels alone are decoded, never a value.

use crate::dataset::manifest::Manifest;
use crate::decode::decoder::JaggedRows;
use crate::decode::open_file::OpenFile;
use crate::error::{Error, Result};
use crate::format::page::reader::Buffers;
use crate::memory::vectors::append;
use crate::schema::columns::{Column, Kind};
use crate::schema::nulls::Nulls;

/// So many rows are decoded in one go.
const ROWS_AT_A_TIME: usize = 1024;

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
    let rows = usize::try_from(open.leaves().rows(index)).unwrap_or(0);
    let mut buffers = Buffers::default();
    // A byte for each element.
    let mut decoder = open.jagged(index, &column.element_marks(), Nulls::Masked, true, &mut buffers)?;
    let (mut lengths, mut some) = (Vec::new(), JaggedRows::default());
    for first in (0..rows).step_by(ROWS_AT_A_TIME) {
        some.clear();
        decoder.read(ROWS_AT_A_TIME.min(rows - first), &mut some)?;
        append(&mut lengths, (0..some.ends.len()).map(|row| some.bytes_of(row).len() as u64))?;
    }
    open.check_unchanged()?;
    Ok(lengths)
}
