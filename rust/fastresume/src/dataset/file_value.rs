//! The value that a column has in all rows of a file: as the file's path holds it, or as a table tells it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::schema::columns::{Column, Dtype, Kind, Stored};
use crate::schema::shaping::Shaping;

/// The directory name that writers use for a null.
const NULL: &[u8] = b"__HIVE_DEFAULT_PARTITION__";

/// The value of a column in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FileValue {
    /// Nothing tells one.
    Missing,
    /// The value is null.
    Null,
    /// Text or bytes. In a path, also the text that spells an integer.
    Text(Vec<u8>),
    /// An integer, a truth (0 or 1), or what is counted in a unit.
    Integer(i64),
    /// A float.
    Float(f64),
}

impl FileValue {
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

    /// The integer that it is, or that its text spells.
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            Self::Text(text) => {
                std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
            }
            _ => None,
        }
    }

    /// The value as a column of its type holds it: no text where integers are asked for, and no integer where floats are.
    #[must_use]
    pub fn of_type(self, column: &Column) -> Self {
        match self {
            Self::Text(_) if column.unshaped() == Some(Dtype::Int64) && !is_decimal(column) => {
                self.integer().map_or(Self::Null, Self::Integer)
            }
            #[allow(clippy::cast_precision_loss, reason = "a float holds the nearest number")]
            Self::Integer(integer) if column.unshaped().is_some_and(Dtype::is_float) => {
                Self::Float(integer as f64)
            }
            value => value,
        }
    }

    /// The bytes of a row of a column; `None` for a null. A number that is shaped afterwards has 8 bytes, and a decimal
    /// those that a file would hold.
    #[must_use]
    pub fn into_row(self, column: &Column) -> Option<Vec<u8>> {
        let is_shaped = column.shaping != Shaping::None;
        let value = self.of_type(column);
        let width = if is_shaped { 8 } else { column.unshaped().map_or(8, Dtype::width) };
        match value {
            Self::Missing | Self::Null => None,
            _ if column.kind == Kind::Mask => Some(vec![1]),
            Self::Text(text) => Some(text),
            Self::Integer(integer) => Some(integer.to_le_bytes()[..width].to_vec()),
            #[allow(clippy::cast_possible_truncation, reason = "a float32 that was given as a float64")]
            Self::Float(float) if width == 4 => Some((float as f32).to_le_bytes().to_vec()),
            Self::Float(float) => Some(float.to_le_bytes().to_vec()),
        }
    }
}

fn is_decimal(column: &Column) -> bool {
    matches!(column.stored, Stored::Decimal { .. })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_directory_of_a_name_counts() {
        let path = Path::new("/data/day=1/region=a%2Fb=%C3%BC%zz/day=-07/region=x.parquet");
        let text = |text: &str| FileValue::Text(text.into());
        assert_eq!(FileValue::of(path, "day"), text("-07"));
        assert_eq!(FileValue::of(path, "day").integer(), Some(-7));
        assert_eq!(FileValue::of(path, "region"), text("a/b=ü%zz"));
        assert_eq!(FileValue::of(path, "da"), FileValue::Missing);
        assert_eq!(FileValue::of(Path::new("/a=__HIVE_DEFAULT_PARTITION__/x"), "a"), FileValue::Null);
        assert_eq!(text("+1").integer(), None);
        assert_eq!(text("").integer(), None);
        assert_eq!(text("9223372036854775808").integer(), None);
    }
}
