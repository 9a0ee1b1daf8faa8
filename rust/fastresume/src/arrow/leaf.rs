//! A leaf of arrays: some rows of it as a page holds them.

use parquet::basic::Type as Physical;
use parquet::schema::types::ColumnDescriptor;

use crate::arrow::array::{Array, contradicts};
use crate::arrow::field::{Field, Form};
use crate::arrow::levels::{Levels, Walk};
use crate::arrow::values::{self, Stored};
use crate::error::{Error, Result};

/// A leaf, and how a file of the same rows holds it.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The way to it, by the numbers of fields.
    path: Vec<usize>,
    stored: Stored,
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

impl Leaf {
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
            stored: Stored { physical: described.physical_type(), length },
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
        field: &'a Field,
        array: &'a Array,
        start: usize,
        length: usize,
    ) -> Result<(Walk, Form, &'a Array)> {
        let mut walk = Walk::of_rows(start, length);
        let (mut field, mut array) = walk.enter(field, array, field.is_nullable)?;
        for &child in self.path.iter().skip(1) {
            // The entries of a map are a struct that is never null, whatever their field says.
            let is_map = field.form == Form::Map;
            let (below, to) = walk.descend(field, array, child)?;
            (field, array) = walk.enter(below, to, below.is_nullable && !is_map)?;
        }
        if walk.level != self.levels.0 {
            return Err(Error::data(format!(
                "the Arrow type of '{}' has {} levels, its column {}",
                field.name, walk.level, self.levels.0
            )));
        }
        Ok((walk, field.form, array))
    }

    /// Rows of a column's array as a page holds them: repetition levels, definition levels, plain values.
    ///
    /// # Errors
    /// `Data` if parts of the array contradict each other, or a value does not fit.
    pub fn page(
        &self,
        field: &Field,
        array: &Array,
        (start, length): (usize, usize),
        output: &mut Vec<u8>,
    ) -> Result<PageShape> {
        let (mut walk, form, leaf) = self.walk(field, array, start, length)?;
        let Levels { count, definition, same, repetition } = walk.levels();
        output.clear();
        if self.levels.1 > 0 {
            add_levels(&repetition, 0, count, self.levels.1, output);
        }
        let repeated = output.len();
        if self.levels.0 > 0 {
            add_levels(&definition, same, count, self.levels.0, output);
        }
        let level_bytes = (repeated, output.len() - repeated);
        values::add(form, leaf, &walk.at, self.stored, output)?;
        Ok(PageShape { values: count, level_bytes })
    }

    /// Adds what rows hold to hashes of levels and of values: the same for the same rows, wherever arrays are cut.
    ///
    /// # Errors
    /// As for `page`.
    pub fn hash(
        &self,
        field: &Field,
        array: &Array,
        (start, length): (usize, usize),
        [of_levels, of_values]: [&mut blake3::Hasher; 2],
    ) -> Result<()> {
        let (mut walk, form, leaf) = self.walk(field, array, start, length)?;
        let levels = walk.levels();
        let mut bytes = Vec::new();
        for place in 0..levels.count {
            bytes.push(levels.repetition.get(place).copied().unwrap_or(0));
            bytes.push(levels.definition.get(place).copied().unwrap_or(levels.same));
        }
        of_levels.update(&bytes);
        bytes.clear();
        values::add(form, leaf, &walk.at, self.stored, &mut bytes)?;
        if form == Form::Bool {
            // Bits of a page begin with a byte: where arrays are cut they would differ.
            bytes = (0..values::count(&walk.at))
                .map(|place| bytes.get(place / 8).map_or(0, |byte| byte >> (place % 8) & 1))
                .collect();
        }
        of_values.update(&bytes);
        Ok(())
    }
}

/// Appends levels as a run, or packed; they are all `same` if none are told.
fn add_levels(levels: &[u8], same: u8, count: usize, largest: u8, output: &mut Vec<u8>) {
    let width = (u8::BITS - largest.leading_zeros()) as usize;
    let first = levels.first().copied().unwrap_or(same);
    if levels.iter().all(|&level| level == first) {
        add_varint((count as u64) << 1, output);
        output.push(first);
        return;
    }
    add_varint(((count.div_ceil(8) as u64) << 1) | 1, output);
    let (mut word, mut bits) = (0_u64, 0);
    for place in 0..count.next_multiple_of(8) {
        word |= u64::from(levels.get(place).copied().unwrap_or(0)) << bits;
        bits += width;
        while bits >= 8 {
            #[expect(clippy::cast_possible_truncation, reason = "the lowest byte is taken")]
            output.push(word as u8);
            word >>= 8;
            bits -= 8;
        }
    }
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
