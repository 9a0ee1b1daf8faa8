//! Columns of lists of numbers: rows out of levels, values as in a flat column.
//!
//! Source: <https://github.com/apache/parquet-format#nested-encoding>

use std::ops::Range;

use bytemuck::Pod;

use crate::bits::{Bits, WORD, lowest};
use crate::column::{JaggedDecoder, JaggedRows, Nulls, PageValues};
use crate::error::{Error, Result};
use crate::grid::Grid;
use crate::hybrid::MAX_VALUES;
use crate::levels::Levels;
use crate::numbers::{Numbers, as_numbers, narrowed};
use crate::page::{PageStart, Pages};
use crate::values::Word;

/// What the definition levels of a list column mean.
#[derive(Debug, Clone, Copy)]
pub struct ListLevels {
    /// The level of an empty list; below it is that of a list that is null, if there are such.
    pub empty: u8,
    /// The lowest level of an element.
    pub element: u8,
    /// The level of a value; between the two is that of an element that is null, if there are such.
    pub value: u8,
}

/// A list column whose pages hold `P`, delivered as `V`.
pub struct ListDecoder<'a, P, V> {
    pages: Pages<'a>,
    meaning: ListLevels,
    nulls: Nulls,
    numbers: Numbers<P, V>,
    /// Of lists in lists, what these must be.
    grid: Option<Grid>,
    levels: Levels,
    page: PageBits,
    /// Levels of the present page, and how many of them were read.
    in_page: usize,
    at: usize,
    /// Rows of the row group that were read or skipped.
    row: usize,
    /// Which elements are there, where some are null.
    there: Bits,
}

/// What the pairs of levels of the present page say.
#[derive(Debug, Default)]
struct PageBits {
    /// Where a row begins.
    starts: Bits,
    /// Where one begins, whether it is not null.
    valid: Bits,
    /// Whether there is an element, which may be null.
    elements: Bits,
    /// Whether there is a value.
    values: Bits,
    /// Whether an element has none.
    has_null_elements: bool,
}

impl<'a, P: Word, V: Pod> ListDecoder<'a, P, V> {
    /// A decoder of lists; where it has a grid, of lists in lists.
    pub fn new(
        pages: Pages<'a>,
        meaning: ListLevels,
        grid: Option<Grid>,
        nulls: Nulls,
        numbers: Numbers<P, V>,
    ) -> Self {
        Self {
            pages,
            meaning,
            nulls,
            numbers,
            grid,
            levels: Levels::default(),
            page: PageBits::default(),
            in_page: 0,
            at: 0,
            row: 0,
            there: Bits::default(),
        }
    }

    /// Opens pages until one has levels; false at the end of the chunk.
    fn open_page(&mut self) -> Result<bool> {
        while self.at == self.in_page {
            let Some(page) = self.pages.open(&mut self.numbers.values)? else { return Ok(false) };
            self.open_data(&page)?;
        }
        Ok(true)
    }

    fn open_data(&mut self, page: &PageStart) -> Result<()> {
        let (bytes, count) = (self.pages.page().bytes, page.num_values);
        if count > MAX_VALUES {
            return Err(Error::data(format!("a page has {count} values, at most {MAX_VALUES} are read")));
        }
        let (repetition, definition) = page.level_bytes.unzip();
        let ListLevels { empty, element, value } = self.meaning;
        let deepest = self.grid.as_ref().map_or(1, Grid::deepest);
        let PageBits { starts, valid, elements, values, .. } = &mut self.page;
        let start = self.levels.read(bytes, 0, count, deepest, (page.repetition_encoding, repetition))?;
        self.levels.at_least(1, values);
        if let Some(grid) = &mut self.grid {
            grid.open(&self.levels);
        }
        starts.set(count, |index| !values.words()[index]);
        let how = (page.definition_encoding, definition);
        let start = self.levels.read(bytes, start, count, value, how)?;
        self.levels.at_least(value, values);
        self.levels.at_least(element, elements);
        self.levels.at_least(empty, valid);
        let rows = starts.all().ones();
        if page.rows.is_some() && starts.words().first().is_some_and(|word| word & 1 == 0) {
            return Err(Error::data("a page begins within a row"));
        }
        page.check_rows(rows)?;
        if (self.row + rows) as u64 > self.pages.group_rows() {
            return Err(Error::data(format!(
                "the pages hold more than the {} rows of the row group",
                self.pages.group_rows()
            )));
        }
        let present = values.all().ones();
        self.page.has_null_elements = present < elements.all().ones();
        if self.grid.is_none() {
            self.page.check()?;
        }
        self.numbers.values.open(page.encoding, bytes, start, present)?;
        (self.in_page, self.at) = (count, 0);
        Ok(())
    }

