//! Nulls that are known before a value is read, in columns whose nulls are errors.

use std::collections::BTreeMap;

use crate::dataset::manifest::Manifest;
use crate::error::Error;
use crate::order::selection::Selection;
use crate::projection::field::Field;
use crate::projection::tensor_plan::{Fault, Wrong, within};
use crate::schema::columns::{Column, Stored};
use crate::schema::nulls::Nulls;

/// What is wrong with the tensors of which a column is null in all of a file, though rows of it are selected and nothing
/// says what becomes of nulls: the file lacks the column, its type there is null, or the file's path says nothing of it.
#[must_use]
pub fn find(
    fields: &[Field],
    columns: &[Vec<Column>],
    manifest: &Manifest,
    selection: &Selection,
) -> Vec<Wrong> {
    let each = fields.iter().flat_map(|field| field.nulls.iter().map(move |nulls| (field, *nulls)));
    let refused = each.enumerate().filter(|(_, (_, nulls))| *nulls == Nulls::Refused);
    let refused: Vec<(usize, &Field)> = refused.map(|(place, (field, _))| (place, field)).collect();
    let suspects = |of_schema: &Vec<Column>| {
        let suspects = refused.iter().filter(|(place, _)| of_schema[*place].stored.is_constant());
        suspects.copied().collect::<Vec<_>>()
    };
    let suspects: Vec<_> = columns.iter().map(suspects).collect();
    let mut found = BTreeMap::new();
    for file in 0..manifest.files().len() {
        let schema = manifest.schema_of(file);
        if suspects[schema].is_empty() || selection.ordinals(manifest.file_rows(file)).is_empty() {
            continue;
        }
        for &(place, field) in &suspects[schema] {
            let column = &columns[schema][place];
            if let Some(what) = why_null(manifest, file, column) {
                found.entry(place).or_insert_with(|| wrong(field, column, manifest, file, what));
            }
        }
    }
    found.into_values().collect()
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

fn wrong(field: &Field, column: &Column, manifest: &Manifest, file: usize, what: &str) -> Wrong {
    let reason =
        format!("all of it is null, as {what}; .mask_null() or .fill_null(value) says what becomes of it");
    let error = Error::data(reason).in_column(&column.name).in_file(&manifest.files()[file].path);
    let error = field.text.as_deref().map_or_else(|| error.clone(), |text| within(text, error.clone()));
    Wrong { name: field.name.clone(), is_plain: field.text.is_none(), fault: Fault::Nulls, error }
}
