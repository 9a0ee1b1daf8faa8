//! Hive partition columns: values in the paths of files, as in `region=eu/day=3/part-0.parquet`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::schema::columns::{Column, Dtype, Kind, Stored};
use crate::schema::shaping::Shaping;

/// The directory name that writers use for a null.
const NULL: &[u8] = b"__HIVE_DEFAULT_PARTITION__";

/// The value of a column in the path of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The path has no such column.
    Missing,
    /// The value is null.
    Null,
    /// The value, as text.
    Text(Vec<u8>),
}

impl Value {
    /// The value of the innermost directory `name=...` of a path.
    #[must_use]
    pub fn of(path: &Path, name: &str) -> Self {
        let directories = path.parent().into_iter().flat_map(Path::components);
        let found = directories.rev().find_map(|component| match component {
            Component::Normal(part) => {
                let (key, value) =
                    part.as_bytes().split_at(part.as_bytes().iter().position(|&at| at == b'=')?);
                (unescaped(key) == name.as_bytes()).then(|| unescaped(&value[1..]))
            }
            _ => None,
        });
        match found {
            None => Self::Missing,
            Some(text) if text == NULL => Self::Null,
            Some(text) => Self::Text(text),
        }
    }

    /// The integer that the text spells.
    fn integer(&self) -> Option<i64> {
        let Self::Text(text) = self else { return None };
        std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
    }

    /// The bytes of a row of a column; `None` for a null.
    #[must_use]
    pub fn into_row(self, column: &Column) -> Option<Vec<u8>> {
        if column.unshaped() == Some(Dtype::Int64) {
            return self.integer().map(|integer| integer.to_le_bytes().to_vec());
        }
        match self {
            Self::Text(text) => Some(text),
            Self::Missing | Self::Null => None,
        }
    }
}

/// The unescaped bytes of a part of a path: `%2F`, for example, stands for a slash.
fn unescaped(part: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((&first, others)) = rest.split_first() {
        let escaped = match others {
            [high, low, ..] if first == b'%' => digit(*high).zip(digit(*low)),
            _ => None,
        };
        bytes.push(escaped.map_or(first, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &others[2..] } else { others };
    }
    bytes
}

/// The column of the values that the paths hold under a name. It has integers if all values are integers,
/// else text.
///
/// # Errors
/// `Data` if a path has no such value and that is not allowed, or one is not text; `Argument` if no path has
/// one.
pub fn column(manifest: &Manifest, name: &str, may_miss: bool) -> Result<Column> {
    let mut are_integers = true;
    let mut is_there = false;
    for file in manifest.files() {
        let value = Value::of(&file.path, name);
        match &value {
            Value::Missing if may_miss => continue,
            Value::Missing => {
                let reason = format!("the path has no directory '{name}=...', which .from_path() asks for");
                return Err(Error::data(reason).in_file(&file.path));
            }
            Value::Text(text) if std::str::from_utf8(text).is_err() => {
                let reason = format!("the value of '{name}' in the path is no text: {}", text.escape_ascii());
                return Err(Error::data(reason).in_file(&file.path));
            }
            Value::Text(_) | Value::Null => {}
        }
        is_there = true;
        are_integers = are_integers && (value == Value::Null || value.integer().is_some());
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
        stored: Stored::Path,
        level: 0,
        element: 0,
        leaf: 0,
        shaping: Shaping::None,
        vocabulary: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_directory_of_a_name_counts() {
        let path = Path::new("/data/day=1/region=a%2Fb=%C3%BC%zz/day=-07/region=x.parquet");
        let text = |text: &str| Value::Text(text.into());
        assert_eq!(Value::of(path, "day"), text("-07"));
        assert_eq!(Value::of(path, "day").integer(), Some(-7));
        assert_eq!(Value::of(path, "region"), text("a/b=ü%zz"));
        assert_eq!(Value::of(path, "da"), Value::Missing);
        assert_eq!(Value::of(Path::new("/a=__HIVE_DEFAULT_PARTITION__/x"), "a"), Value::Null);
        assert_eq!(text("+1").integer(), None);
        assert_eq!(text("").integer(), None);
        assert_eq!(text("9223372036854775808").integer(), None);
    }
}
