//! Statistics of the values of a column, row group by row group, from footers.

use std::sync::atomic::AtomicBool;

use parquet::basic::ColumnOrder;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaDataOptions, ParquetStatisticsPolicy};
use parquet::file::statistics::Statistics;

use crate::dataset::file_value::FileValue;
use crate::dataset::manifest::Manifest;
use crate::decode::open_file::read_footer;
use crate::error::{Result, check};
use crate::format::metadata::column_metadata::LeafColumn;
use crate::format::metadata::null_count::is_contradictory;
use crate::format::metadata::writer::Writer;
use crate::projection::layout::Layout;
use crate::schema::columns::{Column, Dtype, Given, Kind, Stored};

/// A bound: a value of a column.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum Bound {
    /// For a column of integers or booleans.
    Integer(i128),
    /// For a column of floats.
    Float(f64),
    /// For a column of strings or binary values.
    Bytes(Vec<u8>),
}

/// Statistics of one column in some rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowGroupStats {
    /// A lower and an upper bound of all values but NaN; `None` if they are not known.
    pub bounds: Option<(Bound, Bound)>,
    /// The number of nulls, if it is known.
    pub nulls: Option<u64>,
}

impl RowGroupStats {
    /// Statistics whose bounds are dropped if they are NaN or contradict each other.
    #[must_use]
    pub fn new(bounds: Option<(Bound, Bound)>, nulls: Option<u64>) -> Self {
        Self { bounds: bounds.filter(|(low, high)| low <= high), nulls }
    }
}

/// The statistics of the columns of a layout's fields, field after field: for each column, those of every row
/// group. Footers are read unless all requested columns stand in the paths.
///
/// # Errors
/// `Data` or `Source` if a file can't be opened, or was changed; `Interrupted` if stopped.
pub fn read(manifest: &Manifest, layout: &Layout, stop: &AtomicBool) -> Result<Vec<Vec<RowGroupStats>>> {
    let count = layout.fields().iter().map(|field| field.columns.len()).sum();
    let mut found = vec![Vec::with_capacity(manifest.num_groups()); count];
    let mut ends = manifest.file_groups().skip(1);
    let mut group = 0;
    for (index, file) in manifest.files().iter().enumerate() {
        check(stop)?;
        let groups = group..ends.next().unwrap_or(group);
        group = groups.end;
        let columns = layout.columns(manifest.schema_of(index));
        let each = columns.iter().zip(&mut found);
        let (constant, others): (Vec<_>, Vec<_>) = each.partition(|(column, _)| column.is_constant());
        for (column, found) in constant {
            let rows = groups.clone().map(|group| manifest.group_rows(group));
            let value = value_of(manifest, index, column);
            found.extend(rows.map(|rows| facts_of_value(&value, column, rows.end - rows.start)));
        }
        let tells_nothing = manifest.rows.is_some();
        if tells_nothing || groups.clone().all(|group| manifest.group_rows(group).is_empty()) {
            // Without rows, its columns may be others.
            for (_, found) in others {
                found.extend(groups.clone().map(|_| RowGroupStats::new(None, None)));
            }
        } else if !others.is_empty() {
            add_of_footer(manifest, index, others).map_err(|error| error.in_file(&file.path))?;
        }
    }
    Ok(found)
}

/// Adds the statistics that a file's footer has of columns.
fn add_of_footer(
    manifest: &Manifest,
    file: usize,
    mut columns: Vec<(&Column, &mut Vec<RowGroupStats>)>,
) -> Result<()> {
    let (_, _, footer) = read_footer(manifest, file)?;
    let footer = footer.parse()?;
    let writer = Writer::of(footer.file().created_by());
    let numbers: Vec<usize> = columns.iter().map(|(column, _)| column.leaf).collect();
    let leaves = LeafColumn::all(footer.file(), &numbers)?;
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::skip_except(&numbers))
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
    for group in footer.row_groups(options) {
        let group = group?.metadata;
        for ((column, found), leaf) in columns.iter_mut().zip(&leaves) {
            // The leaf of a member that is given is another's.
            let is_own = column.given.is_none();
            let stats = is_own.then(|| facts(group.column(column.leaf), leaf, column, writer));
            found.push(stats.unwrap_or_default());
        }
    }
    Ok(())
}

/// The statistics of `rows` rows of a column that is one value, or null, in a whole file.
fn facts_of_value(value: &FileValue, column: &Column, rows: u64) -> RowGroupStats {
    let nulls = if matches!(value, FileValue::Missing | FileValue::Null) { rows } else { 0 };
    let bound = Some(value).filter(|_| column.kind != Kind::Mask).and_then(bound_of);
    RowGroupStats::new(bound.map(|bound| (bound.clone(), bound)), Some(nulls))
}

/// The value of a column that has one in a whole file; null in a file that lacks it.
fn value_of(manifest: &Manifest, file: usize, column: &Column) -> FileValue {
    match column.given {
        Some(Given::File) => manifest.value(file, &column.name).of_type(column),
        _ => FileValue::Null,
    }
}

