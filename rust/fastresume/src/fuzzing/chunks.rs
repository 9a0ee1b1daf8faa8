//! Fuzz targets for flat column chunks: all of their pages, read at once and in steps.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::page::Page;
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescPtr;

use super::choices::{Choices, InMemory, Steps, compression_of};
use super::metadata::pages_of;
use super::oracle;
use crate::decode::converter::{Conversion, Converter, RowShape};
use crate::decode::decoder::{JaggedDecoder, JaggedRows, ScalarDecoder, Target};
use crate::decode::flat::byte_array::ByteArrayDecoder;
use crate::decode::flat::fixed_len::FixedLenDecoder;
use crate::decode::flat::number::NumberDecoder;
use crate::decode::flat::pages::{FlatLevels, FlatPages};
use crate::decode::numbers::Numbers;
use crate::error::{Error, Result, caught};
use crate::format::metadata::column_chunk::{ColumnChunk, Encodings};
use crate::format::metadata::writer::Writer;
use crate::format::page::kept_pages::KeptPages;
use crate::format::page::locations::PageLocations;
use crate::format::page::pages::Pages;
use crate::format::page::reader::{Buffers, PageReader};
use crate::schema::cast::NumberCast;
use crate::schema::nulls::Nulls;
use crate::schema::types::Dtype;

/// The most rows that are read: a few bytes of runs can state many.
pub const MOST_ROWS: usize = 3000;

/// A column chunk at the start of some bytes, and how its rows are read.
pub struct ChunkChoices {
    pub kind: u8,
    pub bytes: Arc<InMemory>,
    pub chunk: ColumnChunk,
    pub steps: Steps,
    pub is_optional: bool,
    /// The row behind the last wanted one, if only a part is wanted.
    end_row: Option<u64>,
}

impl ChunkChoices {
    pub fn new(
        bytes: &[u8],
        value_bytes: impl Fn(u8) -> Option<usize>,
        levels: impl Fn(u8, bool) -> (u8, u8),
    ) -> Self {
        let mut choices = Choices::new(bytes);
        let (kind, flags, codec) = (choices.byte(), choices.byte(), choices.byte());
        let (rows, values) = (choices.number() % MOST_ROWS, choices.number() as u64);
        let (steps, index_bytes) = (choices.steps(), choices.number() as u64);
        let levels = levels(kind, flags & 1 == 1);
        let is_flat = levels.0 == 0;
        let length = choices.rest.len() as u64;
        let end = length.saturating_sub(index_bytes);
        let pages = &choices.rest[..usize::try_from(end).unwrap_or(0)];
        let chunk = ColumnChunk {
            start: 0,
            end,
            // The bytes behind the pages.
            index: (index_bytes > 0).then_some(end..length),
            rows: rows as u64,
            values: if is_flat { rows as u64 } else { stated_values(values, pages) },
            most_page_bytes: u64::MAX,
            uncompressed_bytes: 0,
            compression: compression_of(codec),
            value_bytes: value_bytes(kind),
            levels,
            encodings: Encodings::default(),
            writer: Writer::of((flags & 4 == 4).then_some("parquet-cpp-arrow version 11.0.0")),
        };
        let end_row = (flags & 2 == 2).then(|| (rows as u64).saturating_sub(u64::from(codec) / 8));
        let bytes = Arc::new(InMemory(choices.rest.to_vec()));
        Self { kind, bytes, chunk, steps, is_optional: flags & 1 == 1, end_row }
    }

    /// The number of wanted rows.
    pub fn rows(&self) -> usize {
        usize::try_from(self.end_row.unwrap_or(self.chunk.rows)).unwrap_or(0)
    }

