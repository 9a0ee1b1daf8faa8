//! The elements of lists that are numbers, decoded as in a flat column.

use std::marker::PhantomData;

use bytemuck::Pod;

use crate::decode::list::leaf::{Elements, Leaf, LeafPlaces};
use crate::decode::numbers::{self, as_numbers, narrowed};
use crate::error::Result;
use crate::format::encoding::page_values::PageValues;

/// Numbers that are delivered as `V`.
pub struct NumberLeaf<V, E> {
    numbers: E,
    delivered: PhantomData<V>,
}

impl<V: Pod, E: numbers::NumberElements<V>> NumberLeaf<V, E> {
    pub fn new(numbers: E) -> Self {
        Self { numbers, delivered: PhantomData }
    }
}

impl<V: Pod, E: numbers::NumberElements<V>> Leaf for NumberLeaf<V, E> {
    fn width(&self) -> usize {
        size_of::<V>()
    }

    fn values(&mut self) -> &mut impl PageValues {
        self.numbers.values()
    }

    fn read(
        &mut self,
        elements: &Elements<'_>,
        places: LeafPlaces<'_>,
        row_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let before = places.values.len();
        places.values.resize(before + elements.count * size_of::<V>())?;
        let places: &mut [V] = as_numbers(&mut places.values.bytes_mut()[before..])?;
        let row_of = |element| Some(row_of(element));
        match &elements.there {
            None => self.numbers.read(elements.page, places, row_of),
            Some(there) => {
                self.numbers.read_spread(elements.page, there, narrowed(elements.null), places, row_of)
            }
        }
    }
}
