//! Lists in lists, all of one length at each level: whether the levels of a row say so.

use crate::error::{Error, Result};
use crate::format::encoding::bitmap::{Bits, Marks};
use crate::format::encoding::levels::Levels;

/// How many elements there are at each level, and what of a row was seen.
#[derive(Debug)]
pub struct Grid {
    /// From the outermost level on; two at least.
    sizes: Vec<usize>,
    elements: usize,
    /// Of each level below the outermost, which elements of a row begin no list of it.
    expected: Vec<Bits>,
    /// Which elements of the present page begin none.
    found: Vec<Bits>,
    /// Elements of the present row that were seen.
    seen: usize,
}

impl Grid {
    /// Of lists of so many elements, from the outermost on; none if there is but one level.
    pub fn new(sizes: &[usize]) -> Option<Self> {
        let elements = sizes.iter().product();
        let strides = (1..sizes.len()).map(|level| sizes[level..].iter().product::<usize>());
        let expected = strides.map(|stride| {
            let mut inside = Bits::default();
            inside.clear(elements);
            (0..elements).step_by(stride).for_each(|first| inside.add_run(first + 1..first + stride));
            inside
        });
        let expected: Vec<Bits> = expected.collect();
        let found = expected.iter().map(|_| Bits::default()).collect();
        (sizes.len() > 1).then(|| Self { sizes: sizes.to_vec(), elements, expected, found, seen: 0 })
    }

    /// The highest repetition level.
    pub fn deepest(&self) -> u8 {
        u8::try_from(self.sizes.len()).unwrap_or(u8::MAX)
    }

    /// Takes the repetition levels of a page.
    pub fn open(&mut self, levels: &Levels) {
        for (level, found) in (2..).zip(&mut self.found) {
            levels.at_least(level, found);
        }
    }

    /// Looks at a part of a page that holds one row, or some of it: `first` is where it begins in the page, and
    /// `elements` says which of its levels are of elements.
    ///
    /// # Errors
    /// `Data` if the lists in it, which is row `row` of the row group, have other lengths.
    pub fn check(&mut self, row: usize, is_begun: bool, first: usize, elements: &Marks<'_>) -> Result<()> {
        self.seen = if is_begun { self.seen } else { 0 };
        let (there, count) = (elements.ones(), elements.len());
        if there == 0 && self.seen == 0 {
            // Null or empty: that is looked at where its length is.
            return Ok(());
        }
        let end = self.seen + count;
        let is_whole = there == count && end <= self.elements;
        let is_same = |(expected, found): (&Bits, &Bits)| {
            expected.part(self.seen..end).words().eq(found.part(first..first + count).words())
        };
        if !is_whole || !self.expected.iter().zip(&self.found).all(is_same) {
            return Err(Error::data(format!(
                "the lists in row {row} of the row group are null, or have not the lengths {:?} of a tensor of them",
                self.sizes
            )));
        }
        self.seen = end;
        Ok(())
    }
}
