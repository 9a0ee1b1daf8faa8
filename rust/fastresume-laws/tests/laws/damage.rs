//! The laws of damage, over random histories: pages rot, files go and are mended, at any moment of a job that is killed, goes on
//! with other ranks, and gets more files. Batches are read by the core's own pipeline.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastresume::{
    Cursor, Delivered, Error, Layout, Order, OrderKind, Pass, PassOrder, Polled, Request, Sources,
    ThreadPool, WorkerId,
};
use proptest::prelude::*;

use crate::config;
use crate::files::{Beginning, COLUMNS, Copy, Datasets, KINDS, NUM_LOGS, number, tokens};
use crate::units::Unit;
use crate::walk::{Life, Walk, index, lives, orders};

/// So many copies of each dataset, the first of which is whole.
const COPIES: u64 = 5;

/// One start of a job: in which state it finds its files, and what it does where they are damaged.
#[derive(Debug, Clone, Copy)]
struct DamagedLife {
    life: Life,
    copy: usize,
    bad_rows: BadRows,
    threads: usize,
}

/// What becomes of damaged rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BadRows {
    Error,
    /// So many of a pass are masked in one process, and one more is an error.
    Mask(u64),
}

fn damaged_lives() -> impl Strategy<Value = DamagedLife> {
    let copy = prop_oneof![2 => Just(0_usize), 3 => 1..usize::try_from(COPIES).unwrap()];
    let most = prop_oneof![2 => Just(u64::MAX), 1 => 0..9_u64];
    let bad_rows = prop_oneof![1 => Just(BadRows::Error), 4 => most.prop_map(BadRows::Mask)];
    let threads = prop_oneof![15 => Just(0_usize), 1 => Just(2)];
    (lives(), copy, bad_rows, threads).prop_map(|(life, copy, bad_rows, threads)| DamagedLife {
        life,
        copy,
        bad_rows,
        threads,
    })
}

/// A job's files, as they are now.
#[derive(Clone, Copy)]
struct Now<'a> {
    files: &'a Beginning,
    order: &'a Order,
    copy: &'a Copy,
}

