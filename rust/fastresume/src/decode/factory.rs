//! Chooses the decoder of a column in an opened file.

use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::schema::types::ColumnDescPtr;

use crate::decode::converter::{Conversion, Converter, RowShape};
use crate::decode::decoder::{JaggedDecoder, ScalarDecoder};
use crate::decode::flat::byte_array::{ByteArrayDecoder, TextValues};
use crate::decode::flat::byte_array_codes::{HashDecoder, HashedValues, Numbering};
use crate::decode::flat::fixed_len::{FixedLenDecoder, FixedValues};
use crate::decode::flat::given::GivenDecoder;
use crate::decode::flat::number::NumberDecoder;
use crate::decode::flat::pages::{FlatLevels, FlatPages};
use crate::decode::flat::split::{Pieces, SplitDecoder};
use crate::decode::flat::validity::{ConstantDecoder, ValidityDecoder};
use crate::decode::list::byte_array::ByteArrayLeaf;
use crate::decode::list::converted::ConvertedLeaf;
use crate::decode::list::fixed_size::{FixedRows, FixedSizeDecoder};
use crate::decode::list::grid::Grid;
use crate::decode::list::nested::{ElementNulls, NestedDecoder};
use crate::decode::list::number::NumberLeaf;
use crate::decode::list::pages::{ListLevels, ListPages};
use crate::decode::list::validity::{ListValidityDecoder, MarkLeaf, RowLevels};
use crate::decode::numbers::Numbers;
use crate::decode::open_file::{OpenFile, undeliverable, value_bytes};
use crate::error::{Error, Result};
use crate::format::page::pages::Pages;
use crate::format::page::reader::Buffers;
use crate::schema::cast::NumberCast;
use crate::schema::columns::{Column, Dtype, Given, Kind, Stored};
use crate::schema::nulls::Nulls;
use crate::schema::shaping::Shaping;

/// Makes a decoder of `$numbers`. The delivery gives the widths in the file and in the tensor.
macro_rules! of_numbers {
    ($delivery:expr, |$numbers:ident| $decoder:expr) => {{
        let delivery: NumberCast = $delivery;
        macro_rules! of {
            ($bits:ty, $delivered:ty) => {{
                let $numbers: Numbers<$bits, $delivered> = Numbers::new(delivery);
                Ok(Box::new($decoder))
            }};
        }
        macro_rules! from {
            ($bits:ty, $width:expr) => {
                match $width {
                    1 => of!($bits, u8),
                    2 => of!($bits, u16),
                    4 => of!($bits, u32),
                    _ => of!($bits, u64),
                }
            };
        }
        match delivery.widths() {
            (1, width) => from!(u8, width),
            (2, width) => from!(u16, width),
            (4, width) => from!(u32, width),
            (_, width) => from!(u64, width),
        }
    }};
}