    /// The levels of the present page that belong to the next `rows` rows, or to the row before them, and
    /// how many rows begin there.
    fn stretch(&self, rows: usize) -> (Range<usize>, usize) {
        match self.page.starts.part(self.at..self.in_page).nth_one(rows) {
            Ok(next) => (self.at..self.at + next, rows),
            Err(begun) => (self.at..self.in_page, begun),
        }
    }

    /// Calls `take` for the levels of the next `rows` rows, page by page, and for how many rows begin there.
    fn walk(
        &mut self,
        rows: usize,
        mut take: impl FnMut(&mut Self, Range<usize>, usize) -> Result<()>,
    ) -> Result<()> {
        let mut begun = 0;
        // The last row ends where the next one begins, or the chunk ends.
        while rows > 0 && self.open_page()? {
            if begun == 0 && self.page.starts.part(self.at..self.at + 1).ones() == 0 {
                return Err(Error::data(format!("row {} of the row group has no beginning", self.row)));
            }
            let (stretch, some) = self.stretch(rows - begun);
            let end = stretch.end;
            take(self, stretch, some)?;
            begun += some;
            self.at = end;
            self.row += some;
            if end < self.in_page {
                return Ok(());
            }
        }
        if begun < rows {
            return Err(Error::data(format!("the column chunk ends after {} rows", self.row)));
        }
        Ok(())
    }

    /// Refuses rows of a stretch whose lists have not the lengths of the grid, if there is one.
    fn check_grid(&mut self, stretch: &Range<usize>) -> Result<()> {
        let Some(grid) = &mut self.grid else { return Ok(()) };
        let PageBits { starts, elements, .. } = &self.page;
        let (mut row, mut first) = (self.row, stretch.start);
        while first < stretch.end {
            let next = starts.part(first + 1..stretch.end).nth_one(0);
            let next = next.map_or(stretch.end, |next| first + 1 + next);
            // What begins no row here is of the one before.
            let begins = starts.part(first..first + 1).ones();
            grid.check((row + begins).saturating_sub(1), begins == 0, first, &elements.part(first..next))?;
            row += begins;
            first = next;
        }
        Ok(())
    }

