//! The order of a pass: the row at each position, for a seed and an epoch.

pub mod permutation;
pub mod selection;
pub mod split;
pub mod blocks;
pub mod shuffle;
pub mod comb;
pub mod period;
pub mod weights;
pub mod mixture;
pub mod pass_order;
