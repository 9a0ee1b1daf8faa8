//! The first inputs of the corpus: pages and files from a writer, behind the choices that a target expects.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::column::writer::get_typed_column_writer_mut;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray};
use parquet::data_type::{FixedLenByteArrayType, Int32Type, Int64Type, Int96, Int96Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::choices::compression_of;
use super::metadata::pages_of;
use crate::format::metadata::column_chunk::start_of;

/// Rows of a file, and the most rows of its pages: few, or more than are decoded at a time.
const FEW: (u16, usize) = (90, 40);
const MANY: (u16, usize) = (900, 800);

/// An input, and the name of its target.
type Seed = (&'static str, Vec<u8>);

/// How a column is written.
#[derive(Clone, Copy)]
struct Writing {
    /// The kind, as `flat_chunks` and `list_chunks` number kinds.
    kind: u8,
    is_optional: bool,
    /// The number of lists around a value.
    lists: u8,
    is_v2: bool,
    /// The codec, as `compression_of` numbers codecs.
    codec: u8,
    encoding: Encoding,
    /// The rows, and those of a page.
    rows: (u16, usize),
}

/// A file, and its footer.
struct WrittenFile {
    bytes: Vec<u8>,
    metadata: ParquetMetaData,
}

/// The inputs of all targets.
///
/// # Errors
/// The writer's errors.
pub fn seeds() -> Result<Vec<Seed>> {
    use Encoding::{
        BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, PLAIN, RLE,
        RLE_DICTIONARY,
    };
    let mut seeds = Vec::new();
    let flat: [(u8, &[Encoding]); 7] = [
        (0, &[PLAIN, RLE_DICTIONARY, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT]),
        (1, &[PLAIN, RLE_DICTIONARY, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT]),
        (2, &[PLAIN, RLE_DICTIONARY, BYTE_STREAM_SPLIT]),
        (3, &[PLAIN, RLE]),
        (4, &[PLAIN, RLE_DICTIONARY, DELTA_BYTE_ARRAY, BYTE_STREAM_SPLIT]),
        (5, &[PLAIN, RLE_DICTIONARY]),
        (6, &[PLAIN, RLE_DICTIONARY, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY]),
    ];
    for (number, (kind, encodings)) in flat.into_iter().enumerate() {
        for (&encoding, codec) in encodings.iter().zip([0, 1, 2, 0, 3]) {
            let (is_optional, is_v2, rows) = (false, false, MANY);
            seeds.extend(of_chunk(Writing { kind, is_optional, lists: 0, is_v2, codec: 0, encoding, rows })?);
            for (is_optional, is_v2) in [(false, false), (true, false), (true, true)] {
                let codec = if is_optional { codec + u8::try_from(number).unwrap_or(0) % 3 } else { 0 };
                let writing = Writing { kind, is_optional, lists: 0, is_v2, codec, encoding, rows: FEW };
                seeds.extend(of_chunk(writing)?);
            }
        }
    }
    for (kind, lists) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 1), (8, 1), (10, 2), (11, 2)] {
        for (encoding, is_v2, codec) in
            [(PLAIN, false, 0), (RLE_DICTIONARY, true, 1), (RLE_DICTIONARY, false, 0)]
        {
            for is_optional in [false, true] {
                seeds.extend(of_chunk(Writing {
                    kind,
                    is_optional,
                    lists,
                    is_v2,
                    codec,
                    encoding,
                    rows: FEW,
                })?);
            }
        }
    }
    for codec in 0..7 {
        let writing = Writing {
            kind: 6,
            is_optional: false,
            lists: 0,
            is_v2: false,
            codec,
            encoding: PLAIN,
            rows: FEW,
        };
        seeds.extend(of_chunk(writing)?);
    }
    for variety in [3, 200, 70_000] {
        let numbers = (0..700_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % variety);
        let page: Vec<u8> = numbers.flat_map(|number| (number << 3).to_le_bytes()).collect();
        let size = u16::try_from(page.len()).unwrap_or(0).to_le_bytes();
        let packed = snap::raw::Encoder::new().compress_vec(&page).unwrap_or_default();
        // Behind the two bytes of its length.
        seeds.push(("snappy", [&size, &packed[2.min(packed.len())..]].concat()));
        seeds.push(("snappy", [&size, &page[..]].concat()));
    }
    for groups in 1..=10_u8 {
        // Levels of one bit, with alternating runs and packed groups.
        let turns = (0..20_u8).flat_map(|turn| {
            let packed = (0..groups).map(move |group| turn.wrapping_mul(37) ^ group.wrapping_mul(85));
            [2 * (1 + turn * 3), turn % 2, 2 * groups + 1].into_iter().chain(packed)
        });
        let turns: Vec<u8> = turns.collect();
        seeds.push(("levels", [&[1, 1, 0x80, 2, 0, groups, 1], &turns[..]].concat()));
    }
    for kind in 0..8 {
        let bytes: Vec<u8> = (0..600_u16).map(|index| (index * 7 % 256) as u8 / 3).collect();
        seeds.push(("vectors", [&[kind, 5 + kind, 100, 0, 3, kind][..], &bytes].concat()));
    }
    Ok(seeds)
}