impl OpenFile {
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
        if let Some(decoder) = self.constant(column, shape, nulls)? {
            return Ok(Box::new(decoder));
        }
        if is_member(column) {
            return Ok(Box::new(self.member(row_group, column, shape, nulls, buffers)?));
        }
        let leaf = self.leaf(column)?;
        if leaf.max_rep_level() > 0 && column.kind == Kind::Mask {
            let repetition = u8::try_from(leaf.max_rep_level()).unwrap_or(u8::MAX);
            let elements = self.leaves().leaf(column.leaf)?.element_levels.first();
            let there = elements.map_or(column.level, |level| column.level.min(level.saturating_sub(1)));
            let levels = RowLevels { repetition, largest: level_of(&leaf), there };
            let pages = self.pages(row_group, column.leaf, &leaf, buffers)?;
            return Ok(Box::new(ListValidityDecoder::new(pages, levels)));
        }
        if leaf.max_rep_level() > 0 {
            let lists = self.jagged(row_group, column, nulls, true, buffers)?;
            return Ok(Box::new(FixedSizeDecoder::new(lists, FixedRows::Lists, shape, nulls)));
        }
        let levels = FlatLevels { largest: level_of(&leaf), there: column.level };
        let pages = FlatPages::new(self.pages(row_group, column.leaf, &leaf, buffers)?, levels, nulls);
        if column.kind == Kind::Mask {
            return Ok(Box::new(ValidityDecoder::new(pages)));
        }
        let converter = match form(column, &leaf)? {
            DecoderForm::Numbers(delivery) => {
                return of_numbers!(delivery, |numbers| NumberDecoder::new(pages, numbers));
            }
            DecoderForm::Numbered(numbering) => return Ok(Box::new(HashDecoder::new(pages, numbering))),
            DecoderForm::Converted(converter) => converter,
        };
        if let Some(length @ 1..) = value_bytes(&leaf) {
            let values = (length, is_integer(&leaf));
            return Ok(Box::new(FixedLenDecoder::new(pages, values, converter, shape)));
        }
        let texts = Box::new(ByteArrayDecoder::new(pages));
        Ok(Box::new(FixedSizeDecoder::new(texts, FixedRows::Converted(converter), shape, nulls)))
    }

    /// A floor: all numbers of the column in the row group, and the fill value of its nulls, lie less than
    /// 2^32 above it. There is one only if the footer's bounds show it, for 64-bit integers that are
    /// delivered as they are. Decoding checks it.
    #[must_use]
    pub fn floor(&self, row_group: usize, column: &Column, nulls: Nulls) -> Option<u64> {
        let Stored::Number(stored) = column.stored else { return None };
        if column.given.is_some() {
            return None;
        }
        let delivery = delivery(column, stored).ok()?;
        let is_kept = stored.is_integer() && delivery.is_copied() && delivery.widths() == (8, 8);
        let is_flat = column.kind == Kind::Scalar && self.leaf(column).ok()?.max_rep_level() == 0;
        if !is_kept || !is_flat {
            return None;
        }
        let chunk = self.leaves().chunk(row_group, column.leaf).ok()?;
        let [Some(least), Some(most)] = chunk.bounds.map(|bound| bound.map(i64::cast_unsigned)) else {
            return None;
        };
        let has_room = |floor: u64| {
            let is_above = |number: u64| u32::try_from(number.wrapping_sub(floor)).is_ok();
            let has_nulls = !chunk.states_no_nulls && nulls != Nulls::Refused;
            let null = nulls.bits(0).ok().filter(|_| has_nulls);
            is_above(least) && is_above(most) && null.is_none_or(is_above)
        };
        [least, nulls.bits(0).unwrap_or(least)].into_iter().find(|&floor| has_room(floor))
    }

    /// A decoder of one scalar column of one row group that returns each number as a 4-byte difference to a
    /// floor.
    ///
    /// # Errors
    /// As for `scalars`. The decoder fails if a number, or the fill value of a null, is below the floor or
    /// too far above it.
    pub fn lowered<'a>(
        &self,
        row_group: usize,
        column: &Column,
        nulls: Nulls,
        floor: u64,
        buffers: &'a mut Buffers,
    ) -> Result<Box<dyn ScalarDecoder + 'a>> {
        let leaf = self.leaf(column)?;
        let null = nulls.bits(0).map(|bits| bits.wrapping_sub(floor)).ok();
        // A footer that states no nulls may be wrong.
        let nulls = null.filter(|&null| u32::try_from(null).is_ok()).map_or(Nulls::Refused, Nulls::Filled);
        let levels = FlatLevels { largest: level_of(&leaf), there: column.level };
        let pages = FlatPages::new(self.pages(row_group, column.leaf, &leaf, buffers)?, levels, nulls);
        let delivery = NumberCast::lowered(number(column, &leaf)?, floor);
        let numbers: Numbers<u64, u32> = Numbers::new(delivery);
        Ok(Box::new(NumberDecoder::new(pages, numbers)))
    }

    /// The dictionary of one column of one row group, as plain values, and their number. `None` unless the
    /// footer says that all values are in the dictionary.
    ///
    /// # Errors
    /// As for `scalars`.
    pub fn dictionary<'a>(
        &self,
        row_group: usize,
        column: &Column,
        buffers: &'a mut Buffers,
    ) -> Result<Option<(&'a [u8], usize)>> {
        if column.is_constant() || column.given.is_some() || column.stored == Stored::NullElements {
            return Ok(None);
        }
        let leaf = self.leaf(column)?;
        if !self.leaves().chunk(row_group, column.leaf)?.encodings.are_dictionary() {
            return Ok(None);
        }
        let count = self.pages(row_group, column.leaf, &leaf, buffers)?.dictionary()?;
        Ok(count.map(|count| (buffers.dictionary(), count)))
    }

    /// A decoder of one jagged column of one row group. Where nulls are masked, `marks_elements` says whether null elements
    /// of lists are marked, too.
    ///
    /// # Errors
    /// As for `scalars`.
    pub fn jagged<'a>(
        &self,
        row_group: usize,
        column: &Column,
        nulls: Nulls,
        marks_elements: bool,
        buffers: &'a mut Buffers,
    ) -> Result<Box<dyn JaggedDecoder + 'a>> {
        let Some(dtype) = column.dtype else { return Err(undeliverable(column)) };
        let shape = RowShape { width: dtype.width(), size: 0 };
        if let Some(decoder) = self.constant(column, shape, nulls)? {
            return Ok(Box::new(decoder));
        }
        if is_member(column) {
            return Ok(Box::new(self.member(row_group, column, shape, nulls, buffers)?));
        }
        let leaf = self.leaf(column)?;
        let pages = self.pages(row_group, column.leaf, &leaf, buffers)?;
        if leaf.max_rep_level() == 0 {
            let levels = FlatLevels { largest: level_of(&leaf), there: column.level };
            let texts = ByteArrayDecoder::new(FlatPages::new(pages, levels, nulls));
            let Some(separator) = &column.separator else { return Ok(Box::new(texts)) };
            let pieces = match (column.kind, column.shaping) {
                (Kind::Marks, _) => Pieces::Marks,
                (_, Shaping::None) => Pieces::Texts,
                _ => Pieces::Numbers(numbering(column)?),
            };
            return Ok(Box::new(SplitDecoder::new(texts, Arc::clone(separator), pieces)));
        }
        let mut elements = self.leaves().leaf(column.leaf)?.element_levels.clone();
        let (largest, repetition) = (level_of(&leaf), u8::try_from(leaf.max_rep_level()).unwrap_or(u8::MAX));
        if column.given.is_some() {
            // Where the lists of a member are null, no level tells of their elements.
            elements.resize(column.lists, u8::MAX);
        }
        let given = self.given(column)?;
        let value = match column.given {
            None => largest,
            Some(_) if given.is_none() => u8::MAX,
            Some(_) => column.around.last().map_or(largest, |member_of| member_of.level),
        };
        let levels = ListLevels { empty: column.level, elements, value, largest, repetition };
        lists(pages, levels, column, (&leaf, given), ElementNulls { nulls, marks_elements })
    }

    /// The decoder of a column, not in lists, that has one value wherever the struct around it is there.
    fn member<'a>(
        &self,
        row_group: usize,
        column: &Column,
        shape: RowShape,
        nulls: Nulls,
        buffers: &'a mut Buffers,
    ) -> Result<GivenDecoder<'a>> {
        let value = self.given(column)?;
        let there = Column {
            kind: Kind::Mask,
            dtype: Some(Dtype::Bool),
            size: None,
            given: None,
            shaping: Shaping::None,
            ..column.clone()
        };
        let there = self.scalars(row_group, &there, Nulls::Filled(0), buffers)?;
        Ok(GivenDecoder::new(there, value, shape, nulls))
    }

    /// The value that a column is given, in the form in which it is delivered; `None` for a null.
    fn given(&self, column: &Column) -> Result<Option<Vec<u8>>> {
        if matches!(column.given, None | Some(Given::Null | Given::NullMember))
            || column.stored == Stored::Nothing
        {
            return Ok(None);
        }
        self.value(&column.name).into_row(column).map(|value| shaped(column, value)).transpose()
    }

    /// The decoder of a column that has one value in the whole file.
    fn constant(&self, column: &Column, shape: RowShape, nulls: Nulls) -> Result<Option<ConstantDecoder>> {
        if !column.is_constant() {
            return Ok(None);
        }
        Ok(Some(ConstantDecoder::new(self.given(column)?, shape, nulls)))
    }
}

