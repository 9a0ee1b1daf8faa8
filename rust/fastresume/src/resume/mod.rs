//! Lanes, tails, passes and the cursor: the state format lives here and nowhere else.

pub mod tail;
pub mod lanes;
pub mod cursor;
pub mod state_format;
pub mod pass;
pub mod merge;