impl Now<'_> {
    /// Whether rows of the files that are there are damaged.
    fn is_damaged(&self) -> bool {
        let rows = self.files.manifest.num_rows();
        self.copy.bad.iter().any(|bad| bad.range(..rows).next().is_some())
    }

    fn is_bad(&self, row: u64) -> bool {
        self.copy.bad.iter().any(|bad| bad.contains(&row))
    }

    /// The batches of one rank, so many at most, and the error that ended them.
    fn read(&self, of: DamagedLife, pass: &Arc<Pass>, rank: u64) -> (Vec<Delivered>, Option<Error>) {
        let manifest = Arc::clone(&self.files.manifest);
        let layout = Layout::resolve(&manifest, &Request::default()).unwrap();
        let layout = layout.masking_damage(of.bad_rows != BadRows::Error);
        let reader = WorkerId { rank, world_size: of.life.world_size, worker: 0, workers: 1 };
        let order = self.order.clone();
        let sources = Arc::new(Sources::one(manifest, layout));
        let mut pipeline = ThreadPool::new(
            sources,
            PassOrder::of_rows(order),
            Arc::clone(pass),
            reader,
            of.threads,
            1 << 20,
        )
        .unwrap();
        let (mut batches, mut masked) = (Vec::new(), 0);
        while (batches.len() as u64) < of.life.batches {
            match pipeline.poll(Duration::from_millis(10)) {
                Ok(Polled::Pending) => {}
                Ok(Polled::End) => break,
                Ok(Polled::Batch(batch)) => {
                    masked += bad_rows_of(&batch).len() as u64;
                    if matches!(of.bad_rows, BadRows::Mask(most) if masked > most) {
                        return (batches, Some(Error::Argument(format!("{masked} rows are masked"))));
                    }
                    batches.push(*batch);
                }
                Err(error) => {
                    assert_eq!(pipeline.poll(Duration::ZERO).unwrap_err(), error, "an error stays");
                    return (batches, Some(error));
                }
            }
        }
        (batches, None)
    }

    /// Checks a batch of a rank, which has these valid rows.
    fn check(&self, batch: &Delivered, rows: &[u64]) {
        assert_eq!(rows_of(batch), rows);
        let bad: BTreeSet<u64> = rows.iter().copied().filter(|&row| self.is_bad(row)).collect();
        assert_eq!(bad_rows_of(batch), bad, "damaged rows, and no others, are not valid");
        for one in batch.written.damage() {
            let is_of = |column: usize| one.rows.clone().all(|row| self.copy.bad[column].contains(&row));
            let column = COLUMNS.iter().position(|name| one.cause.contains(&format!("'{name}'")));
            assert!(
                (0..2).filter(|&of| column.is_none_or(|named| named == of)).all(is_of),
                "{one:?} {:?}",
                self.copy.bad
            );
        }
        let word = |bytes: &[u8]| i32::from_ne_bytes(bytes.try_into().unwrap());
        let [numbers, values, offsets] = [0, 1, 2].map(|part| batch.fields[part].bytes());
        let ends: Vec<usize> = offsets
            .chunks(8)
            .map(|end| usize::try_from(u64::from_ne_bytes(end.try_into().unwrap())).unwrap() * 4)
            .collect();
        for (at, &row) in rows.iter().enumerate() {
            let [is_number_bad, are_tokens_bad] = [0, 1].map(|column| self.copy.bad[column].contains(&row));
            let expected = if is_number_bad { 0 } else { number(row) };
            assert_eq!(word(&numbers[at * 4..][..4]), expected, "the number of row {row}");
            let own: Vec<i32> = values[ends[at]..ends[at + 1]].chunks(4).map(word).collect();
            let expected = if are_tokens_bad { Vec::new() } else { tokens(row) };
            assert_eq!(own, expected, "the tokens of row {row}");
        }
    }
}

/// The numbers of the valid rows of a batch.
fn rows_of(batch: &Delivered) -> Vec<u64> {
    batch.written.runs(batch.rows as u64).unwrap().into_iter().flatten().take(batch.valid_rows).collect()
}

/// Those of them that the core tells to be damaged.
fn bad_rows_of(batch: &Delivered) -> BTreeSet<u64> {
    let is_bad = |row: &u64| batch.written.damage().iter().any(|one| one.rows.contains(row));
    rows_of(batch).into_iter().filter(is_bad).collect()
}

/// What the lives of histories met.
#[derive(Debug, Default)]
struct Met {
    masked_rows: u64,
    errors: u64,
    bounds: u64,
}