/// Whether a column, not in lists, has one value wherever the struct around it is there.
fn is_member(column: &Column) -> bool {
    column.given.is_some() && column.lists == 0 && column.kind != Kind::Mask
}

/// A decoder of lists.
fn lists<'a>(
    pages: Pages<'a>,
    levels: ListLevels,
    column: &Column,
    (leaf, given): (&ColumnDescPtr, Option<Vec<u8>>),
    nulls: ElementNulls,
) -> Result<Box<dyn JaggedDecoder + 'a>> {
    let Some(dtype) = column.dtype else { return Err(undeliverable(column)) };
    let are_even = column.sizes.len() == column.lists;
    let (grid, sizes) =
        if are_even { (Grid::new(&column.sizes), Vec::new()) } else { (None, column.sizes.clone()) };
    let pages = ListPages::new(pages, levels, grid);
    if column.kind == Kind::Marks {
        return Ok(Box::new(NestedDecoder::new(pages, nulls, MarkLeaf::default(), sizes)));
    }
    let is_absent = column.stored == Stored::NullElements || column.given.is_some();
    let texts = match given {
        Some(value) => TextValues::given(value),
        None if is_absent => TextValues::absent(),
        None => TextValues::default(),
    };
    if matches!(column.kind, Kind::Strings | Kind::Binaries) {
        return Ok(Box::new(NestedDecoder::new(pages, nulls, ByteArrayLeaf::new(texts), sizes)));
    }
    let shape = RowShape { width: dtype.width(), size: column.value_size() };
    if is_absent {
        let nothing = Converter { conversion: Conversion::Copied, then: None };
        return Ok(Box::new(NestedDecoder::new(
            pages,
            nulls,
            ConvertedLeaf::new(texts, nothing, shape),
            sizes,
        )));
    }
    let converter = match form(column, leaf)? {
        DecoderForm::Numbers(delivery) => {
            return of_numbers!(delivery, |numbers| {
                NestedDecoder::new(pages, nulls, NumberLeaf::new(numbers), sizes)
            });
        }
        DecoderForm::Numbered(numbering) => {
            let numbers = NumberLeaf::new(HashedValues::new(numbering));
            return Ok(Box::new(NestedDecoder::new(pages, nulls, numbers, sizes)));
        }
        DecoderForm::Converted(converter) => converter,
    };
    Ok(if let Some(length @ 1..) = value_bytes(leaf) {
        let values = FixedValues::new(length, is_integer(leaf));
        Box::new(NestedDecoder::new(pages, nulls, ConvertedLeaf::new(values, converter, shape), sizes))
    } else {
        let values = ConvertedLeaf::new(texts, converter, shape);
        Box::new(NestedDecoder::new(pages, nulls, values, sizes))
    })
}

