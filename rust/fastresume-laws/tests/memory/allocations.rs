//! Codecs reuse their memory: a pass over many pages allocates as often as one over few pages of the same
//! rows.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastresume::{
    Cursor, Cut, Identity, Layout, Manifest, Order, OrderChoice, Pass, PassOrder, Polled, Request, Selection,
    Sources, Tail, ThreadPool, WorkerId,
};
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::column::writer::get_typed_column_writer_mut;
use parquet::data_type::Int64Type;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::{ASKED, GO, alone};

const ROWS: i64 = 60_000;
const COLUMNS: i64 = 3;

/// Writes numbers of all types, `page_rows` rows to a page.
fn write(path: &Path, compression: Compression, page_rows: usize) {
    let columns: Vec<String> = (0..COLUMNS).map(|number| format!("required int64 c{number};")).collect();
    let schema = Arc::new(parse_message_type(&format!("message m {{ {} }}", columns.join(" "))).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).set_dictionary_enabled(false);
    let properties = properties.set_data_page_row_count_limit(page_rows).set_write_batch_size(page_rows);
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties.build().into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for number in 1..=COLUMNS {
        let values: Vec<i64> = (0..ROWS).map(|row| row * row * number % 9973).collect();
        let mut column = group.next_column().unwrap().unwrap();
        let of_type = get_typed_column_writer_mut::<Int64Type>(column.untyped());
        of_type.write_batch(&values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// The number of allocations in one pass.
fn asked(path: &Path) -> usize {
    let manifest = Arc::new(Manifest::open(&[path.to_owned()], &GO).unwrap());
    let layout = Layout::resolve(&manifest, &Request::default()).unwrap();
    let kind = OrderChoice::Sequential;
    let kind = kind.resolve(manifest.num_rows(), manifest.row_bytes(), manifest.largest_group()).unwrap();
    let selection = Selection::everything(manifest.group_starts());
    let identity = Identity::of(&manifest, &selection, kind.clone());
    let order = Order::new(&kind, 0, selection).unwrap();
    let cut = Cut::new(1, 1, 4096).unwrap();
    let pass = Arc::new(Pass::new(&Cursor::start(identity), cut, Tail::Short, 1).unwrap());
    let place = WorkerId { rank: 0, world_size: 1, worker: 0, workers: 1 };
    let before = ASKED.load(Ordering::Relaxed);
    let sources = Arc::new(Sources::one(manifest, layout));
    let mut pipeline = ThreadPool::new(sources, PassOrder::of_rows(order), pass, place, 0, 0).unwrap();
    let mut delivered = 0;
    loop {
        match pipeline.poll(Duration::from_millis(10)).unwrap() {
            Polled::Batch(batch) => delivered += batch.rows,
            Polled::Pending => {}
            Polled::End => break,
        }
    }
    assert_eq!(i64::try_from(delivered), Ok(ROWS));
    ASKED.load(Ordering::Relaxed) - before
}

#[test]
fn no_codec_asks_for_memory_page_by_page() {
    let _alone = alone();
    let (few, many) = (6000, 600);
    let more_pages = usize::try_from(ROWS * COLUMNS).unwrap() / many / 10 * 9;
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
    ] {
        let name = format!("allocations-{}.parquet", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let [few, many] = [few, many].map(|page_rows| {
            write(&path, compression, page_rows);
            // What is allocated once per process exists after the first pass.
            asked(&path);
            asked(&path)
        });
        assert!(
            many < few + more_pages / 10,
            "{compression}: {few} times, and {many} of {more_pages} pages more"
        );
        std::fs::remove_file(&path).unwrap();
    }
}
