//! Batches of few rows, which are put in order together.

/// The batches of one reader, in bunches. A bunch goes by the number of its first batch.
#[derive(Debug, Clone, Copy)]
pub struct Bunches {
    first: u64,
    stride: u64,
    shift: u32,
    batch_rows: u64,
}

impl Bunches {
    /// The batches `first`, `first + stride` and so on, each of so many rows; 2 to the power of `shift` make a bunch.
    #[must_use]
    pub fn new(first: u64, stride: u64, shift: u32, batch_rows: u64) -> Self {
        Self { first, stride, shift, batch_rows }
    }

    /// Whether each batch is alone.
    #[must_use]
    pub fn are_single(&self) -> bool {
        self.shift == 0
    }

    /// The bunch of a batch.
    #[must_use]
    pub fn of(&self, batch: u64) -> u64 {
        if self.are_single() { batch } else { self.named(self.place(batch) >> self.shift) }
    }

    /// The last batch of a bunch, of those there may be.
    #[must_use]
    pub fn last(&self, bunch: u64) -> u64 {
        bunch.saturating_add(((1 << self.shift) - 1) * self.stride)
    }

    /// The bunch so many batches behind one, or the next one if that is farther.
    #[must_use]
    pub fn behind(&self, bunch: u64, batches: u64) -> u64 {
        let bunches = if batches == 0 { 0 } else { (batches >> self.shift).max(1) };
        bunch.saturating_add((bunches << self.shift).saturating_mul(self.stride))
    }

    /// The batches of a bunch below `end`.
    pub fn batches(&self, bunch: u64, end: u64) -> impl Iterator<Item = u64> + use<> {
        let stride = self.stride;
        (0..1 << self.shift).map(move |number| bunch + number * stride).take_while(move |&batch| batch < end)
    }

    /// The row of its bunch where a batch begins.
    #[must_use]
    pub fn first_row(&self, batch: u64) -> u64 {
        self.first_row_of(self.place(batch))
    }

    /// The batch that has a row of a bunch.
    #[must_use]
    pub fn batch_at(&self, bunch: u64, row: u64) -> u64 {
        if self.are_single() { bunch } else { bunch + row / self.batch_rows * self.stride }
    }

    /// The number of a batch among those of the reader.
    #[must_use]
    pub fn place(&self, batch: u64) -> u64 {
        batch.saturating_sub(self.first) / self.stride
    }

    /// From one of its batches to another: how many of the reader's that is.
    #[must_use]
    pub fn places(&self, batch_stride: u64) -> u64 {
        batch_stride / self.stride
    }

    /// The number, among the bunches, of that of the batch at a place.
    #[inline]
    #[must_use]
    pub fn number(&self, place: u64) -> u64 {
        place >> self.shift
    }

    /// The place of the first batch behind a bunch of this number.
    #[must_use]
    pub fn end(&self, number: u64) -> u64 {
        (number + 1) << self.shift
    }

    /// The row of its bunch where the batch at a place begins.
    #[inline]
    #[must_use]
    pub fn first_row_of(&self, place: u64) -> u64 {
        (place & ((1 << self.shift) - 1)) * self.batch_rows
    }

    /// The name of the bunch of a number.
    #[must_use]
    pub fn named(&self, number: u64) -> u64 {
        self.first + (number << self.shift) * self.stride
    }
}
