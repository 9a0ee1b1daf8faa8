//! Which row stands at which position, for a seed and an epoch.

pub mod permutation;
pub mod selection;
pub mod split;
pub mod blocks;
pub mod pass_order;