fn bound_of(value: &FileValue) -> Option<Bound> {
    match value {
        FileValue::Missing | FileValue::Null => None,
        FileValue::Text(text) => Some(Bound::Bytes(text.clone())),
        FileValue::Integer(integer) => Some(Bound::Integer((*integer).into())),
        FileValue::Float(float) => Some(Bound::Float(*float)),
    }
}

/// The value of a column that stands in the path of a file, or that its table tells; `None` for other columns, and for a
/// null.
#[must_use]
pub fn of_file(manifest: &Manifest, file: usize, column: &Column) -> Option<Bound> {
    bound_of(&value_of(manifest, file, column))
}

fn facts(chunk: &ColumnChunkMetaData, leaf: &LeafColumn, column: &Column, writer: Writer) -> RowGroupStats {
    let statistics = chunk.statistics();
    let (stated, values) =
        (statistics.and_then(Statistics::null_count_opt), chunk.num_values().unsigned_abs());
    // In the fields of old writers, text and unsigned numbers may be ordered otherwise.
    let is_trusted =
        |statistics: &&Statistics| !statistics.is_min_max_deprecated() && knows_bounds(leaf, column, writer);
    let bounds = statistics.filter(is_trusted).and_then(|statistics| bounds(statistics, column));
    if statistics.is_some_and(|statistics| is_contradictory(statistics, values)) {
        return RowGroupStats::new(None, nulls(leaf, column, None, writer));
    }
    RowGroupStats::new(bounds, nulls(leaf, column, stated, writer))
}

/// How many rows of a column are null, where a writer states that so many values of its leaf are.
pub(crate) fn nulls(leaf: &LeafColumn, column: &Column, stated: Option<u64>, writer: Writer) -> Option<u64> {
    if column.level == 0 {
        return Some(0);
    }
    let stated = stated.filter(|&nulls| nulls > 0 || writer.counts_nulls());
    // Of a leaf in lists, elements are counted; of a struct, members may be null where it is there.
    let is_of_rows = leaf.described.max_rep_level() == 0;
    let is_of_column = i16::from(column.level) == leaf.described.max_def_level();
    stated.filter(|&nulls| is_of_rows && (nulls == 0 || is_of_column))
}

/// Whether a writer's bounds of a column are some.
pub(crate) fn knows_bounds(leaf: &LeafColumn, column: &Column, writer: Writer) -> bool {
    let is_signed = !matches!(column.stored, Stored::Number(dtype) if is_unsigned(dtype));
    has_order(leaf, column) && writer.knows_bounds(leaf.described.physical_type(), is_signed)
}

/// Whether the values of a column are compared as their type says: without that, nobody knows what bounds
/// are. The total order of floats differs from theirs in zeros and NaN alone, of which bounds say nothing.
fn has_order(leaf: &LeafColumn, column: &Column) -> bool {
    let is_float = matches!(column.stored, Stored::Number(Dtype::Float32 | Dtype::Float64));
    match leaf.order {
        Some(ColumnOrder::TYPE_DEFINED_ORDER(_)) => true,
        Some(ColumnOrder::IEEE_754_TOTAL_ORDER) => is_float,
        _ => false,
    }
}

/// Whether numbers are compared as unsigned ones.
fn is_unsigned(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64)
}

fn bounds(statistics: &Statistics, column: &Column) -> Option<(Bound, Bound)> {
    let dtype = match (column.kind, column.stored) {
        (Kind::String | Kind::Binary, Stored::Bytes) => {
            let Statistics::ByteArray(statistics) = statistics else { return None };
            let bytes = |value: &parquet::data_type::ByteArray| Bound::Bytes(value.data().to_vec());
            return Some((bytes(statistics.min_opt()?), bytes(statistics.max_opt()?)));
        }
        (Kind::Scalar, Stored::Number(dtype)) => dtype,
        _ => return None,
    };
    let is_unsigned = is_unsigned(dtype);
    let of_32 =
        |&bits: &i32| Bound::Integer(if is_unsigned { bits.cast_unsigned().into() } else { bits.into() });
    let of_64 =
        |&bits: &i64| Bound::Integer(if is_unsigned { bits.cast_unsigned().into() } else { bits.into() });
    Some(match statistics {
        Statistics::Boolean(statistics) => {
            let integer = |&value: &bool| Bound::Integer(value.into());
            (integer(statistics.min_opt()?), integer(statistics.max_opt()?))
        }
        Statistics::Int32(statistics) => (of_32(statistics.min_opt()?), of_32(statistics.max_opt()?)),
        Statistics::Int64(statistics) => (of_64(statistics.min_opt()?), of_64(statistics.max_opt()?)),
        Statistics::Float(statistics) => {
            let float = |&value: &f32| Bound::Float(value.into());
            (float(statistics.min_opt()?), float(statistics.max_opt()?))
        }
        Statistics::Double(statistics) => {
            (Bound::Float(*statistics.min_opt()?), Bound::Float(*statistics.max_opt()?))
        }
        // Half floats, decimals and old timestamps have bounds of other forms: their rows are read.
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) | Statistics::Int96(_) => return None,
    })
}