/// The inputs of all targets that read a part of a file.
fn of_chunk(writing: Writing) -> Result<Vec<Seed>> {
    let WrittenFile { bytes, metadata } = written(writing)?;
    let chunk = metadata.row_group(0).column(0);
    let start = start_of(chunk);
    let length = usize::try_from(chunk.compressed_size()).unwrap_or(0);
    let start = usize::try_from(start).unwrap_or(0);
    let pages = bytes.get(start..start + length).ok_or(ParquetError::EOF("no chunk".to_owned()))?;
    let index = chunk.offset_index_range().and_then(|range| part(&bytes, &range)).unwrap_or_default();
    let mut seeds = Vec::new();
    let target = if writing.lists == 0 { "flat_chunks" } else { "list_chunks" };
    let flags = u8::from(writing.is_optional);
    for (flags, index) in [(flags, &[][..]), (flags | 2, index)] {
        let [first, second] = u16::try_from(index.len()).unwrap_or(0).to_le_bytes();
        let [rows, values] = [writing.rows.0, 10 * writing.rows.0].map(u16::to_le_bytes);
        let choices = [
            writing.kind,
            flags,
            writing.codec,
            rows[0],
            rows[1],
            values[0],
            values[1],
            5,
            flags,
            first,
            second,
        ];
        seeds.push((target, [&choices[..], pages, index].concat()));
    }
    let footer = bytes.len() - 8;
    let footer_bytes = bytes[footer..].first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
    seeds.push(("footers", bytes[footer - footer_bytes..footer].to_vec()));
    let count = index_pages(pages);
    let places = [chunk.column_index_range(), chunk.offset_index_range()];
    for (kind, place) in places.into_iter().enumerate() {
        let place = place.and_then(|range| part(&bytes, &range)).unwrap_or_default();
        let choices = [u8::try_from(kind).unwrap_or(0), count, 255, 255];
        seeds.push(("page_indexes", [&choices[..], place].concat()));
    }
    if let Some(offset) = chunk.bloom_filter_offset() {
        let from = bytes.get(usize::try_from(offset).unwrap_or(0)..).unwrap_or_default();
        seeds.push(("page_indexes", [&[2, 0, 0, 0], &from[..from.len().min(200)]].concat()));
    }
    seeds.extend(of_pages(writing, pages));
    Ok(seeds)
}

fn part<'b>(bytes: &'b [u8], range: &Range<u64>) -> Option<&'b [u8]> {
    bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

fn index_pages(pages: &[u8]) -> u8 {
    let count = pages_of(pages).iter().filter(|(header, ..)| !header.is_dictionary()).count();
    u8::try_from(count).unwrap_or(0)
}

/// The inputs of targets that read headers, levels, codecs, or values of one page.
fn of_pages(writing: Writing, pages: &[u8]) -> Vec<Seed> {
    let mut seeds: Vec<Seed> = Vec::new();
    let mut dictionary: Option<(u16, &[u8])> = None;
    for (header, bytes, body) in pages_of(pages) {
        seeds.push(("headers", bytes.to_vec()));
        let size = u16::try_from(header.uncompressed_bytes()).unwrap_or(0).to_le_bytes();
        if header.level_bytes().is_none() {
            seeds.push(("codecs", [&[writing.codec, size[0], size[1]], body].concat()));
            if compression_of(writing.codec) == Compression::SNAPPY {
                let varint = body.iter().take_while(|byte| **byte >= 0x80).count() + 1;
                seeds.push(("snappy", [&size, &body[varint.min(body.len())..]].concat()));
            }
        }
        if writing.codec != 0 {
            continue;
        }
        let count = u16::try_from(header.values()).unwrap_or(0).to_le_bytes();
        if header.is_dictionary() {
            dictionary = Some((u16::from_le_bytes(count), body));
            continue;
        }
        if writing.is_optional || writing.lists > 0 {
            // The levels at the start of the page: repetition levels for lists.
            let kind = u8::from(header.level_bytes().is_some());
            let largest = writing.lists.max(1);
            seeds.push(("levels", [&[largest, kind, count[0], count[1], 0, 3, 1], body].concat()));
            continue;
        }
        let width = [0, 1, 1, 0, 2, 0, 0][usize::from(writing.kind % 7)];
        let choices = [width, count[0], count[1], 7, 1];
        let is_number = matches!(writing.kind, 0..=2);
        match (writing.encoding, dictionary) {
            (Encoding::RLE_DICTIONARY, Some((values, entries))) => {
                seeds.push(("hybrids", [&[1, 2], body].concat()));
                let length = u16::try_from(entries.len()).unwrap_or(0);
                let choices =
                    [&choices[..], &values.to_le_bytes(), &length.to_le_bytes(), entries, body].concat();
                let target = if is_number { "indices" } else { "text_indices" };
                seeds.push((target, choices));
            }
            _ if writing.kind == 3 => {
                let choices = [u8::from(writing.encoding == Encoding::RLE), count[0], count[1], 7, 1];
                seeds.push(("booleans", [&choices[..], body].concat()));
            }
            (Encoding::PLAIN, _) if is_number => seeds.push(("plain", [&choices[..], body].concat())),
            (Encoding::BYTE_STREAM_SPLIT, _) => seeds.push(("split", [&choices[..], body].concat())),
            (Encoding::DELTA_BINARY_PACKED, _) => seeds.push(("deltas", [&choices[..], body].concat())),
            (Encoding::PLAIN, _) => seeds.push(("texts", [&choices[..], body].concat())),
            (encoding, _) => {
                let choices = [u8::from(encoding == Encoding::DELTA_BYTE_ARRAY), count[0], count[1], 7, 1];
                seeds.push(("text_deltas", [&choices[..], body].concat()));
            }
        }
    }
    seeds
}

