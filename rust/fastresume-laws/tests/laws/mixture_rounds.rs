//! The laws of a mixture with a stream over random histories: a pass is a round of the stream, tables run on beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastresume::{
    Cursor, Cut, Grows, MixtureStop, NamedMixture, NamedSource, NamedStop, OrderChoice, OrderKind, Pass, Tail,
};
use proptest::prelude::*;

use crate::config;

/// The rows of the table.
const TABLE: u64 = 37;

/// One start of a job: ranks, rows of each, the weights of table and stream, how many rows come for a round, and after how
/// many batches it is killed.
#[derive(Debug, Clone)]
struct Life {
    ranks: u64,
    rows: u64,
    weights: [u64; 2],
    come: u64,
    batches: u64,
}

fn lives() -> impl Strategy<Value = Life> {
    let weights = [1..12_u64, 1..12_u64];
    (1..=3_u64, 1..9_u64, weights, 1..90_u64, 1..60_u64)
        .prop_map(|(ranks, rows, weights, come, batches)| Life { ranks, rows, weights, come, batches })
}

/// A round of so many rows, which has begun with fewer.
#[derive(Debug)]
struct Rows(u64, u64);

fn fingerprint(number: u64, rows: u64) -> String {
    format!("{number:08}{rows:08}")
}

impl Grows for Rows {
    fn began_with(&self, hash: &str, rows: u64) -> fastresume::Result<bool> {
        Ok(rows < self.1 && hash == fingerprint(self.0, rows))
    }
}

fn source(name: &str, number: u64, rows: u64) -> NamedSource {
    NamedSource {
        name: name.into(),
        fingerprint: fingerprint(number, rows),
        rows,
        order: OrderKind::Sequential,
        choice: OrderChoice::Sequential,
        files: Some(Arc::new(Rows(number, rows))),
        appends: true,
    }
}

fn mixture(weights: [u64; 2], (number, rows): (u64, u64)) -> NamedMixture {
    let sources = vec![source("table", 0, TABLE), source("live", number, rows)];
    NamedMixture::new(sources, weights.to_vec().into(), MixtureStop::Round { round: "live".into() })
}

/// The rows of the present round that are left.
fn left_of(cursor: &Cursor) -> u64 {
    let axis = &cursor.taken().unwrap()[1];
    axis.rows() - axis.taken().count()
}

/// The place with a batch that follows, as a reader of streams finds it: the round, and the cursor.
fn follow(cursor: &Cursor, round: (u64, u64), life: &Life) -> ((u64, u64), Cursor) {
    let of_batch = life.ranks * life.rows;
    let pass = |cursor: &Cursor| {
        Pass::new(cursor, Cut::new(life.ranks, 1, life.rows).unwrap(), Tail::Drop, life.ranks).unwrap()
    };
    let mut cursor = cursor.fitted_to_mixture(&mixture(life.weights, round), of_batch).unwrap();
    if cursor.steps() > 0 && pass(&cursor).batches_left() == 0 {
        cursor = pass(&cursor).next_pass();
    }
    let whole =
        |cursor: &Cursor, most: u64| cursor.axes().unwrap().period().rows_in_batches(1, most, of_batch);
    let left = left_of(&cursor);
    if cursor.steps() > 0 || whole(&cursor, left) > 0 {
        return (round, cursor);
    }
    let mut come = left + life.come;
    while whole(&cursor, come) <= left {
        come += 1; // more rows come until there are enough
    }
    let rows = whole(&cursor, come) - left;
    let (round, next) = if left == 0 {
        let next = (round.0 + u64::from(round.1 > 0), rows);
        (next, cursor.with_next_round(&source("live", next.0, next.1)).unwrap())
    } else {
        let grown = (round.0, round.1 + rows);
        (grown, cursor.fitted_to_mixture(&mixture(life.weights, grown), of_batch).unwrap())
    };
    assert!(pass(&next).batches_left() > 0);
    (round, next)
}

/// The places of the sources that a batch delivers over all ranks.
fn given(pass: &Pass, cursor: &Cursor, batch: u64, ranks: u64) -> Vec<(usize, u64, u64)> {
    let axes = cursor.axes().unwrap();
    let positions = (0..ranks).flat_map(|rank| pass.positions(batch, rank).unwrap()).collect::<Vec<_>>();
    let each = (0..2).flat_map(|of| axes.stretches_of(of, &positions).flatten().map(move |at| (of, at)));
    each.map(|(of, at)| {
        let (pass, position, _) = axes.axis(of).unwrap().place(at);
        (of, pass, position)
    })
    .collect()
}