impl Bound {
    /// A plain value of a column, as pages and page indexes hold it. `None` if bounds of its type are not
    /// supported, or the bytes have another length.
    #[must_use]
    pub fn of_plain(bytes: &[u8], column: &Column) -> Option<Self> {
        let dtype = match (column.kind, column.stored) {
            (Kind::String | Kind::Binary, Stored::Bytes) => return Some(Self::Bytes(bytes.to_vec())),
            (Kind::Scalar, Stored::Number(dtype)) => dtype,
            _ => return None,
        };
        Some(match dtype {
            Dtype::Bool => Self::Integer((<[u8; 1]>::try_from(bytes).ok()?[0] & 1).into()),
            Dtype::Int8 | Dtype::Int16 | Dtype::Int32 => {
                Self::Integer(i32::from_le_bytes(bytes.try_into().ok()?).into())
            }
            Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 => {
                Self::Integer(u32::from_le_bytes(bytes.try_into().ok()?).into())
            }
            Dtype::Int64 => Self::Integer(i64::from_le_bytes(bytes.try_into().ok()?).into()),
            Dtype::Uint64 => Self::Integer(u64::from_le_bytes(bytes.try_into().ok()?).into()),
            Dtype::Float32 => Self::Float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
            Dtype::Float64 => Self::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
            Dtype::Float16 | Dtype::Bfloat16 => return None,
        })
    }

    /// The plain values of a column that are equal to this one. There are two for a zero among floats, and
    /// none if the type has no such value. `None` if that is not known.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::float_cmp,
        reason = "what is not the same afterwards is no value of the type"
    )]
    pub fn plain(&self, column: &Column) -> Option<Vec<Vec<u8>>> {
        let dtype = match (column.kind, column.stored, self) {
            (Kind::String | Kind::Binary, Stored::Bytes, Self::Bytes(bytes)) => {
                return Some(vec![bytes.clone()]);
            }
            // Larger numbers may be floats, and are no integers.
            (Kind::Scalar, Stored::Number(_), Self::Integer(value)) if value.unsigned_abs() >= 1 << 100 => {
                return None;
            }
            (Kind::Scalar, Stored::Number(dtype), Self::Integer(_) | Self::Float(_)) => dtype,
            _ => return None,
        };
        let integer = match *self {
            Self::Integer(value) => Some(value),
            Self::Float(value) if value.abs() < 2_f64.powi(65) => {
                (value.fract() == 0.0).then_some(value as i128)
            }
            _ => None,
        };
        macro_rules! integers {
            ($type:ty, $stored:ty) => {
                integer
                    .and_then(|value| <$type>::try_from(value).ok())
                    .map(|value| vec![<$stored>::from(value).to_le_bytes().to_vec()])
                    .unwrap_or_default()
            };
        }
        let float = || match *self {
            Self::Integer(value) => {
                let float = value as f64;
                (float as i128 == value).then_some(float)
            }
            // Nothing equals NaN.
            Self::Float(value) => Some(value).filter(|value| !value.is_nan()),
            Self::Bytes(_) => None,
        };
        Some(match dtype {
            Dtype::Int8 => integers!(i8, i32),
            Dtype::Int16 => integers!(i16, i32),
            Dtype::Int32 => integers!(i32, i32),
            Dtype::Uint8 => integers!(u8, u32),
            Dtype::Uint16 => integers!(u16, u32),
            Dtype::Uint32 => integers!(u32, u32),
            Dtype::Int64 => integers!(i64, i64),
            Dtype::Uint64 => integers!(u64, u64),
            Dtype::Float32 => {
                let single = float()
                    .map(|float| (float, float as f32))
                    .filter(|(float, single)| f64::from(*single) == *float);
                single
                    .into_iter()
                    .flat_map(|(_, value)| both_zeros(value, 0.0))
                    .map(|value: f32| value.to_le_bytes().to_vec())
                    .collect()
            }
            Dtype::Float64 => float()
                .into_iter()
                .flat_map(|value| both_zeros(value, 0.0))
                .map(|value: f64| value.to_le_bytes().to_vec())
                .collect(),
            // Bloom filters hold no booleans, and how they hold half floats is not known.
            Dtype::Bool | Dtype::Float16 | Dtype::Bfloat16 => return None,
        })
    }
}

/// The value; for a zero, both zeros.
fn both_zeros<T: PartialEq + Copy + std::ops::Neg<Output = T>>(value: T, zero: T) -> Vec<T> {
    if value == zero { vec![zero, -zero] } else { vec![value] }
}
