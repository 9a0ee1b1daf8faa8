//! A leaf of arrays: some rows of it as a page holds them.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::schema::types::ColumnDescriptor;

use crate::arrow::array::{Array, Lent, contradicts};
use crate::arrow::field::{ArrowField, ArrowForm};
use crate::arrow::leaf_hash::LeafHash;
use crate::arrow::levels::{DefinitionLevels, Walk};
use crate::arrow::values::{self, StoredValues};
use crate::error::{Error, Result};
use crate::memory::vectors::{append, room_for};

/// So many rows are hashed together that have to be brought into the form of a page first.
const FORMED_ROWS: usize = 1024;

/// A leaf, and how a file of the same rows holds it.
#[derive(Debug, Clone)]
pub struct ArrowLeaf {
    /// The way to it, by the numbers of fields.
    path: Vec<usize>,
    stored: StoredValues,
    /// The largest definition level, and the largest repetition level.
    levels: (u8, u8),
}

/// What rows of a leaf are in a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageShape {
    /// How many pairs of levels it has.
    pub values: usize,
    /// The bytes of repetition levels, with which it begins, and of definition levels behind them.
    pub level_bytes: (usize, usize),
}

/// Some bytes of a buffer.
pub struct LentBytes {
    buffer: Arc<dyn Lent>,
    places: Range<usize>,
}

impl LentBytes {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes().get(self.places.clone()).unwrap_or_default()
    }
}

impl ArrowLeaf {
    /// The leaf that a way leads to, and that files describe so.
    #[must_use]
    pub fn new(path: Vec<usize>, described: &ColumnDescriptor) -> Self {
        let level = |level: i16| u8::try_from(level).unwrap_or(u8::MAX);
        let length = match described.physical_type() {
            Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(described.type_length()).unwrap_or(0),
            _ => 0,
        };
        Self {
            path,
            stored: StoredValues { physical: described.physical_type(), length },
            levels: (level(described.max_def_level()), level(described.max_rep_level())),
        }
    }

    /// The number of its column.
    #[must_use]
    pub fn column(&self) -> usize {
        self.path.first().copied().unwrap_or(0)
    }

