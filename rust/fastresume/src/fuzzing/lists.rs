//! Fuzz targets for column chunks of lists: all of their pages, read at once and in steps.

use parquet::data_type::{ByteArrayType, Int64Type};

use super::chunks::{ChunkChoices, Shared, jagged_in_steps};
use super::oracle::StoredRows;
use crate::decode::decoder::{JaggedDecoder, JaggedRows, NULL_ROW};
use crate::decode::flat::byte_array::TextValues;
use crate::decode::list::byte_array::ByteArrayLeaf;
use crate::decode::list::grid::Grid;
use crate::decode::list::nested::{ElementNulls, NestedDecoder};
use crate::decode::list::number::NumberLeaf;
use crate::decode::list::pages::{ListLevels, ListPages};
use crate::decode::numbers::Numbers;
use crate::error::{Error, Result};
use crate::format::page::reader::Buffers;
use crate::schema::cast::NumberCast;
use crate::schema::nulls::Nulls;
use crate::schema::types::Dtype;

/// The fill value of a null number, unless nulls are refused.
const FILL: u64 = 0x4045_0000_0000_0000;

/// Lists of numbers and of strings, lists of lists of any length, and of one length, with nulls or without.
pub fn list_chunks(bytes: &[u8]) {
    let value_bytes = |kind: u8| (kind % 4 != 1).then_some(8);
    let levels = |kind: u8, is_optional| {
        let lists = 1 + kind % 4 / 2;
        (lists, lists * (1 + u8::from(is_optional)) + u8::from(is_optional))
    };
    let choices = ChunkChoices::new(bytes, value_bytes, levels);
    let shared = Shared::new();
    let mut all = JaggedRows::default();
    let mut buffers = Buffers::default();
    let Ok(mut decoder) = decoder(&choices, &shared, &mut buffers) else { return };
    let is_whole = decoder.read(choices.rows(), &mut all).is_ok();
    drop(decoder);
    if is_whole {
        assert_eq!((all.ends.len(), all.valid.len()), (choices.rows(), choices.rows()));
        assert!(all.ends.is_sorted() && all.ends.last().is_none_or(|&end| end == all.values.len()));
        compare_with_oracle(&choices, &all);
    }
    // An index of a writer that is believed, and lies, leads elsewhere.
    let is_whole = is_whole && choices.chunk.index.is_none();
    for shared in [&shared, &Shared::new()] {
        let mut buffers = Buffers::default();
        let Ok(mut decoder) = self::decoder(&choices, shared, &mut buffers) else { return };
        jagged_in_steps(decoder.as_mut(), &choices, &all, is_whole);
    }
}

fn decoder<'a>(
    choices: &ChunkChoices,
    shared: &Shared,
    buffers: &'a mut Buffers,
) -> Result<Box<dyn JaggedDecoder + 'a>> {
    let levels = levels(choices);
    let grid = Grid::new(&[2, 3]).filter(|_| choices.kind % 4 == 3);
    let pages = ListPages::new(choices.pages(shared, buffers)?, levels, grid);
    if choices.kind % 4 == 1 {
        let nulls = ElementNulls { nulls: Nulls::Masked, marks_elements: false };
        return Ok(Box::new(NestedDecoder::new(
            pages,
            nulls,
            ByteArrayLeaf::new(TextValues::default()),
            Vec::new(),
        )));
    }
    let delivered = if is_cast(choices) { Dtype::Float64 } else { Dtype::Int64 };
    let delivery =
        NumberCast::new(Dtype::Int64, delivered).ok_or_else(|| Error::data("there is no such cast"))?;
    let numbers: Numbers<u64, u64> = Numbers::new(delivery);
    let nulls = if choices.kind / 8 % 2 == 1 { Nulls::Filled(FILL) } else { Nulls::Masked };
    let nulls = ElementNulls { nulls, marks_elements: false };
    Ok(Box::new(NestedDecoder::new(pages, nulls, NumberLeaf::new(numbers), Vec::new())))
}

/// The number of nested lists.
fn depth(choices: &ChunkChoices) -> u8 {
    1 + choices.kind % 4 / 2
}

fn is_cast(choices: &ChunkChoices) -> bool {
    choices.kind / 4 % 2 == 1
}

/// A definition level for each list, which may be null or empty, and one for an element that may be null.
fn levels(choices: &ChunkChoices) -> ListLevels {
    let null = u8::from(choices.is_optional);
    let elements: Vec<u8> = (1..=depth(choices)).map(|list| list * (1 + null)).collect();
    let value = elements.last().map_or(0, |element| element + null);
    let repetition = u8::try_from(elements.len()).unwrap_or(u8::MAX);
    ListLevels { empty: null, elements, value, largest: value, repetition }
}

/// Compares rows with what the oracle reads of the same chunk.
fn compare_with_oracle(choices: &ChunkChoices, all: &JaggedRows) {
    let (value, lists) = (levels(choices).value, depth(choices));
    if choices.kind % 4 == 1 {
        if let Some(rows) = choices.oracle_rows::<ByteArrayType>(value, lists) {
            compare(choices, all, &rows, |text| text.data().to_vec());
        }
    } else if let Some(rows) = choices.oracle_rows::<Int64Type>(value, lists) {
        #[expect(clippy::cast_precision_loss, reason = "a cast refuses what it would lose")]
        let bytes = |value: &i64| {
            if is_cast(choices) { (*value as f64).to_le_bytes() } else { value.to_le_bytes() }.to_vec()
        };
        compare(choices, all, &rows, bytes);
    }
}

/// Assembles rows from the oracle's levels, one by one.
fn compare<V>(
    choices: &ChunkChoices,
    all: &JaggedRows,
    rows: &StoredRows<V>,
    bytes_of: impl Fn(&V) -> Vec<u8>,
) {
    let ListLevels { empty, elements, value, .. } = levels(choices);
    let (element, is_nested) = (elements.last().copied().unwrap_or(0), choices.kind % 4 == 2);
    let has_texts = choices.kind % 4 == 1;
    let mut levels = rows.repetition.iter().zip(&rows.definition).peekable();
    let mut values = rows.values.iter();
    for row in 0..all.ends.len() {
        let is_valid = levels.peek().is_some_and(|(_, level)| **level >= i16::from(empty));
        assert_eq!(all.valid[row], u8::from(is_valid), "the mask of row {row}");
        let (mut expected, mut lengths) = (Vec::new(), Vec::<u64>::new());
        let mut is_first = true;
        while let Some((repetition, level)) =
            levels.next_if(|(repetition, _)| is_first || **repetition > 0).map(|(a, b)| (*a, *b))
        {
            is_first = false;
            if is_nested && repetition < 2 && level > i16::from(empty) {
                lengths.push(if level >= i16::from(element) - 1 { 0 } else { NULL_ROW });
            }
            if level < i16::from(element) {
                continue;
            }
            let bytes = if level == i16::from(value) { values.next().map(&bytes_of) } else { None };
            if has_texts {
                lengths.push(bytes.as_ref().map_or(NULL_ROW, |bytes| bytes.len() as u64));
            } else if let Some(length) = lengths.last_mut() {
                *length += 1;
            }
            let null: &[u8] = if has_texts { &[] } else { &FILL.to_le_bytes() };
            expected.extend_from_slice(bytes.as_deref().unwrap_or(null));
        }
        assert_eq!(&all.values.bytes()[all.bytes_of(row)], expected, "the values of row {row}");
        assert_eq!(
            all.inner_bytes(0, row),
            bytemuck::cast_slice::<_, u8>(&lengths),
            "the lists of row {row}"
        );
    }
}
