//! The oracle: the column reader of the `parquet` crate, which may panic on damaged bytes.

use std::sync::Arc;

use parquet::basic::{Encoding, Repetition, Type as Physical};
use parquet::column::page::{Page, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::file::reader::ChunkReader;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, ColumnPath, Type};

use super::hybrids::have_padding;
use crate::error::{Error, caught};
use crate::format::encoding::fallback::ChunkPages;

/// A page of one encoding, and the dictionary before it, if there is one, with its number of values.
pub struct OnePage<'b> {
    pub encoding: Encoding,
    pub bytes: &'b [u8],
    pub count: usize,
    pub dictionary: Option<(&'b [u8], usize)>,
}

impl OnePage<'_> {
    /// Whether the page has runs that the oracle may take for padding.
    fn is_padded(&self) -> bool {
        match self.encoding {
            Encoding::RLE => have_padding(self.bytes.get(4..).unwrap_or_default(), 1),
            Encoding::RLE_DICTIONARY => self
                .bytes
                .split_first()
                .is_some_and(|(width, indices)| have_padding(indices, usize::from(*width))),
            _ => false,
        }
    }
}

/// The values of the page, if the oracle finds as many as there should be.
pub fn values<T: DataType>(page: &OnePage<'_>, length: i32) -> Option<Vec<T::T>> {
    if page.is_padded() {
        return None;
    }
    caught(|| {
        let column =
            column(T::get_physical_type(), length, 0, 0).ok_or_else(|| Error::data("no such column"))?;
        Ok(rows::<T>(column, reader(pages(page)), page.count).map(|rows| rows.values))
    })
    .ok()?
    .filter(|values| values.len() == page.count)
}

/// Rows as they are stored.
pub struct StoredRows<V> {
    pub definition: Vec<i16>,
    pub repetition: Vec<i16>,
    pub values: Vec<V>,
}

/// Rows by the oracle; the levels are empty if the column has none.
pub fn rows<T: DataType>(
    column: ColumnDescPtr,
    pages: Box<dyn PageReader>,
    count: usize,
) -> Option<StoredRows<T::T>> {
    let mut rows = StoredRows { definition: Vec::new(), repetition: Vec::new(), values: Vec::new() };
    let (definition, repetition) = (Some(&mut rows.definition), Some(&mut rows.repetition));
    let mut reader = ColumnReaderImpl::<T>::new(column, pages);
    // The oracle stops where it takes a page for padded. What it would return next would be none of the
    // values.
    let (read, ..) = reader.read_records(count, definition, repetition, &mut rows.values).ok()?;
    (read == count).then_some(rows)
}

/// A column of this type and length, with levels up to these.
pub fn column(physical: Physical, length: i32, definition: u8, repetition: u8) -> Option<ColumnDescPtr> {
    let kind = Type::primitive_type_builder("x", physical)
        .with_repetition(if definition > 0 { Repetition::OPTIONAL } else { Repetition::REQUIRED })
        .with_length(length);
    let path = ColumnPath::new(vec!["x".to_owned()]);
    let leaf = Arc::new(kind.build().ok()?);
    Some(Arc::new(ColumnDescriptor::new(leaf, definition.into(), repetition.into(), path)))
}

/// The pages, as `rows` takes them.
pub fn reader(pages: Vec<Page>) -> Box<dyn PageReader> {
    Box::new(ChunkPages(pages.into_iter()))
}

/// Bytes as a chunk reader takes them.
pub fn source(bytes: &[u8]) -> impl ChunkReader + use<> {
    let page = Page::DictionaryPage {
        buf: bytes.to_vec().into(),
        num_values: 0,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    // This type has no name here.
    page.buffer().clone()
}

fn pages(page: &OnePage<'_>) -> Vec<Page> {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let dictionary = page.dictionary.map(|(bytes, values)| Page::DictionaryPage {
        buf: bytes.to_vec().into(),
        num_values: count(values),
        encoding: Encoding::PLAIN,
        is_sorted: false,
    });
    let data = Page::DataPage {
        buf: page.bytes.to_vec().into(),
        num_values: count(page.count),
        encoding: page.encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    dictionary.into_iter().chain([data]).collect()
}
