//! Statistics, page indexes and bloom filters in files that the `parquet` crate wrote. Bounds hold for every
//! row, and a value reported absent is in no row.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fastresume::{Bound, Manifest, PageStats, filter_layout, page_stats};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

/// A row with a number, a float and a string, each of which may be null.
type Row = (Option<u8>, Option<i8>, Option<String>);

/// Rows, the number of rows in a page, and the writer's choices.
#[derive(Debug, Clone)]
struct Case {
    rows: Vec<Row>,
    page_rows: usize,
    text_bound_bytes: Option<usize>,
    has_filters: bool,
    is_v2: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let row = (
        prop::option::weighted(0.9, any::<u8>()),
        prop::option::weighted(0.9, any::<i8>()),
        prop::option::weighted(0.9, "[a-c\u{e9}]{0,6}"),
    );
    (
        prop::collection::vec(row, 1..60),
        1..20_usize,
        prop::option::of(1..4_usize),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(rows, page_rows, text_bound_bytes, has_filters, is_v2)| Case {
            rows,
            page_rows,
            text_bound_bytes,
            has_filters,
            is_v2,
        })
}

fn write(case: &Case, path: &PathBuf) {
    let schema = "message m { optional int32 n (UINT_8); optional double f; optional binary t (UTF8); }";
    let properties = WriterProperties::builder()
        .set_writer_version(if case.is_v2 { WriterVersion::PARQUET_2_0 } else { WriterVersion::PARQUET_1_0 })
        .set_data_page_row_count_limit(case.page_rows)
        .set_write_batch_size(1)
        .set_column_index_truncate_length(case.text_bound_bytes)
        .set_bloom_filter_enabled(case.has_filters)
        .build();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    macro_rules! column {
        ($type:ty, $values:expr) => {{
            let values: Vec<_> = $values.collect();
            let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
            let there: Vec<_> = values.into_iter().flatten().collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$type>().write_batch(&there, Some(&levels), None).unwrap();
            column.close().unwrap();
        }};
    }
    column!(Int32Type, case.rows.iter().map(|(n, _, _)| n.map(i32::from)));
    column!(DoubleType, case.rows.iter().map(|(_, f, _)| f.map(|f| f64::from(f) / 4.0)));
    column!(ByteArrayType, case.rows.iter().map(|(_, _, t)| t.as_deref().map(ByteArray::from)));
    group.close().unwrap();
    writer.close().unwrap();
}

/// The values of each column, in the form that bounds have.
fn columns(rows: &[Row]) -> [Vec<Option<Bound>>; 3] {
    [
        rows.iter().map(|(n, _, _)| n.map(|n| Bound::Integer(n.into()))).collect(),
        rows.iter().map(|(_, f, _)| f.map(|f| Bound::Float(f64::from(f) / 4.0))).collect(),
        rows.iter().map(|(_, _, t)| t.as_ref().map(|t| Bound::Bytes(t.as_bytes().to_vec()))).collect(),
    ]
}

/// Values that may be in the rows, and some that never are.
fn sought() -> Vec<Vec<Bound>> {
    let texts = ["", "a", "b", "abc", "d", "é", "ccé"];
    vec![
        (-1..260).map(Bound::Integer).chain([Bound::Float(7.0), Bound::Float(7.5)]).collect(),
        (-140..140).map(|n| Bound::Float(f64::from(n) / 4.0)).chain([Bound::Integer(1 << 53 | 1)]).collect(),
        texts.iter().map(|text| Bound::Bytes(text.as_bytes().to_vec())).collect(),
    ]
}

fn is_equal(one: &Bound, other: &Bound) -> bool {
    match (one, other) {
        (Bound::Integer(integer), Bound::Float(float)) | (Bound::Float(float), Bound::Integer(integer)) => {
            i32::try_from(*integer).is_ok_and(|integer| f64::from(integer).total_cmp(float).is_eq())
        }
        _ => one == other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_known_of_pages_and_values_is_true(case in cases()) {
        let path = std::env::temp_dir().join(format!("fastresume-details-{}.parquet", std::process::id()));
        write(&case, &path);
        let stop = AtomicBool::new(false);
        let manifest = Manifest::open(std::slice::from_ref(&path), &stop).unwrap();
        let names = ["n", "f", "t"].map(str::to_owned).to_vec();
        let asked = filter_layout::FilterColumns { compared: names, ..Default::default() };
        let layout = filter_layout::layout(&manifest, &asked).unwrap();
        let sought = sought();
        let found = page_stats::read(&manifest, &layout, &[0], &sought, &stop).unwrap();
        std::fs::remove_file(&path).unwrap();
        for ((PageStats { pages, absent }, values), sought) in found[0].iter().zip(columns(&case.rows)).zip(&sought) {
            prop_assert_eq!(pages.len(), case.rows.len().div_ceil(case.page_rows));
            for (page, (first, facts)) in pages.iter().enumerate() {
                prop_assert_eq!(*first, (page * case.page_rows) as u64);
                let values = values.chunks(case.page_rows).nth(page).unwrap();
                let nulls = values.iter().filter(|value| value.is_none()).count();
                prop_assert_eq!(facts.nulls, Some(nulls as u64));
                let there: Vec<&Bound> = values.iter().flatten().collect();
                prop_assert_eq!(facts.bounds.is_some(), !there.is_empty());
                for value in there {
                    let (low, high) = facts.bounds.as_ref().unwrap();
                    prop_assert!(low <= value && value <= high);
                }
            }
            let is_there = |value: &Bound| values.iter().flatten().any(|other| is_equal(value, other));
            for &number in absent {
                prop_assert!(!is_there(&sought[number]), "{:?} is there", sought[number]);
            }
            let gone = (0..sought.len()).filter(|&number| !is_there(&sought[number])).count();
            // A bloom filter is wrong about few values. Without one, only values that the type can't hold are
            // reported absent.
            let is_plausible =
                if case.has_filters { absent.len() * 10 + 30 >= gone * 8 } else { absent.len() < 10 };
            prop_assert!(is_plausible, "{} of {} absent values are known", absent.len(), gone);
        }
    }
}
