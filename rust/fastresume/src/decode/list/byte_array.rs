//! The elements of lists that are strings or binary values.

use crate::decode::decoder::NULL_ROW;
use crate::decode::flat::byte_array::TextValues;
use crate::decode::list::leaf::{Elements, Leaf, LeafPlaces};
use crate::decode::numbers::as_numbers;
use crate::error::{Error, Result};
use crate::format::encoding::byte_array::{MAX_EXPANDED_BYTES, too_long};
use crate::format::encoding::page_values::PageValues;

/// Strings or binary values, delivered as bytes with their lengths.
pub struct ByteArrayLeaf {
    values: TextValues,
}

impl ByteArrayLeaf {
    pub fn new(values: TextValues) -> Self {
        Self { values }
    }
}

impl Leaf for ByteArrayLeaf {
    const ARE_TEXTS: bool = true;

    fn width(&self) -> usize {
        0
    }

    fn values(&mut self) -> &mut impl PageValues {
        &mut self.values
    }

    fn read(
        &mut self,
        elements: &Elements<'_>,
        places: LeafPlaces<'_>,
        _row_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let LeafPlaces { values, lengths: Some(lengths) } = places else {
            return Err(Error::data("texts have no place for their lengths"));
        };
        let (before, first) = (values.len(), lengths.len());
        lengths.resize(first + elements.count * size_of::<u64>())?;
        let lengths: &mut [u64] = as_numbers(&mut lengths.bytes_mut()[first..])?;
        let can_expand = self.values.can_expand();
        let mut added = Ok(());
        let mut add = |text: &[u8], length: &mut u64| {
            if can_expand && values.len() + text.len() - before > MAX_EXPANDED_BYTES {
                added = Err(too_long(elements.rows));
            }
            if added.is_ok() {
                added = values.extend(text);
            }
            *length = text.len() as u64;
        };
        let page = elements.page.bytes;
        match &elements.there {
            None => {
                let mut places = lengths.iter_mut();
                self.values.each(page, elements.count, |text| {
                    places.next().into_iter().for_each(|place| add(text, place));
                })?;
            }
            Some(there) => {
                for (place, is_there) in lengths.iter_mut().zip(there.each()) {
                    *place = if is_there { 0 } else { NULL_ROW };
                }
                let mut places = lengths.iter_mut().filter(|place| **place == 0);
                self.values.each(page, there.ones(), |text| {
                    places.next().into_iter().for_each(|place| add(text, place));
                })?;
            }
        }
        added
    }
}
