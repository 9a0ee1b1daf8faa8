//! The types of values, in files and in tensors.
//!
//! Source: <https://github.com/apache/parquet-format/blob/master/LogicalTypes.md>

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::ColumnDescriptor;
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
    /// The sign, the exponent and 7 bits of a float32: no file holds it, only a cast makes it.
    Bfloat16,
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
            Self::Bfloat16 => "bfloat16",
        }
    }

    /// The type of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [
            Self::Bool,
            Self::Int8,
            Self::Int16,
            Self::Int32,
            Self::Int64,
            Self::Uint8,
            Self::Uint16,
            Self::Uint32,
            Self::Uint64,
            Self::Float16,
            Self::Bfloat16,
            Self::Float32,
            Self::Float64,
        ];
        all.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes per element.
    #[must_use]
    pub fn width(self) -> usize {
        match self {
            Self::Bool | Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Float16 | Self::Bfloat16 => 2,
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
    /// A list of any length.
    List,
    /// A string of any length.
    String,
    /// Bytes of any length.
    Binary,
    /// A list of lists, of any depth, all of any length.
    Lists,
    /// A list of strings, or of lists of them.
    Strings,
    /// A list of byte arrays, or of lists of them.
    Binaries,
    /// The validity of a struct: a boolean.
    Mask,
    /// The length of a row of a padded column: an integer.
    Length,
    /// Which elements of a list are not null: a boolean for each.
    Marks,
}

impl Kind {
    /// Whether rows differ in length.
    #[must_use]
    pub fn is_jagged(self) -> bool {
        matches!(self, Self::List | Self::String | Self::Binary) || self.is_nested()
    }

    /// Whether rows are lists of lists, strings or byte arrays.
    #[must_use]
    pub fn is_nested(self) -> bool {
        matches!(self, Self::Lists | Self::Strings | Self::Binaries)
    }

    /// Its name, for Python, with so many dimensions in which rows differ in length.
    #[must_use]
    pub fn name(self, depth: usize) -> String {
        let innermost = match self {
            Self::Scalar => "scalar",
            Self::List | Self::Lists => "list",
            Self::String | Self::Strings => "string",
            Self::Binary | Self::Binaries => "binary",
            Self::Mask | Self::Marks => "mask",
            Self::Length => "length",
        };
        let around = depth.saturating_sub(1);
        format!("{}{innermost}{}", "list<".repeat(around), ">".repeat(around))
    }
}

/// How a file stores the values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stored {
    /// As numbers of this type.
    Number(Dtype),
    /// As integers in units of 10^-scale.
    Decimal {
        /// Bytes of each value; 0 if they differ.
        length: usize,
        /// Whether the bytes are little-endian, as of INT32 and INT64.
        is_integer: bool,
        /// The number of digits that a value may have.
        precision: u32,
        /// The number of digits behind the point.
        scale: u32,
    },
    /// As INT96: the nanoseconds of a day, and the number of the day.
    Int96 {
        /// The nanoseconds of a tick in which instants are delivered.
        tick: u32,
    },
    /// As this many bytes each.
    Fixed(usize),
    /// As bytes, each value with a length of its own.
    Bytes,
    /// Not at all: all values are null.
    Nothing,
    /// As elements of lists that are all null: levels alone tell of them.
    NullElements,
    /// In a way that is not supported.
    Unknown,
}

/// The longest value that counts as of fixed length: with a longer one, a few bytes of nulls would make many.
pub const MAX_FIXED_BYTES: usize = 1 << 20;

/// The most digits of a decimal that always fits 64 bits.
pub const MAX_INTEGER_DIGITS: u32 = 18;

/// The type of a leaf, as if it stood alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafType {
    /// Its name, for people (`int32`, `timestamp[us]`, ...).
    pub name: String,
    /// What one value is.
    pub kind: Kind,
    /// The dtype of its tensor; `None` if it can't be delivered without further options.
    pub dtype: Option<Dtype>,
    /// The number of elements of one value, if it is not a single number and all have equally many.
    pub size: Option<usize>,
    /// The unit or meaning of its values, if the dtype alone does not give it.
    pub unit: Option<String>,
    /// How the file stores it.
    pub stored: Stored,
}