    /// The pages. Readers of other parts of the rows share dictionaries and page locations with it.
    pub fn pages<'a>(&self, shared: &Shared, buffers: &'a mut Buffers) -> Result<Pages<'a>> {
        if let Some(end_row) = self.end_row {
            buffers.begin_part(0, end_row, &shared.kept);
        }
        let stored = PageReader::new(
            Arc::clone(&self.bytes) as _,
            self.chunk.clone(),
            Arc::clone(&shared.places),
            (true, Arc::default()),
            buffers,
        )?;
        Ok(Pages::Stored(stored))
    }

    /// The rows as the oracle reads them, with levels up to these. `None` if it can't read them, or takes
    /// other bytes for pages.
    pub fn oracle_rows<T: DataType>(
        &self,
        definition: u8,
        repetition: u8,
    ) -> Option<oracle::StoredRows<T::T>> {
        // The oracle can't read a part of the rows: it reads levels for as many rows as it wants.
        if self.end_row.is_some() || self.rows() == 0 {
            return None;
        }
        let column = oracle::column(T::get_physical_type(), 0, definition, repetition)?;
        let read = || {
            let pages = self.oracle_pages(&column, repetition == 0);
            Ok(pages.and_then(|pages| oracle::rows::<T>(column, oracle::reader(pages), self.rows())))
        };
        caught(read).ok()?
    }

    fn oracle_pages(&self, column: &ColumnDescPtr, is_flat: bool) -> Option<Vec<Page>> {
        let own = pages_of(&self.bytes.0[..usize::try_from(self.chunk.end).ok()?]);
        let stated = own.iter().map(|(header, ..)| header.values()).sum();
        let metadata = ColumnChunkMetaData::builder(Arc::clone(column))
            .set_compression(self.chunk.compression)
            .set_data_page_offset(0)
            .set_total_compressed_size(i64::try_from(self.chunk.end).ok()?)
            .set_num_values(i64::try_from(if is_flat { self.rows() } else { stated }).ok()?)
            .build()
            .ok()?;
        let source = Arc::new(oracle::source(&self.bytes.0));
        let pages = SerializedPageReader::new(source, &metadata, self.rows(), None).ok()?;
        let pages: Vec<Page> = pages.collect::<parquet::errors::Result<_>>().ok()?;
        // The oracle ignores the types of a header's fields: where one has another type, it finds other
        // pages.
        let is_packed = self.chunk.compression != Compression::UNCOMPRESSED;
        let is_same = own.len() == pages.len()
            && own.iter().zip(&pages).all(|((header, _, body), page)| {
                header.values() == page.num_values() as usize && (is_packed || **body == **page.buffer())
            });
        is_same.then_some(pages)
    }
}

/// As many values as the headers of pages state; of an odd choice, the choice.
fn stated_values(choice: u64, pages: &[u8]) -> u64 {
    if choice % 2 == 1 {
        return choice;
    }
    let data = pages_of(pages).into_iter().filter(|(header, ..)| header.is_data());
    data.map(|(header, ..)| header.values() as u64).sum()
}

/// What those who read parts of a chunk have in common.
pub struct Shared {
    places: Arc<PageLocations>,
    kept: Arc<KeptPages>,
}

impl Shared {
    pub fn new() -> Self {
        Self { places: Arc::default(), kept: Arc::new(KeptPages::new(1 << 16, 1)) }
    }
}

/// Numbers as they are and cast, booleans, values of 5, 12 and 16 bytes, and strings, with nulls or without.
pub fn flat_chunks(bytes: &[u8]) {
    let value_bytes =
        |kind: u8| [Some(4), Some(8), Some(8), Some(0), Some(5), Some(12), None][usize::from(kind % 7)];
    let choices = ChunkChoices::new(bytes, value_bytes, |_, is_optional| (0, u8::from(is_optional)));
    if choices.kind % 7 == 6 {
        return texts(&choices);
    }
    let (width, shared) = (row_bytes(&choices), Shared::new());
    let rows = choices.rows();
    let (mut all, mut valid) = (vec![0_u64; (rows * width).div_ceil(8)], vec![0; rows]);
    let all: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut all)[..rows * width];
    let mut buffers = Buffers::default();
    let Ok(mut decoder) = decoder(&choices, &shared, &mut buffers) else { return };
    let is_whole = decoder.read(Target { values: all, valid: &mut valid }).is_ok();
    drop(decoder);
    if is_whole {
        compare_with_oracle(&choices, all, &valid);
    }
    for shared in [&shared, &Shared::new()] {
        in_steps(&choices, shared, (all, &valid), is_whole);
    }
}