/// A file of one column.
fn written(writing: Writing) -> Result<WrittenFile> {
    if writing.lists > 0 && writing.kind % 4 != 1 {
        return write::<Int64Type>(writing, |number| i64::from(number) << 30);
    }
    let kind = if writing.lists > 0 { 6 } else { writing.kind };
    match kind {
        0 => write::<Int32Type>(writing, |number| i32::from(number) * 7 - 100),
        1 => write::<Int64Type>(writing, |number| i64::from(number) << 30),
        2 => write::<DoubleType>(writing, |number| f64::from(number) / 8.0),
        3 => write::<BoolType>(writing, |number| number % 3 == 0),
        4 => write::<FixedLenByteArrayType>(writing, |number| {
            FixedLenByteArray::from(ByteArray::from(format!("{number:05}").into_bytes()))
        }),
        5 => write::<Int96Type>(writing, |number| {
            let mut instant = Int96::new();
            instant.set_data(u32::from(number), 0, 2_450_000 + u32::from(number));
            instant
        }),
        _ => write::<ByteArrayType>(writing, |number| {
            format!("text {}", u32::from(number) * 37).into_bytes().into()
        }),
    }
}

fn write<T: DataType>(writing: Writing, value: impl Fn(u16) -> T::T) -> Result<WrittenFile> {
    let kind = match T::get_physical_type() {
        Physical::BYTE_ARRAY => "binary".to_owned(),
        Physical::FIXED_LEN_BYTE_ARRAY => "fixed_len_byte_array(5)".to_owned(),
        other => other.to_string().to_lowercase(),
    };
    let repetition = if writing.is_optional { "optional" } else { "required" };
    let mut column = format!("{repetition} {kind} x;");
    for _ in 0..writing.lists {
        column = format!("{repetition} group x (LIST) {{ repeated group list {{ {column} }} }}");
    }
    let schema = Arc::new(parse_message_type(&format!("message m {{ {column} }}"))?);
    let version = if writing.is_v2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
    let mut properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(compression_of(writing.codec))
        .set_dictionary_enabled(writing.encoding == Encoding::RLE_DICTIONARY)
        .set_bloom_filter_enabled(writing.kind == 0)
        .set_bloom_filter_max_ndv(3)
        .set_data_page_row_count_limit(writing.rows.1)
        .set_write_batch_size(10);
    if writing.encoding != Encoding::RLE_DICTIONARY {
        properties = properties.set_encoding(writing.encoding);
    }
    let (mut values, mut definition, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    let null = i16::from(writing.is_optional);
    let whole = i16::from(writing.lists) * (1 + null) + null;
    // Lists of one length are two lists of three elements.
    let may_be_short = writing.lists > 0 && writing.kind % 4 != 3;
    for row in 0..writing.rows.0 {
        // A row without elements: null, or empty.
        let level = match row % 7 {
            3 if writing.lists > 0 && writing.is_optional => Some(0),
            5 if may_be_short => Some(null),
            _ => None,
        };
        if let Some(level) = level {
            definition.push(level);
            repetitions.push(0);
            continue;
        }
        let elements = if writing.lists == 0 { 1 } else { 6 };
        for element in 0..elements {
            if element == 3 && writing.lists == 2 && may_be_short && row % 3 == 0 {
                // A list in the row that is empty, or null.
                definition.push(null + 1 + null * i16::from(row % 2 == 0));
                repetitions.push(1);
                break;
            }
            let is_null = writing.is_optional && (row + element) % 5 == 2;
            definition.push(whole - i16::from(is_null));
            repetitions.push(match element {
                0 => 0,
                3 => 1,
                _ => i16::from(writing.lists),
            });
            if !is_null {
                values.push(value((row / 3 * 5 + element) % 23));
            }
        }
    }
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    if let Some(mut column) = group.next_column()? {
        let of_type = get_typed_column_writer_mut::<T>(column.untyped());
        of_type.write_batch(&values, Some(&definition), Some(&repetitions))?;
        column.close()?;
    }
    group.close()?;
    let metadata = writer.finish()?;
    Ok(WrittenFile { bytes: writer.inner().clone(), metadata })
}