proptest! {
    #![proptest_config(config(60))]

    /// Jobs are killed, and resume on other ranks, with other batches and weights.
    #[test]
    fn each_row_of_a_stream_comes_once_and_tables_run_on(lives in prop::collection::vec(lives(), 1..8)) {
        let mut round = (0, 0);
        let mut sizes = BTreeMap::new();
        let mut cursor: Option<Cursor> = None;
        let mut times: BTreeMap<(usize, u64, u64), u64> = BTreeMap::new();
        for life in &lives {
            let begun = Cursor::start_of_mixture(&mixture(life.weights, round), life.ranks * life.rows).unwrap();
            let mut at = cursor.map_or(begun, |cursor| Cursor::parse(&cursor.to_json()).unwrap());
            let mut batches = life.batches;
            while batches > 0 {
                (round, at) = follow(&at, round, life);
                sizes.insert(round.0, round.1);
                let cut = Cut::new(life.ranks, 1, life.rows).unwrap();
                let pass = Pass::new(&at, cut, Tail::Drop, life.ranks).unwrap();
                let (before, end) = (at.clone(), pass.batches().min(pass.done() + batches));
                for batch in pass.done()..end {
                    for place in given(&pass, &before, batch, life.ranks) {
                        *times.entry(place).or_default() += 1;
                    }
                }
                batches -= end - pass.done();
                at = pass.cursor_after(end);
            }
            let text = at.to_json();
            prop_assert!(text.len() < 1500, "{}", text);
            cursor = Some(at);
        }
        prop_assert!(times.values().all(|&count| count == 1));
        for (&number, &rows) in &sizes {
            let of_round = times.range((1, number, 0)..(1, number + 1, 0)).count() as u64;
            let is_right = of_round == rows || (number == round.0 && of_round < rows);
            prop_assert!(is_right, "{} of {} rows of round {}", of_round, rows, number);
        }
        // The state tells exactly what was given, of the table over all its passes: so what is left comes later.
        for (of, axis) in cursor.unwrap().taken().unwrap().iter().enumerate() {
            let given = times.range((of, 0, 0)..(of + 1, 0, 0)).map(|(&(_, pass, at), _)| (pass, at));
            prop_assert_eq!(given.clone().count() as u64, axis.rows_taken());
            let taken = axis.taken().ranges().iter().cloned().flatten().map(|at| axis.place(at));
            let found: Vec<_> = taken.map(|(pass, at, _)| (pass, at)).collect();
            let first = axis.place(0).0; // of a round that has begun, batches may have had no row yet
            prop_assert_eq!(given.filter(|place| place.0 >= first).collect::<Vec<_>>(), found);
        }
    }
}

#[test]
fn a_state_does_not_grow_with_the_number_of_rounds() {
    let life = Life { ranks: 2, rows: 4, weights: [3, 2], come: 40, batches: 0 };
    let mut at = Cursor::start_of_mixture(&mixture(life.weights, (0, 0)), 8).unwrap();
    let (mut round, mut lengths) = ((0, 0), Vec::new());
    for _ in 0..200 {
        (round, at) = follow(&at, round, &life);
        let pass = Pass::new(&at, Cut::new(2, 1, 4).unwrap(), Tail::Drop, 2).unwrap();
        at = pass.cursor_after(pass.batches());
        assert_eq!(Cursor::parse(&at.to_json()).unwrap(), at);
        lengths.push(at.to_json().len());
    }
    assert_eq!((round.0, at.epoch()), (199, 200));
    assert!(lengths[199] <= lengths[9] + 12, "{lengths:?}"); // digits
    let taken = at.taken().unwrap();
    assert_eq!(taken[1].rows_taken(), 200 * round.1);
}

#[test]
fn a_stream_comes_to_a_job_over_a_table_and_leaves_it() {
    let table = NamedMixture::new(
        vec![source("table", 0, TABLE)],
        vec![1].into(),
        MixtureStop::Named(NamedStop::First),
    );
    let begun = Cursor::start_of_mixture(&table, 4).unwrap();
    for batches in [0, 2, 9] {
        let pass = Pass::new(&begun, Cut::new(1, 1, 4).unwrap(), Tail::Drop, 1).unwrap();
        let state = pass.cursor_after(batches);
        let fitted = state.fitted_to_mixture(&mixture([1, 1], (0, 0)), 4).unwrap();
        assert_eq!((fitted.identity().num_rows, fitted.taken().unwrap()[0].rows_taken()), (0, 4 * batches));
        assert_eq!(Cursor::parse(&fitted.to_json()).unwrap(), fitted);
        let life = Life { ranks: 1, rows: 4, weights: [1, 1], come: 20, batches: 0 };
        let (round, next) = follow(&fitted, (0, 0), &life);
        assert_eq!(next.identity().num_rows, 2 * round.1 + 1);
        let later = pass_of(&next).cursor_after(1).fitted_to_mixture(&table, 4).unwrap();
        assert_eq!(later.taken().unwrap()[0].rows_taken(), 4 * batches + 2);
    }
}

fn pass_of(cursor: &Cursor) -> Pass {
    Pass::new(cursor, Cut::new(1, 1, 4).unwrap(), Tail::Drop, 1).unwrap()
}

#[test]
fn a_round_follows_only_where_the_one_before_is_done() {
    let begun = Cursor::start_of_mixture(&mixture([1, 1], (0, 6)), 2).unwrap();
    let next = source("live", 1, 8);
    let error = begun.with_next_round(&next).unwrap_err().to_string();
    assert!(error.contains("has 6 rows left"), "{error}");
    let pass = Pass::new(&begun, Cut::new(1, 1, 2).unwrap(), Tail::Drop, 1).unwrap();
    let error = pass.cursor_after(1).with_next_round(&next).unwrap_err().to_string();
    assert!(error.contains("at the beginning of a pass"), "{error}");
    let followed = pass.cursor_after(6).with_next_round(&next).unwrap();
    assert_eq!((followed.epoch(), followed.identity().num_rows), (1, 17));
    assert_eq!(followed.taken().unwrap()[1].place(0).0, 1); // the pass that it is
}
