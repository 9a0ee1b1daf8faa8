//! The elements of lists of any depth: what a decoder of lists asks of the values below it.

use crate::error::Result;
use crate::format::encoding::bitmap::Marks;
use crate::format::encoding::page_values::{Page, PageValues};
use crate::memory::pool::Memory;

/// Elements of lists that follow each other in a page.
pub struct Elements<'e> {
    pub page: Page<'e>,
    /// How many there are, nulls among them.
    pub count: usize,
    /// Which of them have a value, if not all have.
    pub there: Option<Marks<'e>>,
    /// The bits of what stands for a null number.
    pub null: u64,
    /// The number of rows that they are in.
    pub rows: usize,
}

/// Where elements are written, behind those that are there.
pub struct LeafPlaces<'e> {
    pub values: &'e mut Memory,
    /// The lengths of texts.
    pub lengths: Option<&'e mut Memory>,
}

/// The values of the elements of lists.
pub trait Leaf {
    /// Whether they are texts, which have lengths.
    const ARE_TEXTS: bool = false;

    /// Bytes of an element, if all have equally many; else 0.
    fn width(&self) -> usize;

    /// The values of pages, to be opened and skipped.
    fn values(&mut self) -> &mut impl PageValues;

    /// Appends the next elements. `row_of` returns the row that an element is in.
    ///
    /// # Errors
    /// `Data` if there are fewer, or one does not fit its type; `Argument` if there is no memory for them.
    fn read(
        &mut self,
        elements: &Elements<'_>,
        places: LeafPlaces<'_>,
        row_of: impl Fn(usize) -> usize,
    ) -> Result<()>;
}
