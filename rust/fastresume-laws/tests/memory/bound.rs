//! A pass takes no more memory than the bound stated before it runs. Memory is counted in the allocator, and
//! where the core maps pages from the system.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastresume::{
    BatchReader, Cursor, Cut, Entry, Expression, Identity, Layout, Manifest, MemoryBound, Order, OrderChoice,
    Pass, PassOrder, Polled, Request, Selection, Sources, Tail, ThreadPool, WorkerId,
    pool::{most_paged, release},
};
use parquet::basic::{BrotliLevel, Compression};
use parquet::column::writer::get_typed_column_writer_mut;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::{GO, LIVE, PEAK, alone};

/// How a file is read.
#[derive(Debug, Clone, Copy)]
struct Way {
    is_stacked: bool,
    /// Rows of a window; `None` reads in the order of the files.
    window_rows: Option<u64>,
    threads: usize,
    prefetch_bytes: u64,
    batch_rows: u64,
    lanes: u64,
}

const SEQUENTIAL: Way =
    Way { is_stacked: false, window_rows: None, threads: 0, prefetch_bytes: 0, batch_rows: 1024, lanes: 1 };

/// The peak of bytes in a pass, and the stated bound.
fn taken_and_stated(path: &Path, way: Way) -> (u64, u64) {
    let manifest = Arc::new(Manifest::open(&[path.to_owned()], &GO).unwrap());
    let plain = Layout::resolve(&manifest, &Request::default()).unwrap();
    let mut request = Request::default();
    if way.is_stacked {
        let of_type = |dtype: &str| {
            let members = plain.fields().iter().filter(|field| field.dtype.name() == dtype);
            let names = members.map(|field| field.name.clone()).collect();
            let parts = vec![Expression { names, ..Expression::default() }];
            Entry::Stack { name: format!("all_{dtype}"), parts, text: String::new() }
        };
        request.columns = Some(vec![of_type("int32"), of_type("int64")]);
    }
    let layout = Layout::resolve(&manifest, &request).unwrap();
    let choice = way.window_rows.map_or(OrderChoice::Sequential, |rows| OrderChoice::Shuffled {
        seed: None,
        block_rows: Some(rows / 8),
        window_rows: Some(rows),
    });
    let kind = choice.resolve(manifest.num_rows(), manifest.row_bytes(), manifest.largest_group()).unwrap();
    let selection = Selection::everything(manifest.group_starts());
    let identity = Identity::of(&manifest, &selection, kind.clone());
    let order = Order::new(&kind, 0, selection).unwrap();
    let cut = Cut::new(way.lanes, 1, way.batch_rows / way.lanes).unwrap();
    let pass = Arc::new(Pass::new(&Cursor::start(identity), cut, Tail::Short, 1).unwrap());
    // As `dataset.plan()` states it: the `Loader` adds what is decoded ahead.
    let bound = MemoryBound::new(&manifest, &layout, &order, &pass, 1);
    let stated = stated(&bound, way.threads, way.prefetch_bytes);
    let rows = manifest.num_rows();
    let (delivered, taken) = peak(way.threads, || {
        let sources = Arc::new(Sources::one(manifest, layout));
        ThreadPool::new(
            sources,
            PassOrder::of_rows(order),
            pass,
            ONLY_WORKER,
            way.threads,
            way.prefetch_bytes,
        )
        .unwrap()
    });
    assert_eq!(delivered, rows);
    (taken, stated)
}

/// The one worker of the one rank.
const ONLY_WORKER: WorkerId = WorkerId { rank: 0, world_size: 1, worker: 0, workers: 1 };

/// The bytes that are stated for a pass which threads read ahead.
fn stated(bound: &MemoryBound, threads: usize, prefetch_bytes: u64) -> u64 {
    bound.rank_bytes + prefetch_bytes + threads.max(1) as u64 * bound.thread_bytes
}

/// The rows that a reader's pass delivers, the peak of bytes meanwhile, and the stated bound.
pub fn read_through(reader: &BatchReader, threads: usize, prefetch_bytes: u64) -> (u64, u64, u64) {
    let bound = reader.memory_bound(1).unwrap();
    let stated = stated(&bound, threads, prefetch_bytes);
    let (delivered, taken) = peak(threads, || reader.pipeline(ONLY_WORKER, threads, prefetch_bytes).unwrap());
    (delivered, taken, stated)
}

