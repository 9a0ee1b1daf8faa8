//! Columns without values of their own: the validity of a struct, and columns that are one value, or null, in
//! a whole file.

use parquet::basic::Encoding;

use crate::decode::converter::RowShape;
use crate::decode::decoder::{JaggedDecoder, JaggedRows, ScalarDecoder, Target, mark_all};
use crate::decode::flat::pages::{FlatPages, Presence};
use crate::error::Result;
use crate::format::encoding::page_values::PageValues;
use crate::memory::vectors::room_for;
use crate::schema::nulls::Nulls;

/// The validity of structs, as the definition levels of one of their fields tell it.
pub struct ValidityDecoder<'a> {
    pages: FlatPages<'a>,
}

/// Values that are never decoded.
#[derive(Debug, Default)]
pub struct Unread;

impl PageValues for Unread {
    fn wants_dictionary(&self) -> bool {
        false
    }

    fn open_dictionary(&mut self, _bytes: &[u8], _count: usize) -> Result<()> {
        Ok(())
    }

    fn open(&mut self, _encoding: Encoding, _bytes: &[u8], _start: usize, _count: usize) -> Result<()> {
        Ok(())
    }

    fn skip(&mut self, _bytes: &[u8], _count: usize) -> Result<()> {
        Ok(())
    }
}

impl<'a> ValidityDecoder<'a> {
    /// The rows of these pages, in which a null is no error.
    pub fn new(pages: FlatPages<'a>) -> Self {
        Self { pages }
    }
}

impl ScalarDecoder for ValidityDecoder<'_> {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.pages.skip(&mut Unread, rows)
    }

    fn page_rows(&mut self) -> Result<usize> {
        self.pages.left_in_page(&mut Unread)
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let mut output = target.values;
        while !output.is_empty() {
            let part = self.pages.next(&mut Unread, output.len())?;
            let (places, rest) = output.split_at_mut(part.rows.len());
            match part.presence {
                Presence::All => places.fill(1),
                Presence::None => places.fill(0),
                Presence::Marked(there) => there.write(places),
            }
            output = rest;
        }
        Ok(())
    }
}

/// The rows of a column that has one value in a whole file.
pub struct ConstantDecoder {
    /// The bytes of each row; `None` if all are null.
    value: Option<Vec<u8>>,
    shape: RowShape,
    nulls: Nulls,
    /// The number of rows that were passed.
    row: usize,
}

impl ConstantDecoder {
    /// Rows of this value, or nulls. A value that is not text has the bytes of a row.
    pub fn new(value: Option<Vec<u8>>, shape: RowShape, nulls: Nulls) -> Self {
        Self { value, shape, nulls, row: 0 }
    }
}

impl ScalarDecoder for ConstantDecoder {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.row += rows;
        Ok(())
    }

    fn page_rows(&mut self) -> Result<usize> {
        Ok(1)
    }

    fn read(&mut self, target: Target<'_>) -> Result<()> {
        let bytes = self.shape.bytes();
        match &self.value {
            Some(value) => target.values.chunks_exact_mut(bytes).for_each(|row| row.copy_from_slice(value)),
            None => self.shape.fill(target.values, self.nulls.bits(self.row)?),
        }
        mark_all(target.valid, u8::from(self.value.is_some()));
        self.row += target.values.len() / bytes;
        Ok(())
    }
}

impl JaggedDecoder for ConstantDecoder {
    fn skip(&mut self, rows: usize) -> Result<()> {
        self.row += rows;
        Ok(())
    }

    fn read(&mut self, rows: usize, output: &mut JaggedRows) -> Result<()> {
        if self.value.is_none() {
            self.nulls.bits(self.row)?;
        }
        room_for(&mut output.ends, rows)?;
        room_for(&mut output.valid, rows)?;
        let value = self.value.as_deref().unwrap_or_default();
        for _ in 0..rows {
            output.values.extend(value)?;
            output.ends.push(output.values.len());
        }
        output.valid.resize(output.ends.len(), u8::from(self.value.is_some()));
        self.row += rows;
        Ok(())
    }
}