impl LeafType {
    fn number(stored: Dtype) -> Self {
        let name = stored.name().to_owned();
        let (kind, dtype, stored) = (Kind::Scalar, Some(stored), Stored::Number(stored));
        Self { name, kind, dtype, size: None, unit: None, stored }
    }

    fn counted(unit: &str, stored: Stored) -> Self {
        let (name, unit) = (unit.to_owned(), Some(unit.to_owned()));
        Self { name, kind: Kind::Scalar, dtype: Some(Dtype::Int64), size: None, unit, stored }
    }

    fn bytes(name: &str, kind: Kind) -> Self {
        let (name, dtype) = (name.to_owned(), Some(Dtype::Uint8));
        Self { name, kind, dtype, size: None, unit: None, stored: Stored::Bytes }
    }

    fn fixed(length: usize, unit: Option<&str>) -> Self {
        let name = unit.map_or_else(|| format!("fixed_size_binary[{length}]"), str::to_owned);
        let (dtype, unit) = (Some(Dtype::Uint8), unit.map(str::to_owned));
        Self { name, kind: Kind::Scalar, dtype, size: Some(length), unit, stored: Stored::Fixed(length) }
    }

    fn unknown(name: String) -> Self {
        Self { name, kind: Kind::Scalar, dtype: None, size: None, unit: None, stored: Stored::Unknown }
    }

    /// The type of a leaf.
    #[must_use]
    pub fn of(column: &ColumnDescriptor) -> Self {
        let physical = column.physical_type();
        let logical = column.logical_type_ref();
        let converted = column.converted_type();
        // The specification: who does not know a logical type reads the physical one. Geometry is its bytes.
        let is_plain = matches!(
            logical,
            Some(LogicalType::_Unknown { .. } | LogicalType::Geometry(_) | LogicalType::Geography(_))
        );
        let (logical, converted) = if is_plain { (None, ConvertedType::NONE) } else { (logical, converted) };
        let length = usize::try_from(column.type_length()).ok();
        let length = length.filter(|length| (1..=MAX_FIXED_BYTES).contains(length));
        match (physical, logical, converted) {
            (Physical::BOOLEAN, _, _) => Self::number(Dtype::Bool),
            (Physical::FLOAT, _, _) => Self::number(Dtype::Float32),
            (Physical::DOUBLE, _, _) => Self::number(Dtype::Float64),
            (_, Some(LogicalType::Unknown), _) => {
                Self { stored: Stored::Nothing, ..Self::unknown("null".into()) }
            }
            (Physical::INT96, _, _) => Self::counted("timestamp[ns]", Stored::Int96 { tick: 1 }),
            (_, Some(LogicalType::Decimal(_)), _) | (_, None, ConvertedType::DECIMAL) => decimal(column),
            (Physical::INT32 | Physical::INT64, _, _) => integer(physical, logical, converted),
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Float16), _) if length == Some(2) => {
                Self::number(Dtype::Float16)
            }
            (Physical::FIXED_LEN_BYTE_ARRAY, logical, converted) => match (length, logical, converted) {
                (Some(16), Some(LogicalType::Uuid), _) => Self::fixed(16, Some("uuid")),
                (Some(12), None, ConvertedType::INTERVAL) => Self::fixed(12, Some("interval")),
                (Some(length), None, ConvertedType::NONE) => Self::fixed(length, None),
                _ => Self::unknown(describe(physical, converted)),
            },
            (Physical::BYTE_ARRAY, Some(LogicalType::String | LogicalType::Enum | LogicalType::Json), _)
            | (Physical::BYTE_ARRAY, None, ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON) => {
                Self::bytes("string", Kind::String)
            }
            (Physical::BYTE_ARRAY, Some(LogicalType::Bson), _)
            | (Physical::BYTE_ARRAY, None, ConvertedType::NONE | ConvertedType::BSON) => {
                Self::bytes("binary", Kind::Binary)
            }
            _ => Self::unknown(describe(physical, converted)),
        }
    }
}

