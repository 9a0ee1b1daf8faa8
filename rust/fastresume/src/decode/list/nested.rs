//! Decodes columns of lists, and of lists in lists of any depth: rows from levels, elements by the leaf below them.

use std::ops::Range;

use crate::decode::decoder::{JaggedDecoder, JaggedRows, NULL_ROW};
use crate::decode::list::grid::uneven;
use crate::decode::list::leaf::{Elements, Leaf, LeafPlaces};
use crate::decode::list::pages::{LevelRange, ListPages, PageBits, RowWalk, each_begun};
use crate::decode::numbers::as_numbers;
use crate::error::{Error, Result};
use crate::format::encoding::bitmap::Bitmap;
use crate::memory::vectors::room_for;
use crate::schema::nulls::Nulls;

/// Bytes of a length.
const LENGTH_BYTES: usize = size_of::<u64>();

/// What becomes of nulls among the elements of lists, and among the lists.
#[derive(Debug, Clone, Copy)]
pub struct ElementNulls {
    /// What becomes of null lists.
    pub nulls: Nulls,
    /// Whether null elements are marked where null lists are; else they are an error there.
    pub marks_elements: bool,
}

/// A column of lists; the lengths of the lists in them are inner rows.
///
/// Where the innermost lists have one length each, their lengths are checked, and left out.
pub struct NestedDecoder<'a, L> {
    pages: ListPages<'a>,
    nulls: ElementNulls,
    leaf: L,
    /// The lengths of the innermost lists, from the outermost of these on, where all of a level have one.
    sizes: Vec<usize>,
    /// Which elements are valid, if some are null.
    there: Bitmap,
}

/// Where what rows have besides their values is among their inner rows.
struct Layers {
    /// The number of levels of lists in lists, and how many of them are kept.
    lists: usize,
    kept: usize,
    /// Where the lengths of texts are, if there are any.
    texts: Range<usize>,
}

impl Layers {
    /// Where the lists of a level are: those that are not kept come last.
    fn of_lists(&self, level: usize) -> usize {
        if level < self.kept { level } else { self.texts.end + level - self.kept }
    }

    fn count(&self) -> usize {
        self.texts.end + self.lists - self.kept
    }
}

impl<'a, L: Leaf> NestedDecoder<'a, L> {
    /// A decoder of lists; `sizes` are the lengths of the innermost lists, where all of a level have one.
    pub fn new(pages: ListPages<'a>, nulls: ElementNulls, leaf: L, sizes: Vec<usize>) -> Self {
        let marks_elements = nulls.marks_elements && nulls.nulls == Nulls::Masked && !L::ARE_TEXTS;
        let nulls = ElementNulls { marks_elements, ..nulls };
        Self { pages, nulls, leaf, sizes, there: Bitmap::default() }
    }

    fn layers(&self) -> Layers {
        let lists = self.pages.bits().inner.len();
        let kept = lists.saturating_sub(self.sizes.len());
        Layers { lists, kept, texts: kept..kept + usize::from(L::ARE_TEXTS) }
    }

    /// Appends the rows, or the rest of a row, of a range of levels.
    fn take(&mut self, stretch: &LevelRange, output: &mut JaggedRows) -> Result<()> {
        self.pages.check_grid(stretch)?;
        let (layers, width) = (self.layers(), self.leaf.width());
        output.with_inner(layers.count())?;
        let (before, first) = (output.values.len(), output.ends.len());
        let JaggedRows { values, ends, valid, inner, marks } = output;
        room_for(ends, stretch.rows.len())?;
        room_for(valid, stretch.rows.len())?;
        let bits = self.pages.bits();
        let end_of = |elements: usize| before + elements * width;
        let count = bits.rows(stretch, |passed, is_valid| {
            // A row that begins here ends the row before it, which may have begun in another page.
            if let Some(end) = ends.last_mut() {
                *end = end_of(passed);
            }
            ends.push(0);
            valid.push(is_valid);
        });
        if let Some(end) = ends.last_mut() {
            *end = end_of(count);
        }
        if let Some(null) = valid[first..].iter().position(|&valid| valid == 0) {
            self.nulls.nulls.bits(stretch.rows.start + null)?;
        }
        // What lies before the first row that begins here belongs to the row before it.
        let continued = usize::from(self.pages.is_continued(stretch));
        let row_at = |ends: &[usize], place: usize| {
            let row = ends[first.saturating_sub(continued)..].partition_point(|&end| end <= place);
            (stretch.rows.start + row).saturating_sub(continued)
        };
        for level in 0..layers.lists {
            let rows = &mut inner[layers.of_lists(level)];
            let null = add_lists(bits, level, stretch, rows)?;
            if let Some(null) = null.filter(|_| level < layers.kept && self.nulls.nulls == Nulls::Refused) {
                return Err(null_row("a list inside the list", row_at(&rows.ends, null)));
            }
        }
        for of in &mut inner[layers.texts.clone()] {
            add_ends(bits, layers.lists, stretch, (&mut of.ends, of.values.len()))?;
        }
        let is_whole = !bits.has_null_elements || bits.values.part(stretch.levels.clone()).ones() == count;
        if !is_whole {
            bits.there(stretch, &mut self.there);
        }
        let there = (!is_whole).then(|| self.there.all());
        if let Some(there) = there.as_ref().filter(|_| self.refuses_elements()) {
            let null = there.first_zero().unwrap_or(0);
            return Err(match inner[layers.texts].first() {
                Some(of) => {
                    let place = of.values.len() + null * LENGTH_BYTES;
                    null_row("a text inside the list", row_at(&of.ends, place))
                }
                None => null_row("an element of the list", row_at(ends, end_of(null))),
            });
        }
        if let Some(there) = there.as_ref().filter(|_| self.nulls.marks_elements) {
            marks.add((there, count), values, width)?;
        }
        let null = self.nulls.nulls.bits(0).unwrap_or(0);
        let elements = Elements { page: self.pages.page(), count, there, null, rows: stretch.rows.len() };
        let Some(texts) = inner[layers.texts].first_mut() else {
            let places = LeafPlaces { values, lengths: None };
            return self.leaf.read(&elements, places, |element| row_at(ends, end_of(element)));
        };
        let begun = texts.values.len();
        let places = LeafPlaces { values, lengths: Some(&mut texts.values) };
        self.leaf.read(&elements, places, |_| stretch.rows.start)?;
        end_texts(texts, begun, (ends, first), before)
    }