    /// Adds the rows, or the rest of a row, of a stretch of levels.
    fn take(&mut self, stretch: Range<usize>, some: usize, output: &mut JaggedRows) -> Result<()> {
        self.check_grid(&stretch)?;
        let (before, first) = (output.values.len(), output.ends.len());
        let end_of = |elements: usize| before + elements * size_of::<V>();
        output.ends.reserve(some);
        output.valid.reserve(some);
        let count = self.page.rows(stretch.clone(), |passed, valid| {
            // Where a row begins, the one before it ends, which may have begun in another page.
            if let Some(end) = output.ends.last_mut() {
                *end = end_of(passed);
            }
            output.ends.push(0);
            output.valid.push(valid);
        });
        if let Some(end) = output.ends.last_mut() {
            *end = end_of(count);
        }
        if let Some(null) = output.valid[first..].iter().position(|&valid| valid == 0) {
            self.nulls.bits(self.row + null)?;
        }
        output.values.resize(end_of(count))?;
        let places: &mut [V] = as_numbers(&mut output.values.bytes_mut()[before..])?;
        // Values before the first row that begins here are of the row before it.
        let (ends, reached) = (&output.ends[first..], self.row);
        let is_continued = self.page.starts.part(stretch.start..self.in_page).nth_one(0) != Ok(0);
        let row_of = |element| {
            let row = ends.partition_point(|&end| end <= end_of(element));
            (reached + row).saturating_sub(usize::from(is_continued))
        };
        let page = self.pages.page();
        let (elements, values) = (self.page.elements.part(stretch.clone()), self.page.values.part(stretch));
        if !self.page.has_null_elements || values.ones() == count {
            return self.numbers.read(page, places, |element| Some(row_of(element)));
        }
        self.there.clear(count);
        let mut passed = 0;
        for (value, element) in values.words().zip(elements.words()) {
            self.there.add(passed, compressed(value, element));
            passed += element.count_ones() as usize;
        }
        let bits = match self.nulls {
            Nulls::Filled(bits) => bits,
            Nulls::Masked | Nulls::Refused => {
                return Err(Error::data(format!(
                    "an element of the list in row {} of the row group is null; a fill value for nulls says \
                     what becomes of it, a mask marks whole lists",
                    row_of(self.there.all().first_zero().unwrap_or(0))
                )));
            }
        };
        let row_of = |element| Some(row_of(element));
        self.numbers.read_spread(page, &self.there.all(), narrowed(bits), places, row_of)
    }
}

impl PageBits {
    /// Refuses levels that go on with a list which has no elements.
    fn check(&self) -> Result<()> {
        let mut before = 1;
        for (index, (&start, &element)) in self.starts.words().iter().zip(self.elements.words()).enumerate() {
            let follows = element << 1 | before;
            before = element >> (WORD - 1);
            // What does not begin a row is an element, and behind one.
            let is_wrong = !(start | element & follows) & lowest(self.starts.len() - index * WORD);
            if is_wrong != 0 {
                return Err(Error::data("the levels of a page contradict each other"));
            }
        }
        Ok(())
    }

    /// Calls `begin` for each row that begins in a stretch: with the elements of the stretch before it, and 1
    /// if it is not null, 0 if it is. Gives all elements.
    fn rows(&self, stretch: Range<usize>, mut begin: impl FnMut(usize, u8)) -> usize {
        let [starts, valid, elements] =
            [&self.starts, &self.valid, &self.elements].map(|bits| bits.part(stretch.clone()));
        let mut passed = 0;
        for ((mut starts, valid), elements) in starts.words().zip(valid.words()).zip(elements.words()) {
            while starts != 0 {
                let place = starts.trailing_zeros();
                let before = elements & ((1 << place) - 1);
                begin(passed + before.count_ones() as usize, u8::from(valid >> place & 1 == 1));
                starts &= starts - 1;
            }
            passed += elements.count_ones() as usize;
        }
        passed
    }
}

/// The bits of a word that stand where those of `mask` are 1, side by side.
fn compressed(word: u64, mask: u64) -> u64 {
    let (mut word, mut left_out) = (word, !mask);
    // From the highest one on, so that those below it keep their places.
    while left_out != 0 {
        let place = left_out.ilog2();
        let below = (1 << place) - 1;
        word = word & below | word >> 1 & !below;
        left_out &= below;
    }
    word
}

impl<P: Word, V: Pod> JaggedDecoder for ListDecoder<'_, P, V> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let mut left = rows;
        if self.at == self.in_page {
            let passed = self.pages.pass_rows(self.row, rows)?;
            self.row += passed;
            left -= passed;
        }
        self.walk(left, |decoder, stretch, _| {
            let present = decoder.page.values.part(stretch).ones();
            decoder.numbers.values.skip(decoder.pages.page().bytes, present)
        })
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        self.walk(rows, |decoder, stretch, some| decoder.take(stretch, some, output))
    }
}
