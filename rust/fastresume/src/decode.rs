//! The files of a dataset, opened for decoding: which decoder a column gets.

use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::ColumnDescPtr;

use crate::chunk::Chunk;
use crate::column::{JaggedDecoder, Nulls, ScalarDecoder};
use crate::conversion::{Conversion, RowShape, single_of_half};
use crate::equal::{EqualDecoder, Rows};
use crate::error::{Error, Result};
use crate::fixed::FixedDecoder;
use crate::flat::FlatDecoder;
use crate::flatpages::{FlatLevels, FlatPages};
use crate::footer::Footer;
use crate::lists::{ListDecoder, ListLevels};
use crate::manifest::DataFile;
use crate::numbers::Numbers;
use crate::page::{Buffers, Pages};
use crate::partition::Value;
use crate::presence::{ConstantDecoder, PresenceDecoder};
use crate::schema::{Column, Dtype, Kind, Stored};
use crate::source::{LocalFile, Source};
use crate::strings::StringDecoder;
use crate::values::Values;

/// Makes a decoder of `$numbers`, which are stored as one type and delivered as one that holds it.
macro_rules! of_numbers {
    ($types:expr, |$numbers:ident| $decoder:expr) => {{
        // From the bits in the pages and those delivered, whether they are integers, and what becomes of the
        // ones that are delivered in another width.
        macro_rules! of {
            ($bits:ty, $delivered:ty, $is_integer:expr, $convert:expr) => {{
                let $numbers: Numbers<$bits, $delivered, _> =
                    Numbers::new(Values::new($is_integer), $convert);
                Ok(Box::new($decoder))
            }};
        }
        use Dtype::{
            Bool, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
        };
        match $types {
            (Bool, Bool) => of!(u8, u8, false, |_| None),
            (Int8 | Int16 | Int32, Int64) => {
                of!(u32, i64, true, |bits: u32| Some(i64::from(bits.cast_signed())))
            }
            (Uint8 | Uint16 | Uint32, Int64 | Uint64) => of!(u32, u64, true, |bits: u32| Some(bits.into())),
            (Int64, Int64) | (Uint64, Uint64) => of!(u64, u64, true, |_| None),
            (
                Int8 | Int16 | Int32 | Uint8 | Uint16 | Uint32,
                dtype @ (Int8 | Int16 | Int32 | Uint8 | Uint16 | Uint32),
            ) => match dtype {
                Int8 => of!(u32, i8, true, |bits: u32| bits.cast_signed().try_into().ok()),
                Int16 => of!(u32, i16, true, |bits: u32| bits.cast_signed().try_into().ok()),
                Uint8 => of!(u32, u8, true, |bits: u32| bits.try_into().ok()),
                Uint16 => of!(u32, u16, true, |bits: u32| bits.try_into().ok()),
                _ => of!(u32, u32, true, |_| None),
            },
            (Float16, Float16) => of!(u16, u16, false, |_| None),
            (Float16, Float32) => of!(u16, u32, false, |bits: u16| Some(single_of_half(bits).to_bits())),
            (Float16, Float64) => {
                of!(u16, u64, false, |bits: u16| Some(f64::from(single_of_half(bits)).to_bits()))
            }
            (Float32, Float32) => of!(u32, u32, false, |_| None),
            (Float32, Float64) => {
                of!(u32, u64, false, |bits: u32| Some(f64::from(f32::from_bits(bits)).to_bits()))
            }
            (Float64, Float64) => of!(u64, u64, false, |_| None),
            (stored, delivered) => {
                Err(Error::data(format!("{} can't be delivered as {}", stored.name(), delivered.name())))
            }
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
        let Some(dtype) = column.dtype else { return Err(undeliverable(column)) };
        let shape = RowShape { width: dtype.width(), size: column.elements() };
        if let Some(decoder) = self.constant(column, shape, nulls) {
            return Ok(Box::new(decoder));
        }
        let leaf = self.leaf(column)?;
        if leaf.max_rep_level() > 0 && column.kind == Kind::Mask {
            // What is in the lists does not matter, where they belong to a struct that is there.
            let levels = ListLevels { empty: column.level, value: level_of(&leaf) };
            let pages = self.pages(row_group, column.leaf, &leaf, buffers)?;
            let stored = number(column, &leaf)?;
            let lists = list_decoder(pages, (stored, stored), levels, nulls)?;
            return Ok(Box::new(EqualDecoder::new(lists, Rows::Presence, shape, nulls)));
        }
        if leaf.max_rep_level() > 0 {
            let lists = self.jagged(row_group, column, nulls, buffers)?;
            return Ok(Box::new(EqualDecoder::new(lists, Rows::Lists, shape, nulls)));
        }
        let levels = FlatLevels { largest: level_of(&leaf), there: column.level };
        let pages = FlatPages::new(self.pages(row_group, column.leaf, &leaf, buffers)?, levels, nulls);
        if column.kind == Kind::Mask {
            return Ok(Box::new(PresenceDecoder::new(pages)));
        }
        let conversion = match (column.stored, dtype) {
            (Stored::Number(_), _) | (Stored::Decimal { is_integer: true, .. }, Dtype::Int64) => {
                let types = (number(column, &leaf)?, dtype);
                return of_numbers!(types, |numbers| FlatDecoder::new(pages, numbers));
            }
            (Stored::Decimal { is_integer: true, scale, .. }, _) => Conversion::LowestFirst(scale),
            (Stored::Decimal { .. }, Dtype::Int64) => Conversion::Integer,
            (Stored::Decimal { scale, .. }, Dtype::Float64) => Conversion::Decimal(scale),
            (Stored::Int96, _) => Conversion::Instant,
            _ => Conversion::Copied,
        };
        let is_integer = matches!(column.stored, Stored::Decimal { is_integer: true, .. });
        if let Some(length @ 1..) = value_bytes(&leaf) {
            let values = (length, is_integer);
            return Ok(Box::new(FixedDecoder::new(pages, values, conversion, shape)));
        }
        let texts = Box::new(StringDecoder::new(pages));
        Ok(Box::new(EqualDecoder::new(texts, Rows::Converted(conversion), shape, nulls)))
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
        let Some(dtype) = column.dtype else { return Err(undeliverable(column)) };
        if let Some(decoder) = self.constant(column, RowShape { width: dtype.width(), size: 0 }, nulls) {
            return Ok(Box::new(decoder));
        }
        let leaf = self.leaf(column)?;
        let pages = self.pages(row_group, column.leaf, &leaf, buffers)?;
        if leaf.max_rep_level() == 0 {
            let levels = FlatLevels { largest: level_of(&leaf), there: column.level };
            return Ok(Box::new(StringDecoder::new(FlatPages::new(pages, levels, nulls))));
        }
        let levels = ListLevels { empty: column.level, value: level_of(&leaf) };
        list_decoder(pages, (number(column, &leaf)?, dtype), levels, nulls)
    }

    /// The decoder of a column of one value in all of the file.
    fn constant(&self, column: &Column, shape: RowShape, nulls: Nulls) -> Option<ConstantDecoder> {
        let value = match column.stored {
            Stored::Nothing => None,
            Stored::Path => Value::of(self.source.path(), &column.name).into_row(column),
            _ => return None,
        };
        Some(ConstantDecoder::new(value, shape, nulls))
    }

    fn leaf(&self, column: &Column) -> Result<ColumnDescPtr> {
        let leaves = self.metadata.file_metadata().schema_descr().columns();
        leaves.get(column.leaf).cloned().ok_or_else(|| undeliverable(column))
    }

    fn pages<'a>(
        &self,
        row_group: usize,
        leaf_number: usize,
        leaf: &ColumnDescPtr,
        buffers: &'a mut Buffers,
    ) -> Result<Pages<'a>> {
        let group = self.metadata.row_group(row_group);
        let chunk = group.column(leaf_number);
        let is_flat = leaf.max_rep_level() == 0;
        if is_flat && chunk.num_values() != group.num_rows() {
            return Err(Error::data(format!(
                "the column chunk claims {} values, its row group {} rows",
                chunk.num_values(),
                group.num_rows()
            )));
        }
        let place = place(chunk, leaf, group.num_rows(), is_flat)?;
        Pages::new(Arc::clone(&self.source), place, buffers)
    }
}

