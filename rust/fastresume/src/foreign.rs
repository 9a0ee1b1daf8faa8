//! The `parquet` crate's column readers behind our seam: for what our own decoder does not know.

use parquet::basic::Type as Physical;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{
    BoolType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use crate::column::{ColumnDecoder, Target};
use crate::error::{Error, Result, caught};
use crate::page::Pages;
use crate::schema::Dtype;

/// The crate's decoder of a flat column.
pub fn decoder(descriptor: ColumnDescPtr, dtype: Dtype, pages: Pages) -> Box<dyn ColumnDecoder> {
    match dtype {
        Dtype::Bool => {
            Box::new(CrateDecoder::<BoolType, u8>::new(descriptor, pages, |&value| Some(u8::from(value))))
        }
        Dtype::Int8 => {
            Box::new(CrateDecoder::<Int32Type, i8>::new(descriptor, pages, |&value| value.try_into().ok()))
        }
        Dtype::Int16 => {
            Box::new(CrateDecoder::<Int32Type, i16>::new(descriptor, pages, |&value| value.try_into().ok()))
        }
        Dtype::Int32 => {
            Box::new(CrateDecoder::<Int32Type, i32>::new(descriptor, pages, |&value| Some(value)))
        }
        Dtype::Uint8 => {
            Box::new(CrateDecoder::<Int32Type, u8>::new(descriptor, pages, |&value| value.try_into().ok()))
        }
        Dtype::Uint16 => {
            Box::new(CrateDecoder::<Int32Type, u16>::new(descriptor, pages, |&value| value.try_into().ok()))
        }
        Dtype::Uint32 => Box::new(CrateDecoder::<Int32Type, u32>::new(descriptor, pages, |&value| {
            Some(value.cast_unsigned())
        })),
        Dtype::Int64 if descriptor.physical_type() == Physical::INT32 => {
            Box::new(CrateDecoder::<Int32Type, i64>::new(descriptor, pages, |&value| Some(value.into())))
        }
        Dtype::Int64 => {
            Box::new(CrateDecoder::<Int64Type, i64>::new(descriptor, pages, |&value| Some(value)))
        }
        Dtype::Uint64 => Box::new(CrateDecoder::<Int64Type, u64>::new(descriptor, pages, |&value| {
            Some(value.cast_unsigned())
        })),
        Dtype::Float16 => Box::new(CrateDecoder::<FixedLenByteArrayType, u16>::new(descriptor, pages, half)),
        Dtype::Float32 => {
            Box::new(CrateDecoder::<FloatType, f32>::new(descriptor, pages, |&value| Some(value)))
        }
        Dtype::Float64 => {
            Box::new(CrateDecoder::<DoubleType, f64>::new(descriptor, pages, |&value| Some(value)))
        }
    }
}

/// The bits of a half-precision number.
fn half(value: &FixedLenByteArray) -> Option<u16> {
    value.data().try_into().ok().map(u16::from_le_bytes)
}

/// A column that the parquet crate decodes as `P`, delivered as `V`.
struct CrateDecoder<P: DataType, V> {
    reader: ColumnReaderImpl<P>,
    is_optional: bool,
    convert: fn(&P::T) -> Option<V>,
    values: Vec<P::T>,
    levels: Vec<i16>,
    /// Rows of the row group that were read or skipped.
    row: usize,
}

impl<P: DataType, V: bytemuck::Pod> CrateDecoder<P, V> {
    fn new(descriptor: ColumnDescPtr, pages: Pages, convert: fn(&P::T) -> Option<V>) -> Self {
        Self {
            is_optional: descriptor.max_def_level() > 0,
            reader: ColumnReaderImpl::new(descriptor, Box::new(pages)),
            convert,
            values: Vec::new(),
            levels: Vec::new(),
            row: 0,
        }
    }

    fn decode(&mut self, rows: usize) -> Result<()> {
        self.values.clear();
        self.levels.clear();
        let levels = self.is_optional.then_some(&mut self.levels);
        let (read, values, _) =
            self.reader.read_records(rows, levels, None, &mut self.values).map_err(internal)?;
        if read != rows {
            return Err(self.too_short(read));
        }
        if values != rows {
            let null = self.levels.iter().position(|&level| level == 0).unwrap_or(0);
            return Err(Error::data(format!(
                "row {} of the row group is null; nulls are not supported yet",
                self.row + null
            )));
        }
        Ok(())
    }

    fn too_short(&self, rows: usize) -> Error {
        Error::data(format!("the column chunk ends after {} rows", self.row + rows))
    }
}

impl<P: DataType, V: bytemuck::Pod> ColumnDecoder for CrateDecoder<P, V> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        let skipped = caught(|| self.reader.skip_records(rows).map_err(internal))?;
        if skipped != rows {
            return Err(self.too_short(skipped));
        }
        self.row += rows;
        Ok(())
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        caught(|| self.decode(target.rows))?;
        let elements: &mut [V] = bytemuck::try_cast_slice_mut(target.memory)
            .map_err(|cause| Error::Argument(format!("a slot does not fit its type: {cause}")))?;
        let room = elements.get_mut(target.first..).unwrap_or_default();
        let places = room.iter_mut().step_by(target.step.max(1));
        for (index, (place, value)) in places.zip(&self.values).enumerate() {
            let Some(value) = (self.convert)(value) else {
                return Err(Error::data(format!(
                    "row {} of the row group holds {value:?}, which does not fit the column's type",
                    self.row + index
                )));
            };
            *place = value;
        }
        self.row += target.rows;
        Ok(())
    }
}

/// Our own error back out of the crate's, or the crate's own in our words.
fn internal(error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => Error::data(format!("damaged column chunk: {other}")),
        },
        other => Error::data(format!("damaged column chunk: {other}")),
    }
}