    /// Whether a null element is an error.
    fn refuses_elements(&self) -> bool {
        match self.nulls.nulls {
            Nulls::Refused => true,
            Nulls::Masked => !self.nulls.marks_elements && !L::ARE_TEXTS,
            Nulls::Filled(_) => false,
        }
    }

    /// Checks the lengths of the lists that all have one, and leaves them out.
    fn check_sizes(&self, output: &mut JaggedRows) -> Result<()> {
        let kept = self.layers().texts.end;
        for (lists, &size) in output.inner[kept..].iter_mut().zip(&self.sizes) {
            let JaggedRows { values, ends, .. } = lists;
            let lengths: &[u64] = as_numbers(values.bytes_mut())?;
            if let Some(other) = lengths.iter().position(|&length| length != size as u64) {
                let row = ends.partition_point(|&end| end <= other * LENGTH_BYTES);
                let row = (self.pages.passed() + row).saturating_sub(ends.len());
                return Err(uneven(row, &self.sizes));
            }
        }
        output.inner.truncate(kept);
        Ok(())
    }
}

/// Ends the rows that begin in a range of levels among the lengths of what lies in them; see [`PageBits::in_rows`]. These begin
/// at byte `before`. Returns how many there are.
fn add_ends(
    bits: &PageBits,
    number: usize,
    stretch: &LevelRange,
    (ends, before): (&mut Vec<usize>, usize),
) -> Result<usize> {
    room_for(ends, stretch.rows.len())?;
    let within = [&bits.starts, &bits.starts, bits.in_rows(number)];
    let count = each_begun(&stretch.levels, within, |passed, _| {
        if let Some(end) = ends.last_mut() {
            *end = before + passed * LENGTH_BYTES;
        }
        ends.push(0);
    });
    if let Some(end) = ends.last_mut() {
        *end = before + count * LENGTH_BYTES;
    }
    Ok(count)
}

/// Appends the lengths of the lists of a level that begin in a range of levels; the list before them may go on. Returns where
/// the length of the first null one is.
fn add_lists(
    bits: &PageBits,
    level: usize,
    stretch: &LevelRange,
    rows: &mut JaggedRows,
) -> Result<Option<usize>> {
    let JaggedRows { values, ends, .. } = rows;
    let before = values.len();
    let added = add_ends(bits, level, stretch, (ends, before))?;
    values.resize(before + added * LENGTH_BYTES)?;
    let lengths: &mut [u64] = as_numbers(values.bytes_mut())?;
    let (mut next, mut since, mut first_null) = (before / LENGTH_BYTES, 0, None);
    let go_on = |lengths: &mut [u64], next: usize, more: usize| {
        if let Some(length) = next.checked_sub(1).and_then(|last| lengths.get_mut(last)) {
            *length += more as u64;
        }
    };
    let lists = &bits.inner[level];
    let within = [&lists.begins, &lists.valid, bits.in_rows(level + 1)];
    let count = each_begun(&stretch.levels, within, |reached, is_valid| {
        go_on(lengths, next, reached - since);
        since = reached;
        if is_valid == 0 {
            first_null = first_null.or(Some(next * LENGTH_BYTES));
        }
        if let Some(length) = lengths.get_mut(next) {
            *length = if is_valid == 0 { NULL_ROW } else { 0 };
        }
        next += 1;
    });
    go_on(lengths, next, count - since);
    Ok(first_null)
}

/// Ends rows by the lengths of their texts. Of these, those from byte `begun` on were added, and their bytes from byte `before`
/// on; row `first` is the first one that begins with them.
fn end_texts(
    texts: &mut JaggedRows,
    begun: usize,
    (ends, first): (&mut [usize], usize),
    before: usize,
) -> Result<()> {
    let lengths: &[u64] = as_numbers(texts.values.bytes_mut())?;
    let (mut passed, mut end) = (begun / LENGTH_BYTES, before);
    // The row before the first one may go on.
    for (row_end, texts_end) in ends.iter_mut().zip(&texts.ends).skip(first.saturating_sub(1)) {
        let next = texts_end / LENGTH_BYTES;
        let some = lengths.get(passed..next).unwrap_or_default().iter();
        end += some.map(|length| (length & !NULL_ROW) as usize).sum::<usize>();
        (*row_end, passed) = (end, next);
    }
    Ok(())
}

/// The error for a null in the list of a row.
fn null_row(what: &str, row: usize) -> Error {
    Error::refused(format!(
        "{what} in row {row} of the row group is null; .mask_null() or .fill_null(value) says what happens to it"
    ))
}

impl<L: Leaf> JaggedDecoder for NestedDecoder<'_, L> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(self.leaf.values(), rows)
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        let mut walk = RowWalk::new(rows);
        while let Some(stretch) = self.pages.next(self.leaf.values(), &mut walk)? {
            self.take(&stretch, output)?;
        }
        if self.sizes.is_empty() { Ok(()) } else { self.check_sizes(output) }
    }
}
