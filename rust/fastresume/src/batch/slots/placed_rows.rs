//! Rows that wait in strips until a batch's moves put them in their places.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use crate::batch::slots::interleave::{BoundedMoves, Columns, Move, place, place_raised, scatter};
use crate::batch::slots::pending::Strip;
use crate::error::Result;
use crate::memory::vectors::{filled, with_room};

/// So many bytes of rows are put together from columns at once before they are moved.
const TILE_BYTES: usize = 8 << 10;

/// So many columns are looked up ahead, over all segments.
const LOOKED_UP: usize = 4096;

/// Rows of a field, or those of several that were decoded side by side.
#[derive(Debug)]
pub struct FlatRows {
    /// The field of the batch.
    pub field: usize,
    pub strip: Arc<Strip>,
    /// The row of the segment with which the strip begins.
    pub first: usize,
    /// The columns of the field in the strip, and their masks if it has some.
    pub columns: Range<usize>,
    pub masks: Option<Range<usize>>,
}

impl FlatRows {
    /// Their columns, or their masks.
    fn columns(&self, is_mask: bool) -> Option<Columns<'_>> {
        let columns = if is_mask { self.masks.as_ref()? } else { &self.columns };
        Some(self.strip.columns(is_mask).of(columns))
    }
}

/// Rows in strips, which a batch's moves put in their places.
#[derive(Debug)]
pub struct PlacedRows<'a> {
    /// All fields of one length, in their order.
    pub fields: &'a [FlatRows],
    /// Which rows of the segment they are.
    pub rows: Range<usize>,
    /// How many rows of the batch came in before.
    pub before: usize,
}

/// What a batch places, field by field. Where the rows of a field lie is looked up segment by segment, for many fields at once:
/// of many segments, each lookup would wait for memory.
pub struct PlacedFields<'a> {
    placed: &'a [PlacedRows<'a>],
    moves: Vec<BoundedMoves<'a>>,
    /// How many fields there are.
    count: usize,
    values: Ahead<'a>,
    masks: Ahead<'a>,
    tile: Vec<u64>,
}

/// The columns of some fields: of each one those of all segments, and the first row that is placed.
#[derive(Default)]
struct Ahead<'a> {
    fields: Range<usize>,
    columns: Vec<Option<(Columns<'a>, usize)>>,
}

impl<'a> PlacedFields<'a> {
    /// Those of a batch of so many fields. `moves` has the moves of all scattered rows, in the order in which they came in.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(placed: &'a [PlacedRows<'a>], moves: &'a [Move], count: usize) -> Result<Self> {
        let mut each = with_room(placed.len())?;
        each.extend(
            placed.iter().map(|own| BoundedMoves::new(&moves[own.before..own.before + own.rows.len()])),
        );
        let (values, masks) = (Ahead::default(), Ahead::default());
        Ok(Self { placed, moves: each, count, values, masks, tile: Vec::new() })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// Puts the rows of a field, of `row_bytes`, or of its mask, in their places, and asks for those of the next field.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn put(
        &mut self,
        (field, is_mask): (usize, bool),
        row_bytes: usize,
        output: &mut [u8],
    ) -> Result<()> {
        let Self { placed, moves, count, values, masks, tile } = self;
        let ahead = if is_mask { masks } else { values };
        if !ahead.fields.contains(&field) {
            ahead.look_up(placed, (field, *count), is_mask)?;
        }
        for (number, moves) in moves.iter().enumerate() {
            if let Some((columns, first)) = ahead.columns_of(field + 1, number, placed.len()) {
                columns.fetch(*first, moves.each().len());
            }
            if let Some((columns, first)) = ahead.columns_of(field, number, placed.len()) {
                columns.put((*first, row_bytes), *moves, output, tile);
            }
        }
        Ok(())
    }
}

impl<'a> Ahead<'a> {
    /// Looks up the columns of a field, and of some behind it.
    fn look_up(
        &mut self,
        placed: &'a [PlacedRows<'a>],
        (field, count): (usize, usize),
        is_mask: bool,
    ) -> Result<()> {
        let some = (LOOKED_UP / placed.len().max(1)).max(1);
        let fields = field..field.saturating_add(some).min(count.max(field + 1));
        let mut columns = filled(fields.len().saturating_mul(placed.len()), None)?;
        for (number, of) in placed.iter().enumerate() {
            let first = of.fields.partition_point(|own| own.field < fields.start);
            for own in of.fields[first..].iter().take_while(|own| own.field < fields.end) {
                let found = own.columns(is_mask).map(|columns| (columns, of.rows.start - own.first));
                columns[(own.field - fields.start) * placed.len() + number] = found;
            }
        }
        (self.fields, self.columns) = (fields, columns);
        Ok(())
    }

    /// The columns of a field in a segment, if they were looked up.
    fn columns_of(&self, field: usize, number: usize, segments: usize) -> Option<&(Columns<'a>, usize)> {
        let place = field.checked_sub(self.fields.start)?.checked_mul(segments)? + number;
        self.columns.get(place)?.as_ref()
    }
}

