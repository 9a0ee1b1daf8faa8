//! The pages of a list column: which levels belong to which rows, and what they mean.
//!
//! Source: <https://github.com/apache/parquet-format#nested-encoding>

use std::ops::Range;

use crate::decode::list::grid::Grid;
use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Bitmap, WORD, lowest};
use crate::format::encoding::levels::Levels;
use crate::format::encoding::page_values::{Page, PageValues};
use crate::format::encoding::rle::MAX_VALUES;
use crate::format::page::pages::Pages;
use crate::format::page::reader::PageStart;

/// What the definition levels of a list column mean.
#[derive(Debug, Clone)]
pub struct ListLevels {
    /// The level of an empty list. The level below it is that of a null list, if lists can be null.
    pub empty: u8,
    /// The lowest level of an element of a list, for each list in a list from the outermost on.
    pub elements: Vec<u8>,
    /// The level of a value. Levels from that of an innermost element up to this are those of null elements, if there are
    /// any.
    pub value: u8,
    /// The largest level.
    pub largest: u8,
    /// The largest repetition level.
    pub repetition: u8,
}

/// Iterates over the rows of a column chunk, page by page.
pub struct ListPages<'a> {
    pages: Pages<'a>,
    meaning: ListLevels,
    /// The shape that lists of lists of one length must have.
    grid: Option<Grid>,
    levels: Levels,
    bits: PageBits,
    /// The number of levels of the current page, and how many of them were passed.
    in_page: usize,
    at: usize,
    /// The number of rows of the row group that were passed.
    row: usize,
    /// Whether the next page may continue a row, and a list of each level in it.
    goes_on: Vec<bool>,
    /// Whether pages were skipped, so that a row that the next page continues is not wanted.
    has_passed: bool,
}

/// What the repetition and definition levels of a page say, as bits.
#[derive(Debug, Default)]
pub struct PageBits {
    /// Set where a row begins.
    pub starts: Bitmap,
    /// Where a row begins: set if the row is not null.
    pub valid: Bitmap,
    /// Set where there is an element, which may be null; in lists of lists, an element of an innermost list.
    pub elements: Bitmap,
    /// Set where there is a value.
    pub values: Bitmap,
    /// Whether an element is null.
    pub has_null_elements: bool,
    /// The same for the lists in lists, level by level from the outermost on.
    pub inner: Vec<InnerBits>,
}

/// What the repetition and definition levels of a page say of the lists of one level in others, as bits.
#[derive(Debug, Default)]
pub struct InnerBits {
    /// Set where such a list begins.
    pub begins: Bitmap,
    /// Where such a list begins: set if the list is not null.
    pub valid: Bitmap,
    /// Set where there is such a list.
    there: Bitmap,
    /// Set where none is continued.
    starts: Bitmap,
}

/// The levels of one page that belong to requested rows.
#[derive(Debug, Clone)]
pub struct LevelRange {
    /// The levels, counted within the page.
    pub levels: Range<usize>,
    /// The rows that begin there, counted within the row group.
    pub rows: Range<usize>,
}

/// How far a walk over requested rows has come.
#[derive(Debug)]
pub struct RowWalk {
    /// The number of rows that have not begun.
    left: usize,
    has_begun: bool,
    is_over: bool,
}

impl RowWalk {
    pub fn new(rows: usize) -> Self {
        Self { left: rows, has_begun: false, is_over: rows == 0 }
    }
}

impl<'a> ListPages<'a> {
    /// The pages of lists; with a grid, of lists of lists of one length.
    pub fn new(pages: Pages<'a>, meaning: ListLevels, grid: Option<Grid>) -> Self {
        let levels = if grid.is_some() { 1 } else { meaning.elements.len() };
        let inner = (1..levels).map(|_| InnerBits::default()).collect();
        let bits = PageBits { inner, ..PageBits::default() };
        Self {
            pages,
            meaning,
            grid,
            levels: Levels::default(),
            bits,
            in_page: 0,
            at: 0,
            row: 0,
            goes_on: vec![true; levels],
            has_passed: false,
        }
    }

