//! Rows of any length as rows of one: what they are filled up with, and what is cut off.

/// One end of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Where its first element is.
    Head,
    /// Where its last one is.
    Tail,
}

/// What makes of rows of any length those of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padding {
    /// Elements of each row.
    pub size: usize,
    /// Numbers of each element.
    pub of: usize,
    /// The bits of what stands where a row has none.
    pub bits: u64,
    /// Where that is.
    pub at: End,
    /// Which end is kept of a row that has more elements; without one, such a row is an error.
    pub kept: Option<End>,
}

impl Padding {
    /// Numbers of each row.
    #[must_use]
    pub fn numbers(&self) -> usize {
        self.size.saturating_mul(self.of)
    }
}
