//! Nulls that are known before a value is read.

use std::collections::BTreeMap;

use crate::dataset::manifest::Manifest;
use crate::error::{Error, plural};
use crate::format::metadata::null_count::NullCount;
use crate::order::selection::Selection;
use crate::projection::field::Field;
use crate::projection::schemas::places;
use crate::projection::tensor_plan::{Fault, Wrong, within};
use crate::schema::columns::{Column, Given, Kind};
use crate::schema::nulls::Nulls;

/// A column of a field: its number among those of all fields, that of the field, and the field.
type NullPart<'a> = (usize, usize, &'a Field);

/// What footers, types and paths tell of nulls.
#[derive(Debug)]
pub struct KnownNulls {
    /// How many the columns of each field have in all files; none where not all are counted.
    pub counts: Vec<Option<u64>>,
    /// The tensors in whose columns selected rows are null for certain, though nothing says what becomes of nulls: where
    /// footers count more of them than there are rows that are not selected; where a file lacks the column, its type is
    /// null, or the file's path says nothing of it.
    pub wrong: Vec<Wrong>,
}

impl KnownNulls {
    /// Of the columns of each schema, field after field.
    #[must_use]
    pub fn find(
        fields: &[Field],
        columns: &[Vec<Column>],
        manifest: &Manifest,
        selection: &Selection,
    ) -> Self {
        let parts = fields.iter().enumerate().flat_map(|(number, field)| {
            let holds_values = !matches!(field.kind, Kind::Mask | Kind::Marks | Kind::Length);
            field.nulls.iter().map(move |nulls| (number, field, *nulls, holds_values))
        });
        let parts = parts.enumerate().filter(|(_, (.., holds_values))| *holds_values);
        let parts: Vec<(NullPart<'_>, bool)> = parts
            .map(|(index, (number, field, nulls, _))| ((index, number, field), nulls == Nulls::Refused))
            .collect();
        let mut found =
            FoundNulls { counts: vec![NullCount::default(); fields.len()], wrong: BTreeMap::new() };
        let selected = found.add_whole_files(&parts, columns, manifest, selection);
        for (schema, selected) in selected.into_iter().enumerate() {
            found.add_counted(&parts, &columns[schema], manifest, schema, selected);
        }
        let counts = found.counts.into_iter().map(NullCount::exact).collect();
        Self { counts, wrong: found.wrong.into_values().collect() }
    }
}

/// What was found so far.
struct FoundNulls {
    /// Of each field.
    counts: Vec<NullCount>,
    /// By the column's number.
    wrong: BTreeMap<usize, Wrong>,
}

impl FoundNulls {
    /// Adds what footers count in the files of a schema, of which so many rows are selected.
    fn add_counted(
        &mut self,
        parts: &[(NullPart<'_>, bool)],
        columns: &[Column],
        manifest: &Manifest,
        schema: usize,
        selected: u64,
    ) {
        let stated = manifest.schema(schema);
        let by_name = places(&stated.columns);
        for &((index, number, field), is_refused) in parts {
            let column = &columns[index];
            let place = by_name.get(column.name.as_str()).filter(|_| !is_whole(column));
            let Some(&(count, first)) = place.and_then(|place| stated.nulls.get(place)) else { continue };
            self.counts[number] = self.counts[number].and(count);
            let (least, left, in_lists) =
                (count.least, stated.rows.saturating_sub(selected), column.lists > 0);
            // A row may have many nulls in its list: of rows that are left out, all may be.
            let is_certain = least > 0 && selected > 0 && if in_lists { left == 0 } else { least > left };
            if is_certain && is_refused {
                let reason = if in_lists {
                    "a list, or an element of one, is null".to_owned()
                } else {
                    format!("footers count {} among {} values", plural(least, "null"), stated.rows)
                };
                self.wrong.entry(index).or_insert_with(|| wrong(field, column, manifest, first, &reason));
            }
        }
    }

    /// Adds columns that are null in all of a file. Returns how many rows are selected of the files of each schema.
    fn add_whole_files(
        &mut self,
        parts: &[(NullPart<'_>, bool)],
        columns: &[Vec<Column>],
        manifest: &Manifest,
        selection: &Selection,
    ) -> Vec<u64> {
        let suspects = |of_schema: &Vec<Column>| {
            let suspects = parts.iter().filter(|((index, ..), _)| is_whole(&of_schema[*index]));
            suspects.copied().collect::<Vec<_>>()
        };
        let suspects: Vec<_> = columns.iter().map(suspects).collect();
        let mut selected = vec![0; suspects.len()];
        for file in 0..manifest.files().len() {
            let schema = manifest.schema_of(file);
            let all = manifest.file_rows(file);
            let least = all.end - all.start;
            let rows = selection.ordinals(all);
            selected[schema] += rows.end - rows.start;
            for &((index, number, field), is_refused) in &suspects[schema] {
                let column = &columns[schema][index];
                let Some(what) = why_null(manifest, file, column) else { continue };
                self.counts[number] = self.counts[number].and(NullCount { least, may_be_more: false });
                if is_refused && !rows.is_empty() {
                    let reason = format!("all of it is null, as {what}");
                    self.wrong.entry(index).or_insert_with(|| wrong(field, column, manifest, file, &reason));
                }
            }
        }
        selected
    }
}

/// Whether a column has one value in a whole file, or none.
fn is_whole(column: &Column) -> bool {
    column.is_constant()
}

/// Why a column that has one value in a whole file has none, if so.
fn why_null(manifest: &Manifest, file: usize, column: &Column) -> Option<&'static str> {
    match column.given {
        Some(Given::File) if manifest.value(file, &column.name).into_row(column).is_some() => None,
        Some(Given::File) if manifest.table_column(&column.name).is_some() => {
            Some("the table tells no other value of this file")
        }
        Some(Given::File) => Some("of one that is null in the file's path"),
        // A file of a table may be older than the column.
        _ if column.type_name == "null" => Some("the file has no value of it"),
        _ => Some("of a column that the file lacks"),
    }
}

fn wrong(field: &Field, column: &Column, manifest: &Manifest, file: usize, reason: &str) -> Wrong {
    let reason = format!("{reason}; .mask_null() or .fill_null(value) says what happens to it");
    let error = Error::data(reason).in_column(&column.name).in_file(&manifest.files()[file].path);
    let error = field.text.as_deref().map_or_else(|| error.clone(), |text| within(text, error.clone()));
    Wrong { name: field.name.clone(), is_plain: field.text.is_none(), fault: Fault::Nulls, error, way: None }
}
