//! Checks lists of lists of one length: whether the repetition levels of a row have the fixed shape.

use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Bitmap, Marks};
use crate::format::encoding::levels::Levels;

/// The fixed shape, and how much of a row was checked.
#[derive(Debug)]
pub struct Grid {
    /// The lengths, from the outermost list inwards; two at least.
    sizes: Vec<usize>,
    elements: usize,
    /// For each level below the outermost, which elements of a row begin no list of that level.
    expected: Vec<Bitmap>,
    /// Which elements of the current page begin no list.
    found: Vec<Bitmap>,
    /// The number of elements of the current row that were checked.
    seen: usize,
}

impl Grid {
    /// The grid of lists of these lengths, from the outermost on; `None` if there is one level only.
    pub fn new(sizes: &[usize]) -> Option<Self> {
        let elements = sizes.iter().product();
        let strides = (1..sizes.len()).map(|level| sizes[level..].iter().product::<usize>());
        let expected = strides.map(|stride| {
            let mut inside = Bitmap::default();
            inside.clear(elements);
            (0..elements).step_by(stride).for_each(|first| inside.add_run(first + 1..first + stride));
            inside
        });
        let expected: Vec<Bitmap> = expected.collect();
        let found = expected.iter().map(|_| Bitmap::default()).collect();
        (sizes.len() > 1).then(|| Self { sizes: sizes.to_vec(), elements, expected, found, seen: 0 })
    }

    /// Takes the repetition levels of a page.
    pub fn open(&mut self, levels: &Levels) {
        for (level, found) in (2..).zip(&mut self.found) {
            levels.at_least(level, found);
        }
    }

    /// Checks a part of a page that holds one row, or some of it. `first` is where it begins in the page, and
    /// `elements` says which of its levels belong to elements.
    ///
    /// # Errors
    /// `Data`, naming row `row` of the row group, if its lists have other lengths.
    pub fn check(&mut self, row: usize, is_begun: bool, first: usize, elements: &Marks<'_>) -> Result<()> {
        self.seen = if is_begun { self.seen } else { 0 };
        let (there, count) = (elements.ones(), elements.len());
        if there == 0 && self.seen == 0 {
            // A null or empty row; its length is checked elsewhere.
            return Ok(());
        }
        let end = self.seen + count;
        let is_whole = there == count && end <= self.elements;
        let is_same = |(expected, found): (&Bitmap, &Bitmap)| {
            expected.part(self.seen..end).words().eq(found.part(first..first + count).words())
        };
        if !is_whole || !self.expected.iter().zip(&self.found).all(is_same) {
            return Err(uneven(row, &self.sizes));
        }
        self.seen = end;
        Ok(())
    }
}

/// The error for a row whose lists have other lengths.
pub fn uneven(row: usize, sizes: &[usize]) -> Error {
    Error::refused(format!(
        "the lists in row {row} of the row group are null, or have not the lengths {sizes:?} that .fixed() or the \
         file's Arrow schema says"
    ))
}
