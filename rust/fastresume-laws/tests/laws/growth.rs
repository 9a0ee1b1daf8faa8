//! The laws of files that are added, over random histories: jobs are killed, files come behind those that are there, and
//! other ranks go on. Rows are counted, or what they are put together to.

use fastresume::{Cursor, Intervals, Order, OrderKind, Pass};
use proptest::prelude::*;

use crate::config;
use crate::files::{Beginning, Datasets, KINDS, NUM_LOGS};
use crate::walk::{Life, Walk, index, lives, orders};

fn check_history(beginnings: &[Beginning], kind: &OrderKind, lives: &[Life]) {
    let mut files = 0;
    let mut walk = Walk::new(kind, beginnings[0].counted());
    let mut text = Cursor::start(beginnings[0].identity(kind)).to_json();
    // The rows that each batch of the pass gave, by its step; none are known of a pass that was gone back to.
    let mut steps: Vec<(Life, Vec<u64>)> = Vec::new();
    let mut given = 0;
    for &life in lives {
        let state = Cursor::parse(&text).unwrap();
        let before = files;
        files = (files + life.files_come).min(beginnings.len() - 1);
        let now = &beginnings[files];
        let epoch = walk.epoch;
        walk.grow(now.counted());
        if walk.epoch < epoch {
            steps.clear();
        }
        if files > before {
            let refused = state.fitted(now.read(), false).unwrap_err().to_string();
            assert!(refused.contains("more than then, after those of the state"), "{refused}");
            let ahead = Cursor::start(now.identity(kind));
            assert!(ahead.fitted(beginnings[before].read(), true).is_err(), "files are gone");
        }
        let cursor = state.fitted(now.read(), true).unwrap();
        let left: Vec<u64> = cursor.remaining().unwrap().ranges().iter().cloned().flatten().collect();
        assert_eq!(left, walk.remaining(), "what is left");
        assert_eq!((cursor.epoch(), &cursor.generation_ends()), (walk.epoch, &walk.ends));
        let ends = cursor.generation_ends();
        let order = Order::of_generations(kind, cursor.epoch(), now.counted().clone(), &ends).unwrap();
        let rows = |positions: &[u64]| -> Vec<u64> {
            positions.iter().flat_map(|&at| order.rows(at..at + 1)).flatten().collect()
        };
        let selected = |ordinal: u64| now.counted().rows(ordinal..ordinal + 1).flatten();
        let expected: Vec<u64> =
            walk.remaining().iter().flat_map(|&at| selected(walk.order[index(at)])).collect();
        assert_eq!(rows(&left), expected, "the rows at these positions");
        let pass = life.pass(&cursor);
        let (batches, ends) = walk.live(life);
        let first = pass.done();
        for (batch, expected) in (first..).zip(&batches) {
            assert_eq!(&life.given(&pass, batch), expected, "batch {batch}");
            assert_eq!(pass.step_of(batch), steps.len() as u64);
            assert_eq!(pass.global_step_of(batch), given, "each batch of the job counts once");
            given += 1;
            steps.push((life, rows(expected)));
        }
        let end = first + batches.len() as u64;
        let after = if ends && batches.is_empty() { pass.next_pass() } else { pass.cursor_after(end) };
        assert_eq!(after.epoch() > cursor.epoch(), ends);
        // Each batch is found again by its step, with the rows that it gave.
        let known = if ends { cursor } else { after.clone() };
        for (step, (of, given)) in (0..known.steps()).zip(&steps) {
            let (pass, batch) = Pass::at_step(&known, step, of.cut(), of.tail, of.world_size).unwrap();
            assert_eq!(&rows(&of.given(&pass, batch)), given, "step {step} again");
        }
        if ends {
            steps.clear();
            assert_eq!(after.rows_at_begin(), now.counted().count(), "generations go with their pass");
        }
        text = after.to_json();
        assert_eq!(Cursor::parse(&text).unwrap(), after);
        let most = 24 * walk.ends.len() + r#""generations":[],"#.len();
        let next = after.at_epoch(after.epoch() + 1).with_earlier_batches(given);
        let without = next.to_json().len();
        let of_cuts = after.cuts().len() * 30;
        assert!(walk.ends.is_empty() || text.len() <= without + of_cuts + most + 20, "{text}");
    }
}

/// Checks so many histories, or as many as are asked for.
fn check_histories(cases: u32) {
    let datasets = Datasets::new(1);
    let histories = (0..NUM_LOGS, 0..KINDS.len(), orders(), prop::collection::vec(lives(), 1..12));
    proptest!(config(cases), |((log, counted, kind, lives) in histories)| {
        check_history(&datasets.logs[log][0].beginnings[counted], &kind, &lives);
    });
}

#[test]
fn nothing_is_lost_or_repeated_where_files_come() {
    check_histories(300);
}

#[test]
#[ignore = "takes minutes"]
fn nothing_is_lost_or_repeated_in_very_many_histories() {
    check_histories(100_000);
}

/// What is selected of the first files is what is selected of all of them: else no state of these would fit.
#[test]
fn each_beginning_is_one_of_the_next() {
    let selected = |of: &Beginning| {
        of.selection.intervals().cloned().unwrap_or_else(|| Intervals::full(of.manifest.num_rows()))
    };
    let datasets = Datasets::new(1);
    let all = datasets.logs.iter().flat_map(|copies| &copies[0].beginnings);
    for pair in all.flat_map(|beginnings| beginnings.windows(2)) {
        let of_first = Intervals::full(pair[0].manifest.num_rows());
        assert_eq!(selected(&pair[1]).intersection(&of_first).unwrap(), selected(&pair[0]));
    }
}