    /// Whether each row has one value, which may be null.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.levels.1 == 0
    }

    /// Goes down to rows of it.
    fn walk<'a>(
        &self,
        field: &'a ArrowField,
        array: &'a Array,
        start: usize,
        length: usize,
        most: usize,
    ) -> Result<Option<(Walk, ArrowForm, &'a Array)>> {
        let mut walk = Walk::of_rows(start, length, most);
        let (mut field, mut array) = walk.enter(field, array, field.is_nullable)?;
        for &child in self.path.iter().skip(1) {
            // The entries of a map are a struct that is never null, whatever their field says.
            let is_map = field.form == ArrowForm::Map;
            let (below, to) = walk.descend(field, array, child)?;
            if walk.is_over() {
                return Ok(None);
            }
            (field, array) = walk.enter(below, to, below.is_nullable && !is_map)?;
        }
        if walk.level != self.levels.0 {
            return Err(Error::data(format!(
                "the Arrow type of '{}' has {} levels, its column {}",
                field.name, walk.level, self.levels.0
            )));
        }
        Ok(Some((walk, field.form, array)))
    }

    /// Rows of a column's array as a page holds them: repetition levels, definition levels, plain values. None if that
    /// takes more than `most` levels.
    ///
    /// # Errors
    /// `Data` if parts of the array contradict each other, or a value does not fit.
    pub fn page(
        &self,
        field: &ArrowField,
        array: &Array,
        (start, length): (usize, usize),
        most: usize,
        output: &mut Vec<u8>,
    ) -> Result<Option<PageShape>> {
        let Some((mut walk, form, leaf)) = self.walk(field, array, start, length, most)? else {
            return Ok(None);
        };
        let levels = walk.levels();
        let count = levels.count;
        output.clear();
        if self.levels.1 > 0 && levels.repetition.is_empty() {
            add_run(0, count, output);
        } else if self.levels.1 > 0 {
            add_levels(&levels.repetition, self.levels.1, output)?;
        }
        let repeated = output.len();
        if self.levels.0 > 0 {
            match levels.definition()? {
                DefinitionLevels::Same(level) => add_run(level, count, output),
                DefinitionLevels::Bits(bits) => {
                    add_varint(((count.div_ceil(8) as u64) << 1) | 1, output);
                    append(output, bits.bytes().iter().copied())?;
                }
                DefinitionLevels::Each(each) => add_levels(&each, self.levels.0, output)?,
            }
        }
        let level_bytes = (repeated, output.len() - repeated);
        values::add(form, leaf, &walk.at, self.stored, output)?;
        Ok(Some(PageShape { values: count, level_bytes }))
    }

    /// The bytes of rows of a column's array, if a page of them holds these very bytes and none of the rows is null: it
    /// needs no copy.
    ///
    /// # Errors
    /// `Data` if parts of the array contradict each other.
    pub fn lent(
        &self,
        field: &ArrowField,
        array: &Array,
        (start, length): (usize, usize),
    ) -> Result<Option<LentBytes>> {
        let is_own = self.path.len() == 1 && field.dictionary.is_none();
        if !is_own || self.levels != (u8::from(field.is_nullable), 0) || !array.are_valid(start, length) {
            return Ok(None);
        }
        if start.checked_add(length).is_none_or(|end| end > array.length) {
            return Err(contradicts("it has fewer values than rows"));
        }
        let places = values::same(field.form, array, (start, length), self.stored)?;
        Ok(places.zip(array.buffers.first().cloned()).map(|(places, buffer)| LentBytes { buffer, places }))
    }

    /// Adds what rows hold to a hash: the same for the same rows, wherever arrays are cut.
    ///
    /// # Errors
    /// As for `page`.
    pub fn hash(
        &self,
        field: &ArrowField,
        array: &Array,
        (start, length): (usize, usize),
        hash: &mut LeafHash,
    ) -> Result<()> {
        if let Some(lent) = self.lent(field, array, (start, length))? {
            hash.add_same_levels(self.levels.0, length);
            hash.add_values(lent.bytes());
            return Ok(());
        }
        let steps = (start..start + length).step_by(FORMED_ROWS);
        steps.into_iter().try_for_each(|first| {
            self.hash_some(field, array, (first, FORMED_ROWS.min(start + length - first)), hash)
        })
    }

    fn hash_some(
        &self,
        field: &ArrowField,
        array: &Array,
        (start, length): (usize, usize),
        hash: &mut LeafHash,
    ) -> Result<()> {
        let Some((mut walk, form, leaf)) = self.walk(field, array, start, length, usize::MAX)? else {
            return Err(contradicts("it has too many values"));
        };
        let mut levels = walk.levels();
        let (count, repetition) = (levels.count, std::mem::take(&mut levels.repetition));
        let definition = levels.definition()?;
        let mut bytes = Vec::new();
        match &definition {
            DefinitionLevels::Same(level) if repetition.is_empty() => hash.add_same_levels(*level, count),
            _ => {
                room_for(&mut bytes, 2 * count)?;
                for place in 0..count {
                    bytes.push(repetition.get(place).copied().unwrap_or(0));
                    bytes.push(match &definition {
                        DefinitionLevels::Same(level) => *level,
                        DefinitionLevels::Bits(bits) => u8::from(bits.get(place) == Some(true)),
                        DefinitionLevels::Each(each) => each.get(place).copied().unwrap_or(0),
                    });
                }
                hash.add_levels(&bytes);
                bytes.clear();
            }
        }
        values::add(form, leaf, &walk.at, self.stored, &mut bytes)?;
        if form == ArrowForm::Bool {
            // Bits of a page begin with a byte: where arrays are cut they would differ.
            bytes = (0..walk.at.count())
                .map(|place| bytes.get(place / 8).map_or(0, |byte| byte >> (place % 8) & 1))
                .collect();
        }
        hash.add_values(&bytes);
        Ok(())
    }
}

