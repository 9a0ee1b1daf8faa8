//! The types of a table's columns: what stands for one that no file has.

use crate::dataset::table_snapshot::TableColumn;
use crate::schema::columns::{Column, Dtype, Given, Kind, Stored};
use crate::schema::shaping::Shaping;
use crate::schema::types::{MAX_FIXED_BYTES, MAX_INTEGER_DIGITS};

impl TableColumn {
    /// The column as the table types it, all of whose values in a file the table tells. A type that is not known has no
    /// dtype.
    #[must_use]
    pub fn typed(&self) -> Column {
        let type_name = self.type_name.as_deref().unwrap_or("struct");
        let stated = StatedType::of(type_name);
        let (kind, lists) = (if self.is_struct { Kind::Mask } else { stated.kind }, self.lists);
        let kind = match kind {
            Kind::String if lists > 0 => Kind::Strings,
            Kind::Binary if lists > 0 => Kind::Binaries,
            Kind::Scalar if lists > 0 => Kind::List,
            kind => kind,
        };
        Column {
            name: self.name.clone(),
            type_name: format!("{}{type_name}{}", "list<".repeat(lists), ">".repeat(lists)),
            kind,
            dtype: if self.is_struct { Some(Dtype::Bool) } else { stated.dtype },
            size: stated.size,
            lists,
            sizes: Vec::new(),
            unit: stated.unit,
            stored: if self.is_struct { Stored::Number(Dtype::Bool) } else { stated.stored },
            level: 0,
            element: 0,
            leaf: 0,
            field_id: None,
            around: Vec::new(),
            given: Some(Given::File),
            shaping: Shaping::None,
            separator: None,
            vocabulary: None,
        }
    }
}

/// A type of which a table tells values.
struct StatedType {
    kind: Kind,
    dtype: Option<Dtype>,
    size: Option<usize>,
    unit: Option<String>,
    stored: Stored,
}

impl StatedType {
    fn of(name: &str) -> Self {
        let unknown =
            Self { kind: Kind::Scalar, dtype: None, size: None, unit: None, stored: Stored::Unknown };
        let inner = |before: &str, after: &str| name.strip_prefix(before)?.strip_suffix(after);
        let is_counted = name == "date[day]" || inner("timestamp[", "]").or(inner("time[", "]")).is_some();
        let fixed = |length: usize, unit: Option<&str>| Self {
            dtype: Some(Dtype::Uint8),
            size: Some(length),
            unit: unit.map(str::to_owned),
            stored: Stored::Fixed(length),
            kind: Kind::Scalar,
        };
        let numbers = [
            Dtype::Bool,
            Dtype::Int8,
            Dtype::Int16,
            Dtype::Int32,
            Dtype::Int64,
            Dtype::Float32,
            Dtype::Float64,
        ];
        match name {
            "string" | "binary" => {
                let kind = if name == "string" { Kind::String } else { Kind::Binary };
                Self { kind, dtype: Some(Dtype::Uint8), stored: Stored::Bytes, ..unknown }
            }
            "uuid" => fixed(16, Some("uuid")),
            _ if is_counted => {
                let (unit, stored) = (Some(name.to_owned()), Stored::Number(Dtype::Int64));
                Self { dtype: Some(Dtype::Int64), unit, stored, ..unknown }
            }
            _ => {
                let length = inner("fixed_size_binary[", "]").and_then(|length| length.parse().ok());
                if let Some(length) = length.filter(|length| (1..=MAX_FIXED_BYTES).contains(length)) {
                    return fixed(length, None);
                }
                let digits = inner("decimal(", ")").and_then(|digits| digits.split_once(", "));
                let digits = digits.and_then(|(precision, scale)| {
                    Some((precision.parse::<u32>().ok()?, scale.parse::<u32>().ok()?))
                });
                if let Some((precision, scale)) = digits {
                    let length = decimal_bytes(precision);
                    let stored = Stored::Decimal { length, is_integer: false, precision, scale };
                    let dtype = (precision <= MAX_INTEGER_DIGITS).then_some(Dtype::Int64);
                    return Self { dtype, unit: Some(name.to_owned()), stored, ..unknown };
                }
                match numbers.into_iter().find(|dtype| dtype.name() == name) {
                    Some(dtype) => Self { dtype: Some(dtype), stored: Stored::Number(dtype), ..unknown },
                    None => unknown,
                }
            }
        }
    }
}

/// The bytes of a decimal of so many digits, as files hold them.
fn decimal_bytes(digits: u32) -> usize {
    let most = 10_i128.checked_pow(digits).unwrap_or(i128::MAX);
    (1..16).find(|&bytes: &usize| most <= 1_i128 << (8 * bytes - 1)).unwrap_or(16)
}
