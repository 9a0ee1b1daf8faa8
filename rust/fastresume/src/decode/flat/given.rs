//! Columns of one value wherever a struct is there, and null where it is not.

use crate::decode::converter::RowShape;
use crate::decode::decoder::{JaggedDecoder, JaggedRows, ScalarDecoder, Target, mark_all};
use crate::error::Result;
use crate::memory::vectors::{room_for, with_room};
use crate::schema::nulls::Nulls;

/// Rows of a value, as the validity of structs tells where.
pub struct GivenDecoder<'a> {
    there: Box<dyn ScalarDecoder + 'a>,
    /// The bytes of each row; `None` if all are null.
    value: Option<Vec<u8>>,
    shape: RowShape,
    nulls: Nulls,
    /// The number of rows that were passed.
    row: usize,
}

impl<'a> GivenDecoder<'a> {
    /// Rows of this value; `there` gives a byte for each, 1 where it is not null.
    pub fn new(
        there: Box<dyn ScalarDecoder + 'a>,
        value: Option<Vec<u8>>,
        shape: RowShape,
        nulls: Nulls,
    ) -> Self {
        Self { there, value, shape, nulls, row: 0 }
    }

    /// Of so many next rows, whether each has the value. Null ones are an error if that is what they are.
    fn next(&mut self, rows: usize) -> Result<Vec<u8>> {
        let mut there = with_room(rows)?;
        there.resize(rows, 0);
        self.there.read(Target { values: &mut there, valid: &mut [] })?;
        if self.value.is_none() {
            mark_all(&mut there, 0);
        }
        if let Some(null) = there.iter().position(|&there| there == 0) {
            self.nulls.bits(self.row + null)?;
        }
        self.row += rows;
        Ok(there)
    }
}

impl ScalarDecoder for GivenDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.row += rows;
        self.there.skip(rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        self.there.page_rows()
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let bytes = self.shape.bytes();
        let there = self.next(target.values.len() / bytes)?;
        let null = self.nulls.bits(self.row).unwrap_or(0);
        let value = self.value.as_deref().unwrap_or_default();
        for (row, &there) in target.values.chunks_exact_mut(bytes).zip(&there) {
            if there == 1 { row.copy_from_slice(value) } else { self.shape.fill(row, null) }
        }
        if !target.valid.is_empty() {
            target.valid.copy_from_slice(&there);
        }
        Ok(())
    }
}

impl JaggedDecoder for GivenDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        ScalarDecoder::skip(self, rows)
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        let there = self.next(rows)?;
        room_for(&mut output.ends, rows)?;
        room_for(&mut output.valid, rows)?;
        for &there in &there {
            if there == 1 {
                output.values.extend(self.value.as_deref().unwrap_or_default())?;
            }
            output.ends.push(output.values.len());
        }
        output.valid.extend_from_slice(&there);
        Ok(())
    }
}
