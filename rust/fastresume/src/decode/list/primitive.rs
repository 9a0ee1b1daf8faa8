//! Decodes columns of lists of numbers, and of lists of such lists: rows from levels, values as in a flat
//! column.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::decode::decoder::{JaggedDecoder, JaggedRows, NULL_ROW, NestedRows};
use crate::decode::list::pages::{InnerBits, LevelRange, ListPages, PageBits, RowWalk};
use crate::decode::numbers::{Elements, as_numbers, narrowed};
use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Bits, Marks};
use crate::memory::vectors::room_for;
use crate::schema::nulls::Nulls;

/// A list column whose elements are delivered as `V`.
pub struct ListDecoder<'a, V, E> {
    pages: ListPages<'a>,
    nulls: Nulls,
    /// Whether null elements are marked where null rows are.
    marks_elements: bool,
    numbers: E,
    delivered: PhantomData<V>,
    /// Which elements are valid, if some are null.
    there: Bits,
}

impl<'a, V: Pod, E: Elements<V>> ListDecoder<'a, V, E> {
    pub fn new(pages: ListPages<'a>, nulls: ElementNulls, numbers: E) -> Self {
        let ElementNulls { nulls, marks_elements } = nulls;
        Self { pages, nulls, marks_elements, numbers, delivered: PhantomData, there: Bits::default() }
    }

    /// Appends the rows, or the rest of a row, of a range of levels.
    fn take(&mut self, stretch: &LevelRange, output: &mut JaggedRows) -> Result<()> {
        self.pages.check_grid(stretch)?;
        let (before, first) = (output.values.len(), output.ends.len());
        let marks_elements = self.marks_elements && self.nulls == Nulls::Masked;
        if marks_elements {
            // Whatever rows came before without elements have no marks.
            output.nested();
        }
        let end_of = |elements: usize| before + elements * size_of::<V>();
        let bits = self.pages.bits();
        let some = stretch.rows.len();
        room_for(&mut output.ends, some)?;
        room_for(&mut output.valid, some)?;
        let count = if let Some(inner) = &bits.inner {
            take_inner((bits, inner), (stretch, self.nulls), output, end_of)?
        } else {
            bits.rows(stretch, |passed, valid| {
                // A row that begins here ends the row before it, which may have begun in another page.
                if let Some(end) = output.ends.last_mut() {
                    *end = end_of(passed);
                }
                output.ends.push(0);
                output.valid.push(valid);
            })
        };
        if let Some(end) = output.ends.last_mut() {
            *end = end_of(count);
        }
        if let Some(null) = output.valid[first..].iter().position(|&valid| valid == 0) {
            self.nulls.bits(stretch.rows.start + null)?;
        }
        output.values.resize(end_of(count))?;
        let is_whole = !bits.has_null_elements || bits.values.part(stretch.levels.clone()).ones() == count;
        if !is_whole {
            bits.there(stretch, &mut self.there);
        }
        if marks_elements {
            let there = (!is_whole).then(|| self.there.all());
            mark(output, (first, count), there.as_ref(), size_of::<V>())?;
        }
        let places: &mut [V] = as_numbers(&mut output.values.bytes_mut()[before..])?;
        // Values before the first row that begins here belong to the row before it.
        let continued = usize::from(self.pages.is_continued(stretch));
        let (ends, reached) = (&output.ends[first.saturating_sub(continued)..], stretch.rows.start);
        let row_of = |element| {
            let row = ends.partition_point(|&end| end <= end_of(element));
            (reached + row).saturating_sub(continued)
        };
        let page = self.pages.page();
        if is_whole {
            return self.numbers.read(page, places, |element| Some(row_of(element)));
        }
        let null = match self.nulls {
            Nulls::Filled(bits) => bits,
            Nulls::Masked if marks_elements => 0,
            Nulls::Masked | Nulls::Refused => {
                return Err(Error::refused(format!(
                    "an element of the list in row {} of the row group is null; .fill_null(value) says \
                     what becomes of it, a mask marks those of lists that are not padded",
                    row_of(self.there.all().first_zero().unwrap_or(0))
                )));
            }
        };
        let row_of = |element| Some(row_of(element));
        self.numbers.read_spread(page, &self.there.all(), narrowed(null), places, row_of)
    }
}