/// A decoder of lists of numbers, stored as one type and delivered as another.
fn list_decoder<'a>(
    pages: Pages<'a>,
    types: (Dtype, Dtype),
    levels: ListLevels,
    nulls: Nulls,
) -> Result<Box<dyn JaggedDecoder + 'a>> {
    of_numbers!(types, |numbers| ListDecoder::new(pages, levels, nulls, numbers))
}

/// The type of the numbers that a leaf holds.
fn number(column: &Column, leaf: &ColumnDescPtr) -> Result<Dtype> {
    match (column.stored, leaf.physical_type()) {
        (Stored::Number(stored), _) => Ok(stored),
        (Stored::Decimal { .. }, Physical::INT32) => Ok(Dtype::Int32),
        (Stored::Decimal { .. }, Physical::INT64) => Ok(Dtype::Int64),
        _ => Err(undeliverable(column)),
    }
}

fn undeliverable(column: &Column) -> Error {
    Error::data(format!("the type {} can't be delivered", column.type_name))
}

/// The definition level of a value; more than fits is never met.
fn level_of(leaf: &ColumnDescPtr) -> u8 {
    u8::try_from(leaf.max_def_level()).unwrap_or(u8::MAX)
}

/// Bytes of one plain value; 0 for values of a bit, none if values differ in length.
fn value_bytes(leaf: &ColumnDescPtr) -> Option<usize> {
    match leaf.physical_type() {
        Physical::INT32 | Physical::FLOAT => Some(4),
        Physical::INT64 | Physical::DOUBLE => Some(8),
        Physical::INT96 => Some(12),
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(leaf.type_length()).ok(),
        Physical::BYTE_ARRAY => None,
        Physical::BOOLEAN => Some(0),
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
        value_bytes: value_bytes(leaf),
        is_flat,
    })
}