impl Dtype {
    /// The smallest dtype that holds all numbers of both: of integers, or of floats.
    #[must_use]
    pub fn joined(self, other: Self) -> Option<Self> {
        if self == other {
            return Some(self);
        }
        if self.is_float() && other.is_float() {
            return Some(if self.width() > other.width() { self } else { other });
        }
        let ((one_signed, one), (other_signed, other)) = (self.integer()?, other.integer()?);
        let width = match (one_signed, other_signed) {
            (true, false) => one.max(2 * other),
            (false, true) => other.max(2 * one),
            _ => one.max(other),
        };
        Some(match (one_signed || other_signed, width) {
            (true, 1) => Self::Int8,
            (true, 2) => Self::Int16,
            (true, 4) => Self::Int32,
            (true, 8) => Self::Int64,
            (false, 1) => Self::Uint8,
            (false, 2) => Self::Uint16,
            (false, 4) => Self::Uint32,
            (false, 8) => Self::Uint64,
            _ => return None,
        })
    }

    /// Whether its numbers are floats.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Bfloat16 | Self::Float32 | Self::Float64)
    }

    /// Whether its numbers are integers; booleans are not.
    #[must_use]
    pub fn is_integer(self) -> bool {
        self != Self::Bool && !self.is_float()
    }

    /// Whether it is a type of signed integers.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// Whether an integer is signed, and its bytes.
    fn integer(self) -> Option<(bool, usize)> {
        self.is_integer().then(|| (self.is_signed(), self.width()))
    }
}

/// The type of a decimal. Those stored as integers always fit 64 bits, others if they have few digits.
fn decimal(column: &ColumnDescriptor) -> LeafType {
    let stated = match column.logical_type_ref() {
        Some(LogicalType::Decimal(decimal)) => (decimal.precision, decimal.scale),
        _ => (column.type_precision(), column.type_scale()),
    };
    let name = format!("decimal({}, {})", stated.0, stated.1);
    let (Ok(precision), Ok(scale)) = (u32::try_from(stated.0), u32::try_from(stated.1)) else {
        return LeafType::unknown(name);
    };
    let is_integer = matches!(column.physical_type(), Physical::INT32 | Physical::INT64);
    let fits = is_integer || precision <= MAX_INTEGER_DIGITS;
    let length = match column.physical_type() {
        Physical::INT32 => 4,
        Physical::INT64 => 8,
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).unwrap_or(0),
        _ => 0,
    };
    let dtype = fits.then_some(Dtype::Int64);
    LeafType { dtype, ..LeafType::counted(&name, Stored::Decimal { length, is_integer, precision, scale }) }
}

fn integer(physical: Physical, logical: Option<&LogicalType>, converted: ConvertedType) -> LeafType {
    let stored = Stored::Number(if physical == Physical::INT32 { Dtype::Int32 } else { Dtype::Int64 });
    let counted = |unit: &str| LeafType::counted(unit, stored);
    match (physical, logical, converted) {
        (Physical::INT32, Some(LogicalType::Date), _) | (Physical::INT32, None, ConvertedType::DATE) => {
            counted("date[day]")
        }
        (Physical::INT64, Some(LogicalType::Timestamp(stamp)), _) => {
            let zone = if stamp.is_adjusted_to_u_t_c { ", UTC" } else { "" };
            counted(&format!("timestamp[{}{zone}]", unit_name(stamp.unit)))
        }
        (Physical::INT64, None, ConvertedType::TIMESTAMP_MILLIS) => counted("timestamp[ms, UTC]"),
        (Physical::INT64, None, ConvertedType::TIMESTAMP_MICROS) => counted("timestamp[us, UTC]"),
        (_, Some(LogicalType::Time(time)), _) => counted(&format!("time[{}]", unit_name(time.unit))),
        (_, None, ConvertedType::TIME_MILLIS) => counted("time[ms]"),
        (_, None, ConvertedType::TIME_MICROS) => counted("time[us]"),
        _ => match plain_integer(physical, logical, converted) {
            Some(dtype) => LeafType::number(dtype),
            None => LeafType::unknown(describe(physical, converted)),
        },
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::MILLIS => "ms",
        TimeUnit::MICROS => "us",
        TimeUnit::NANOS => "ns",
    }
}

fn plain_integer(
    physical: Physical,
    logical: Option<&LogicalType>,
    converted: ConvertedType,
) -> Option<Dtype> {
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

/// A type that is not known by its annotation, for people.
fn describe(physical: Physical, converted: ConvertedType) -> String {
    match converted {
        ConvertedType::NONE => physical.to_string().to_lowercase(),
        converted => converted.to_string().to_lowercase(),
    }
}
