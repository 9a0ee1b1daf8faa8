//! The laws of mixtures over random histories: jobs are killed and resumed on other topologies, by other weights and with
//! other sources. The oracle walks along the positions one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastresume::{
    Axis, Cursor, Cut, Grows, NamedMixture, NamedSource, NamedStop, OrderChoice, OrderKind, Pass, Period,
    Stop, Tail, whole_weights,
};
use proptest::prelude::*;

use crate::config;

const NAMES: [&str; 4] = ["web", "code", "books", "mail"];

/// What one start of a job asks for: which sources it names and with which weights, what has come to them, its ranks, lanes
/// and rows, and after how many batches it is killed.
#[derive(Debug, Clone)]
struct Life {
    weights: Vec<(usize, u64)>,
    new_rows: Vec<u64>,
    stop: Stop,
    tail: Tail,
    world_size: u64,
    lanes_each: u64,
    rows: u64,
    batches: u64,
}

fn lives() -> impl Strategy<Value = Life> {
    let sources = prop::sample::subsequence(vec![0, 1, 2, 3], 1..=4).prop_shuffle();
    let weights = sources.prop_flat_map(|sources| {
        let each: Vec<_> = sources.into_iter().map(|source| (Just(source), 1..9_u64)).collect();
        each
    });
    let stop = prop_oneof![
        Just(Stop::Named(NamedStop::First)),
        Just(Stop::Named(NamedStop::All)),
        (1..400_u64).prop_map(Stop::Rows)
    ];
    let new_rows = prop::collection::vec(prop_oneof![3 => Just(0), 1 => 1..50_u64], 4);
    let tail = prop::sample::select(vec![Tail::Drop, Tail::Short, Tail::Pad]);
    (weights, new_rows, (stop, tail), 1..=3_u64, 1..=3_u64, 1..6_u64, 0..40_u64).prop_map(
        |(weights, new_rows, (stop, tail), world_size, lanes_each, rows, batches)| Life {
            weights,
            new_rows,
            stop,
            tail,
            world_size,
            lanes_each,
            rows,
            batches,
        },
    )
}

/// Files of so many rows, which have been fewer.
#[derive(Debug)]
struct Files(usize, u64);

fn fingerprint(source: usize, rows: u64) -> String {
    format!("{source:016}{rows:016}")
}

impl Grows for Files {
    fn began_with(&self, hash: &str, rows: u64) -> fastresume::Result<bool> {
        Ok(rows < self.1 && hash == fingerprint(self.0, rows))
    }
}

impl Life {
    fn named(&self, rows: &[u64]) -> NamedMixture {
        let sources = self.weights.iter().map(|&(source, _)| NamedSource {
            name: NAMES[source].into(),
            fingerprint: fingerprint(source, rows[source]),
            rows: rows[source],
            order: OrderKind::Sequential,
            choice: OrderChoice::Sequential,
            files: Some(Arc::new(Files(source, rows[source]))),
            appends: true,
        });
        NamedMixture {
            sources: sources.collect(),
            weights: self.weights.iter().map(|&(_, weight)| weight).collect(),
            stop: self.stop,
        }
    }

    fn least(&self) -> u64 {
        self.rows * self.lanes_each * self.world_size
    }

    fn pass(&self, cursor: &Cursor) -> Pass {
        let cut = Cut::new(self.world_size * self.lanes_each, 1, self.rows).unwrap();
        Pass::new(cursor, cut, self.tail, self.world_size).unwrap()
    }
}

fn place(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap()
}

/// Which of the names the sources of a state have.
fn places(cursor: &Cursor) -> Vec<usize> {
    cursor.mixture().unwrap().sources.iter().map(|source| place(&source.0)).collect()
}