    /// The current page.
    pub fn page(&self) -> Page<'_> {
        self.pages.page()
    }

    /// What its levels say.
    pub fn bits(&self) -> &PageBits {
        &self.bits
    }

    /// The number of rows of the row group that were passed.
    pub fn passed(&self) -> usize {
        self.row
    }

    /// Whether a range of levels begins within a row.
    pub fn is_continued(&self, stretch: &LevelRange) -> bool {
        self.bits.starts.part(stretch.levels.start..self.in_page).nth_one(0) != Ok(0)
    }

    /// The next levels of a walk's rows, which count as passed; `values` is moved to their values. `None` at
    /// the end of the walk.
    ///
    /// # Errors
    /// `Data` if there are fewer rows, or a page is damaged; `Source` if it can't be read.
    pub fn next(&mut self, values: &mut impl PageValues, walk: &mut RowWalk) -> Result<Option<LevelRange>> {
        if walk.is_over {
            return Ok(None);
        }
        if walk.left == 0 && self.at == self.in_page && self.pages.end_rows() {
            walk.is_over = true;
            return Ok(None);
        }
        if !self.open_page(values)? {
            if walk.left > 0 {
                return Err(Error::data(format!("the column chunk ends after {} rows", self.row)));
            }
            walk.is_over = true;
            return Ok(None);
        }
        if !walk.has_begun && self.bits.starts.part(self.at..self.at + 1).ones() == 0 {
            return Err(Error::data(format!("row {} of the row group has no beginning", self.row)));
        }
        let (end, begun) = match self.bits.starts.part(self.at..self.in_page).nth_one(walk.left) {
            Ok(next) => (self.at + next, walk.left),
            Err(begun) => (self.in_page, begun),
        };
        let stretch = LevelRange { levels: self.at..end, rows: self.row..self.row + begun };
        walk.left -= begun;
        walk.has_begun = true;
        // The last row ends where the next one begins, or where the chunk ends.
        walk.is_over = end < self.in_page;
        (self.at, self.row) = (end, stretch.rows.end);
        Ok(Some(stretch))
    }

    /// Refuses rows of a range whose lists do not have the shape of the grid, if there is one.
    ///
    /// # Errors
    /// `Data`, naming the row.
    pub fn check_grid(&mut self, stretch: &LevelRange) -> Result<()> {
        let Some(grid) = &mut self.grid else { return Ok(()) };
        let PageBits { starts, elements, .. } = &self.bits;
        let (mut row, mut first) = (stretch.rows.start, stretch.levels.start);
        while first < stretch.levels.end {
            let next = starts.part(first + 1..stretch.levels.end).nth_one(0);
            let next = next.map_or(stretch.levels.end, |next| first + 1 + next);
            // Elements before the first row that begins here belong to the row before.
            let begins = starts.part(first..first + 1).ones();
            grid.check((row + begins).saturating_sub(1), begins == 0, first, &elements.part(first..next))?;
            row += begins;
            first = next;
        }
        Ok(())
    }

    /// Skips `rows` rows; whole pages are skipped by their headers.
    ///
    /// # Errors
    /// As for `next`.
    pub fn skip(&mut self, values: &mut impl PageValues, rows: usize) -> Result<()> {
        let mut walk = RowWalk::new(rows);
        self.pass_pages(&mut walk)?;
        while let Some(stretch) = self.next(values, &mut walk)? {
            values.skip(self.pages.page().bytes, self.bits.values.part(stretch.levels).ones())?;
            self.pass_pages(&mut walk)?;
        }
        Ok(())
    }

    /// Skips whole pages of a walk's rows, if the current page is at its end.
    fn pass_pages(&mut self, walk: &mut RowWalk) -> Result<()> {
        if self.at == self.in_page && walk.left > 0 {
            let passed = self.pages.pass_rows(self.row, walk.left)?;
            if passed > 0 {
                self.row += passed;
                self.goes_on.fill(true);
                self.has_passed = true;
                *walk = RowWalk::new(walk.left - passed);
            }
        }
        Ok(())
    }

    /// Opens pages until one has levels; returns false at the end of the chunk.
    fn open_page(&mut self, values: &mut impl PageValues) -> Result<bool> {
        while self.at == self.in_page {
            let Some(page) = self.pages.open(values)? else { return Ok(false) };
            self.open_data(&page, values)?;
        }
        Ok(true)
    }

    fn open_data(&mut self, page: &PageStart, values: &mut impl PageValues) -> Result<()> {
        let (bytes, count) = (self.pages.page().bytes, page.num_values);
        if count > MAX_VALUES {
            return Err(Error::data(format!("a page has {count} values, at most {MAX_VALUES} are read")));
        }
        let (repetition, definition) = page.levels.bytes().unzip();
        let PageBits { starts, valid, elements, values: present, inner, .. } = &mut self.bits;
        let ListLevels { empty, elements: of_elements, value, largest, repetition: deepest } = &self.meaning;
        let (empty, value, largest, deepest) = (*empty, *value, *largest, *deepest);
        let element = of_elements.last().copied().unwrap_or(value);
        let start = self.levels.read(bytes, 0, count, deepest, (page.repetition_encoding, repetition))?;
        self.levels.at_least(1, present);
        if let Some(grid) = &mut self.grid {
            grid.open(&self.levels);
        }
        starts.set(count, |index| !present.words()[index]);
        for (level, inner) in (2..).zip(inner.iter_mut()) {
            self.levels.at_least(level, present);
            inner.starts.set(count, |index| !present.words()[index]);
        }
        let how = (page.definition_encoding, definition);
        let start = self.levels.read(bytes, start, count, largest, how)?;
        self.levels.at_least(value, present);
        for (inner, of) in inner.iter_mut().zip(of_elements.windows(2)) {
            self.levels.at_least(of[0], &mut inner.there);
            // Below the level of an element is that of an empty list.
            self.levels.at_least(of[1].saturating_sub(1), &mut inner.valid);
        }
        self.levels.at_least(element, elements);
        self.levels.at_least(empty, valid);
        let rows = starts.all().ones();
        let begins_row = starts.words().first().is_none_or(|word| word & 1 == 1);
        if page.is_indexed && !begins_row {
            return Err(Error::data("a page begins within a row, the page index says with one"));
        }
        page.check_rows(rows)?;
        self.pages.check_group_rows(self.row + rows)?;
        let found = present.all().ones();
        self.bits.has_null_elements = found < self.bits.elements.all().ones();
        if self.grid.is_none() {
            self.bits.check(&mut self.goes_on)?;
        }
        page.open_values(values, bytes, start, found)?;
        // The rest of a row that was passed over may be longer than a page.
        let first = if self.has_passed { self.bits.starts.all().nth_one(0).unwrap_or(count) } else { 0 };
        self.has_passed &= first == count;
        values.skip(bytes, self.bits.values.part(0..first).ones())?;
        self.pages.note_rows(self.row..self.row + rows);
        (self.in_page, self.at) = (count, first);
        Ok(())
    }
}