/// Marks the last `count` elements, of `width` bytes each: those that are there, or all. Row `first` is the first one that
/// begins among them.
fn mark(
    output: &mut JaggedRows,
    (first, count): (usize, usize),
    there: Option<&Marks<'_>>,
    width: usize,
) -> Result<()> {
    let NestedRows { ends, inner: marks, .. } = output.nested();
    let begun = marks.values.len();
    marks.values.resize(begun + count)?;
    let places = &mut marks.values.bytes_mut()[begun..];
    match there {
        Some(there) => there.write(places),
        None => places.fill(1),
    }
    // The row before the first one that begins here may go on.
    for (mark_end, end) in marks.ends.iter_mut().zip(ends).skip(first.saturating_sub(1)) {
        *mark_end = *end / width;
    }
    Ok(())
}

/// What becomes of nulls among the elements of lists, and among the lists.
#[derive(Debug, Clone, Copy)]
pub struct ElementNulls {
    /// What becomes of null lists.
    pub nulls: Nulls,
    /// Whether null elements are marked where null lists are; else they are an error there.
    pub marks_elements: bool,
}

/// Appends the rows of a range of levels, and the lengths of their inner lists. `end_of` turns a number of
/// elements into an end. Returns the number of all elements.
fn take_inner(
    (bits, inner): (&PageBits, &InnerBits),
    (stretch, nulls): (&LevelRange, Nulls),
    output: &mut JaggedRows,
    end_of: impl Fn(usize) -> usize,
) -> Result<usize> {
    let NestedRows { ends, valid, inner: lists, .. } = output.nested();
    let begins = inner.begins.part(stretch.levels.clone());
    let mut next = lists.values.len() / size_of::<u64>();
    lists.values.resize((next + begins.ones()) * size_of::<u64>())?;
    let lengths: &mut [u64] = as_numbers(lists.values.bytes_mut())?;
    let [starts, marks, elements] =
        [&bits.starts, &bits.valid, &bits.elements].map(|bits| bits.part(stretch.levels.clone()));
    let inner_marks = inner.valid.part(stretch.levels.clone());
    // The number of elements of the range, and of those before the last list.
    let (mut passed, mut since) = (0, 0);
    let first = ends.len();
    let rows = starts.words().zip(marks.words());
    let lists_of_words = begins.words().zip(inner_marks.words()).zip(elements.words());
    for ((start, mark), ((begin, inner_mark), elements)) in rows.zip(lists_of_words) {
        let mut places = start | begin;
        while places != 0 {
            let here = places & places.wrapping_neg();
            let reached = passed + (elements & (here - 1)).count_ones() as usize;
            // The list before it ends here; it may have begun in another page.
            if let Some(length) = next.checked_sub(1).and_then(|last| lengths.get_mut(last)) {
                *length += (reached - since) as u64;
            }
            since = reached;
            if start & here != 0 {
                if let (Some(end), Some(list_end)) = (ends.last_mut(), lists.ends.last_mut()) {
                    (*end, *list_end) = (end_of(reached), next * size_of::<u64>());
                }
                ends.push(0);
                lists.ends.push(0);
                valid.push(u8::from(mark & here != 0));
            }
            if begin & here != 0 {
                let is_null = inner_mark & here == 0;
                if is_null && nulls == Nulls::Refused {
                    let begun = stretch.rows.start + ends.len() - first;
                    return Err(null_row("a list", begun.saturating_sub(1)));
                }
                lengths[next] = if is_null { NULL_ROW } else { 0 };
                next += 1;
            }
            places &= places - 1;
        }
        passed += elements.count_ones() as usize;
    }
    if let Some(length) = next.checked_sub(1).and_then(|last| lengths.get_mut(last)) {
        *length += (passed - since) as u64;
    }
    if let Some(end) = lists.ends.last_mut() {
        *end = next * size_of::<u64>();
    }
    Ok(passed)
}

/// The error for a null inside the list of a row.
pub fn null_row(what: &str, row: usize) -> Error {
    Error::refused(format!(
        "{what} inside the list in row {row} of the row group is null; .mask_null() or .fill_null(value) says what becomes \
         of it"
    ))
}

impl<V: Pod, E: Elements<V>> JaggedDecoder for ListDecoder<'_, V, E> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(self.numbers.values(), rows)
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        let mut walk = RowWalk::new(rows);
        while let Some(stretch) = self.pages.next(self.numbers.values(), &mut walk)? {
            self.take(&stretch, output)?;
        }
        Ok(())
    }
}
