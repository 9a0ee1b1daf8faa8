//! The columns of a file, as tensors see them.

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};
use serde::{Deserialize, Serialize};

/// The element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dtype {
    /// One byte, 0 or 1.
    Bool,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    Uint8,
    /// Unsigned, 16 bits.
    Uint16,
    /// Unsigned, 32 bits.
    Uint32,
    /// Unsigned, 64 bits.
    Uint64,
    /// IEEE 754 half precision.
    Float16,
    /// IEEE 754 single precision.
    Float32,
    /// IEEE 754 double precision.
    Float64,
}

impl Dtype {
    /// The name that torch and numpy use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float16 => "float16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// Bytes per element.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Bool | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }
}

/// What a row of a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// One value.
    Scalar,
    /// Any number of values.
    List,
    /// Bytes that are text.
    String,
    /// Bytes.
    Binary,
}

impl Kind {
    /// Whether rows differ in length.
    #[must_use]
    pub fn is_jagged(self) -> bool {
        self != Self::Scalar
    }

    /// Its name, for Python.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::List => "list",
            Self::String => "string",
            Self::Binary => "binary",
        }
    }
}

/// A top-level column of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type in the file, for people (`int32`, `timestamp[us]`, `list<float>`, ...). Files agree about
    /// a column if they agree about this.
    pub type_name: String,
    /// What its rows are.
    pub kind: Kind,
    /// The element type of its tensor; none if it can't be delivered.
    pub dtype: Option<Dtype>,
    /// Its index among the leaves of the schema.
    pub leaf: usize,
}

/// The top-level columns of a file, in the file's order.
#[must_use]
pub fn columns(schema: &SchemaDescriptor) -> Vec<Column> {
    let mut leaf = 0;
    let roots = schema.root_schema().get_fields();
    roots
        .iter()
        .map(|root| {
            let first = leaf;
            while leaf < schema.num_columns() && schema.get_column_root(leaf).name() == root.name() && {
                // Two roots of one name: each leaf belongs to its own root.
                std::ptr::eq(schema.get_column_root(leaf), root.as_ref())
            } {
                leaf += 1;
            }
            let (type_name, kind, dtype) = if leaf == first + 1 {
                root_type(root, &schema.column(first))
            } else {
                (nested_type(root), Kind::Scalar, None)
            };
            Column { name: root.name().to_owned(), type_name, kind, dtype, leaf: first }
        })
        .collect()
}

/// The type of a column of one leaf.
fn root_type(root: &Type, leaf: &ColumnDescriptor) -> (String, Kind, Option<Dtype>) {
    if !is_list(root) {
        return if root.is_primitive() { leaf_type(leaf) } else { (nested_type(root), Kind::Scalar, None) };
    }
    match leaf_type(leaf) {
        (element, Kind::Scalar, Some(dtype)) => (format!("list<{element}>"), Kind::List, Some(dtype)),
        (element, ..) => (format!("list<{element}>"), Kind::Scalar, None),
    }
}

/// Whether a column is a list of primitives: in three levels, in two as old writers made them, or a bare
/// repeated field.
///
/// Source: <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#lists>
fn is_list(root: &Type) -> bool {
    let is_repeated = |of: &Type| of.get_basic_info().repetition() == Repetition::REPEATED;
    if root.is_primitive() {
        return is_repeated(root);
    }
    let info = root.get_basic_info();
    let is_marked = matches!(info.logical_type_ref(), Some(LogicalType::List))
        || info.converted_type() == ConvertedType::LIST;
    let [repeated] = root.get_fields() else { return false };
    if !is_marked || is_repeated(root) || !is_repeated(repeated) {
        return false;
    }
    if repeated.is_primitive() {
        return true;
    }
    let is_struct = repeated.name() == "array" || repeated.name() == format!("{}_tuple", root.name());
    let [element] = repeated.get_fields() else { return false };
    element.is_primitive() && !is_repeated(element) && !is_struct
}

fn nested_type(root: &Type) -> String {
    let info = root.get_basic_info();
    let name = match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::List), _) | (None, ConvertedType::LIST) => "list",
        (Some(LogicalType::Map), _) | (None, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE) => "map",
        _ => "struct",
    };
    name.to_owned()
}

