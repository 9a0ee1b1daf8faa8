//! Our decoders and those of the `parquet` crate return the same rows.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fastresume::{Fill, Layout, Manifest, Policy, Request, Sources, read_rows};
use parquet::basic::{Compression, Encoding, Type as Physical, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::column::writer::get_typed_column_writer_mut;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

/// The value that a null element becomes.
const FILL: u64 = 77;

/// Whether each row has one value or a list, and what may be null.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Required,
    Optional,
    List,
}

/// How a file is written, and which of its rows are read.
#[derive(Debug, Clone)]
struct Case {
    physical: Physical,
    shape: Shape,
    rows: usize,
    encoding: Option<Encoding>,
    is_v2: bool,
    compression: Compression,
    page_rows: usize,
    /// The number of different values to choose from.
    variety: u64,
    seed: u64,
    read: Range<usize>,
}

fn cases() -> impl Strategy<Value = Case> {
    let physical = prop::sample::select(vec![
        Physical::BOOLEAN,
        Physical::INT32,
        Physical::INT64,
        Physical::FLOAT,
        Physical::DOUBLE,
        Physical::BYTE_ARRAY,
    ]);
    let shape = prop::sample::select(vec![Shape::Required, Shape::Optional, Shape::List]);
    let compression = prop::sample::select(vec![
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ]);
    let sizes = (1..600_usize, 1..200_usize, prop::sample::select(vec![1_u64, 3, 200, u64::MAX]));
    (physical, shape, 0..6_usize, any::<bool>(), compression, sizes, any::<u64>(), any::<(u16, u16)>())
        .prop_map(
            |(physical, shape, encoding, is_v2, compression, (rows, page_rows, variety), seed, read)| {
                // Lists of strings are not delivered.
                let shape = if physical == Physical::BYTE_ARRAY && shape == Shape::List {
                    Shape::Optional
                } else {
                    shape
                };
                let known: &[Encoding] = match physical {
                    Physical::BOOLEAN => &[Encoding::PLAIN, Encoding::RLE],
                    Physical::INT32 | Physical::INT64 => {
                        &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT]
                    }
                    Physical::BYTE_ARRAY => {
                        &[Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY]
                    }
                    _ => &[Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT, Encoding::ALP],
                };
                let start = usize::from(read.0) % rows;
                let end = start + 1 + usize::from(read.1) % (rows - start);
                let encoding = known.get(encoding).copied();
                Case {
                    physical,
                    shape,
                    rows,
                    encoding,
                    is_v2,
                    compression,
                    page_rows,
                    variety,
                    seed,
                    read: start..end,
                }
            },
        )
}

/// A row as text: a dot for a null row, and for a null element.
type Row = String;

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20 ^ *state << 11
}

/// Values and levels of a column.
fn column<T: DataType>(case: &Case, value: impl Fn(u64) -> T::T) -> (Vec<T::T>, Vec<i16>, Vec<i16>) {
    let mut state = case.seed;
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..case.rows {
        let (lengths, null) = (next(&mut state) % 5, next(&mut state).is_multiple_of(4));
        match case.shape {
            Shape::Required => values.push(value(next(&mut state) % case.variety)),
            Shape::Optional => {
                definition.push(i16::from(!null));
                if !null {
                    values.push(value(next(&mut state) % case.variety));
                }
            }
            Shape::List if null || lengths == 0 => {
                definition.push(i16::from(!null));
                repetition.push(0);
            }
            Shape::List => {
                for element in 0..lengths * lengths {
                    let is_there = !next(&mut state).is_multiple_of(7);
                    definition.push(2 + i16::from(is_there));
                    repetition.push(i16::from(element > 0));
                    if is_there {
                        values.push(value(next(&mut state) % case.variety));
                    }
                }
            }
        }
    }
    (values, definition, repetition)
}

fn write<T: DataType>(case: &Case, path: &Path, value: impl Fn(u64) -> T::T) {
    let physical = case.physical.to_string().to_lowercase();
    let kind = if case.physical == Physical::BYTE_ARRAY { "binary".to_owned() } else { physical };
    let schema = match case.shape {
        Shape::Required => format!("message m {{ required {kind} x; }}"),
        Shape::Optional => format!("message m {{ optional {kind} x; }}"),
        Shape::List => {
            format!(
                "message m {{ optional group x (LIST) {{ repeated group list {{ optional {kind} element; }} }} }}"
            )
        }
    };
    let version = if case.is_v2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 };
    let mut properties = WriterProperties::builder()
        .set_writer_version(version)
        .set_compression(case.compression)
        .set_dictionary_enabled(case.encoding.is_none())
        .set_data_page_row_count_limit(case.page_rows)
        .set_write_batch_size(7);
    if let Some(encoding) = case.encoding {
        properties = properties.set_encoding(encoding);
    }
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let (values, definition, repetition) = column::<T>(case, value);
    let mut column = group.next_column().unwrap().unwrap();
    let of_type = get_typed_column_writer_mut::<T>(column.untyped());
    let definition = (case.shape != Shape::Required).then_some(definition.as_slice());
    let repetition = (case.shape == Shape::List).then_some(repetition.as_slice());
    of_type.write_batch(&values, definition, repetition).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