/// Reads the rows of a scalar column in steps. If all of them could be read at once, they must be the same.
fn in_steps(choices: &ChunkChoices, shared: &Shared, (all, valid): (&[u8], &[u8]), is_whole: bool) {
    let (mut steps, width, rows) = (choices.steps.clone(), row_bytes(choices), valid.len());
    let mut buffers = Buffers::default();
    let Ok(mut decoder) = decoder(choices, shared, &mut buffers) else { return };
    let mut done = 0;
    while done < rows {
        let mut some = steps.some(rows - done);
        let mut places: Vec<u32> = (0..u32::try_from(some).unwrap_or(0)).collect();
        let step = match steps.below(4) {
            0 => decoder.skip(some).map(|()| None),
            1 => decoder.page_rows().map(|inside| {
                assert!(inside > 0, "a page of no rows is open");
                some = 0;
                None
            }),
            kind => {
                if kind == 2 {
                    places = steps.places(some);
                    some = places.last().map_or(0, |&last| last as usize + 1);
                }
                let mut found = vec![0_u64; (places.len() * width).div_ceil(8)];
                let mut marks = vec![7; places.len()];
                let values = &mut bytemuck::cast_slice_mut(&mut found)[..places.len() * width];
                let target = Target { values, valid: &mut marks };
                let read = if kind == 2 { decoder.pick(&places, target) } else { decoder.read(target) };
                read.map(|()| Some((found, marks)))
            }
        };
        assert!(!is_whole || step.is_ok(), "rows from {done} on are refused in steps: {:?}", step.err());
        let Ok(step) = step else { return };
        if let Some((found, marks)) = step.filter(|_| is_whole) {
            let found: &[u8] = bytemuck::cast_slice(&found);
            for (index, place) in places.iter().map(|&place| done + place as usize).enumerate() {
                assert_eq!(found[index * width..][..width], all[place * width..][..width], "row {place}");
                assert_eq!(marks[index], valid[place], "row {place}");
            }
        }
        done += some;
    }
}

fn row_bytes(choices: &ChunkChoices) -> usize {
    [4, 8, 8, 1, 5, 8, 0][usize::from(choices.kind % 7)]
}

fn flat_pages<'a>(
    choices: &ChunkChoices,
    shared: &Shared,
    buffers: &'a mut Buffers,
) -> Result<FlatPages<'a>> {
    let largest = u8::from(choices.is_optional);
    let levels = FlatLevels { largest, there: largest };
    Ok(FlatPages::new(choices.pages(shared, buffers)?, levels, Nulls::Masked))
}

fn decoder<'a>(
    choices: &ChunkChoices,
    shared: &Shared,
    buffers: &'a mut Buffers,
) -> Result<Box<dyn ScalarDecoder + 'a>> {
    let pages = flat_pages(choices, shared, buffers)?;
    let delivery = |stored, delivered| {
        NumberCast::new(stored, delivered).ok_or_else(|| Error::data("there is no such cast"))
    };
    let fixed = |pages, length, conversion, width, size| {
        let converter = Converter { conversion, then: None };
        FixedLenDecoder::new(pages, (length, false), converter, RowShape { width, size })
    };
    Ok(match choices.kind % 7 {
        0 => {
            let numbers: Numbers<u32, u32> = Numbers::new(delivery(Dtype::Int32, Dtype::Int32)?);
            Box::new(NumberDecoder::new(pages, numbers))
        }
        1 => {
            let numbers: Numbers<u64, u64> = Numbers::new(delivery(Dtype::Int64, Dtype::Float64)?);
            Box::new(NumberDecoder::new(pages, numbers))
        }
        2 => {
            let numbers: Numbers<u64, u64> = Numbers::new(delivery(Dtype::Float64, Dtype::Float64)?);
            Box::new(NumberDecoder::new(pages, numbers))
        }
        3 => {
            let numbers: Numbers<u8, u8> = Numbers::new(delivery(Dtype::Bool, Dtype::Bool)?);
            Box::new(NumberDecoder::new(pages, numbers))
        }
        4 => Box::new(fixed(pages, 5, Conversion::Copied, 1, 5)),
        _ => Box::new(fixed(pages, 12, Conversion::Instant(1), 8, 1)),
    })
}

