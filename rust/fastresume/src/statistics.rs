//! What footers tell of the values of a column, row group by row group.

use std::sync::atomic::AtomicBool;

use parquet::basic::ColumnOrder;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use crate::decode::OpenFile;
use crate::error::{Error, Result, check};
use crate::manifest::Manifest;
use crate::schema::{Column, Dtype, Kind};

/// A value as footers tell it.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub enum Bound {
    /// Of a column of integers or booleans.
    Integer(i128),
    /// Of a column of floats.
    Float(f64),
    /// Of a column of text or bytes.
    Bytes(Vec<u8>),
}

/// What a footer tells of one column of one row group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// No value is less, and none is greater; NaN is not counted. None of either if they are not known.
    pub bounds: Option<(Bound, Bound)>,
    /// How many rows are null, if that is known.
    pub nulls: Option<u64>,
}

/// The facts of columns, by their names: of each column those of every row group. Footers are read.
///
/// # Errors
/// `Argument` if a file has no such column; `Data` or `Source` if a file can't be opened, or was changed;
/// `Interrupted` if stopped.
pub fn read(manifest: &Manifest, columns: &[String], stop: &AtomicBool) -> Result<Vec<Vec<Facts>>> {
    let mut found = vec![Vec::with_capacity(manifest.num_groups()); columns.len()];
    for (index, file) in manifest.files().iter().enumerate() {
        check(stop)?;
        let of_file = manifest.columns(manifest.schema_of(index));
        let open = OpenFile::open(file)?;
        for (name, found) in columns.iter().zip(&mut found) {
            let column = of_file.iter().find(|column| column.name == *name).ok_or_else(|| {
                Error::Argument(format!("the file '{}' has no column '{name}'", file.path.display()))
            })?;
            let groups = open.metadata().row_groups().iter();
            found.extend(groups.map(|group| facts(open.metadata(), group, column)));
        }
    }
    Ok(found)
}

fn facts(file: &ParquetMetaData, group: &RowGroupMetaData, column: &Column) -> Facts {
    let chunk = group.column(column.leaf);
    if column.kind == Kind::List {
        return Facts::default();
    }
    let statistics = chunk.statistics();
    let is_required = chunk.column_descr().max_def_level() == 0;
    let nulls = if is_required { Some(0) } else { statistics.and_then(Statistics::null_count_opt) };
    let orders = file.file_metadata().column_orders();
    let order = orders.and_then(|orders| orders.get(column.leaf));
    // Without an order, or in the fields of old writers, text and unsigned numbers may be ordered otherwise.
    let bounds = statistics
        .filter(|told| !told.is_min_max_deprecated())
        .filter(|_| matches!(order, Some(ColumnOrder::TYPE_DEFINED_ORDER(_))))
        .and_then(|told| bounds(told, column.dtype?, column.kind))
        // NaN, or what contradicts itself, bounds nothing.
        .filter(|(low, high)| low <= high);
    Facts { bounds, nulls }
}

fn bounds(told: &Statistics, dtype: Dtype, kind: Kind) -> Option<(Bound, Bound)> {
    if kind != Kind::Scalar {
        let Statistics::ByteArray(told) = told else { return None };
        let bytes = |value: &parquet::data_type::ByteArray| Bound::Bytes(value.data().to_vec());
        return Some((bytes(told.min_opt()?), bytes(told.max_opt()?)));
    }
    let is_unsigned = matches!(dtype, Dtype::Uint8 | Dtype::Uint16 | Dtype::Uint32 | Dtype::Uint64);
    let of_32 =
        |&bits: &i32| Bound::Integer(if is_unsigned { bits.cast_unsigned().into() } else { bits.into() });
    let of_64 =
        |&bits: &i64| Bound::Integer(if is_unsigned { bits.cast_unsigned().into() } else { bits.into() });
    Some(match told {
        Statistics::Boolean(told) => {
            let integer = |&value: &bool| Bound::Integer(value.into());
            (integer(told.min_opt()?), integer(told.max_opt()?))
        }
        Statistics::Int32(told) => (of_32(told.min_opt()?), of_32(told.max_opt()?)),
        Statistics::Int64(told) => (of_64(told.min_opt()?), of_64(told.max_opt()?)),
        Statistics::Float(told) => {
            let float = |&value: &f32| Bound::Float(value.into());
            (float(told.min_opt()?), float(told.max_opt()?))
        }
        Statistics::Double(told) => (Bound::Float(*told.min_opt()?), Bound::Float(*told.max_opt()?)),
        // Half floats, decimals and old timestamps have bounds of other forms: their rows are read.
        Statistics::ByteArray(_) | Statistics::FixedLenByteArray(_) | Statistics::Int96(_) => return None,
    })
}