/// The rows as the `parquet` crate reads them.
fn by_crate<T: DataType>(case: &Case, path: &Path, show: &impl Fn(&T::T) -> String) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let column = reader.get_row_group(0).unwrap().get_column_reader(0).unwrap();
    let mut column = get_typed_column_reader::<T>(column);
    let (mut values, mut definition, mut repetition) = (Vec::new(), Vec::new(), Vec::new());
    let levels = (case.shape != Shape::Required).then_some(&mut definition);
    let begins = (case.shape == Shape::List).then_some(&mut repetition);
    column.read_records(case.rows, levels, begins, &mut values).unwrap();
    let mut values = values.iter();
    if case.shape == Shape::Required {
        return values.map(show).collect();
    }
    let mut rows: Vec<Row> = Vec::new();
    for (index, level) in definition.iter().enumerate() {
        match case.shape {
            Shape::List => {
                if repetition[index] == 0 {
                    rows.push(String::new());
                }
                let element = match level {
                    3 => show(values.next().unwrap()),
                    2 => show_fill(case.physical),
                    _ => continue,
                };
                rows.last_mut().unwrap().extend([element.as_str(), ","]);
            }
            _ if *level == 0 => rows.push(".".into()),
            _ => rows.push(show(values.next().unwrap())),
        }
    }
    rows
}

/// The fill value in a type, as our memory holds it.
fn show_fill(physical: Physical) -> String {
    match physical {
        Physical::BOOLEAN => "1".into(),
        Physical::FLOAT => (77_f32).to_bits().to_string(),
        Physical::DOUBLE => (77_f64).to_bits().to_string(),
        _ => FILL.to_string(),
    }
}

/// The rows as we read them.
fn by_us(case: &Case, path: &Path) -> Vec<Row> {
    let go = AtomicBool::new(false);
    let manifest = Arc::new(Manifest::open(&[path.to_owned()], &go).unwrap());
    let fill = if case.physical == Physical::BOOLEAN { 1 } else { i128::from(FILL) };
    let policy = if case.shape == Shape::List { Policy::Fill(Fill::Integer(fill)) } else { Policy::Mask };
    let layout = Layout::resolve(&manifest, &Request { columns: None, nulls: policy }).unwrap();
    let read = case.read.start as u64..case.read.end as u64;
    let memory = read_rows::read(
        &Arc::new(Sources::one(manifest, layout)),
        std::slice::from_ref(&read),
        read.end - read.start,
        &go,
    )
    .unwrap()
    .fields;
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let values = memory[0].bytes();
    let width = match case.physical {
        Physical::BOOLEAN | Physical::BYTE_ARRAY => 1,
        Physical::INT32 | Physical::FLOAT => 4,
        _ => 8,
    };
    if case.physical != Physical::BYTE_ARRAY && case.shape != Shape::List {
        let valid = memory[1].bytes();
        let rows = values.chunks(width).zip(valid);
        return rows
            .map(|(value, valid)| if *valid == 1 { word(value).to_string() } else { ".".into() })
            .collect();
    }
    let offsets: Vec<usize> =
        memory[1].bytes().chunks(8).map(|end| usize::try_from(word(end)).unwrap()).collect();
    let rows = offsets.windows(2).enumerate().map(|(row, ends)| {
        let bytes = &values[ends[0] * width..ends[1] * width];
        if case.shape == Shape::List {
            return bytes.chunks(width).flat_map(|element| [word(element).to_string(), ",".into()]).collect();
        }
        if memory[2].bytes()[row] == 1 { format!("{bytes:?}") } else { ".".into() }
    });
    rows.collect()
}

fn check<T: DataType>(
    case: &Case,
    path: &Path,
    value: impl Fn(u64) -> T::T,
    show: impl Fn(&T::T) -> String,
) -> Result<(), TestCaseError> {
    write::<T>(case, path, value);
    let expected = by_crate::<T>(case, path, &show);
    prop_assert_eq!(&by_us(case, path)[..], &expected[case.read.clone()]);
    Ok(())
}

fn text(number: u64) -> ByteArray {
    let length = usize::try_from(number % 9).unwrap_or(0);
    format!("{number}")[..].repeat(length).into_bytes().into()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "any bits are values")]
#[test]
fn our_decoders_and_those_of_the_crate_give_the_same_rows() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join(format!("differential-{}.parquet", std::process::id()));
    let cases_run =
        std::env::var("FASTRESUME_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600);
    proptest!(ProptestConfig { cases: cases_run, failure_persistence: None, ..ProptestConfig::default() },
        |(case in cases())| {
            match case.physical {
                Physical::BOOLEAN => check::<BoolType>(&case, &path, |n| n % 2 == 1, |v| u8::from(*v).to_string())?,
                Physical::INT32 => check::<Int32Type>(&case, &path, |n| n as i32, |v| v.cast_unsigned().to_string())?,
                Physical::INT64 => check::<Int64Type>(&case, &path, |n| n as i64, |v| v.cast_unsigned().to_string())?,
                Physical::FLOAT => check::<FloatType>(&case, &path, |n| f32::from_bits(n as u32), |v| v.to_bits().to_string())?,
                Physical::DOUBLE => check::<DoubleType>(&case, &path, f64::from_bits, |v| v.to_bits().to_string())?,
                _ => check::<ByteArrayType>(&case, &path, text, |v| format!("{:?}", v.data()))?,
            }
        }
    );
    std::fs::remove_file(&path).unwrap();
}
