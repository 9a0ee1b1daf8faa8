//! The different values of a column, gathered from all files before the first batch.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use crate::dataset::file_value::FileValue;
use crate::dataset::manifest::Manifest;
use crate::decode::decoder::{JaggedRows, NULL_ROW};
use crate::decode::flat::split::pieces;
use crate::decode::open_file::OpenFile;
use crate::error::{Error, Result, check, locked};
use crate::format::encoding::byte_array::plain;
use crate::format::page::reader::Buffers;
use crate::memory::vectors::{collected, room_in};
use crate::parallel;
use crate::schema::columns::{Column, Dtype, Given, Kind};
use crate::schema::nulls::Nulls;
use crate::schema::shaping::Shaping;
use crate::schema::vocabulary::Vocabulary;

/// Values that take more have no dictionary.
const MAX_DICTIONARY_BYTES: usize = 256 << 20;

/// What a value takes besides its bytes.
const VALUE_BYTES: usize = 32;

/// Row groups of one file that one thread takes at a time.
const GROUPS_AT_A_TIME: usize = 16;

/// Rows of values that no dictionary holds are decoded so many at a time.
const SCANNED_ROWS: usize = 1024;

/// Different values, and the bytes that they may still take.
struct Distinct {
    values: HashSet<Box<[u8]>>,
    left_bytes: usize,
}

impl Distinct {
    fn new(left_bytes: usize) -> Self {
        Self { values: HashSet::new(), left_bytes }
    }

    fn add(&mut self, value: &[u8]) -> Result<()> {
        if !self.values.contains(value) {
            let left = self.left_bytes.checked_sub(value.len() + VALUE_BYTES);
            self.left_bytes = left.ok_or_else(|| {
                Error::data(format!(
                    "its different values take more than {MAX_DICTIONARY_BYTES} bytes, which is too much for a \
                     dictionary; .hash(buckets) makes numbers of them without one"
                ))
            })?;
            room_in(&mut self.values)?;
            self.values.insert(collected(value.iter().copied())?.into_boxed_slice());
        }
        Ok(())
    }
}

/// The vocabulary of a column, given as it is in each schema: of all rows of the files, whether they are selected or
/// not. A set `stop` ends the work early.
///
/// Where the footer says that all pages of a chunk are indices to its dictionary, that is read alone: values that it
/// has and no row has count.
///
/// # Errors
/// `Data` if the files are damaged, or there are too many values; `Source` if they can't be read; `Interrupted` if
/// stopped.
pub fn gather(manifest: &Manifest, columns: &[&Column], stop: &AtomicBool) -> Result<Vocabulary> {
    let found = Mutex::new(Distinct::new(MAX_DICTIONARY_BYTES));
    let texts: Vec<Column> = columns.iter().map(|column| as_text(column)).collect();
    let mut parts = Vec::new();
    let mut starts = manifest.file_groups();
    let mut start = starts.next().unwrap_or(0);
    for (file, end) in starts.enumerate() {
        let firsts = (start..end).step_by(GROUPS_AT_A_TIME);
        let groups = firsts.map(|first| (file, first..end.min(first + GROUPS_AT_A_TIME)));
        // A file without rows may have other columns.
        let has_rows = |group| !manifest.group_rows(group).is_empty();
        let groups = groups.filter(|(_, groups)| groups.clone().any(has_rows));
        start = end;
        let column = columns[manifest.schema_of(file)];
        match column.given {
            None => parts.extend(groups),
            Some(Given::Null | Given::NullMember) => {}
            Some(Given::File | Given::Member) => {
                if let FileValue::Text(text) = manifest.value(file, &column.name) {
                    locked(&found).add(&text)?;
                }
            }
        }
    }
    parallel::each(parts.len(), 1, parallel::cores(), stop, |number| {
        let (file, groups) = &parts[number];
        let column = &texts[manifest.schema_of(*file)];
        let open = OpenFile::open(manifest, *file, [column])?;
        let mut buffers = Buffers::default();
        for group in groups.clone() {
            check(stop)?;
            let index = manifest.place_of(group).index;
            add_values(&open, index, column, &mut buffers, &found).map_err(|error: Error| {
                needing_all(error)
                    .in_column(&column.name)
                    .in_row_group(index)
                    .in_file(&manifest.files()[*file].path)
            })?;
        }
        open.check_unchanged()
    })?;
    let values = std::mem::take(&mut locked(&found).values);
    Vocabulary::new(collected(values.into_iter())?)
}

/// The same error, of damage with what to write so that it is not met here.
fn needing_all(error: Error) -> Error {
    match error {
        damage @ Error::Data { is_refused: false, .. } => damage.with_reason(|reason| {
            format!("{reason}; .codes() needs all values of the files, .codes(values=[...]) none")
        }),
        other => other,
    }
}

/// The column as the text that it is in the files.
fn as_text(column: &Column) -> Column {
    let kind = if column.is_flat() { Kind::Binary } else { Kind::Binaries };
    Column { kind, dtype: Some(Dtype::Uint8), shaping: Shaping::None, ..column.clone() }
}

/// Adds the values of one column of one row group.
#[expect(
    clippy::disallowed_methods,
    reason = "what is iterated over becomes a set again, and is sorted in the end"
)]
fn add_values(
    file: &OpenFile,
    group: usize,
    column: &Column,
    buffers: &mut Buffers,
    found: &Mutex<Distinct>,
) -> Result<()> {
    if let Some((bytes, count)) = file.dictionary(group, column, buffers)? {
        let (mut position, mut found) = (0, locked(found));
        return (0..count).try_for_each(|_| {
            let text = plain(bytes, &mut position)?;
            match &column.separator {
                Some(separator) => pieces(text, separator).try_for_each(|piece| found.add(piece)),
                None => found.add(text),
            }
        });
    }
    let mut decoder = file.jagged(group, column, Nulls::Masked, false, buffers)?;
    let rows = usize::try_from(file.leaves().rows(group)).unwrap_or(0);
    let mut own = Distinct::new(MAX_DICTIONARY_BYTES);
    let mut some = JaggedRows::default();
    for first in (0..rows).step_by(SCANNED_ROWS) {
        some.clear();
        decoder.read(SCANNED_ROWS.min(rows - first), &mut some)?;
        each_text(&some, |text| own.add(text))?;
    }
    let mut found = locked(found);
    own.values.iter().try_for_each(|value| found.add(value))
}

/// Calls `take` for each text of rows that is not null.
fn each_text(rows: &JaggedRows, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let values = rows.values.bytes();
    // The lengths of texts in lists come last.
    let Some(texts) = rows.inner.last() else {
        let there = (0..rows.ends.len()).filter(|&row| rows.valid[row] == 1);
        return there.map(|row| &values[rows.bytes_of(row)]).try_for_each(take);
    };
    let mut start = 0;
    for length in texts.values.bytes().chunks_exact(size_of::<u64>()) {
        let length = length.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
        if length & NULL_ROW == 0 {
            let end = start + usize::try_from(length).unwrap_or(0);
            take(&values[start..end])?;
            start = end;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_once_and_are_refused_beyond_the_bound() {
        let mut found = Distinct::new(2 * VALUE_BYTES + 5);
        for value in [&b"abc"[..], b"de", b"abc", b"de"] {
            found.add(value).unwrap();
        }
        assert_eq!((found.values.len(), found.left_bytes), (2, 0));
        assert!(found.add(b"").unwrap_err().to_string().contains("268435456 bytes"));
    }
}
