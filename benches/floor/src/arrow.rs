//! The `parquet` crate's reader of Arrow record batches.

use std::fs::File;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;

use crate::Outcome;

/// Bytes of the values of a small batch, at most.
const SMALL_BYTES: u64 = 7 << 18;

/// How many rows a record batch has.
#[derive(Clone, Copy)]
pub enum BatchRows {
    /// Those of the largest row group.
    Group,
    /// As many as have 1.75 MiB of values, but no more than 8192.
    Small,
}

/// Reads a file into record batches; gives its rows.
pub fn read_all(path: &str, batch_rows: BatchRows, row_bytes: u64) -> Outcome<u64> {
    let mut rows = 0;
    for batch in reader(path, batch_rows, row_bytes)? {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}

/// The bytes of all values of a file, without offsets and masks, and its rows.
pub fn value_bytes(path: &str) -> Outcome<(u64, u64)> {
    let (mut rows, mut bytes) = (0, 0);
    for batch in reader(path, BatchRows::Group, 1)? {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        bytes += batch.columns().iter().map(bytes_of).sum::<Outcome<u64>>()?;
    }
    Ok((rows, bytes))
}

fn reader(
    path: &str,
    batch_rows: BatchRows,
    row_bytes: u64,
) -> Outcome<impl Iterator<Item = Result<arrow_array::RecordBatch, arrow_schema::ArrowError>>> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let largest = builder.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).max().unwrap_or(0);
    let rows = match batch_rows {
        BatchRows::Group => u64::try_from(largest)?,
        BatchRows::Small => (SMALL_BYTES / row_bytes.max(1)).min(8192),
    };
    Ok(builder.with_batch_size(usize::try_from(rows.max(1))?).build()?)
}

fn bytes_of(array: &ArrayRef) -> Outcome<u64> {
    let length = array.len() as u64;
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let inside = u64::try_from(offsets[list.len()] - offsets[0])?;
            Ok(inside * width_of(list.values().data_type())?)
        }
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets().to_vec();
            Ok(u64::try_from(offsets[array.len()] - offsets[0])?)
        }
        other => Ok(length * width_of(other)?),
    }
}

fn width_of(kind: &DataType) -> Outcome<u64> {
    let width = kind.primitive_width().ok_or_else(|| format!("columns of {kind} are not measured"))?;
    Ok(width as u64)
}
