//! Columns that are null in all of a file.

use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::order::selection::Selection;
use crate::projection::layout::Layout;
use crate::schema::columns::{Column, Stored};
use crate::schema::nulls::Nulls;

/// Refuses a file of which rows are selected, and in all of which a column is null whose nulls are errors: one
/// that the file lacks, or of which its path says nothing.
///
/// # Errors
/// `Data`, naming file and column.
pub fn check(layout: &Layout, manifest: &Manifest, selection: &Selection) -> Result<()> {
    let fields = layout.fields().iter();
    let is_refused: Vec<bool> =
        fields.flat_map(|field| field.nulls.iter().map(|nulls| *nulls == Nulls::Refused)).collect();
    let suspects = |schema: usize| {
        let columns = layout.columns(schema).iter().zip(&is_refused);
        let refused = columns.filter(|(_, is_refused)| **is_refused).map(|(column, _)| column);
        refused.filter(|column| column.stored.is_constant()).collect()
    };
    let suspects: Vec<Vec<&Column>> = (0..manifest.schemas().count()).map(suspects).collect();
    for (index, file) in manifest.files().iter().enumerate() {
        let suspects = &suspects[manifest.schema_of(index)];
        if suspects.is_empty() || selection.ordinals(manifest.file_rows(index)).is_empty() {
            continue;
        }
        for column in suspects {
            let what = match column.stored {
                Stored::Path if manifest.value(index, &column.name).into_row(column).is_some() => continue,
                Stored::Path if manifest.told_column(&column.name).is_some() => {
                    "the table tells no other value of this file"
                }
                Stored::Path => "of one that is null in the file's path",
                _ => "of a column that the file lacks",
            };
            let reason = format!(
                "all of it is null, as {what}; .mask_null() or .fill_null(value) says what becomes of it"
            );
            return Err(Error::data(reason).in_column(&column.name).in_file(&file.path));
        }
    }
    Ok(())
}