/// What the values of a file become.
enum DecoderForm {
    /// They are numbers, which are cast.
    Numbers(NumberCast),
    /// Numbers stand for them.
    Numbered(Numbering),
    /// Their bytes are converted.
    Converted(Converter),
}

/// What the values of a column become, be they in lists or not.
fn form(column: &Column, leaf: &ColumnDescPtr) -> Result<DecoderForm> {
    let unshaped = column.unshaped().unwrap_or(Dtype::Int64);
    let conversion = match (column.stored, unshaped) {
        (Stored::Number(_), _) | (Stored::Decimal { is_integer: true, .. }, Dtype::Int64) => {
            return Ok(DecoderForm::Numbers(delivery(column, number(column, leaf)?)?));
        }
        (Stored::Decimal { is_integer: true, scale, .. }, Dtype::Float64) => Conversion::LowestFirst(scale),
        (Stored::Decimal { .. }, Dtype::Int64) => Conversion::Integer,
        (Stored::Decimal { scale, .. }, Dtype::Float64) => Conversion::Decimal(scale),
        (Stored::Int96 { tick }, _) => Conversion::Instant(tick),
        _ => match column.shaping {
            Shaping::Hashed(_, buckets) if value_bytes(leaf).is_some() => Conversion::Hashed(buckets),
            Shaping::Hashed(..) | Shaping::Coded(..) => return Ok(DecoderForm::Numbered(numbering(column)?)),
            _ => Conversion::Copied,
        },
    };
    let is_number = !matches!(conversion, Conversion::Copied | Conversion::Hashed(_));
    let then = (is_number && column.shaping != Shaping::None).then(|| delivery(column, unshaped));
    Ok(DecoderForm::Converted(Converter { conversion, then: then.transpose()? }))
}

