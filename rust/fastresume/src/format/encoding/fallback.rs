//! Decodes numbers in encodings that have no decoder here, with that of the `parquet` crate: slower, never
//! wrong.
//!
//! All encodings of byte arrays and booleans that the crate decodes have one here. For numbers it also knows
//! ALP.

use std::sync::Arc;
use std::vec::IntoIter;

use bytemuck::Pod;
use parquet::basic::{Encoding, Repetition, Type as Physical};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

use crate::error::{Error, Result, caught};
use crate::memory::vectors::{room_for, with_room};

/// Values are asked for this many at a time, because a page may claim any number of them.
const AT_A_TIME: usize = 1 << 16;

/// Replaces the contents of `output` by the `count` values of a page; `bytes` begin behind the page's levels.
///
/// # Errors
/// `Data` if there are fewer, or the type has no such encoding.
pub fn decode<P: Pod>(
    encoding: Encoding,
    is_integer: bool,
    bytes: &[u8],
    count: usize,
    output: &mut Vec<P>,
) -> Result<()> {
    output.clear();
    let page = ChunkPages(vec![page(encoding, bytes, count)?].into_iter());
    caught(|| match (size_of::<P>(), is_integer) {
        (4, true) => read::<Int32Type, P>(Physical::INT32, page, count, output),
        (4, false) => read::<FloatType, P>(Physical::FLOAT, page, count, output),
        (8, true) => read::<Int64Type, P>(Physical::INT64, page, count, output),
        (8, false) => read::<DoubleType, P>(Physical::DOUBLE, page, count, output),
        _ => Err(Error::data(format!("the encoding {encoding} is not one for the column's type"))),
    })
}

fn page(encoding: Encoding, bytes: &[u8], count: usize) -> Result<Page> {
    let mut held = with_room(bytes.len())?;
    held.extend_from_slice(bytes);
    Ok(Page::DataPage {
        buf: held.into(),
        num_values: u32::try_from(count).map_err(|_| Error::data(format!("a page claims {count} values")))?,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    })
}

fn read<T: DataType, P: Pod>(
    physical: Physical,
    page: ChunkPages,
    count: usize,
    output: &mut Vec<P>,
) -> Result<()>
where
    T::T: Pod,
{
    let failed = |cause: ParquetError| Error::data(format!("the page can't be decoded: {cause}"));
    // No levels are passed: nulls were counted before.
    let builder = Type::primitive_type_builder("values", physical).with_repetition(Repetition::REQUIRED);
    let leaf = Arc::new(builder.build().map_err(failed)?);
    let leaf = Arc::new(ColumnDescriptor::new(leaf, 0, 0, ColumnPath::from("values")));
    let mut reader = ColumnReaderImpl::<T>::new(leaf, Box::new(page));
    let mut some: Vec<T::T> = Vec::new();
    while output.len() < count {
        some.clear();
        let wanted = AT_A_TIME.min(count - output.len());
        let (_, found, _) = reader.read_records(wanted, None, None, &mut some).map_err(failed)?;
        if found == 0 {
            return Err(Error::data(format!(
                "a page has {} values, its header states {count}",
                output.len()
            )));
        }
        room_for(output, some.len())?;
        output.extend_from_slice(bytemuck::cast_slice(&some));
    }
    Ok(())
}

/// The pages of a column chunk, as the crate's readers take them.
pub struct ChunkPages(pub IntoIter<Page>);

impl Iterator for ChunkPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl PageReader for ChunkPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        Ok(self.0.next())
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.0.next();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded<P: Pod>(encoding: Encoding, is_integer: bool, bytes: &[u8], count: usize) -> Result<Vec<P>> {
        let mut output = Vec::new();
        decode(encoding, is_integer, bytes, count, &mut output).map(|()| output)
    }

    #[test]
    fn numbers_are_those_of_the_crate_and_as_many_as_stated() {
        let bytes: Vec<u8> = (0..70_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected: Vec<u32> = (0..70_000).collect();
        assert_eq!(decoded::<u32>(Encoding::PLAIN, true, &bytes, 70_000).unwrap(), expected);
        assert_eq!(decoded::<u32>(Encoding::PLAIN, false, &bytes, 70_000).unwrap(), expected);
        assert!(decoded::<u32>(Encoding::PLAIN, true, &bytes, 70_001).is_err());
    }

    #[test]
    fn what_the_crate_has_no_decoder_for_is_refused() {
        let message = |found: Result<Vec<u16>>| found.unwrap_err().to_string();
        let of_two_bytes = message(decoded(Encoding::ALP, false, &[0; 16], 8));
        assert_eq!(of_two_bytes, "the encoding ALP is not one for the column's type");
        let integers = decoded::<u64>(Encoding::ALP, true, &[0; 16], 8).unwrap_err().to_string();
        assert!(integers.contains("ALP"), "{integers}");
        assert!(decoded::<u32>(Encoding::ALP, false, &[0xff; 16], 8).is_err());
    }
}