/// Refuses levels that continue a list without elements. `goes_on` says whether the first level may continue
/// a list. On return it says whether a level behind the last may.
fn check(starts: &Bitmap, elements: &Bitmap, goes_on: &mut bool) -> Result<()> {
    let mut before = u64::from(*goes_on);
    for (index, (&start, &element)) in starts.words().iter().zip(elements.words()).enumerate() {
        let follows = element << 1 | before;
        before = element >> (WORD - 1);
        // A level that begins no list is an element, and follows an element.
        let is_wrong = !(start | element & follows) & lowest(starts.len() - index * WORD);
        if is_wrong != 0 {
            return Err(Error::data("the levels of a page contradict each other"));
        }
    }
    if let Some(last) = starts.len().checked_sub(1) {
        *goes_on = elements.part(last..last + 1).ones() == 1;
    }
    Ok(())
}

impl PageBits {
    /// Refuses levels that contradict each other; `goes_on` is for rows, and for the lists of each level in them.
    fn check(&mut self, goes_on: &mut [bool]) -> Result<()> {
        let mut starts = &self.starts;
        let mut goes_on = goes_on.iter_mut();
        for (inner, goes_on) in self.inner.iter_mut().zip(goes_on.by_ref()) {
            let InnerBits { begins, there, starts: own, .. } = inner;
            check(starts, there, goes_on)?;
            // In a row without inner lists, a row begins and no inner list does.
            begins.combine(own, there, |start, there| start & there);
            starts = own;
        }
        goes_on.try_for_each(|goes_on| check(starts, &self.elements, goes_on))
    }

    /// Calls `begin` for each row that begins in a range of levels. It gets the number of the range's
    /// elements before the row, and 1 if the row is not null, else 0. Returns the number of all elements.
    pub fn rows(&self, stretch: &LevelRange, begin: impl FnMut(usize, u8)) -> usize {
        each_begun(&stretch.levels, [&self.starts, &self.valid, &self.elements], begin)
    }

    /// What lies in the rows of one level of inner rows: the lists of that level, or, behind them, the elements.
    pub fn in_rows(&self, number: usize) -> &Bitmap {
        self.inner.get(number).map_or(&self.elements, |inner| &inner.begins)
    }

    /// Which of the elements of a range have a value.
    pub fn there(&self, stretch: &LevelRange, there: &mut Bitmap) {
        let [elements, values] = [&self.elements, &self.values].map(|bits| bits.part(stretch.levels.clone()));
        there.clear(elements.ones());
        let mut passed = 0;
        for (value, element) in values.words().zip(elements.words()) {
            there.add(passed, compressed(value, element));
            passed += element.count_ones() as usize;
        }
    }
}

/// Calls `begin` for each 1 of `starts` in a range of levels. It gets how many 1s of `of` lie before it there, and its bit of
/// `valid`. Returns how many 1s of `of` there are.
#[inline]
pub fn each_begun(
    levels: &Range<usize>,
    [starts, valid, of]: [&Bitmap; 3],
    mut begin: impl FnMut(usize, u8),
) -> usize {
    let [starts, valid, of] = [starts, valid, of].map(|bits| bits.part(levels.clone()));
    let mut passed = 0;
    for ((mut starts, valid), of) in starts.words().zip(valid.words()).zip(of.words()) {
        while starts != 0 {
            let place = starts.trailing_zeros();
            let before = of & ((1 << place) - 1);
            begin(passed + before.count_ones() as usize, u8::from(valid >> place & 1 == 1));
            starts &= starts - 1;
        }
        passed += of.count_ones() as usize;
    }
    passed
}

/// The bits of `word` where `mask` is 1, moved together.
fn compressed(word: u64, mask: u64) -> u64 {
    let (mut word, mut left_out) = (word, !mask);
    // From the highest one on, so that lower bits keep their places.
    while left_out != 0 {
        let place = left_out.ilog2();
        let below = (1 << place) - 1;
        word = word & below | word >> 1 & !below;
        left_out &= below;
    }
    word
}
