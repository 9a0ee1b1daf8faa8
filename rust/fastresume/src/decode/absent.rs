//! The elements of lists that are all null: their pages hold no value, whatever their type.

use bytemuck::Pod;
use parquet::basic::Encoding;

use crate::decode::numbers::Elements;
use crate::error::{Error, Result};
use crate::format::encoding::bitmap::Marks;
use crate::format::encoding::page_values::{Page, PageValues};

/// No values.
pub struct AbsentValues;

/// Refuses a value where all are null.
///
/// # Errors
/// `Data` if there is one.
pub fn check_absent(count: usize) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    Err(Error::data(format!("the column's type is null, and a page has {count} values that are not")))
}

impl PageValues for AbsentValues {
    fn wants_dictionary(&self) -> bool {
        false
    }

    fn open_dictionary(&mut self, _bytes: &[u8], _count: usize) -> Result<()> {
        Ok(())
    }

    fn open(&mut self, _encoding: Encoding, _bytes: &[u8], _start: usize, count: usize) -> Result<()> {
        check_absent(count)
    }

    fn skip(&mut self, _bytes: &[u8], count: usize) -> Result<()> {
        check_absent(count)
    }
}

impl<V: Pod> Elements<V> for AbsentValues {
    fn values(&mut self) -> &mut impl PageValues {
        self
    }

    fn read(
        &mut self,
        _page: Page<'_>,
        output: &mut [V],
        _row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        check_absent(output.len())
    }

    fn read_spread(
        &mut self,
        _page: Page<'_>,
        there: &Marks<'_>,
        null: V,
        output: &mut [V],
        _row_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<()> {
        output.fill(null);
        check_absent(there.ones())
    }
}
