//! The files of a dataset, opened for decoding: which decoder a column gets.

use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::ColumnDescPtr;

use crate::column::ColumnDecoder;
use crate::error::{Error, Result};
use crate::flat::{Fallback, FlatDecoder};
use crate::footer::Footer;
use crate::foreign;
use crate::manifest::DataFile;
use crate::page::{Chunk, Pages};
use crate::schema::{Column, Dtype};
use crate::source::{LocalFile, Source};

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
        let place = place(chunk, &descriptor)?;
        let pages = Pages::new(Arc::clone(&self.source), place)?;
        let source = Arc::clone(&self.source);
        let by_crate = Arc::clone(&descriptor);
        let fallback: Fallback = Box::new(move || {
            Ok(foreign::decoder(Arc::clone(&by_crate), dtype, Pages::new(Arc::clone(&source), place)?))
        });
        Ok(flat_decoder(&descriptor, dtype, pages, fallback))
    }
}

/// Our decoder of a flat column.
fn flat_decoder(
    descriptor: &ColumnDescPtr,
    dtype: Dtype,
    pages: Pages,
    fallback: Fallback,
) -> Box<dyn ColumnDecoder> {
    let is_optional = descriptor.max_def_level() > 0;
    macro_rules! of {
        ($physical:ty => $delivered:ty, $is_same:expr, $convert:expr) => {
            Box::new(FlatDecoder::<$physical, $delivered, _>::new(
                pages,
                is_optional,
                $is_same,
                $convert,
                fallback,
            ))
        };
    }
    match dtype {
        Dtype::Bool => of!(u8 => u8, true, Some),
        Dtype::Float16 => of!(u16 => u16, true, Some),
        Dtype::Int8 => of!(i32 => i8, false, |value: i32| value.try_into().ok()),
        Dtype::Int16 => of!(i32 => i16, false, |value: i32| value.try_into().ok()),
        Dtype::Uint8 => of!(i32 => u8, false, |value: i32| value.try_into().ok()),
        Dtype::Uint16 => of!(i32 => u16, false, |value: i32| value.try_into().ok()),
        Dtype::Int32 | Dtype::Uint32 => of!(i32 => i32, true, Some),
        Dtype::Int64 if descriptor.physical_type() == Physical::INT32 => {
            of!(i32 => i64, false, |value: i32| Some(i64::from(value)))
        }
        Dtype::Int64 | Dtype::Uint64 => of!(i64 => i64, true, Some),
        Dtype::Float32 => of!(f32 => f32, true, Some),
        Dtype::Float64 => of!(f64 => f64, true, Some),
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
