//! Puts rows of several chunks together to one batch.

use std::ops::Range;

use crate::batch::slots::pending::repeat;
use crate::error::{Error, Result};
use crate::memory::buffer::{Memory, Pool};
use crate::memory::vectors::{collected, filled, with_room};
use crate::projection::layout::Layout;
use crate::simd::{Move, scatter};

/// How the rows of one field lie in memory; see `Slots::into_parts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowParts {
    /// Rows of so many bytes.
    Flat(usize),
    /// Rows of any number of elements.
    Jagged {
        /// Bytes of an element.
        width: usize,
        /// How many bytes of each element tell which of its numbers are null; a chunk without nulls has no such bytes.
        mark_bytes: usize,
        /// The number of levels of rows.
        depth: usize,
        /// Whether a byte of each row, at each level, tells whether it is null.
        is_masked: bool,
    },
}

impl RowParts {
    /// Those of all fields of a layout; a mask is a field of its own.
    #[must_use]
    pub fn of(layout: &Layout) -> Vec<Self> {
        let mut found = Vec::new();
        for field in layout.fields() {
            if field.kind.is_jagged() {
                found.push(Self::Jagged {
                    width: field.element_bytes(),
                    mark_bytes: field.mark_bytes(),
                    depth: field.depth,
                    is_masked: field.is_masked(),
                });
                continue;
            }
            found.push(Self::Flat(field.row_bytes()));
            found.extend(field.is_masked().then(|| Self::Flat(field.mask_bytes())));
        }
        found
    }

    /// How many pieces of memory it has.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Self::Flat(_) => 1,
            Self::Jagged { mark_bytes, depth, is_masked, .. } => {
                1 + usize::from(mark_bytes > 0) + depth * (1 + usize::from(is_masked))
            }
        }
    }
}

/// Some rows of a chunk.
#[derive(Debug, Clone)]
pub struct Stretch<'a> {
    /// The memory of all fields of the chunk.
    pub memory: Vec<&'a [u8]>,
    /// The rows of it.
    pub rows: Range<usize>,
}

/// Elements, or rows, of a stretch's chunk.
type Span = (usize, Range<usize>);

/// Puts rows of one kind together.
#[derive(Debug)]
pub struct Joiner {
    /// How their fields lie in memory.
    pub parts: Vec<RowParts>,
    /// Where the memory of batches comes from.
    pub pool: Pool,
}

