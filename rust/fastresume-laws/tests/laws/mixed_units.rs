//! The laws of packed sequences and bins as sources of mixtures, over random histories: other ranks, weights and sources, files
//! that come, and kills. Sequences are read by the core's own reader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastresume::{
    BatchReader, Counted, Cursor, Cut, FileSource, Layout, NamedSource, Order, OrderChoice, OrderKind,
    PackedRows, Packing, Pass, PassOrder, Request, SequencePass, SequenceTable, SourceFiles,
    Sources as ReadSources, Tail, UnitOrder,
};
use proptest::prelude::*;

use crate::config;
use crate::files::{Beginning, COLUMNS, Datasets, GO, KINDS, NUM_LOGS, tokens};
use crate::mixture_walk::{Life, NAMES, Place, Sources, check_history, lives};
use crate::units::{Part, Unit, parts, table};
use crate::walk::{index, orders, slow_order};

/// What stands behind each list.
const SEPARATOR: i32 = -7;

/// The units of the first files of a dataset, walked over one by one, and how the core knows them.
struct Content {
    parts: Vec<Vec<Part>>,
    table: Option<Arc<SequenceTable>>,
}

/// A source of the job: what there is of it now, and what it gave.
struct UnitFiles<'a> {
    beginnings: &'a [Beginning],
    contents: &'a [Content],
    unit: Unit,
    kind: OrderKind,
    now: usize,
    reader: Option<BatchReader>,
    /// The orders of passes by the ends of their generations: the core's, and the oracle's.
    orders: BTreeMap<(u64, Vec<u64>), (Order, Vec<u64>)>,
    /// The units of each pass that were given, and the tokens of documents.
    units: BTreeSet<(u64, u64)>,
    tokens: BTreeSet<(u64, i32)>,
}

impl UnitFiles<'_> {
    fn beginning(&self) -> &Beginning {
        &self.beginnings[self.now]
    }

    fn grow(&mut self, files: u64) {
        self.now = (self.now + index(files)).min(self.beginnings.len() - 1);
        self.reader = None;
        self.orders.clear();
    }

    /// The unit at a place of a pass.
    fn unit_at(&mut self, (pass, position): Place, ends: &[u64]) -> u64 {
        let (kind, counted) = (&self.kind, self.beginnings[self.now].counted());
        let (order, slow) = self.orders.entry((pass, ends.to_vec())).or_insert_with(|| {
            let order = Order::of_generations(kind, pass, Arc::clone(counted), ends).unwrap();
            let (mut slow, mut begin) = (Vec::new(), 0);
            for (generation, end) in (0..).zip(ends.iter().copied().chain([counted.count()])) {
                let starts = counted.group_starts().iter().copied();
                let starts: Vec<u64> = starts.filter(|start| (begin..=end).contains(start)).collect();
                slow.extend(slow_order(kind, pass, generation, &starts));
                begin = end;
            }
            (order, slow)
        });
        let found: Vec<u64> =
            order.rows(position..position + 1).flat_map(|rows| counted.ordinals(rows)).collect();
        assert_eq!(found, [slow[index(position)]], "the unit at position {position} of pass {pass}");
        found[0]
    }

    /// Checks that sequences have the tokens of their documents, and notes these.
    fn read(&mut self, units: &[(u64, u64)]) {
        let Unit::Packed { length, has_separator, .. } = self.unit else { return };
        let Content { parts, table } = &self.contents[self.now];
        let reader = self.reader.get_or_insert_with(|| {
            reader((length, has_separator), &self.beginnings[self.now], Arc::clone(table.as_ref().unwrap()))
        });
        for &(pass, unit) in units {
            let made = reader.read(unit, &GO).unwrap();
            let words = |field: usize| {
                let bytes = made.fields[field].bytes();
                bytes.chunks(4).map(|word| i32::from_ne_bytes(word.try_into().unwrap())).collect::<Vec<i32>>()
            };
            let [values, documents, places] = [0, 1, 2].map(words);
            let own = &parts[index(unit)];
            let mut rows: Vec<u64> = Vec::new();
            for at in 0..index(length) {
                let found = (values[at], documents[at], places[at]);
                let Some(&(row, place)) = own.get(at) else {
                    assert_eq!(found, (0, -1, 0), "padding behind the tokens of unit {unit}");
                    continue;
                };
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
                let token = tokens(row).get(index(place)).copied();
                let document = i32::try_from(rows.len() - 1).unwrap();
                assert_eq!(found, (token.unwrap_or(SEPARATOR), document, i32::try_from(place).unwrap()));
                if token.is_some() {
                    assert!(self.tokens.insert((pass, found.0)), "token {} came twice", found.0);
                }
            }
            let found = made.written.runs(*made.units.unwrap().offsets.last().unwrap()).unwrap();
            assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), rows, "the documents of unit {unit}");
        }
    }

    /// A pass of which all was given has given all units, and all tokens that are in one.
    fn check_whole_passes(&self) {
        let passes: BTreeSet<u64> = self.units.iter().map(|(pass, _)| *pass).collect();
        for pass in passes {
            let of_pass = |(of, unit): &(u64, u64)| (*of == pass).then_some(*unit);
            let units: Vec<u64> = self.units.iter().filter_map(of_pass).collect();
            let count = self.beginning().counted().count();
            assert!(units.len() as u64 <= count);
            if (units.len() as u64) < count {
                continue;
            }
            assert_eq!(units, (0..count).collect::<Vec<_>>());
            if matches!(self.unit, Unit::Packed { .. }) {
                let all = self.contents[self.now].parts.iter().flatten();
                let all: BTreeSet<i32> =
                    all.filter_map(|&(row, place)| tokens(row).get(index(place)).copied()).collect();
                let found = self.tokens.iter().filter(|(of, _)| *of == pass).map(|(_, token)| *token);
                assert_eq!(found.collect::<BTreeSet<_>>(), all, "the tokens of pass {pass}");
            }
        }
    }
}