/// Whether a leaf holds integers, which may be delta-encoded.
fn is_integer(leaf: &ColumnDescPtr) -> bool {
    matches!(leaf.physical_type(), Physical::INT32 | Physical::INT64)
}

/// How the strings of a column become numbers: buckets or codes.
fn numbering(column: &Column) -> Result<Numbering> {
    match (column.shaping, &column.vocabulary) {
        (Shaping::Hashed(_, buckets), _) => Ok(Numbering::Buckets(buckets)),
        (_, Some(vocabulary)) => Ok(Numbering::Codes(Arc::clone(vocabulary))),
        _ => Err(undeliverable(column)),
    }
}

/// How the numbers of a column, stored as this type, are cast.
fn delivery(column: &Column, stored: Dtype) -> Result<NumberCast> {
    let delivery = column.dtype.and_then(|dtype| NumberCast::of(column.shaping, stored, dtype));
    delivery.ok_or_else(|| undeliverable(column))
}

/// A value from a path or table, in the form in which its column is delivered.
fn shaped(column: &Column, value: Vec<u8>) -> Result<Vec<u8>> {
    let mut row = vec![0; column.dtype.map_or(0, Dtype::width)];
    match (column.shaping, column.unshaped(), value.first_chunk()) {
        (shaping, Some(unshaped @ (Dtype::Int64 | Dtype::Float64)), _)
            if matches!(column.stored, Stored::Decimal { .. }) =>
        {
            let Stored::Decimal { scale, .. } = column.stored else { return Err(undeliverable(column)) };
            let conversion =
                if unshaped == Dtype::Int64 { Conversion::Integer } else { Conversion::Decimal(scale) };
            let then = (shaping != Shaping::None).then(|| delivery(column, unshaped)).transpose()?;
            Converter { conversion, then }.convert(&value, &mut row, 0)?;
        }
        (Shaping::None, ..) => return Ok(value),
        (Shaping::Hashed(_, buckets), Some(Dtype::Uint8), _) => {
            row.copy_from_slice(&buckets.of_bytes(&value).to_le_bytes());
        }
        (Shaping::Coded(..), ..) => {
            let vocabulary = column.vocabulary.as_ref().ok_or_else(|| undeliverable(column))?;
            row.copy_from_slice(&vocabulary.code(&value)?.to_le_bytes());
        }
        (_, _, Some(number)) => {
            let is_float = column.unshaped().is_some_and(Dtype::is_float);
            let own = if is_float { Dtype::Float64 } else { Dtype::Int64 };
            let written = delivery(column, own)?.write_one(u64::from_le_bytes(*number), &mut row);
            written.map_err(|misfit| Error::refused(format!("the path holds {misfit}")))?;
        }
        (_, _, None) => return Err(undeliverable(column)),
    }
    Ok(row)
}

/// The type of the numbers in a leaf column.
fn number(column: &Column, leaf: &ColumnDescPtr) -> Result<Dtype> {
    match (column.stored, leaf.physical_type()) {
        (Stored::Number(stored), _) => Ok(stored),
        (Stored::Decimal { .. }, Physical::INT32) => Ok(Dtype::Int32),
        (Stored::Decimal { .. }, Physical::INT64) => Ok(Dtype::Int64),
        _ => Err(undeliverable(column)),
    }
}

/// The definition level of a value. A level that is too large to fit never occurs.
fn level_of(leaf: &ColumnDescPtr) -> u8 {
    u8::try_from(leaf.max_def_level()).unwrap_or(u8::MAX)
}
