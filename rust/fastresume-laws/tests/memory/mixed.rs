//! A mixture takes no more memory than the bound stated before it is read: of few sources and of many, in few lanes and in many.

use std::path::Path;
use std::sync::Arc;

use fastresume::{
    BatchReader, Counted, Cursor, Cut, FileSource, Layout, Manifest, MixedOrder, MixtureStop, NamedMixture,
    NamedSource, NamedStop, OrderChoice, OrderKind, Pass, PassOrder, ReadSource, Request, Selection, Sources,
    Tail, UnitOrder,
};
use parquet::data_type::{Int32Type, Int64Type};

use crate::bound::{path, read_through, write_column, write_groups};
use crate::{GO, alone};

const ROWS: u64 = 160_000;
const BATCH_ROWS: u64 = 1024;

/// How a mixture is read.
#[derive(Debug, Clone, Copy)]
struct Way {
    sources: usize,
    lanes: u64,
    /// Rows of a window of each source; `None` reads in the order of the files.
    window_rows: Option<u64>,
    threads: usize,
    prefetch_bytes: u64,
}

/// Numbers, and lists of them, in two row groups.
fn write(path: &Path, rows: u64) {
    let columns: Vec<String> = (0..6).map(|number| format!("required int64 i{number};")).collect();
    let list = "required group l (LIST) { repeated group list { required int32 element; } }";
    write_groups(path, &format!("message m {{ {} {list} }}", columns.join(" ")), 2, |_, group| {
        for number in 1..7 {
            let values: Vec<i64> =
                (0..rows / 2).map(|row| (row * row * number % 99_991).cast_signed()).collect();
            write_column::<Int64Type>(group, &values, None);
        }
        let mut levels = Vec::new();
        for row in 0..rows / 2 {
            levels.push(0);
            levels.extend(vec![1; usize::try_from(row % 9).unwrap()]);
        }
        let values: Vec<i32> = (0..levels.len()).map(|at| i32::try_from(at % 977).unwrap()).collect();
        write_column::<Int32Type>(group, &values, Some(&levels));
    });
}

/// The start of a mixture of so many sources with the same rows, or units, and other weights; and which one is at each position.
pub fn of_mixture(
    sources: usize,
    kind: &OrderKind,
    selection: &Arc<Selection>,
    cut: Cut,
) -> (Cursor, UnitOrder) {
    let choice = match kind {
        OrderKind::Shuffled { .. } => {
            OrderChoice::Shuffled { seed: None, block_rows: None, window_rows: None }
        }
        _ => OrderChoice::Sequential,
    };
    let labels: Vec<String> = (0..sources).map(|number| number.to_string()).collect();
    let named = labels.iter().map(|name| NamedSource {
        name: name.clone(),
        fingerprint: name.clone(),
        rows: selection.count(),
        order: kind.clone(),
        choice: choice.clone(),
        files: None,
        appends: false,
    });
    let weights: Vec<u64> = (0..sources as u64).map(|number| 1 + number % 4).collect();
    let named = NamedMixture::new(named.collect(), weights.into(), MixtureStop::Named(NamedStop::All));
    let start = Cursor::start_of_mixture(&named, cut.global_batch_rows()).unwrap();
    let read: Vec<ReadSource> =
        labels.into_iter().map(|name| ReadSource { name, selection: Arc::clone(selection) }).collect();
    let units = UnitOrder::Mixed(Box::new(MixedOrder::new(&start, &read).unwrap()));
    (start, units)
}

/// The peak of bytes in a pass, and the stated bound.
fn taken_and_stated(path: &Path, way: Way) -> (u64, u64) {
    let manifest = Arc::new(Manifest::open(&[path.to_owned()], &GO).unwrap());
    let layout = Layout::resolve(&manifest, &Request::default()).unwrap();
    let kind = way.window_rows.map_or(OrderKind::Sequential, |window_rows| OrderKind::Shuffled {
        seed: 5,
        block_rows: window_rows / 8,
        window_rows,
    });
    let cut = Cut::new(way.lanes, 1, BATCH_ROWS / way.lanes).unwrap();
    let selection = Arc::new(Selection::everything(manifest.group_starts()));
    let (start, units) = of_mixture(way.sources, &kind, &selection, cut);
    let pass = Arc::new(Pass::new(&start, cut, Tail::Short, 1).unwrap());
    let rows = pass.rows_left();
    let order = PassOrder { units, counted: Counted::Rows };
    let each = vec![FileSource { manifest, layout }; way.sources];
    let sources = Arc::new(Sources::new(each).unwrap());
    let reader = BatchReader::new(sources, order, pass, 0);
    let (delivered, taken, stated) = read_through(&reader, way.threads, way.prefetch_bytes);
    assert_eq!(delivered, rows);
    (taken, stated)
}

#[test]
fn mixtures_take_what_is_stated() {
    let _alone = alone();
    for sources in [2, 8, 40] {
        let path = path(&format!("mixture-{sources}"));
        let rows = ROWS / sources as u64;
        write(&path, rows);
        for window_rows in [None, Some(rows / 2)] {
            for (lanes, threads, prefetch_bytes) in [(1, 0, 0), (8, 2, 8 << 20)] {
                let way = Way { sources, lanes, window_rows, threads, prefetch_bytes };
                let (taken, stated) = taken_and_stated(&path, way);
                assert!(taken <= stated, "{way:?} took {taken} bytes, {stated} were stated");
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