/// Appends so many levels that are the same.
fn add_run(level: u8, count: usize, output: &mut Vec<u8>) {
    add_varint((count as u64) << 1, output);
    output.push(level);
}

/// Appends levels as a run, or packed.
fn add_levels(levels: &[u8], largest: u8, output: &mut Vec<u8>) -> Result<()> {
    let width = (u8::BITS - largest.leading_zeros()) as usize;
    let first = levels.first().copied().unwrap_or(0);
    if levels.iter().all(|&level| level == first) {
        add_run(first, levels.len(), output);
        return Ok(());
    }
    let groups = levels.len().div_ceil(8);
    add_varint(((groups as u64) << 1) | 1, output);
    room_for(output, groups * width)?;
    let (whole, rest) = levels.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = if rest.is_empty() { &[][..] } else { std::slice::from_ref(&last) };
    for eight in whole.iter().chain(last) {
        // Eight levels of so many bits are as many bytes.
        let packed = match width {
            1 => u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56,
            2 => {
                let pairs = u64::from_le_bytes(*eight);
                let fours = (pairs | pairs >> 6) & 0x000f_000f_000f_000f;
                let eights = (fours | fours >> 12) & 0x0000_00ff_0000_00ff;
                (eights | eights >> 24) & 0xffff
            }
            _ => eight.iter().rev().fold(0, |word, &level| word << width | u64::from(level)),
        };
        output.extend_from_slice(packed.to_le_bytes().get(..width).unwrap_or_default());
    }
    Ok(())
}

fn add_varint(mut value: u64, output: &mut Vec<u8>) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "seven bits are taken")]
        output.push(value as u8 & 0x7f | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "seven bits are left")]
    output.push(value as u8);
}

/// The rows of an array that a page has, where about so many bytes are to be in each.
#[must_use]
pub fn page_rows(array: &Array, most_rows: usize, most_bytes: usize) -> usize {
    let mut bytes = 0_usize;
    let mut below = vec![array];
    while let Some(array) = below.pop() {
        bytes = bytes.saturating_add(array.buffers.iter().map(|buffer| buffer.bytes().len()).sum());
        below.extend(&array.children);
    }
    let rows = (array.offset + array.length).max(1);
    let each = bytes / rows;
    most_bytes.checked_div(each).unwrap_or(most_rows).clamp(1, most_rows)
}

/// The array of a column.
///
/// # Errors
/// `Data` if it is not among those that were read.
pub fn column_of(columns: &[Option<Array>], number: usize) -> Result<&Array> {
    columns.get(number).and_then(Option::as_ref).ok_or_else(|| contradicts("a column was not read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_all_widths_are_packed_with_the_lowest_bits_first() {
        for largest in [1_u8, 2, 3, 4, 7, 9, 60, 120] {
            let width = (u8::BITS - largest.leading_zeros()) as usize;
            for count in [1, 7, 8, 9, 100] {
                let levels: Vec<u8> =
                    (0..count).map(|place: u8| place.wrapping_mul(7) % (largest + 1)).collect();
                let mut output = Vec::new();
                add_levels(&levels, largest, &mut output).unwrap();
                if levels.iter().all(|level| *level == levels[0]) {
                    assert_eq!(output, [2 * count, levels[0]]);
                    continue;
                }
                let bit = |at: usize| output[1 + at / 8] >> (at % 8) & 1;
                for (place, level) in levels.iter().enumerate() {
                    let found: u8 = (0..width).map(|at| bit(place * width + at) << at).sum();
                    assert_eq!(found, *level, "{largest} {count} {place}");
                }
                assert_eq!(output.len(), 1 + usize::from(count).div_ceil(8) * width);
            }
        }
    }
}