impl Joiner {
    /// The rows of all stretches as one batch of `count` rows. Row k of them, counted over all stretches, becomes row
    /// `places[k]`; the rows behind these are the same again, in turn.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if the memory is not that of such rows, or a place is
    /// beyond them.
    pub fn join(&self, stretches: &[Stretch<'_>], places: &[u32], count: usize) -> Result<Vec<Memory>> {
        let Self { parts, pool } = self;
        let distinct: usize = stretches.iter().map(|stretch| stretch.rows.len()).sum();
        let is_placed = places.len() == distinct && places.iter().all(|&place| (place as usize) < distinct);
        if !is_placed || count < distinct || (distinct == 0 && count > 0) {
            return Err(Error::data("rows that are joined have no places in the batch"));
        }
        let moves = collected(places.iter().map(|&to| Move { from: 0, to }))?;
        let mut spans = Vec::new();
        if parts.iter().any(|part| matches!(part, RowParts::Jagged { .. })) {
            spans = spans_of(stretches, places, count)?;
        }
        let mut found = Vec::new();
        let mut at = 0;
        for part in parts {
            match *part {
                RowParts::Flat(width) => found.push(flat(stretches, at, width, &moves, count, pool)?),
                RowParts::Jagged { width, mark_bytes, depth, is_masked } => {
                    let shape = (width, mark_bytes, depth, is_masked);
                    jagged(stretches, at, shape, collected(spans.iter().cloned())?, pool, &mut found)?;
                }
            }
            at += part.count();
        }
        Ok(found)
    }
}

/// The rows of the batch, each by its stretch.
fn spans_of(stretches: &[Stretch<'_>], places: &[u32], count: usize) -> Result<Vec<Span>> {
    let mut spans = filled(count, (0, 0..0))?;
    let rows = stretches.iter().enumerate();
    let rows = rows.flat_map(|(number, stretch)| stretch.rows.clone().map(move |row| (number, row..row + 1)));
    for (row, &place) in rows.zip(places) {
        spans[place as usize] = row;
    }
    for row in places.len()..count {
        spans[row] = spans[row - places.len()].clone();
    }
    Ok(spans)
}

fn flat(
    stretches: &[Stretch<'_>],
    part: usize,
    width: usize,
    moves: &[Move],
    count: usize,
    pool: &Pool,
) -> Result<Memory> {
    let mut found = pool.memory(count.saturating_mul(width))?;
    let mut left = moves;
    for stretch in stretches {
        let (own, rest) = left.split_at(stretch.rows.len());
        left = rest;
        let rows = bytes_of(stretch, part, &stretch.rows, width)?;
        if width > 0 {
            scatter(rows, width, own, found.bytes_mut());
        }
    }
    repeat(found.bytes_mut(), moves.len() * width);
    Ok(found)
}

/// Adds the memory of a jagged field: values, marks, and of each level, from the innermost on, offsets and mask.
fn jagged(
    stretches: &[Stretch<'_>],
    first: usize,
    (width, mark_bytes, depth, is_masked): (usize, usize, usize, bool),
    mut spans: Vec<Span>,
    pool: &Pool,
    found: &mut Vec<Memory>,
) -> Result<()> {
    let each = 1 + usize::from(is_masked);
    let levels = first + 1 + usize::from(mark_bytes > 0);
    let mut made = Vec::with_capacity(depth);
    for level in (0..depth).rev() {
        let part = levels + level * each;
        let valid = is_masked.then(|| taken(stretches, part + 1, &spans, 1, pool)).transpose()?;
        let (inner, offsets) = within(stretches, part, &spans, pool)?;
        made.push((offsets, valid));
        spans = inner;
    }
    found.push(taken(stretches, first, &spans, width, pool)?);
    if mark_bytes > 0 {
        found.push(marked(stretches, first + 1, &spans, mark_bytes, pool)?);
    }
    for (offsets, valid) in made.into_iter().rev() {
        found.push(offsets);
        found.extend(valid);
    }
    Ok(())
}

/// What rows hold by their offsets, and their own offsets, one row behind another.
fn within(
    stretches: &[Stretch<'_>],
    part: usize,
    spans: &[Span],
    pool: &Pool,
) -> Result<(Vec<Span>, Memory)> {
    let tables = stretches.iter().map(|stretch| {
        let bytes = stretch.memory.get(part).copied().unwrap_or_default();
        bytemuck::try_cast_slice::<u8, u64>(bytes).map_err(|_| Error::data("offsets are not whole numbers"))
    });
    let tables = tables.collect::<Result<Vec<_>>>()?;
    let rows: usize = spans.iter().map(|(_, rows)| rows.len()).sum();
    let mut memory = pool.memory((rows + 1).saturating_mul(8))?;
    let ends: &mut [u64] =
        bytemuck::try_cast_slice_mut(memory.bytes_mut()).map_err(|_| Error::data("memory is not aligned"))?;
    let beyond = || Error::data("a row is beyond the offsets");
    let mut ends = ends.iter_mut();
    let mut end = 0;
    ends.next().into_iter().for_each(|first| *first = 0);
    let mut inner = with_room(spans.len())?;
    for (number, rows) in spans {
        let offsets = tables[*number].get(rows.start..=rows.end).ok_or_else(beyond)?;
        for (pair, place) in offsets.windows(2).zip(&mut ends) {
            end += pair[1].checked_sub(pair[0]).ok_or_else(beyond)?;
            *place = end;
        }
        let bound = |offset: Option<&u64>| offset.and_then(|&offset| usize::try_from(offset).ok());
        let bounds = bound(offsets.first()).zip(bound(offsets.last()));
        let (first, last) = bounds.ok_or_else(beyond)?;
        inner.push((*number, first..last));
    }
    Ok((inner, memory))
}

/// The marks of the elements in these spans; empty where no chunk has any.
fn marked(
    stretches: &[Stretch<'_>],
    part: usize,
    spans: &[Span],
    width: usize,
    pool: &Pool,
) -> Result<Memory> {
    let is_whole = |stretch: &Stretch<'_>| stretch.memory.get(part).is_none_or(|marks| marks.is_empty());
    if stretches.iter().all(is_whole) {
        return Ok(Memory::default());
    }
    written(spans, width, pool, |number, rows, place| {
        match &stretches[number] {
            stretch if is_whole(stretch) => place.fill(1),
            stretch => place.copy_from_slice(bytes_of(stretch, part, rows, width)?),
        }
        Ok(())
    })
}

/// The elements in these spans, one span behind another.
fn taken(
    stretches: &[Stretch<'_>],
    part: usize,
    spans: &[Span],
    width: usize,
    pool: &Pool,
) -> Result<Memory> {
    written(spans, width, pool, |number, rows, place| {
        place.copy_from_slice(bytes_of(&stretches[number], part, rows, width)?);
        Ok(())
    })
}

/// Memory for all elements of these spans; `write` fills the place of each span.
fn written(
    spans: &[Span],
    width: usize,
    pool: &Pool,
    write: impl Fn(usize, &Range<usize>, &mut [u8]) -> Result<()>,
) -> Result<Memory> {
    let elements: usize = spans.iter().map(|(_, rows)| rows.len()).sum();
    let mut found = pool.memory(elements.saturating_mul(width))?;
    let mut left = found.bytes_mut();
    for (number, rows) in spans {
        let (place, rest) = left.split_at_mut(rows.len() * width);
        write(*number, rows, place)?;
        left = rest;
    }
    Ok(found)
}

fn bytes_of<'a>(stretch: &Stretch<'a>, part: usize, rows: &Range<usize>, width: usize) -> Result<&'a [u8]> {
    let bytes = stretch.memory.get(part).copied().unwrap_or_default();
    let found = bytes.get(rows.start.saturating_mul(width)..rows.end.saturating_mul(width));
    found.ok_or_else(|| Error::data("a row is beyond its field"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<V: bytemuck::NoUninit>(values: &[V]) -> &[u8] {
        bytemuck::cast_slice(values)
    }

    #[test]
    fn rows_of_chunks_go_to_their_places_and_repeat_in_turn() {
        let (first, second): ([u16; 3], [u16; 4]) = ([1, 2, 3], [10, 20, 30, 40]);
        let stretches = [
            Stretch { memory: vec![bytes(&first)], rows: 1..3 },
            Stretch { memory: vec![bytes(&second)], rows: 0..2 },
        ];
        let joiner = |width| Joiner { parts: vec![RowParts::Flat(width)], pool: Pool::new(0) };
        let found = joiner(2).join(&stretches, &[2, 0, 3, 1], 6).unwrap();
        assert_eq!(found[0].bytes(), bytes::<u16>(&[3, 20, 2, 10, 3, 20]));
        for places in [&[0, 1, 2, 4][..], &[0, 1, 2]] {
            assert!(joiner(2).join(&stretches, places, 6).is_err());
        }
        assert!(joiner(2).join(&stretches, &[0, 1, 2, 3], 3).is_err());
        assert!(joiner(3).join(&stretches, &[0, 1, 2, 3], 4).is_err());
        let none = joiner(2).join(&[], &[], 0).unwrap();
        assert!(none[0].is_empty());
    }

    #[test]
    fn lists_of_lists_keep_their_elements_marks_and_masks() {
        // [[7], [8, 9]], null, [[]] and [[1, 2, 3]].
        let values: [[u32; 3]; 2] = [[7, 8, 9], [1, 2, 3]];
        let marks: [[u8; 3]; 2] = [[1, 0, 1], [1, 1, 0]];
        let inner: [&[u64]; 2] = [&[0, 1, 3, 3], &[0, 3]];
        let inner_valid: [&[u8]; 2] = [&[1, 1, 1], &[1]];
        let outer: [&[u64]; 2] = [&[0, 2, 2, 3], &[0, 1]];
        let outer_valid: [&[u8]; 2] = [&[1, 0, 1], &[1]];
        let stretch = |chunk: usize, rows| Stretch {
            memory: vec![
                bytes(&values[chunk]),
                &marks[chunk],
                bytes(inner[chunk]),
                inner_valid[chunk],
                bytes(outer[chunk]),
                outer_valid[chunk],
            ],
            rows,
        };
        let part = RowParts::Jagged { width: 4, mark_bytes: 1, depth: 2, is_masked: true };
        assert_eq!(part.count(), 6);
        let stretches = [stretch(0, 0..3), stretch(1, 0..1)];
        let joiner = Joiner { parts: vec![part], pool: Pool::new(0) };
        let found = joiner.join(&stretches, &[1, 2, 3, 0], 4).unwrap();
        let expected: [&[u8]; 6] = [
            bytes::<u32>(&[1, 2, 3, 7, 8, 9]),
            &[1, 1, 0, 1, 0, 1],
            bytes::<u64>(&[0, 3, 4, 6, 6]),
            &[1, 1, 1, 1],
            bytes::<u64>(&[0, 1, 3, 3, 4]),
            &[1, 1, 0, 1],
        ];
        assert_eq!(found.iter().map(Memory::bytes).collect::<Vec<_>>(), expected);
    }
}
