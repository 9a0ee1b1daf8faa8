//! Nulls that are known before a value is read, in columns whose nulls are errors.

use std::collections::BTreeMap;

use crate::dataset::manifest::Manifest;
use crate::error::Error;
use crate::order::selection::Selection;
use crate::projection::field::Field;
use crate::projection::tensor_plan::{Fault, Wrong, within};
use crate::projection::unify::places;
use crate::schema::columns::{Column, Stored};
use crate::schema::nulls::Nulls;

/// What is wrong with the tensors in whose columns selected rows are null for certain, though nothing says what becomes
/// of nulls: where footers count more of them than there are rows that are not selected; where a file lacks the column,
/// its type is null, or the file's path says nothing of it.
#[must_use]
pub fn find(
    fields: &[Field],
    columns: &[Vec<Column>],
    manifest: &Manifest,
    selection: &Selection,
) -> Vec<Wrong> {
    let each = fields.iter().flat_map(|field| field.nulls.iter().map(move |nulls| (field, *nulls)));
    let refused = each.enumerate().filter(|(_, (_, nulls))| *nulls == Nulls::Refused);
    let refused: Vec<(usize, &Field)> = refused.map(|(index, (field, _))| (index, field)).collect();
    let mut found = BTreeMap::new();
    if refused.is_empty() {
        return Vec::new();
    }
    let selected = of_whole_files(columns, manifest, selection, &refused, &mut found);
    for (schema, selected) in selected.into_iter().enumerate().filter(|&(_, selected)| selected > 0) {
        let stated = manifest.schema(schema);
        let by_name = places(&stated.columns);
        for &(index, field) in &refused {
            let column = &columns[schema][index];
            let place = by_name.get(column.name.as_str()).filter(|_| !column.stored.is_constant());
            let Some(&(count, first)) = place.and_then(|place| stated.nulls.get(place)) else { continue };
            let (left, in_lists) = (stated.rows.saturating_sub(selected), column.lists > 0);
            // A row may have many nulls in its list: of rows that are left out, all may be.
            let is_certain = if in_lists { left == 0 } else { count > left };
            if is_certain {
                let nulls = if count == 1 { "null" } else { "nulls" };
                let reason = if in_lists {
                    "a list, or an element of one, is null".to_owned()
                } else {
                    format!("footers count {count} {nulls} among {} values", stated.rows)
                };
                found.entry(index).or_insert_with(|| wrong(field, column, manifest, first, &reason));
            }
        }
    }
    found.into_values().collect()
}

/// Finds columns that are null in all of a file of which rows are selected. Returns how many rows are selected of the
/// files of each schema.
fn of_whole_files(
    columns: &[Vec<Column>],
    manifest: &Manifest,
    selection: &Selection,
    refused: &[(usize, &Field)],
    found: &mut BTreeMap<usize, Wrong>,
) -> Vec<u64> {
    let suspects = |schema: usize| {
        let suspects = refused.iter().filter(|(index, _)| columns[schema][*index].stored.is_constant());
        suspects.copied().collect::<Vec<_>>()
    };
    let suspects: Vec<_> = (0..columns.len()).map(suspects).collect();
    let mut selected = vec![0; suspects.len()];
    for index in 0..manifest.files().len() {
        let schema = manifest.schema_of(index);
        let rows = selection.ordinals(manifest.file_rows(index));
        selected[schema] += rows.end - rows.start;
        for &(place, field) in suspects[schema].iter().filter(|_| !rows.is_empty()) {
            let column = &columns[schema][place];
            if let Some(what) = why_null(manifest, index, column) {
                let reason = format!("all of it is null, as {what}");
                found.entry(place).or_insert_with(|| wrong(field, column, manifest, index, &reason));
            }
        }
    }
    selected
}

/// Why a column that has one value in a whole file has none, if so.
fn why_null(manifest: &Manifest, file: usize, column: &Column) -> Option<&'static str> {
    match column.stored {
        Stored::Path if manifest.value(file, &column.name).into_row(column).is_some() => None,
        Stored::Path if manifest.told_column(&column.name).is_some() => {
            Some("the table tells no other value of this file")
        }
        Stored::Path => Some("of one that is null in the file's path"),
        _ if column.type_name == "null" => Some("its type says"),
        _ => Some("of a column that the file lacks"),
    }
}

fn wrong(field: &Field, column: &Column, manifest: &Manifest, file: usize, reason: &str) -> Wrong {
    let reason = format!("{reason}; .mask_null() or .fill_null(value) says what becomes of it");
    let error = Error::data(reason).in_column(&column.name).in_file(&manifest.files()[file].path);
    let error = field.text.as_deref().map_or_else(|| error.clone(), |text| within(text, error.clone()));
    Wrong { name: field.name.clone(), is_plain: field.text.is_none(), fault: Fault::Nulls, error }
}
