//! Copies rows of a finished batch into another order.

use std::borrow::Borrow;
use std::ops::Range;

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::memory::buffer::Memory;
use crate::memory::vectors::{room_for, with_room};
use crate::projection::layout::Layout;

/// The rows at `places` of the memory of each field of a layout (see `Slots::into_parts`), in the order of these; a row may
/// come more than once. Field by field, so that only one of them is there twice at a time, where the memory is given away.
///
/// # Errors
/// `Argument` if the system does not give so much memory; `Data` if the memory is not that of the layout.
pub fn gather<M: Borrow<Memory>>(
    memory: impl IntoIterator<Item = M>,
    layout: &Layout,
    places: &(impl Iterator<Item = Range<usize>> + Clone),
) -> Result<Vec<Memory>> {
    let mut found = Vec::new();
    let mut given = memory.into_iter();
    let mut next = || given.next().ok_or_else(|| Error::data("a field of the layout has no memory"));
    for field in layout.fields() {
        let each_row = || places.clone().flatten().map(|place| place..place + 1);
        if !field.kind.is_jagged() {
            found.push(taken(next()?.borrow(), places.clone(), field.row_bytes())?);
        } else if field.kind.is_nested() {
            let (values, inner) = (next()?, next()?);
            let inner_valid = if field.is_masked() { Some(next()?) } else { None };
            let offsets = next()?;
            let inner_rows: Vec<_> = spans(offsets.borrow(), each_row())?.collect::<Result<_>>()?;
            let of_values: Vec<_> =
                spans(inner.borrow(), inner_rows.iter().cloned())?.collect::<Result<_>>()?;
            found.push(taken(values.borrow(), of_values.into_iter(), field.dtype.width())?);
            let each_inner = || inner_rows.iter().cloned().flatten().map(|row| row..row + 1);
            found.push(offsets_of(spans(inner.borrow(), each_inner())?)?);
            if let Some(valid) = inner_valid {
                found.push(taken(valid.borrow(), inner_rows.iter().cloned(), 1)?);
            }
            found.push(offsets_of(inner_rows.into_iter().map(Ok))?);
        } else {
            let values = next()?;
            let marks = if field.marks_elements() { Some(next()?) } else { None };
            let offsets = next()?;
            let rows: Vec<_> = spans(offsets.borrow(), each_row())?.collect::<Result<_>>()?;
            found.push(taken(values.borrow(), rows.iter().cloned(), field.dtype.width())?);
            if let Some(marks) = marks {
                found.push(taken(marks.borrow(), rows.iter().cloned(), 1)?);
            }
            found.push(offsets_of(rows.into_iter().map(Ok))?);
        }
        if field.is_masked() {
            let bytes = if field.kind.is_jagged() { 1 } else { field.mask_bytes() };
            found.push(taken(next()?.borrow(), places.clone(), bytes)?);
        }
    }
    Ok(found)
}

/// The ranges between offsets: for each range of rows, from where its first row begins to where its last one
/// ends.
fn spans(
    offsets: &Memory,
    rows: impl Iterator<Item = Range<usize>>,
) -> Result<impl Iterator<Item = Result<Range<usize>>>> {
    let offsets: &[u64] = numbers(offsets.bytes())?;
    let at = |row: usize| offsets.get(row).and_then(|&offset| usize::try_from(offset).ok());
    let span = move |rows: Range<usize>| Some(at(rows.start)?..at(rows.end)?);
    Ok(rows.map(move |rows| span(rows).ok_or_else(|| Error::data("a row is beyond the offsets"))))
}

/// The offsets of rows with these lengths, one behind another.
fn offsets_of(spans: impl Iterator<Item = Result<Range<usize>>>) -> Result<Memory> {
    let mut end = 0;
    let ends = spans.map(|span| {
        end += span?.len() as u64;
        Ok::<u64, Error>(end)
    });
    let mut found = with_room(ends.size_hint().0 + 1)?;
    found.push(0);
    for end in ends {
        room_for(&mut found, 1)?;
        found.push(end?);
    }
    Ok(Memory::from(found))
}

/// The elements at these ranges, one range behind another; an element has `width` bytes.
fn taken(
    memory: &Memory,
    ranges: impl Iterator<Item = Range<usize>> + Clone,
    width: usize,
) -> Result<Memory> {
    let elements: usize = ranges.clone().map(|range| range.len()).sum();
    let mut found = memory.another();
    found.resize(elements.saturating_mul(width))?;
    let (from, mut left) = (memory.bytes(), found.bytes_mut());
    for range in ranges {
        let some = from.get(range.start * width..range.end * width);
        let some = some.ok_or_else(|| Error::data("a row is beyond its field"))?;
        let (place, rest) = left.split_at_mut(some.len());
        place.copy_from_slice(some);
        left = rest;
    }
    Ok(found)
}

fn numbers<V: Pod>(bytes: &[u8]) -> Result<&[V]> {
    bytemuck::try_cast_slice(bytes).map_err(|_| Error::data("offsets are not whole numbers"))
}