/// Reads sequences one by one: each is a batch.
fn reader((length, has_separator): (u64, bool), of: &Beginning, table: Arc<SequenceTable>) -> BatchReader {
    let packing = Packing {
        names: vec![COLUMNS[1].to_owned()],
        length: index(length),
        separators: has_separator.then(|| vec![SEPARATOR.to_ne_bytes().to_vec()]),
    };
    let layout = Layout::resolve(&of.manifest, &Request::default()).unwrap();
    let files = FileSource { manifest: Arc::clone(&of.manifest), layout };
    let packed = PackedRows { packing: Arc::new(packing), table, rows: Arc::clone(&of.selection) };
    let start = Cursor::start(of.identity(&OrderKind::Sequential));
    let pass = Arc::new(Pass::new(&start, Cut::new(1, 1, 1).unwrap(), Tail::Drop, 1).unwrap());
    let order = Order::new(&OrderKind::Sequential, 0, Arc::clone(of.counted())).unwrap();
    let (sources, units) =
        (Arc::new(ReadSources::one(files.manifest, files.layout)), UnitOrder::One(Box::new(order)));
    let sequences = SequencePass::new(&sources, vec![packed], units.clone(), (Arc::clone(&pass), 0)).unwrap();
    let order = PassOrder { units, counted: Counted::Sequences(Arc::new(sequences)) };
    BatchReader::new(sources, order, pass, 0)
}

impl Sources for [UnitFiles<'_>; NAMES.len()] {
    fn count(&self, source: usize) -> u64 {
        self[source].beginning().counted().count()
    }

    fn grow(&mut self, source: usize, more: u64) {
        self[source].grow(more % 4);
    }

    fn named(&self, source: usize) -> NamedSource {
        let own = &self[source];
        let (now, kind) = (own.beginning(), &own.kind);
        let choice = match kind {
            OrderKind::Shuffled { .. } => {
                OrderChoice::Shuffled { seed: None, block_rows: None, window_rows: None }
            }
            _ => OrderChoice::Sequential,
        };
        let files = SourceFiles {
            manifest: Arc::clone(&now.manifest),
            selection: Arc::clone(&now.selection),
            units: now.units.clone(),
        };
        NamedSource {
            name: NAMES[source].into(),
            fingerprint: now.identity(kind).short_hash(),
            rows: now.counted().count(),
            order: kind.clone(),
            choice,
            files: Some(Arc::new(files)),
            appends: true,
        }
    }

    fn give(&mut self, source: usize, places: &[(Place, Vec<u64>)]) {
        let own = &mut self[source];
        let units: Vec<(u64, u64)> =
            places.iter().map(|(place, ends)| (place.0, own.unit_at(*place, ends))).collect();
        for unit in &units {
            assert!(own.units.insert(*unit), "{}: {unit:?}, a pass and a unit, came twice", NAMES[source]);
        }
        own.read(&units);
    }
}

/// Which dataset a source is of, what is counted of it, and its order.
type Chosen = (usize, usize, OrderKind);

fn check(
    datasets: &Datasets,
    contents: &[Vec<Vec<Content>>],
    chosen: &[Chosen; NAMES.len()],
    lives: &[Life],
) {
    let mut sources = chosen.each_ref().map(|(log, counted, kind)| UnitFiles {
        beginnings: &datasets.logs[*log][0].beginnings[*counted],
        contents: &contents[*log][*counted],
        unit: KINDS[*counted].0,
        kind: kind.clone(),
        now: 0,
        reader: None,
        orders: BTreeMap::new(),
        units: BTreeSet::new(),
        tokens: BTreeSet::new(),
    });
    check_history(&mut sources, lives);
    sources.iter().for_each(UnitFiles::check_whole_passes);
}

/// Checks so many histories, or as many as are asked for.
fn check_histories(cases: u32) {
    let datasets = Datasets::new(1);
    let content = |of: &Beginning, unit| Content {
        parts: parts(unit, &of.manifest, &of.selection),
        table: table(unit, &of.manifest, &of.selection).map(Arc::new),
    };
    let of_kinds = |beginnings: &[Vec<Beginning>]| -> Vec<Vec<Content>> {
        let kinds = beginnings.iter().zip(KINDS);
        kinds.map(|(of_kind, (unit, _))| of_kind.iter().map(|of| content(of, unit)).collect()).collect()
    };
    let contents: Vec<_> = datasets.logs.iter().map(|copies| of_kinds(&copies[0].beginnings)).collect();
    // Each source has files of its own: those of one that is gone are refused under another name.
    let logs = Just((0..NUM_LOGS).collect::<Vec<usize>>()).prop_shuffle();
    let chosen = (logs, prop::array::uniform4((0..KINDS.len(), orders()))).prop_map(|(logs, each)| {
        let mut logs = logs.into_iter();
        each.map(|(counted, kind)| (logs.next().unwrap_or_default(), counted, kind))
    });
    proptest!(config(cases), |(chosen in chosen, lives in prop::collection::vec(lives(), 1..6))| {
        check(&datasets, &contents, &chosen, &lives);
    });
}

#[test]
fn every_token_comes_once_in_any_history_of_mixed_units() {
    check_histories(120);
}

#[test]
#[ignore = "takes minutes"]
fn every_token_comes_once_in_very_many_histories_of_mixed_units() {
    check_histories(100_000);
}
