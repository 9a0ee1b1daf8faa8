//! The seam to what has rows that lie in no Parquet file.

use std::fmt::Debug;
use std::sync::Arc;

use crate::arrow::array::Array;
use crate::arrow::field::ArrowField;
use crate::error::{Error, Result};

/// Rows that lie behind one another, as arrays of columns side by side.
#[derive(Debug, Clone)]
pub struct RowBatch {
    /// How many there are.
    pub rows: usize,
    /// The array of each column, by its number; none of those that were not asked for.
    pub columns: Vec<Option<Array>>,
}

/// All rows of a row group.
#[derive(Debug)]
pub struct RowGroup {
    /// Where each batch begins, and its rows.
    batches: Vec<(usize, RowBatch)>,
    rows: usize,
    /// The bytes of memory that they take, at most.
    bytes: u64,
}

/// How soon rows come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// They are in memory, or in pages that the system brings.
    AtHand,
    /// They are made, which takes memory and no time to wait.
    Near,
    /// They are waited for: others are asked for meanwhile.
    Far,
}

/// What waits for the rows of a row group.
pub type Waiting = Box<dyn FnOnce() -> Result<Arc<RowGroup>> + Send>;

/// What has rows, in parts whose row groups have known numbers of rows.
pub trait RowSource: Send + Sync + Debug + 'static {
    /// The columns.
    fn fields(&self) -> &[ArrowField];

    /// The footer of a Parquet file of the same columns without a row, which says how they are delivered.
    fn footer(&self) -> &[u8];

    /// How soon its rows come.
    fn reach(&self) -> Reach;

    /// Asks for the rows of a row group of a part, of some of the columns by their ascending numbers; what it returns waits for
    /// them. Where none are waited for, they are read then.
    fn ask(self: Arc<Self>, part: usize, group: usize, columns: Vec<usize>) -> Waiting {
        Box::new(move || self.read(part, group, &columns))
    }

    /// The rows of a row group of a part, of some of the columns by their ascending numbers.
    ///
    /// # Errors
    /// `Source` if they can't be had; `Data` if they are not what was stated.
    fn read(&self, part: usize, group: usize, columns: &[usize]) -> Result<Arc<RowGroup>>;

    /// The first rows of a row group, at least so many if it has them.
    ///
    /// # Errors
    /// As for `read`.
    fn first(&self, part: usize, group: usize, columns: &[usize], most: usize) -> Result<Arc<RowGroup>> {
        let _ = most;
        self.read(part, group, columns)
    }
}

impl RowGroup {
    /// Batches one behind another, which have so many rows together.
    ///
    /// # Errors
    /// `Data` if they have others, or an array has fewer.
    pub fn new(each: impl IntoIterator<Item = RowBatch>, rows: usize) -> Result<Self> {
        let (mut batches, mut before, mut bytes) = (Vec::new(), 0_usize, 0_u64);
        for batch in each {
            if batch.columns.iter().flatten().any(|column| column.length != batch.rows) {
                return Err(Error::data("arrays of one batch have other numbers of rows"));
            }
            let count = batch.rows;
            bytes = batch.columns.iter().flatten().map(array_bytes).fold(bytes, u64::saturating_add);
            if count > 0 {
                batches.push((before, batch));
            }
            before = before.saturating_add(count);
        }
        if before != rows {
            return Err(Error::data(format!("there are {before} rows, {rows} were stated")));
        }
        Ok(Self { batches, rows, bytes })
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The batch that has a row, and which of its rows that is.
    #[must_use]
    pub fn batch(&self, row: usize) -> Option<(&RowBatch, usize)> {
        let place = self.batches.partition_point(|(start, _)| *start <= row).checked_sub(1)?;
        let (start, batch) = &self.batches[place];
        (row - start < batch.rows).then_some((batch, row - start))
    }

    /// The bytes of memory that it takes, at most.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What lies before the values of a slice is another's.
fn array_bytes(array: &Array) -> u64 {
    let buffers = array.buffers.iter().chain(&array.validity);
    let own: usize = buffers.map(|buffer| buffer.bytes().len()).sum();
    let below: u64 = array.children.iter().map(array_bytes).sum();
    let before = array.offset.saturating_add(array.length).max(1);
    let share = u128::from(below + own as u64) * array.length as u128 / before as u128;
    let dictionary = array.dictionary.as_deref().map_or(0, array_bytes);
    u64::try_from(share).unwrap_or(u64::MAX).saturating_add(dictionary)
}
