//! Row spans of one row group to columns, written into slots that the caller gives.
//!
//! [`ColumnDecoder`] is the seam: what decodes behind it may change, what it is asked may not.

use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{
    BoolType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::ColumnDescPtr;

use crate::error::{Error, Result, caught};
use crate::footer::Footer;
use crate::manifest::DataFile;
use crate::page::{Chunk, Pages};
use crate::schema::{Column, Dtype};
use crate::source::{LocalFile, Source};

/// Where the values of a column go: value i is element `first + i * step` of `elements`.
#[derive(Debug)]
pub struct Target<'a> {
    /// The memory, aligned to 8 bytes and a whole number of elements long.
    pub memory: &'a mut [u8],
    /// The element of the first value.
    pub first: usize,
    /// From one value's element to the next one's: 1, or the columns of a matrix.
    pub step: usize,
    /// How many values go there.
    pub rows: usize,
}

/// Decodes one column of one row group from its start to its end.
pub trait ColumnDecoder {
    /// Passes over `rows` values without delivering them.
    ///
    /// # Errors
    /// `Data` if there are fewer, or their pages are damaged; `Source` if they can't be read.
    fn skip(&mut self, rows: usize) -> Result<()>;

    /// Writes the next `target.rows` values into the target.
    ///
    /// # Errors
    /// As for `skip`; and `Data` if a value is null or does not fit its type.
    fn read(&mut self, target: Target<'_>) -> Result<()>;
}

/// A file of the dataset, opened for decoding.
pub struct OpenFile {
    source: Arc<dyn Source>,
    metadata: ParquetMetaData,
}

impl OpenFile {
    /// Opens a file and checks that it is still the one in the manifest.
    ///
    /// # Errors
    /// `Source` if it can't be opened; `Data` if it is damaged or was changed.
    pub fn open(file: &DataFile) -> Result<Self> {
        let source = LocalFile::open(&file.path)?;
        let changed = |what: &str| {
            Error::data(format!("the file was changed since the dataset was opened: {what}"))
                .in_file(&file.path)
        };
        if source.size() != file.size {
            return Err(changed(&format!("it had {} bytes, it has {}", file.size, source.size())));
        }
        let footer = Footer::read(&source)?;
        if footer.hash != file.footer_hash {
            return Err(changed("its footer differs"));
        }
        Ok(Self { source: Arc::new(source), metadata: footer.metadata })
    }

    /// A decoder of one column of one row group.
    ///
    /// # Errors
    /// `Data` if the column's type can't be delivered, or its metadata contradict the row group's.
    pub fn decoder(&self, row_group: usize, column: &Column) -> Result<Box<dyn ColumnDecoder>> {
        let group = self.metadata.row_group(row_group);
        let chunk = group.column(column.leaf);
        if chunk.num_values() != group.num_rows() {
            return Err(Error::data(format!(
                "the column chunk claims {} values, its row group {} rows",
                chunk.num_values(),
                group.num_rows()
            )));
        }
        let Some(dtype) = column.dtype else {
            return Err(Error::data(format!("the type {} can't be delivered", column.type_name)));
        };
        let descriptor = chunk.column_descr_ptr();
        let pages = Pages::new(Arc::clone(&self.source), place(chunk, &descriptor)?)?;
        Ok(decoder(descriptor, dtype, pages))
    }
}

fn place(chunk: &ColumnChunkMetaData, descriptor: &ColumnDescPtr) -> Result<Chunk> {
    let data = chunk.data_page_offset();
    let start = chunk.dictionary_page_offset().filter(|&offset| offset > 0 && offset < data).unwrap_or(data);
    let end = start.checked_add(chunk.compressed_size());
    let (Ok(start), Some(Ok(end))) = (u64::try_from(start), end.map(u64::try_from)) else {
        return Err(Error::data(format!(
            "the column chunk claims to start at {start} and to have {} bytes",
            chunk.compressed_size()
        )));
    };
    let value_bytes = match descriptor.physical_type() {
        Physical::INT32 | Physical::FLOAT => 4,
        Physical::INT64 | Physical::DOUBLE => 8,
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(descriptor.type_length()).unwrap_or(0),
        _ => 0,
    };
    Ok(Chunk { start, end, compression: chunk.compression(), value_bytes })
}

fn decoder(descriptor: ColumnDescPtr, dtype: Dtype, pages: Pages) -> Box<dyn ColumnDecoder> {
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
