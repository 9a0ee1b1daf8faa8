//! The files of a dataset, opened for decoding: which decoder a column gets.

use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::ColumnDescPtr;

use crate::chunk::Chunk;
use crate::column::{JaggedDecoder, Nulls, ScalarDecoder};
use crate::error::{Error, Result};
use crate::flat::FlatDecoder;
use crate::flatpages::FlatPages;
use crate::footer::Footer;
use crate::lists::{ListDecoder, ListLevels};
use crate::manifest::DataFile;
use crate::numbers::Numbers;
use crate::page::{Buffers, Pages};
use crate::schema::{Column, Dtype, Kind};
use crate::source::{LocalFile, Source};
use crate::strings::StringDecoder;
use crate::values::Values;

/// Makes a decoder of `$numbers`, which are delivered as a type.
macro_rules! of_numbers {
    ($dtype:expr, $leaf:expr, |$numbers:ident| $decoder:expr) => {{
        // From the bits in the pages and those delivered, whether they are integers, and what becomes of the
        // ones that are delivered in another width.
        macro_rules! of {
            ($bits:ty, $delivered:ty, $is_integer:expr, $convert:expr) => {{
                let $numbers: Numbers<$bits, $delivered, _> =
                    Numbers::new(Values::new($is_integer), $convert);
                Ok(Box::new($decoder))
            }};
        }
        match $dtype {
            Dtype::Bool => of!(u8, u8, false, |_| None),
            Dtype::Float16 => of!(u16, u16, false, |_| None),
            Dtype::Int8 => of!(u32, i8, true, |bits: u32| bits.cast_signed().try_into().ok()),
            Dtype::Int16 => of!(u32, i16, true, |bits: u32| bits.cast_signed().try_into().ok()),
            Dtype::Uint8 => of!(u32, u8, true, |bits: u32| bits.try_into().ok()),
            Dtype::Uint16 => of!(u32, u16, true, |bits: u32| bits.try_into().ok()),
            Dtype::Int32 | Dtype::Uint32 => of!(u32, u32, true, |_| None),
            Dtype::Int64 if $leaf.physical_type() == Physical::INT32 => {
                of!(u32, i64, true, |bits: u32| Some(i64::from(bits.cast_signed())))
            }
            Dtype::Int64 | Dtype::Uint64 => of!(u64, u64, true, |_| None),
            Dtype::Float32 => of!(u32, u32, false, |_| None),
            Dtype::Float64 => of!(u64, u64, false, |_| None),
        }
    }};
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
            return Err(changed(
                "its footer differs, though its size does not; if manifest_cache= was given, that file is stale: \
                 remove it",
            ));
        }
        Ok(Self { source: Arc::new(source), metadata: footer.metadata })
    }

    /// What its footer says.
    #[must_use]
    pub fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// A decoder of one scalar column of one row group.
    ///
    /// # Errors
    /// `Data` if the column's type can't be delivered, or its metadata contradict the row group's.
    pub fn scalars<'a>(
        &self,
        row_group: usize,
        column: &Column,
        nulls: Nulls,
        buffers: &'a mut Buffers,
    ) -> Result<Box<dyn ScalarDecoder + 'a>> {
        let (pages, leaf, dtype) = self.pages(row_group, column, buffers)?;
        let pages = FlatPages::new(pages, leaf.max_def_level() > 0, nulls);
        of_numbers!(dtype, leaf, |numbers| FlatDecoder::new(pages, numbers))
    }

    /// A decoder of one jagged column of one row group.
    ///
    /// # Errors
    /// As for `scalars`.
    pub fn jagged<'a>(
        &self,
        row_group: usize,
        column: &Column,
        nulls: Nulls,
        buffers: &'a mut Buffers,
    ) -> Result<Box<dyn JaggedDecoder + 'a>> {
        let (pages, leaf, dtype) = self.pages(row_group, column, buffers)?;
        if column.kind != Kind::List {
            let pages = FlatPages::new(pages, leaf.max_def_level() > 0, nulls);
            return Ok(Box::new(StringDecoder::new(pages)));
        }
        let root = self.metadata.file_metadata().schema_descr().get_column_root(column.leaf);
        let empty = u8::from(root.get_basic_info().repetition() == Repetition::OPTIONAL);
        let value = u8::try_from(leaf.max_def_level()).unwrap_or(u8::MAX);
        let levels = ListLevels { empty, value };
        of_numbers!(dtype, leaf, |numbers| ListDecoder::new(pages, levels, nulls, numbers))
    }

    fn pages<'a>(
        &self,
        row_group: usize,
        column: &Column,
        buffers: &'a mut Buffers,
    ) -> Result<(Pages<'a>, ColumnDescPtr, Dtype)> {
        let group = self.metadata.row_group(row_group);
        let chunk = group.column(column.leaf);
        let is_flat = column.kind != Kind::List;
        if is_flat && chunk.num_values() != group.num_rows() {
            return Err(Error::data(format!(
                "the column chunk claims {} values, its row group {} rows",
                chunk.num_values(),
                group.num_rows()
            )));
        }
        let Some(dtype) = column.dtype else {
            return Err(Error::data(format!("the type {} can't be delivered", column.type_name)));
        };
        let leaf = chunk.column_descr_ptr();
        let place = place(chunk, &leaf, group.num_rows(), is_flat)?;
        Ok((Pages::new(Arc::clone(&self.source), place, buffers)?, leaf, dtype))
    }
}

fn place(chunk: &ColumnChunkMetaData, leaf: &ColumnDescPtr, rows: i64, is_flat: bool) -> Result<Chunk> {
    let data = chunk.data_page_offset();
    let start = chunk.dictionary_page_offset().filter(|&offset| offset > 0 && offset < data).unwrap_or(data);
    let end = start.checked_add(chunk.compressed_size());
    let (Ok(start), Some(Ok(end))) = (u64::try_from(start), end.map(u64::try_from)) else {
        return Err(Error::data(format!(
            "the column chunk claims to start at {start} and to have {} bytes",
            chunk.compressed_size()
        )));
    };
    let value_bytes = match leaf.physical_type() {
        Physical::INT32 | Physical::FLOAT => Some(4),
        Physical::INT64 | Physical::DOUBLE => Some(8),
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(leaf.type_length()).ok(),
        Physical::BYTE_ARRAY => None,
        Physical::BOOLEAN | Physical::INT96 => Some(0),
    };
    let index = match (chunk.offset_index_offset(), chunk.offset_index_length()) {
        (Some(offset), Some(length)) => match (u64::try_from(offset), u64::try_from(length)) {
            (Ok(offset), Ok(length)) => Some(offset..offset.saturating_add(length)),
            _ => None,
        },
        _ => None,
    };
    Ok(Chunk {
        start,
        end,
        index,
        rows: rows.unsigned_abs(),
        values: chunk.num_values().unsigned_abs(),
        compression: chunk.compression(),
        value_bytes,
        is_flat,
    })
}
