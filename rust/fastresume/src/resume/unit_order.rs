//! Which row, or unit, of which source stands at the positions of a pass.

use std::ops::Range;

use crate::error::Result;
use crate::memory::vectors::push;
use crate::order::pass_order::Order;
use crate::resume::mixed_order::{MixedOrder, Standing};

/// What stands at the positions of a pass.
#[derive(Debug, Clone)]
pub enum UnitOrder {
    /// The rows, or units, of one dataset, which is the only source.
    One(Box<Order>),
    /// Those of the sources of a mixture.
    Mixed(Box<MixedOrder>),
}

impl UnitOrder {
    /// What stands at positions, in their order.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `State` if a source does not stand there.
    pub fn standing_at(&mut self, positions: &[Range<u64>]) -> Result<Vec<Standing>> {
        let order = match self {
            Self::Mixed(mixed) => return mixed.standing_at(positions),
            Self::One(order) => order,
        };
        let mut found = Vec::new();
        for numbers in positions.iter().flat_map(|of| order.rows(of.clone())) {
            push(&mut found, Standing { source: 0, pass: 0, numbers })?;
        }
        Ok(found)
    }
}