/// The rows that a pipeline delivers, and the peak of bytes meanwhile.
fn peak(threads: usize, make: impl FnOnce() -> ThreadPool) -> (u64, u64) {
    release();
    // The second call sees what exists now.
    most_paged();
    let paged_before = most_paged();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut pipeline = make();
    if threads > 0 {
        // The test takes no batch until the threads have done all that they may.
        pipeline.start().unwrap();
        let mut held = 0;
        while held != LIVE.load(Ordering::Relaxed) {
            held = LIVE.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let mut delivered = 0;
    loop {
        match pipeline.poll(Duration::from_millis(10)).unwrap() {
            Polled::Batch(batch) => delivered += batch.rows as u64,
            Polled::Pending => {}
            Polled::End => break,
        }
    }
    // Mapped pages are in no allocator's count.
    let paged = most_paged() - paged_before;
    (delivered, (PEAK.load(Ordering::Relaxed) - before + paged) as u64)
}

pub fn path(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    directory.join(format!("memory-{name}-{}.parquet", std::process::id()))
}

/// Writes a file of row groups; `write` writes the columns of each.
pub fn write_groups(
    path: &Path,
    schema: &str,
    groups: u64,
    write: impl FnMut(u64, &mut SerializedRowGroupWriter<'_, File>),
) {
    write_compressed(path, schema, Compression::SNAPPY, groups, write);
}

fn write_compressed(
    path: &Path,
    schema: &str,
    compression: Compression,
    groups: u64,
    mut write: impl FnMut(u64, &mut SerializedRowGroupWriter<'_, File>),
) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(compression);
    let properties = properties.set_write_batch_size(1024).build();
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, properties.into()).unwrap();
    for number in 0..groups {
        let mut group = writer.next_row_group().unwrap();
        write(number, &mut group);
        group.close().unwrap();
    }
    writer.close().unwrap();
}

pub fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    repetition: Option<&[i16]>,
) {
    let mut column = group.next_column().unwrap().unwrap();
    let definition = repetition.map(|levels| vec![1; levels.len()]);
    let of_type = get_typed_column_writer_mut::<T>(column.untyped());
    of_type.write_batch(values, definition.as_deref(), repetition).unwrap();
    column.close().unwrap();
}

fn check(name: &str, ways: &[Way], write: impl FnOnce(&Path)) {
    let _alone = alone();
    let path = path(name);
    write(&path);
    for way in ways {
        let (taken, stated) = taken_and_stated(&path, *way);
        assert!(taken <= stated, "{name}: {way:?} took {taken} bytes, {stated} were stated");
    }
    std::fs::remove_file(&path).unwrap();
}

const THREADS: Way = Way { threads: 4, prefetch_bytes: 8 << 20, ..SEQUENTIAL };
const WINDOW: Option<u64> = Some(80_000);

#[test]
fn numbers_take_what_is_stated() {
    let rows = 100_000_u64;
    let columns: Vec<String> =
        (0..8).flat_map(|n| [format!("required int64 i{n};"), format!("required int32 c{n};")]).collect();
    let schema = format!("message m {{ {} }}", columns.join(" "));
    let ways = [
        SEQUENTIAL,
        Way { is_stacked: true, ..SEQUENTIAL },
        Way { window_rows: WINDOW, ..SEQUENTIAL },
        Way { window_rows: WINDOW, is_stacked: true, ..SEQUENTIAL },
        Way { window_rows: WINDOW, is_stacked: true, lanes: 4, ..SEQUENTIAL },
        Way { is_stacked: true, lanes: 4, ..SEQUENTIAL },
        Way { is_stacked: true, batch_rows: 100_000, ..SEQUENTIAL },
        Way { is_stacked: true, batch_rows: 100_000, lanes: 4, ..SEQUENTIAL },
        Way { is_stacked: true, batch_rows: 100_000, ..THREADS },
        THREADS,
        Way { is_stacked: true, ..THREADS },
        Way { is_stacked: true, window_rows: WINDOW, ..THREADS },
        Way { is_stacked: true, prefetch_bytes: 64 << 20, ..THREADS },
    ];
    check("numbers", &ways, |path| {
        write_groups(path, &schema, 16, |_, group| {
            for number in 0..8 {
                let wide: Vec<i64> =
                    (0..rows).map(|row| (row * row % (10 << number)).cast_signed()).collect();
                write_column::<Int64Type>(group, &wide, None);
                let narrow: Vec<i32> = wide.iter().map(|&value| i32::try_from(value).unwrap()).collect();
                write_column::<Int32Type>(group, &narrow, None);
            }
        });
    });
}

#[test]
fn batches_of_few_rows_take_what_is_stated() {
    let rows = 200_000;
    let of = |batch_rows, lanes| Way { window_rows: Some(400_000), batch_rows, lanes, ..SEQUENTIAL };
    let ways = [
        of(1, 1),
        of(8, 1),
        of(8, 4),
        of(500, 1),
        Way { threads: 2, prefetch_bytes: 1 << 20, ..of(1, 1) },
        Way { window_rows: Some(1000), ..of(1, 1) },
    ];
    let text = "message m { required int32 i; required binary b (UTF8); }";
    for schema in ["message m { required int32 i; }", text] {
        check("few", &ways, |path| {
            write_groups(path, schema, 3, |_, group| {
                write_column::<Int32Type>(group, &(0..rows).map(|row| row % 1000).collect::<Vec<_>>(), None);
                if schema == text {
                    let of_row = |row: i32| row.to_string().into_bytes().into();
                    write_column::<ByteArrayType>(group, &(0..rows).map(of_row).collect::<Vec<_>>(), None);
                }
            });
        });
    }
}

#[test]
fn wide_text_from_small_dictionaries_takes_what_is_stated() {
    let rows = 40_000_u64;
    let ways = [
        SEQUENTIAL,
        Way { window_rows: Some(32_000), ..SEQUENTIAL },
        Way { window_rows: Some(32_000), lanes: 2, ..SEQUENTIAL },
        THREADS,
        Way { window_rows: Some(32_000), ..THREADS },
    ];
    let words: Vec<ByteArray> = (0..20_u8).map(|word| vec![word; 1000].into()).collect();
    check("text", &ways, |path| {
        write_groups(
            path,
            "message m { required binary a (UTF8); required binary b (UTF8); }",
            6,
            |_, group| {
                for column in 1..3 {
                    let of_row = |row: u64| words[usize::try_from(row * column % 20).unwrap()].clone();
                    write_column::<ByteArrayType>(group, &(0..rows).map(of_row).collect::<Vec<_>>(), None);
                }
            },
        );
    });
}

/// Files in which a few rows take as many bytes as are decoded ahead.
fn of_large_rows() -> [Way; 4] {
    let small = Way { batch_rows: 2, ..SEQUENTIAL };
    [
        small,
        Way { window_rows: Some(8), ..small },
        Way { threads: 2, prefetch_bytes: 8 << 20, ..small },
        Way { threads: 2, prefetch_bytes: 8 << 20, window_rows: Some(8), ..small },
    ]
}

#[test]
fn lists_of_a_million_numbers_take_what_is_stated() {
    let length = 1_100_000;
    let schema = "message m { required group l (LIST) { repeated group list { required int32 element; } } }";
    check("lists", &of_large_rows(), |path| {
        write_groups(path, schema, 12, |_, group| {
            let values: Vec<i32> = (0..8 * length).map(|place| place % 5000).collect();
            let levels: Vec<i16> = (0..8 * length).map(|place| i16::from(place % length != 0)).collect();
            write_column::<Int32Type>(group, &values, Some(&levels));
        });
    });
}

#[test]
fn large_cells_among_empty_ones_go_with_their_batches() {
    let rows = 500;
    // One batch takes rows from both windows.
    let small = Way { batch_rows: 96, ..SEQUENTIAL };
    let ways = [small, Way { window_rows: Some(40 * rows), ..small }];
    check("sparse", &ways, |path| {
        write_groups(path, "message m { required binary b; required binary c; }", 80, |number, group| {
            let cell = vec![u8::try_from(number).unwrap(); 1 << 20];
            let of_row = |row| if row == 7 * number % rows { cell.clone() } else { Vec::new() };
            write_column::<ByteArrayType>(
                group,
                &(0..rows).map(|row| of_row(row).into()).collect::<Vec<_>>(),
                None,
            );
            let none: Vec<ByteArray> = (0..rows).map(|_| Vec::new().into()).collect();
            write_column::<ByteArrayType>(group, &none, None);
        });
    });
}

#[test]
fn cells_of_twenty_megabytes_take_what_is_stated() {
    let cell = 21_u64 << 20;
    check("cells", &of_large_rows(), |path| {
        write_groups(path, "message m { required binary b; }", 8, |number, group| {
            let filled =
                |row| vec![u8::try_from(4 * number + row).unwrap(); usize::try_from(cell).unwrap()].into();
            write_column::<ByteArrayType>(group, &(0..4).map(filled).collect::<Vec<ByteArray>>(), None);
        });
    });
}

#[test]
fn windows_of_brotli_are_in_what_is_stated() {
    let cell = 9_u64 << 20;
    check("brotli", &of_large_rows(), |path| {
        let schema = "message m { required binary b; required int32 i; }";
        write_compressed(path, schema, Compression::BROTLI(BrotliLevel::default()), 8, |number, group| {
            let filled =
                |row| vec![u8::try_from(4 * number + row).unwrap(); usize::try_from(cell).unwrap()].into();
            write_column::<ByteArrayType>(group, &(0..4).map(filled).collect::<Vec<ByteArray>>(), None);
            write_column::<Int32Type>(group, &[1, 2, 3, 4], None);
        });
    });
}
