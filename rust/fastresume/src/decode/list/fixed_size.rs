//! Jagged columns that are delivered as rows of one length: fixed-size lists, and decimals stored as byte
//! arrays.

use crate::decode::converter::{Converter, RowShape};
use crate::decode::decoder::{JaggedDecoder, JaggedRows, ScalarDecoder, Target};
use crate::error::{Error, Result};
use crate::schema::nulls::Nulls;

/// Rows are decoded in steps of about this many bytes, and of one row at least.
const STEP_BYTES: usize = 1 << 18;

/// How the rows of a jagged column become rows of one length.
#[derive(Debug, Clone, Copy)]
pub enum FixedRows {
    /// They have that length.
    Lists,
    /// Each row is converted.
    Converted(Converter),
}

/// A jagged column, delivered as rows of one length.
pub struct FixedSizeDecoder<'a> {
    decoder: Box<dyn JaggedDecoder + 'a>,
    rows: FixedRows,
    shape: RowShape,
    nulls: Nulls,
    /// The rows as decoded.
    decoded: JaggedRows,
    /// The number of rows that were passed.
    row: usize,
}

impl<'a> FixedSizeDecoder<'a> {
    pub fn new(decoder: Box<dyn JaggedDecoder + 'a>, rows: FixedRows, shape: RowShape, nulls: Nulls) -> Self {
        Self { decoder, rows, shape, nulls, decoded: JaggedRows::default(), row: 0 }
    }

    /// Whether the decoded rows are lists of the delivered length, none of them null: then they can be copied
    /// as a whole.
    fn is_even(&self) -> bool {
        let bytes = self.shape.bytes();
        let mut ends = self.decoded.ends.iter().zip(1..);
        matches!(self.rows, FixedRows::Lists) && ends.all(|(&end, rows): (&usize, usize)| end == rows * bytes)
    }

    /// Writes decoded row `index` to its place.
    fn put(&self, index: usize, place: &mut [u8]) -> Result<()> {
        let row = self.row + index;
        let value = &self.decoded.values.bytes()[self.decoded.bytes_of(index)];
        if self.decoded.valid[index] == 0 {
            self.shape.fill(place, self.nulls.bits(row)?);
            return Ok(());
        }
        match self.rows {
            FixedRows::Converted(converter) => converter.convert(value, place, row),
            FixedRows::Lists if value.len() == place.len() => {
                place.copy_from_slice(value);
                Ok(())
            }
            FixedRows::Lists => Err(Error::refused(format!(
                "the list in row {row} of the row group has {} elements, expected {} as .fixed() or the file's Arrow schema \
                 says; .fixed(None) makes a Jagged of lists of any length",
                value.len() / self.shape.width,
                self.shape.size
            ))),
        }
    }
}

impl ScalarDecoder for FixedSizeDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.row += rows;
        self.decoder.skip(rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        // An unwanted row may have another length, or fail to fit.
        Ok(1)
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let bytes = self.shape.bytes();
        let step = (STEP_BYTES / bytes).max(1);
        let mut valid = target.valid;
        for places in target.values.chunks_mut(step * bytes) {
            let rows = places.len() / bytes;
            self.decoded.clear();
            self.decoder.read(rows, &mut self.decoded)?;
            if self.is_even() {
                places.copy_from_slice(self.decoded.values.bytes());
            } else {
                for (index, place) in places.chunks_exact_mut(bytes).enumerate() {
                    self.put(index, place)?;
                }
            }
            let (marks, unmarked) = valid.split_at_mut(rows.min(valid.len()));
            marks.copy_from_slice(&self.decoded.valid[..marks.len()]);
            valid = unmarked;
            self.row += rows;
        }
        Ok(())
    }
}
