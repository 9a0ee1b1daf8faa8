//! The elements of lists that are made of the bytes of values: decimals, INT96, buckets, and bytes as they are.

use crate::decode::converter::{Converter, RowShape};
use crate::decode::flat::byte_array::TextValues;
use crate::decode::flat::fixed_len::FixedValues;
use crate::decode::list::leaf::{Elements, Leaf, LeafPlaces};
use crate::error::Result;
use crate::format::encoding::page_values::{Page, PageValues};

/// The values of pages, as bytes.
pub trait ByteValues: PageValues {
    /// Calls `take` for each of the next `count` values of the page.
    ///
    /// # Errors
    /// `Data` if there are fewer, and what `take` gives.
    fn each(&mut self, page: Page<'_>, count: usize, take: impl FnMut(&[u8]) -> Result<()>) -> Result<()>;
}

impl ByteValues for FixedValues {
    fn each(&mut self, page: Page<'_>, count: usize, take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        FixedValues::each(self, page, count, take)
    }
}

impl ByteValues for TextValues {
    fn each(
        &mut self,
        page: Page<'_>,
        count: usize,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut taken = Ok(());
        TextValues::each(self, page.bytes, count, |value| {
            if taken.is_ok() {
                taken = take(value);
            }
        })?;
        taken
    }
}

/// What a converter makes of values: elements of one shape.
pub struct ConvertedLeaf<B> {
    values: B,
    converter: Converter,
    shape: RowShape,
}

impl<B: ByteValues> ConvertedLeaf<B> {
    pub fn new(values: B, converter: Converter, shape: RowShape) -> Self {
        Self { values, converter, shape }
    }
}

impl<B: ByteValues> Leaf for ConvertedLeaf<B> {
    fn width(&self) -> usize {
        self.shape.bytes()
    }

    fn values(&mut self) -> &mut impl PageValues {
        &mut self.values
    }

    fn read(
        &mut self,
        elements: &Elements<'_>,
        places: LeafPlaces<'_>,
        row_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let (before, width, shape) = (places.values.len(), self.width(), self.shape);
        places.values.resize(before + elements.count * width)?;
        let mut places = places.values.bytes_mut()[before..].chunks_exact_mut(width).enumerate();
        let present =
            elements.there.as_ref().map_or(elements.count, crate::format::encoding::bitmap::Marks::ones);
        let mut there = elements.there.as_ref().map(crate::format::encoding::bitmap::Marks::each);
        let converter = self.converter;
        self.values.each(elements.page, present, |value| {
            for (element, place) in places.by_ref() {
                if there.as_mut().is_none_or(|there| there.next() == Some(true)) {
                    return converter.convert(value, place, row_of(element));
                }
                shape.fill(place, elements.null);
            }
            Ok(())
        })?;
        places.for_each(|(_, place)| shape.fill(place, elements.null));
        Ok(())
    }
}