/// The type of a leaf, as if it stood alone.
fn leaf_type(column: &ColumnDescriptor) -> (String, Kind, Option<Dtype>) {
    let physical = column.physical_type();
    let named = |name: &str, dtype: Option<Dtype>| (name.to_owned(), Kind::Scalar, dtype);
    let known = |dtype: Dtype| named(dtype.name(), Some(dtype));
    let bytes = |name: &str, kind: Kind| (name.to_owned(), kind, Some(Dtype::Uint8));
    let logical = column.logical_type_ref();
    let converted = column.converted_type();
    match (physical, logical, converted) {
        (Physical::BOOLEAN, _, _) => known(Dtype::Bool),
        (Physical::FLOAT, _, _) => known(Dtype::Float32),
        (Physical::DOUBLE, _, _) => known(Dtype::Float64),
        (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16), _) if column.type_length() == 2 => {
            known(Dtype::Float16)
        }
        (Physical::INT32, Some(LogicalType::Date), _) | (Physical::INT32, None, ConvertedType::DATE) => {
            named("date32[day]", Some(Dtype::Int64))
        }
        (Physical::INT64, Some(LogicalType::Timestamp(stamp)), _) => {
            let unit = unit_name(stamp.unit);
            let zone = if stamp.is_adjusted_to_u_t_c { ", tz=UTC" } else { "" };
            named(&format!("timestamp[{unit}{zone}]"), Some(Dtype::Int64))
        }
        (Physical::INT64, None, ConvertedType::TIMESTAMP_MILLIS) => {
            named("timestamp[ms, tz=UTC]", Some(Dtype::Int64))
        }
        (Physical::INT64, None, ConvertedType::TIMESTAMP_MICROS) => {
            named("timestamp[us, tz=UTC]", Some(Dtype::Int64))
        }
        (Physical::INT32 | Physical::INT64, _, _) => match integer(physical, logical, converted) {
            Some(dtype) => known(dtype),
            None => named(&describe(physical, logical, converted), None),
        },
        (Physical::BYTE_ARRAY, Some(LogicalType::String | LogicalType::Enum | LogicalType::Json), _)
        | (Physical::BYTE_ARRAY, None, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON) => {
            bytes("string", Kind::String)
        }
        (Physical::BYTE_ARRAY, Some(LogicalType::Bson), _)
        | (Physical::BYTE_ARRAY, None, ConvertedType::NONE | ConvertedType::BSON) => {
            bytes("binary", Kind::Binary)
        }
        _ => named(&describe(physical, logical, converted), None),
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::MILLIS => "ms",
        TimeUnit::MICROS => "us",
        TimeUnit::NANOS => "ns",
    }
}

fn integer(physical: Physical, logical: Option<&LogicalType>, converted: ConvertedType) -> Option<Dtype> {
    let (bits, signed) = match (logical, converted) {
        (Some(LogicalType::Integer(integer)), _) => (integer.bit_width, integer.is_signed),
        (None, ConvertedType::NONE) => (if physical == Physical::INT32 { 32 } else { 64 }, true),
        (None, ConvertedType::INT_8) => (8, true),
        (None, ConvertedType::INT_16) => (16, true),
        (None, ConvertedType::INT_32) => (32, true),
        (None, ConvertedType::INT_64) => (64, true),
        (None, ConvertedType::UINT_8) => (8, false),
        (None, ConvertedType::UINT_16) => (16, false),
        (None, ConvertedType::UINT_32) => (32, false),
        (None, ConvertedType::UINT_64) => (64, false),
        _ => return None,
    };
    Some(match (physical, bits, signed) {
        (Physical::INT32, 8, true) => Dtype::Int8,
        (Physical::INT32, 16, true) => Dtype::Int16,
        (Physical::INT32, 32, true) => Dtype::Int32,
        (Physical::INT32, 8, false) => Dtype::Uint8,
        (Physical::INT32, 16, false) => Dtype::Uint16,
        (Physical::INT32, 32, false) => Dtype::Uint32,
        (Physical::INT64, 64, true) => Dtype::Int64,
        (Physical::INT64, 64, false) => Dtype::Uint64,
        _ => return None,
    })
}

fn describe(physical: Physical, logical: Option<&LogicalType>, converted: ConvertedType) -> String {
    match (logical, converted) {
        (Some(LogicalType::Decimal(decimal)), _) => {
            format!("decimal({}, {})", decimal.precision, decimal.scale)
        }
        (Some(LogicalType::Time(time)), _) => format!("time[{}]", unit_name(time.unit)),
        (Some(logical), _) => format!("{logical:?}").to_lowercase(),
        (None, ConvertedType::NONE) => physical.to_string().to_lowercase(),
        (None, converted) => converted.to_string().to_lowercase(),
    }
}