/// Compares rows with what the oracle reads of the same chunk.
fn compare_with_oracle(choices: &ChunkChoices, all: &[u8], valid: &[u8]) {
    let kind = choices.kind % 7;
    let mut values = all.chunks_exact(row_bytes(choices)).zip(valid).filter(|(_, valid)| **valid == 1);
    let mut next = |expected: &[u8]| {
        let found = values.next().map(|(found, _)| found);
        assert!(found.is_none_or(|found| found == expected), "{found:?}, the oracle reads {expected:?}");
    };
    match kind {
        0 => read::<Int32Type>(choices, valid, |value| next(&value.to_le_bytes())),
        #[expect(clippy::cast_precision_loss, reason = "a cast refuses what it would lose")]
        1 => read::<Int64Type>(choices, valid, |value| next(&(*value as f64).to_le_bytes())),
        2 => read::<DoubleType>(choices, valid, |value| next(&value.to_le_bytes())),
        3 => read::<BoolType>(choices, valid, |value| next(&[u8::from(*value)])),
        _ => {}
    }
}

/// Lets the oracle read the rows, and passes on each value.
fn read<T: DataType>(choices: &ChunkChoices, valid: &[u8], mut each: impl FnMut(&T::T)) {
    let Some(rows) = choices.oracle_rows::<T>(u8::from(choices.is_optional), 0) else { return };
    if choices.is_optional {
        let is_same = rows.definition.iter().zip(valid).all(|(level, valid)| *level == i16::from(*valid));
        assert!(is_same, "other rows are null than the oracle reads");
    }
    rows.values.iter().for_each(&mut each);
}

/// Strings of a chunk, read at once, in steps, and by the oracle.
fn texts(choices: &ChunkChoices) {
    let shared = Shared::new();
    let mut buffers = Buffers::default();
    let Ok(pages) = flat_pages(choices, &shared, &mut buffers) else { return };
    let (mut all, rows) = (JaggedRows::default(), choices.rows());
    let mut decoder = ByteArrayDecoder::new(pages);
    let is_whole = decoder.read(rows, &mut all).is_ok();
    if is_whole {
        let present = (0..rows).filter(|&row| all.valid[row] == 1);
        let mut texts = present.map(|row| &all.values.bytes()[all.bytes_of(row)]);
        read::<ByteArrayType>(choices, &all.valid, |text| {
            let found = texts.next();
            assert!(found.is_none_or(|found| found == text.data()), "the oracle reads another text");
        });
    }
    for shared in [&shared, &Shared::new()] {
        let mut buffers = Buffers::default();
        let Ok(pages) = flat_pages(choices, shared, &mut buffers) else { return };
        jagged_in_steps(&mut ByteArrayDecoder::new(pages), choices, &all, is_whole);
    }
}

/// Reads the rows of a jagged column in steps. If all of them could be read at once, they must be the same.
pub fn jagged_in_steps(
    decoder: &mut dyn JaggedDecoder,
    choices: &ChunkChoices,
    all: &JaggedRows,
    is_whole: bool,
) {
    let (mut steps, rows) = (choices.steps.clone(), choices.rows());
    let mut done = 0;
    while done < rows {
        let some = steps.some(rows - done);
        let mut found = JaggedRows::default();
        let is_read = steps.below(2) == 0;
        let step = if is_read { decoder.read(some, &mut found) } else { decoder.skip(some) };
        assert!(!is_whole || step.is_ok(), "rows from {done} on are refused in steps: {:?}", step.err());
        if step.is_err() {
            return;
        }
        for row in 0..if is_read && is_whole { some } else { 0 } {
            let of_all = done + row;
            let values = &all.values.bytes()[all.bytes_of(of_all)];
            assert_eq!(&found.values.bytes()[found.bytes_of(row)], values, "row {of_all}");
            assert_eq!(found.valid[row], all.valid[of_all], "row {of_all}");
            assert_eq!(found.inner_bytes(0, row), all.inner_bytes(0, of_all), "row {of_all}");
        }
        done += some;
    }
}
