//! Sequences and bins, of one source and in mixtures, take no more memory than the bound stated before they are read.

use std::path::Path;
use std::sync::Arc;

use fastresume::stretches::MostOfStretch;
use fastresume::{
    BatchReader, BinRows, BinTable, Bins, CostSource, Counted, Cursor, Cut, FileSource, Identity, Layout,
    Making, Manifest, Order, OrderChoice, OrderKind, PackedRows, Packing, Pass, PassOrder, Progress, Request,
    Rule, Selection, SequencePass, SequenceTable, Sources, Tail, UnitOrder, UnitRows, Units,
};
use parquet::data_type::Int32Type;

use crate::bound::{path, read_through, write_column, write_groups};
use crate::mixed::of_mixture;
use crate::{GO, alone};

const LENGTH: u64 = 2048;
const BIN_TOKENS: u64 = 16_384;

/// How units are read.
#[derive(Debug, Clone, Copy)]
struct Way {
    are_bins: bool,
    /// How many sources are mixed; 1 reads the files alone.
    sources: usize,
    batch: u64,
    lanes: u64,
    /// Units of a window; `None` reads in the order of the files.
    window: Option<u64>,
    threads: usize,
    prefetch_bytes: u64,
}

/// Lists of 1 to some 1400 numbers, in a row group each.
fn write(path: &Path, groups: u64, rows: u64) {
    let list = "required group tokens (LIST) { repeated group list { required int32 element; } }";
    write_groups(path, &format!("message m {{ {list} }}"), groups, |number, group| {
        let mut levels = Vec::new();
        for row in 0..rows {
            levels.push(0);
            levels.extend(vec![1; usize::try_from((number + row * row * 31) % 1400).unwrap()]);
        }
        let values: Vec<i32> = (0..levels.len()).map(|at| i32::try_from(at * at % 49_999).unwrap()).collect();
        write_column::<Int32Type>(group, &values, Some(&levels));
    });
}

/// The peak of bytes in a pass, and the stated bound.
fn taken_and_stated(path: &Path, way: Way) -> (u64, u64) {
    let manifest = Arc::new(Manifest::open(&[path.to_owned()], &GO).unwrap());
    let layout = Layout::resolve(&manifest, &Request::default()).unwrap();
    let rows = Arc::new(Selection::everything(manifest.group_starts()));
    let source = CostSource::Lists(vec!["tokens".into()]);
    let read = UnitRows { manifest: &manifest, selection: &rows, source: &source };
    let rule = if way.are_bins {
        Rule::Bins { most: MostOfStretch { cost: BIN_TOKENS, rows: u64::MAX }, is_error: false }
    } else {
        Rule::Sequences { length: LENGTH, has_separator: true, is_filled_up: false }
    };
    let making = Making { rule, threads: 1, most_bad: None, cache: None };
    let index = read.index(making, &Progress::default(), &GO).unwrap();
    let bins = Arc::new(BinTable::of_files(&index.files).unwrap());
    let table = Arc::new(SequenceTable::of_files(LENGTH, false, &[], &index.files).unwrap());
    let (starts, file_starts) = if way.are_bins {
        (&bins.starts, bins.file_starts.clone())
    } else {
        (&table.starts, table.starts.clone())
    };
    let units = Units::new(starts, file_starts, "units".into());
    let counted = Arc::clone(units.selection());
    let choice = way.window.map_or(OrderChoice::Sequential, |units| OrderChoice::Shuffled {
        seed: None,
        block_rows: Some(units / 8),
        window_rows: Some(units),
    });
    let kind = choice.resolve(counted.count(), 1, counted.count()).unwrap();
    let cut = Cut::new(way.lanes, 1, way.batch / way.lanes).unwrap();
    let (start, units) = if way.sources == 1 {
        of_one(&manifest, &kind, counted)
    } else {
        of_mixture(way.sources, &kind, &counted, cut)
    };
    let pass = Arc::new(Pass::new(&start, cut, Tail::Short, 1).unwrap());
    let file_source = || FileSource { manifest: Arc::clone(&manifest), layout: layout.clone() };
    let each = std::iter::repeat_with(file_source).take(way.sources).collect();
    let sources = Arc::new(Sources::new(each).unwrap());
    let counted = if way.are_bins {
        let each = vec![Bins { table: bins, rows }; way.sources];
        Counted::Bins(Arc::new(BinRows::new(each, units.clone(), Arc::clone(&pass), 0)))
    } else {
        let separators = Some(vec![(-1_i32).to_ne_bytes().to_vec()]);
        let length = usize::try_from(LENGTH).unwrap();
        let packing = Arc::new(Packing { names: vec!["tokens".into()], length, separators });
        let of = vec![PackedRows { packing, table, rows }; way.sources];
        let sequences = SequencePass::new(&sources, of, units.clone(), (Arc::clone(&pass), 0)).unwrap();
        Counted::Sequences(Arc::new(sequences))
    };
    let reader = BatchReader::new(sources, PassOrder { units, counted }, pass, 0);
    let (delivered, taken, stated) = read_through(&reader, way.threads, way.prefetch_bytes);
    assert!(delivered > 0);
    (taken, stated)
}

/// The start of a pass over units of one source, and which one is at each position.
fn of_one(manifest: &Manifest, kind: &OrderKind, counted: Arc<Selection>) -> (Cursor, UnitOrder) {
    let identity = Identity {
        fingerprint: manifest.fingerprint().to_owned(),
        num_rows: counted.count(),
        selection: None,
        order: kind.clone(),
    };
    let order = Order::new(kind, 0, counted).unwrap();
    (Cursor::start(identity), UnitOrder::One(Box::new(order)))
}

#[test]
fn sequences_and_bins_take_what_is_stated() {
    take_what_is_stated(&[(1, 12_288), (8, 1024)], 1);
}

#[test]
fn mixtures_of_sequences_and_bins_take_what_is_stated() {
    take_what_is_stated(&[(2, 1024)], 2);
    take_what_is_stated(&[(1, 300)], 8);
    take_what_is_stated(&[(1, 90)], 40);
}

fn take_what_is_stated(files: &[(u64, u64)], sources: usize) {
    let _alone = alone();
    for &(groups, rows) in files {
        let path = path(&format!("units-{groups}-{sources}"));
        write(&path, groups, rows);
        let of = sources as u64;
        for are_bins in [false, true] {
            for window in [None, Some(if are_bins { 512 / of } else { 4096 / of }.max(16))] {
                for (lanes, threads, prefetch_bytes) in [(1, 0, 0), (8, 2, 8 << 20)] {
                    let way = Way { are_bins, sources, batch: 8, lanes, window, threads, prefetch_bytes };
                    let (taken, stated) = taken_and_stated(&path, way);
                    assert!(taken <= stated, "{way:?} took {taken} bytes, {stated} were stated");
                }
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
