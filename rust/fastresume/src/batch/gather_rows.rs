//! Copies rows of a finished batch into another order.

use std::borrow::Borrow;
use std::ops::Range;

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::memory::pool::Memory;
use crate::memory::vectors::{collected, collected_results, push, with_room};
use crate::projection::layout::Layout;

/// The rows at `places` of the memory of each field of a layout (see `FieldSlots::into_parts`), in the order of these; a row may
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
        if !field.kind.is_jagged() {
            found.push(taken(next()?.borrow(), places.clone(), field.row_bytes())?);
            if field.is_masked() {
                found.push(taken(next()?.borrow(), places.clone(), field.mask_bytes())?);
            }
            continue;
        }
        let values = next()?;
        let marks = if field.marks_elements() { Some(next()?) } else { None };
        // Offsets and mask of each level, from the innermost on.
        let mut levels = Vec::with_capacity(field.depth);
        for _ in 0..field.depth {
            levels.push((next()?, if field.is_masked() { Some(next()?) } else { None }));
        }
        let mut rows = collected(places.clone())?;
        let mut made = Vec::with_capacity(2 * field.depth);
        for (offsets, valid) in levels.into_iter().rev() {
            let each = rows.iter().cloned().flatten().map(|row| row..row + 1);
            let inner = collected_results(spans(offsets.borrow(), each)?)?;
            let valid = valid.map(|valid| taken(valid.borrow(), rows.iter().cloned(), 1)).transpose()?;
            made.push((offsets_of(inner.iter().cloned().map(Ok))?, valid));
            rows = inner;
        }
        found.push(taken(values.borrow(), rows.iter().cloned(), field.element_bytes())?);
        if let Some(marks) = marks {
            let (marks, width) = (marks.borrow(), field.mark_bytes());
            let is_marked = !marks.is_empty();
            found.push(if is_marked { taken(marks, rows.iter().cloned(), width)? } else { marks.another() });
        }
        for (offsets, valid) in made.into_iter().rev() {
            found.push(offsets);
            found.extend(valid);
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
        push(&mut found, end?)?;
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