impl Columns<'_> {
    /// Puts the rows from `first` on, of `row_bytes`, in their places in `output`.
    fn put(
        &self,
        (first, row_bytes): (usize, usize),
        moves: BoundedMoves<'_>,
        output: &mut [u8],
        tile: &mut Vec<u64>,
    ) {
        let count = moves.each().len();
        if self.count == 1 {
            let rows = &self.bytes[first * self.width..][..count * self.width];
            match (self.floors, self.width) {
                (Some(floors), _) => {
                    let floor = floors.first().copied().unwrap_or(0);
                    place_raised(cast_slice(rows), floor, moves, cast_slice_mut(output));
                }
                (None, 1) => place(rows, moves, output),
                (None, 2) => place::<u16>(cast_slice(rows), moves, cast_slice_mut(output)),
                (None, 4) => place::<u32>(cast_slice(rows), moves, cast_slice_mut(output)),
                (None, 8) => place::<u64>(cast_slice(rows), moves, cast_slice_mut(output)),
                _ => scatter(rows, row_bytes, moves.each(), output),
            }
            return;
        }
        let tile_rows = (TILE_BYTES / row_bytes.max(1)).max(1);
        // Of 8-byte numbers, so that numbers of each width are aligned.
        let words = (tile_rows.min(count) * row_bytes).div_ceil(size_of::<u64>());
        if tile.len() < words {
            tile.resize(words, 0);
        }
        let tile: &mut [u8] = cast_slice_mut(tile);
        let mut first = first;
        for moves in moves.each().chunks(tile_rows) {
            let rows = &mut tile[..moves.len() * row_bytes];
            self.interleave_raised(first, rows);
            scatter(rows, row_bytes, moves, output);
            first += moves.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pool::Memory;

    #[test]
    fn rows_of_many_fields_and_segments_come_to_their_places() {
        // So many that they are looked up in several goes. Behind each stands a field of another kind, which has no rows here.
        let (segments, fields, rows) = (3, 3000, 4);
        let number =
            |segment: usize, field: usize, row: usize| u32::try_from((segment * fields + field) * 10 + row);
        let number = |segment, field, row| number(segment, field, row).unwrap();
        let mask_of = |field: usize| field.is_multiple_of(3).then_some(field / 3);
        let strips: Vec<Vec<FlatRows>> = (0..segments)
            .map(|segment| {
                let memory = [Memory::lent(), Memory::lent()];
                let mut strip =
                    Strip::new((rows, rows), (4, fields, fields.div_ceil(3)), None, memory).unwrap();
                for field in 0..fields {
                    let (values, valid) = strip.column(field, mask_of(field));
                    let numbers: Vec<u32> = (0..rows).map(|row| number(segment, field, row)).collect();
                    values.copy_from_slice(cast_slice(&numbers));
                    valid.fill(1 + u8::try_from(segment).unwrap());
                }
                let strip = Arc::new(strip);
                let of_field = |field| FlatRows {
                    field: 2 * field,
                    strip: Arc::clone(&strip),
                    first: 10,
                    columns: field..field + 1,
                    masks: mask_of(field).map(|mask| mask..mask + 1),
                };
                (0..fields).map(of_field).collect()
            })
            .collect();
        // All rows of a segment but the first one, between which those of the others stand.
        let placed = strips.iter().enumerate().map(|(segment, fields)| PlacedRows {
            fields,
            rows: 11..10 + rows,
            before: segment * (rows - 1),
        });
        let placed: Vec<PlacedRows<'_>> = placed.collect();
        let moves: Vec<Move> = (0..3)
            .flat_map(|segment| (0..3).map(move |row| Move { from: row, to: row * 3 + segment }))
            .collect();
        let mut all = PlacedFields::new(&placed, &moves, 2 * fields).unwrap();
        for field in 0..fields {
            let (mut values, mut valid) = ([7_u32; 9], [7_u8; 9]);
            all.put((2 * field, false), 4, cast_slice_mut(&mut values)).unwrap();
            assert_eq!(values, std::array::from_fn(|at| number(at % 3, field, 1 + at / 3)));
            all.put((2 * field, true), 1, &mut valid).unwrap();
            let expected = if mask_of(field).is_some() { [1, 2, 3, 1, 2, 3, 1, 2, 3] } else { [7; 9] };
            assert_eq!(valid, expected);
            all.put((2 * field + 1, false), 4, cast_slice_mut(&mut values)).unwrap();
            assert_eq!(values[0], number(0, field, 1), "nothing is put where nothing waits");
        }
    }
}