/// The sources at some positions, one by one: each time the one that must come before any other one.
fn slow_sources(weights: &[u64], positions: u64) -> Vec<usize> {
    let length: u64 = weights.iter().sum();
    let mut given = vec![0_u64; weights.len()];
    let mut found = Vec::new();
    for position in 0..positions {
        let mut best: Option<(u64, usize)> = None;
        for (source, &weight) in weights.iter().enumerate() {
            // Occurrence j may come when a share of j is due, and has to before one of j + 1 is.
            if weight > 0 && given[source] * length <= position * weight + (weight - 1) {
                let starts = given[source] * length / weight;
                let ends = ((given[source] + 1) * length).div_ceil(weight);
                if starts <= position && best.is_none_or(|(end, _)| ends < end) {
                    best = Some((ends, source));
                }
            }
        }
        let (ends, source) = best.unwrap();
        assert!(position < ends, "occurrence {} of {source} comes too late", given[source]);
        given[source] += 1;
        found.push(source);
    }
    found
}

/// A source as a set of places: of each pass, the positions that were taken, or count as taken.
#[derive(Debug, Default)]
struct Slow {
    rows: u64,
    taken: BTreeSet<(u64, u64)>,
    delivered: BTreeMap<(u64, u64), (u64, u64)>,
}

impl Slow {
    fn count(&self, pass: u64) -> u64 {
        self.taken.range((pass, 0)..(pass + 1, 0)).count() as u64
    }

    fn passes(&self) -> BTreeSet<u64> {
        self.taken.iter().map(|place| place.0).collect()
    }

    /// Passes that are partly taken go on with the new rows; else the last one does. What is done stays done.
    fn grow(&mut self, new_rows: u64) {
        let passes = self.passes();
        let is_partly = passes.iter().any(|&pass| self.count(pass) < self.rows);
        for &pass in &passes {
            if self.count(pass) == self.rows && (is_partly || Some(&pass) != passes.last()) {
                self.taken.extend((self.rows..self.rows + new_rows).map(|position| (pass, position)));
            }
        }
        self.rows += new_rows;
    }

    /// The first places that are left.
    fn left(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = (0..).flat_map(|pass| (0..self.rows).map(move |position| (pass, position)));
        all.filter(|place| !self.taken.contains(place))
    }

    /// Checks that a state says the same.
    fn check(&self, axis: &Axis) {
        assert_eq!(axis.rows(), self.rows);
        assert_eq!(axis.rows_taken(), self.delivered.len() as u64, "rows that were taken");
        let (first, _, _) = axis.place(0);
        let told = axis.taken().ranges().iter().cloned().flatten();
        let told: BTreeSet<_> = told.map(|ordinal| axis.place(ordinal)).map(|at| (at.0, at.1)).collect();
        let own: BTreeSet<_> = self.taken.range((first, 0)..).copied().collect();
        assert_eq!(told, own, "the state tells what was taken");
        assert!((0..first).all(|pass| self.count(pass) == self.rows), "what is forgotten is done");
        // A generation of which rows are left holds what it held when others of it were delivered.
        for pass in self.passes().into_iter().filter(|&pass| self.count(pass) < self.rows) {
            let of = |position: u64| generation_of(axis, (pass - first) * self.rows + position);
            let left = (0..self.rows).filter(|&position| !self.taken.contains(&(pass, position)));
            let open: BTreeSet<_> = left.map(of).collect();
            for (place, generation) in self.delivered.range((pass, 0)..(pass + 1, 0)) {
                assert!(!open.contains(&of(place.1)) || of(place.1) == *generation);
            }
        }
    }
}

/// Where the generation of the rows at an ordinal begins and ends.
fn generation_of(axis: &Axis, ordinal: u64) -> (u64, u64) {
    let (_, position, mut ends) = axis.place(ordinal);
    ends.push(axis.rows());
    let number = ends.partition_point(|&end| end <= position);
    (if number == 0 { 0 } else { ends[number - 1] }, ends[number])
}