fn check_history(copies: &[Copy], counted: usize, kind: &OrderKind, lives: &[DamagedLife], met: &mut Met) {
    let beginnings = &copies[0].beginnings[counted];
    let mut files = 0;
    let mut walk = Walk::new(kind, beginnings[0].counted());
    let mut text = Cursor::start(beginnings[0].identity(kind)).to_json();
    for &of in lives {
        files = (files + of.life.files_come).min(beginnings.len() - 1);
        walk.grow(beginnings[files].counted());
        let copy = &copies[of.copy];
        let found = &copy.beginnings[counted][files];
        let cursor = Cursor::parse(&text).unwrap().fitted(found.read(), true).unwrap();
        let left: Vec<u64> = cursor.remaining().unwrap().ranges().iter().cloned().flatten().collect();
        assert_eq!(left, walk.remaining(), "damage moves no position");
        let ends = cursor.generation_ends();
        let order = Order::of_generations(kind, cursor.epoch(), found.counted().clone(), &ends).unwrap();
        let now = Now { files: found, order: &order, copy };
        let pass = Arc::new(of.life.pass(&cursor));
        let ranks: Vec<_> = (0..of.life.world_size).map(|rank| now.read(of, &pass, rank)).collect();
        // A rank that fails ends the job.
        let given = ranks.iter().map(|(batches, _)| batches.len()).min().unwrap();
        let selected = |ordinal: u64| found.counted().rows(ordinal..ordinal + 1).flatten();
        let rows = |positions: Vec<Range<u64>>| -> Vec<u64> {
            positions.into_iter().flatten().flat_map(|at| selected(walk.order[index(at)])).collect()
        };
        for (rank, (batches, error)) in (0..).zip(&ranks) {
            let mut masked = 0;
            let mut rows_at = |batch| {
                let of_batch = rows(pass.valid_positions(batch, rank).unwrap());
                masked += of_batch.iter().filter(|&&row| now.is_bad(row)).count() as u64;
                of_batch
            };
            for (number, batch) in (pass.done()..).zip(batches) {
                now.check(batch, &rows_at(number));
                assert_eq!(batch.batch, number);
                assert_eq!(batch.cursor, pass.cursor_after(number + 1), "damage changes no state");
            }
            match (error, of.bad_rows) {
                (None, BadRows::Mask(most)) => assert!(masked <= most),
                (None, BadRows::Error) => assert_eq!(masked, 0),
                (Some(error), BadRows::Error) => {
                    assert!(error.is_damage() && now.is_damaged(), "{error}");
                    met.errors += 1;
                }
                (Some(error), BadRows::Mask(most)) => {
                    assert!(!error.is_damage(), "{error}");
                    rows_at(pass.done() + batches.len() as u64);
                    assert!(masked > most, "the bound was passed by the batch that is not given");
                    met.bounds += 1;
                }
            }
            met.masked_rows += masked;
        }
        let first = pass.done();
        let positions = |batch| of.life.given(&pass, batch);
        let positions: Vec<Vec<u64>> = (first..first + given as u64).map(positions).collect();
        let fails = ranks.iter().any(|(_, error)| error.is_some());
        let batches = if fails { given as u64 } else { of.life.batches };
        let (expected, ends) = walk.live(Life { batches, ..of.life });
        assert_eq!(positions, expected, "damage changes no batch");
        let after = match (given.checked_sub(1), ends) {
            (Some(last), _) => ranks[0].0[last].cursor.clone(),
            (None, true) => pass.next_pass(),
            (None, false) => pass.cursor_after(first),
        };
        text = after.to_json();
    }
}

/// The first copy is whole, and of the others some rows of each column can't be read: else the laws would be about nothing.
fn check_damaged_in_part(copies: &[Copy]) {
    let rows = usize::try_from(copies[0].beginnings[0].last().unwrap().manifest.num_rows()).unwrap();
    assert!(copies[0].bad.iter().all(BTreeSet::is_empty));
    for column in 0..COLUMNS.len() {
        let bad: usize = copies.iter().map(|copy| copy.bad[column].len()).sum();
        assert!(bad > 0 && bad < rows * (copies.len() - 1), "{bad} of {rows} rows a copy");
    }
}

/// Checks so many histories, or as many as are asked for.
fn check_histories(cases: u32) {
    let datasets = Datasets::new(COPIES);
    datasets.logs.iter().for_each(|copies| check_damaged_in_part(copies));
    let rows: Vec<usize> = (0..KINDS.len()).filter(|&counted| KINDS[counted].0 == Unit::Row).collect();
    let lives = prop::collection::vec(damaged_lives(), 1..9);
    let histories = (0..NUM_LOGS, prop::sample::select(rows), orders(), lives);
    let met = std::cell::RefCell::new(Met::default());
    proptest!(config(cases), |((log, counted, kind, lives) in histories)| {
        check_history(&datasets.logs[log], counted, &kind, &lives, &mut met.borrow_mut());
    });
    let met = met.into_inner();
    assert!(met.masked_rows > 0 && met.errors > 0 && met.bounds > 0, "{met:?}");
}

#[test]
fn damage_moves_no_position_and_masks_its_own_rows_alone() {
    check_histories(120);
}

#[test]
#[ignore = "takes minutes"]
fn damage_moves_no_position_in_very_many_histories() {
    check_histories(100_000);
}
