//! Hive partition columns: values in the paths of files, as in `region=eu/day=3/part-0.parquet`.

use crate::dataset::file_value::FileValue;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::schema::columns::{Column, Dtype, Given, Kind, Stored};
use crate::schema::shaping::Shaping;

/// The column of the values that the paths hold under a name. It has integers if all values are integers,
/// else text. Where the files are a table's, its own column of that name comes first.
///
/// # Errors
/// `Data` if a path has no such value and that is not allowed, or one is not text; `Argument` if no path has
/// one.
pub fn column(manifest: &Manifest, name: &str, may_miss: bool) -> Result<Column> {
    if let Some(column) = manifest.table_column(name) {
        return Ok(column.clone());
    }
    let mut are_integers = true;
    let mut is_there = false;
    for file in manifest.files() {
        let value = FileValue::of(&file.path, name);
        match &value {
            FileValue::Missing if may_miss => continue,
            FileValue::Missing => {
                let reason = format!("the path has no directory '{name}=...', which .from_path() asks for");
                return Err(Error::data(reason).in_file(&file.path));
            }
            FileValue::Text(text) if std::str::from_utf8(text).is_err() => {
                let reason = format!("the value of '{name}' in the path is no text: {}", text.escape_ascii());
                return Err(Error::data(reason).in_file(&file.path));
            }
            _ => {}
        }
        is_there = true;
        are_integers = are_integers && (value == FileValue::Null || value.integer().is_some());
    }
    if !is_there {
        return Err(Error::Argument(format!(
            "no path has a directory '{name}=...', which .from_path() asks for"
        )));
    }
    let (kind, dtype) =
        if are_integers { (Kind::Scalar, Dtype::Int64) } else { (Kind::String, Dtype::Uint8) };
    let type_name = if are_integers { "int64" } else { "string" };
    Ok(Column {
        name: name.to_owned(),
        type_name: format!("{type_name} of the path"),
        kind,
        dtype: Some(dtype),
        size: None,
        lists: 0,
        sizes: Vec::new(),
        unit: None,
        stored: if are_integers { Stored::Number(Dtype::Int64) } else { Stored::Bytes },
        level: 0,
        element: 0,
        leaf: 0,
        field_id: None,
        around: Vec::new(),
        given: Some(Given::File),
        shaping: Shaping::None,
        separator: None,
        vocabulary: None,
    })
}