/// Checks a history: nothing is delivered twice, what was left of a source comes first, and the state says all of it.
fn check_history(rows: &[u64], lives: &[Life]) {
    let mut rows = rows.to_vec();
    let mut all: Vec<Slow> = rows.iter().map(|&rows| Slow { rows, ..Slow::default() }).collect();
    let mut state: Option<String> = None;
    for life in lives {
        for &(source, _) in &life.weights {
            // What came to a source while it was not read is seen when it is read again.
            let new_rows = life.new_rows[source];
            rows[source] += new_rows;
            if new_rows > 0 {
                all[source].grow(new_rows);
            }
        }
        let named = life.named(&rows);
        let cursor = match &state {
            None => Cursor::start_of_mixture(&named, life.least()).unwrap(),
            Some(text) => Cursor::parse(text).unwrap().fitted_to_mixture(&named, life.least()).unwrap(),
        };
        let known = places(&cursor);
        let axes = cursor.axes().unwrap();
        let positions = cursor.identity().num_rows;
        let weights = cursor.mixture().unwrap().weights.clone();
        let sources = slow_sources(&weights, positions);
        // What a stage may take: of each source what had not been taken before it.
        let begun = cursor.before_stage().taken().unwrap();
        let mut expected = Vec::new();
        for (source, &name) in known.iter().enumerate() {
            let count = usize::try_from(axes.period().count_before(source, positions)).unwrap();
            let at_start = Slow { rows: all[name].rows, ..Slow::default() };
            let taken = begun[source].taken().ranges().iter().cloned().flatten();
            let (first, _, _) = begun[source].place(0);
            let taken = taken.map(|ordinal| begun[source].place(ordinal)).map(|at| (at.0, at.1));
            let at_start = Slow { taken: taken.collect(), ..at_start };
            let next = at_start.left().filter(|place| place.0 >= first);
            expected.push(next.take(count).collect::<Vec<_>>().into_iter());
        }
        let mut at = Vec::new();
        for (position, &source) in (0..).zip(&sources) {
            let ordinals: Vec<_> = axes.ordinals(source, &(position..position + 1)).collect();
            let of_source = axes.axis(source).unwrap();
            assert_eq!(ordinals.iter().map(|range| range.end - range.start).sum::<u64>(), 1);
            let (pass, place, _) = of_source.place(ordinals[0].start);
            assert_eq!(Some((pass, place)), expected[source].next());
            assert_eq!(axes.period().source_at(position), source);
            at.push((known[source], (pass, place), generation_of(of_source, ordinals[0].start)));
        }
        let pass = life.pass(&cursor);
        let end = (pass.done() + life.batches).min(pass.batches());
        for batch in pass.done()..end {
            for rank in 0..life.world_size {
                for range in pass.valid_positions(batch, rank).unwrap() {
                    for position in range {
                        let (name, place, generation) = at[usize::try_from(position).unwrap()];
                        let before = all[name].delivered.insert(place, generation);
                        assert!(before.is_none(), "{name} gave {place:?} twice");
                        assert!(all[name].taken.insert(place), "{name} gave {place:?}, which was done");
                    }
                }
            }
        }
        let after = pass.cursor_after(end);
        for (&name, axis) in places(&after).iter().zip(after.taken().unwrap()) {
            if axis.rows() == all[name].rows {
                all[name].check(&axis);
            }
        }
        let text = after.to_json();
        assert_eq!(Cursor::parse(&text).unwrap(), after);
        state = Some(text);
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn each_source_is_within_one_of_its_share_at_every_prefix(
        weights in prop::collection::vec(0..60_u64, 1..12).prop_filter("some weight", |weights| weights.iter().any(|&weight| weight > 0)),
        periods in 1..4_u64,
    ) {
        let period = Period::new(&weights).unwrap();
        let length = period.length();
        let slow = slow_sources(&weights, length * periods);
        let mut counts = vec![0_u64; weights.len()];
        for position in 0..length * periods {
            for (source, &weight) in weights.iter().enumerate() {
                prop_assert_eq!(period.count_before(source, position), counts[source]);
                let (count, share) = (counts[source] * length, position * weight);
                prop_assert!(count.abs_diff(share) <= length, "{count} of {share}");
            }
            let source = period.source_at(position);
            prop_assert_eq!(source, slow[usize::try_from(position).unwrap()]);
            prop_assert_eq!(period.position_of(source, counts[source]), Some(position));
            counts[source] += 1;
        }
    }

    #[test]
    fn weights_keep_their_shares(weights in prop::collection::vec(1e-3..1e3_f64, 1..10)) {
        let sum: f64 = weights.iter().sum();
        let Ok(whole) = whole_weights(&weights) else {
            prop_assert!(weights.iter().any(|weight| weight / sum < 1.0 / 65_536.0));
            return Ok(());
        };
        #[allow(clippy::cast_precision_loss, reason = "at most 65,536")]
        let total = whole.iter().sum::<u64>() as f64;
        prop_assert!(total <= 65_536.0);
        for (weight, found) in weights.iter().zip(&whole) {
            #[allow(clippy::cast_precision_loss, reason = "at most 65,536")]
            let found = *found as f64;
            prop_assert!((found / total - weight / sum).abs() <= 1.0 / 65_536.0);
        }
    }

    #[test]
    fn nothing_is_lost_or_repeated_in_any_history(
        rows in prop::collection::vec(1..120_u64, 4),
        lives in prop::collection::vec(lives(), 1..8),
    ) {
        check_history(&rows, &lives);
    }
}

/// A job that ends where the first source ends its pass: all sources stop there, and each goes on from there.
#[test]
fn a_pass_ends_with_that_of_a_source_or_of_all() {
    let life = |stop| Life {
        weights: vec![(0, 7), (1, 3)],
        new_rows: vec![0; 4],
        stop,
        tail: Tail::Drop,
        world_size: 1,
        lanes_each: 1,
        rows: 10,
        batches: 1000,
    };
    let first = life(Stop::Named(NamedStop::First));
    let cursor = Cursor::start_of_mixture(&first.named(&[70, 60, 1, 1]), 10).unwrap();
    assert_eq!(cursor.identity().num_rows, 100);
    let pass = first.pass(&cursor);
    let next = pass.cursor_after(pass.batches());
    assert_eq!((next.epoch(), next.steps()), (1, 0));
    // Half of its pass is left of the second source, and none of the first one's, which begins its next one.
    assert_eq!(next.identity().num_rows, 100);
    let all = life(Stop::Named(NamedStop::All));
    let cursor = Cursor::start_of_mixture(&all.named(&[70, 60, 1, 1]), 10).unwrap();
    assert_eq!(cursor.identity().num_rows, 200);
    let rows = life(Stop::Rows(55));
    assert_eq!(Cursor::start_of_mixture(&rows.named(&[70, 60, 1, 1]), 10).unwrap().identity().num_rows, 55);
}

#[test]
fn a_state_of_eight_sources_and_five_stages_is_below_a_kibibyte() {
    let sources = |count: usize| -> Vec<NamedSource> {
        let each = (0..count).map(|source| NamedSource {
            name: format!("source-{source}"),
            fingerprint: format!("{source:012x}"),
            rows: 123_456_789,
            order: OrderKind::Shuffled { seed: 17, block_rows: 65_536, window_rows: 131_072 },
            choice: OrderChoice::Shuffled { seed: None, block_rows: None, window_rows: None },
            files: None,
            appends: false,
        });
        each.collect()
    };
    let mut cursor: Option<Cursor> = None;
    for stage in 0..5 {
        let weights = (0..8).map(|source| 5 + (source + stage) % 8 * 7).collect();
        let stop = Stop::Named(NamedStop::First);
        let named = NamedMixture { sources: sources(8), weights, stop };
        let begun = match &cursor {
            None => Cursor::start_of_mixture(&named, 4096).unwrap(),
            Some(cursor) => cursor.fitted_to_mixture(&named, 4096).unwrap(),
        };
        let pass = Pass::new(&begun, Cut::new(64, 1, 64).unwrap(), Tail::Drop, 8).unwrap();
        cursor = Some(pass.cursor_after(pass.done() + 1000));
    }
    let text = cursor.unwrap().to_json();
    assert!(text.len() < 1024, "{} bytes: {text}", text.len());
}
