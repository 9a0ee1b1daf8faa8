//! Lanes, tail, pass and cursor, and the format of the state.

pub mod tail;
pub mod lanes;
pub mod source_places;
pub mod cursor;
pub mod state_format;
pub mod pass;
pub mod units;
pub mod named_mixture;
pub mod growth;
pub mod merge;
pub mod joined;
pub mod axes;
pub mod mixed_order;
pub mod unit_order;
