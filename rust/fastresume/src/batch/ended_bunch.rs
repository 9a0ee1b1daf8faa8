//! A bunch whose rows are in their order, from which its batches are taken.

use crate::batch::gather_rows::gather;
use crate::batch::segment::to_usize;
use crate::batch::slots::fields::FieldSlots;
use crate::batch::slots::row_ids::{Damage, RowIds};
use crate::error::Result;
use crate::memory::pool::Memory;
use crate::projection::layout::Layout;
use crate::resume::tail::Shape;

/// The rows of a bunch, in their order.
#[derive(Debug)]
pub struct EndedBunch {
    fields: Vec<Memory>,
    numbers: Vec<u64>,
    damage: Vec<Damage>,
}

impl EndedBunch {
    /// What was brought into its last form.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn new(slots: FieldSlots, layout: &Layout) -> Result<Self> {
        let (fields, written) = slots.into_parts(layout);
        let damage = written.damage().to_vec();
        Ok(Self { fields, numbers: written.numbers()?, damage })
    }

    /// The memory of each field of a batch, which begins at a row of the bunch, and which rows it has.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn batch(&self, layout: &Layout, first_row: u64, shape: Shape) -> Result<(Vec<Memory>, RowIds)> {
        let (first, distinct) = (to_usize(first_row)?, to_usize(shape.distinct)?);
        let rows = to_usize(shape.rows)?;
        // Filled up with copies of its rows, in turn.
        let copies = (0..rows.div_ceil(distinct.max(1)))
            .map(|turn| first..first + distinct.min(rows - turn * distinct));
        let fields = gather(&self.fields, layout, &copies)?;
        let numbers = self.numbers.get(first..first + distinct).unwrap_or_default();
        let mut written = RowIds::default();
        written.note_each(numbers)?;
        written.note_damage(&self.damage);
        Ok((fields, written))
    }
}
