//! The laws of mixtures over random histories: jobs are killed and resumed on other topologies, by other weights and with
//! other sources. The oracle walks along the positions one by one.

use std::sync::Arc;

use fastresume::{
    Cursor, Cut, Grows, Identity, MixtureStop, NamedMixture, NamedSource, NamedStop, OrderChoice, OrderKind,
    Pass, Period, Tail, whole_weights,
};
use proptest::prelude::*;

use crate::config;
use crate::mixture_walk::{Life, NAMES, Sources, check_history, lives, slow_sources};

/// Sources of so many rows, which have been fewer.
#[derive(Debug)]
struct Counted(Vec<u64>);

/// The files of one of them.
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

impl Sources for Counted {
    fn count(&self, source: usize) -> u64 {
        self.0[source]
    }

    fn grow(&mut self, source: usize, more: u64) {
        self.0[source] += more;
    }

    fn named(&self, source: usize) -> NamedSource {
        let rows = self.0[source];
        NamedSource {
            name: NAMES[source].into(),
            fingerprint: fingerprint(source, rows),
            rows,
            order: OrderKind::Sequential,
            choice: OrderChoice::Sequential,
            files: Some(Arc::new(Files(source, rows))),
            appends: true,
        }
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn a_period_of_many_sources_is_that_of_a_walk_over_all_of_them(
        weights in prop::collection::vec(prop_oneof![4 => 0..9_u64, 2 => 0..400_u64, 1 => 0..4000_u64], 1..64)
            .prop_filter("some weight", |weights| weights.iter().any(|&weight| weight > 0)),
    ) {
        let length = weights.iter().sum::<u64>();
        prop_assume!(length <= 65_536);
        let period = Period::new(&weights).unwrap();
        prop_assert_eq!(period.sources_at(0..length).collect::<Vec<_>>(), slow_sources(&weights, length));
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn each_source_has_its_share_at_every_prefix_and_in_every_lane(
        weights in prop::collection::vec(0..60_u64, 1..12).prop_filter("some weight", |weights| weights.iter().any(|&weight| weight > 0)),
        periods in 1..4_u64, lanes in 1..7_u64, rows in 1..5_u64,
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
        // The stretch that a lane reads begins anywhere: there each source is less than one row off, and at its end as well.
        let identity = Identity {
            fingerprint: String::new(), num_rows: length * periods, selection: None, order: OrderKind::Sequential,
        };
        let cut = Cut::new(lanes, 1, rows).unwrap();
        let pass = Pass::new(&Cursor::start(identity), cut, Tail::Drop, lanes).unwrap();
        for lane in 0..lanes {
            let (mut counts, mut given) = (vec![0_u64; weights.len()], 0);
            for position in (0..pass.batches()).flat_map(|batch| pass.positions(batch, lane).unwrap()).flatten() {
                counts[slow[usize::try_from(position).unwrap()]] += 1;
                given += 1;
                for (count, weight) in counts.iter().zip(&weights) {
                    prop_assert!((count * length).abs_diff(given * weight) < 2 * length, "lane {lane}");
                }
            }
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
        check_history(&mut Counted(rows), &lives);
    }
}

/// A job that ends where the first source ends its pass: all sources stop there, and each goes on from there.
#[test]
fn a_pass_ends_with_that_of_a_source_or_of_all() {
    let life = |stop| Life {
        weights: vec![(0, 7), (1, 3)],
        new_rows: vec![0; 4],
        renames: vec![false; 4],
        stop,
        tail: Tail::Drop,
        world_size: 1,
        lanes_each: 1,
        rows: 10,
        batches: 1000,
    };
    let sources = Counted(vec![70, 60, 1, 1]);
    let first = life(MixtureStop::Named(NamedStop::First));
    let cursor = Cursor::start_of_mixture(&first.named(&sources), 10).unwrap();
    assert_eq!(cursor.identity().num_rows, 100);
    let pass = first.pass(&cursor);
    let next = pass.cursor_after(pass.batches());
    assert_eq!((next.epoch(), next.steps()), (1, 0));
    // Half of its pass is left of the second source, and none of the first one's, which begins its next one.
    assert_eq!(next.identity().num_rows, 100);
    let all = life(MixtureStop::Named(NamedStop::All));
    let cursor = Cursor::start_of_mixture(&all.named(&sources), 10).unwrap();
    assert_eq!(cursor.identity().num_rows, 200);
    let rows = life(MixtureStop::Rows(55));
    assert_eq!(Cursor::start_of_mixture(&rows.named(&sources), 10).unwrap().identity().num_rows, 55);
}

/// Of the same weights: which source is named first is no other mixture.
#[test]
fn sources_that_are_named_in_another_order_begin_no_stage() {
    let sources = Counted(vec![70, 60, 50, 1]);
    let life = |weights: &[(usize, u64)]| Life {
        weights: weights.to_vec(),
        new_rows: vec![0; 4],
        renames: vec![false; 4],
        stop: MixtureStop::Rows(40),
        tail: Tail::Drop,
        world_size: 1,
        lanes_each: 1,
        rows: 4,
        batches: 3,
    };
    let first = life(&[(0, 3), (1, 3)]);
    let begun = Cursor::start_of_mixture(&first.named(&sources), 4).unwrap();
    let state = first.pass(&begun).cursor_after(3);
    let again = life(&[(1, 3), (0, 3)]);
    assert_eq!(state.fitted_to_mixture(&again.named(&sources), 4).unwrap(), state);
    // One more stage follows those that were, whatever the order: the batches of the pass are counted on.
    let more = life(&[(2, 1), (1, 3), (0, 2)]).named(&sources);
    let next = state.fitted_to_mixture(&more, 4).unwrap();
    let names: Vec<&str> = next.mixture().unwrap().sources.iter().map(|source| &*source.name).collect();
    assert_eq!(names, [NAMES[2], NAMES[0], NAMES[1]]);
    assert_eq!((next.mixture().unwrap().stages.len(), next.steps(), next.identity().num_rows), (1, 3, 28));
}

/// Two sources change names. The same renaming stays in the script of the job, and of the one after it.
#[test]
fn names_that_change_places_do_so_once() {
    let sources = Counted(vec![70, 60, 50, 40]);
    let mixture = |own: &[(&str, usize)], renamed: &[(&str, Option<&str>)]| {
        let each = own.iter().map(|&(name, of)| NamedSource { name: name.into(), ..sources.named(of) });
        let pairs = renamed.iter().map(|&(old, new)| (old.to_owned(), new.map(str::to_owned)));
        let named = NamedMixture::new(each.collect(), vec![1; own.len()].into(), MixtureStop::Rows(40));
        NamedMixture { renamed: pairs.collect(), ..named }
    };
    let begun = Cursor::start_of_mixture(&mixture(&[("a", 0), ("b", 1), ("c", 2)], &[]), 3).unwrap();
    let state = begun.with_cut(Cut::new(1, 1, 3).unwrap(), 4);
    let swapped: &[(&str, usize)] = &[("b", 0), ("a", 1), ("d", 2)];
    let error = state.fitted_to_mixture(&mixture(swapped, &[]), 3).unwrap_err().to_string();
    assert!(error.contains(r#"renamed={"a": "b", "b": "a", "c": "d"}"#), "{error}");
    let now = mixture(swapped, &[("a", Some("b")), ("b", Some("a")), ("c", Some("d")), ("x", Some("a"))]);
    let renamed = state.fitted_to_mixture(&now, 3).unwrap();
    let names: Vec<&str> = renamed.mixture().unwrap().sources.iter().map(|source| &*source.name).collect();
    assert_eq!((names, renamed.cuts(), renamed.taken()), (vec!["b", "a", "d"], state.cuts(), state.taken()));
    assert_eq!(renamed.fitted_to_mixture(&now, 3).unwrap(), renamed);
    let twice = mixture(&[("z", 0), ("y", 3)], &[("a", Some("z")), ("b", Some("z"))]);
    let error = state.fitted_to_mixture(&twice, 3).unwrap_err().to_string();
    assert!(error.contains(r#"renamed= says that "z" was "b", but the state has "a", too"#), "{error}");
}

/// Of two sources over the same files, under new names, nobody knows which is which; and one may be read anew.
#[test]
fn a_source_that_is_one_of_two_alike_is_asked_for() {
    let sources = Counted(vec![70, 60, 50, 40]);
    let mixture = |own: &[&str], renamed: &[(&str, Option<&str>)]| {
        let each = own.iter().map(|&name| NamedSource { name: name.into(), ..sources.named(0) });
        let pairs = renamed.iter().map(|&(old, new)| (old.to_owned(), new.map(str::to_owned)));
        let named = NamedMixture::new(each.collect(), vec![1; own.len()].into(), MixtureStop::Rows(40));
        NamedMixture { renamed: pairs.collect(), ..named }
    };
    let begun = Cursor::start_of_mixture(&mixture(&["a", "b"], &[]), 3).unwrap();
    let state = begun.with_cut(Cut::new(1, 1, 3).unwrap(), 4);
    let error = state.fitted_to_mixture(&mixture(&["a", "c"], &[]), 3).unwrap_err().to_string();
    assert!(error.contains(r#"write Mixture(..., renamed={"b": "c"})"#), "{error}");
    let error = state.fitted_to_mixture(&mixture(&["c"], &[]), 3).unwrap_err().to_string();
    assert!(error.contains(r#"("a" as "c", "b" as "c"): write which"#), "{error}");
    // One more over the same files is what was asked for: all that the state has goes on.
    assert!(state.fitted_to_mixture(&mixture(&["a", "b", "c"], &[]), 3).is_ok());
    let anew = state.fitted_to_mixture(&mixture(&["a", "c"], &[("b", None)]), 3).unwrap();
    assert_eq!(anew.mixture().unwrap().sources.len(), 3);
    assert!(begun.fitted_to_mixture(&mixture(&["a", "c"], &[]), 3).is_ok(), "nothing was delivered");
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
        let weights: Vec<u64> = (0..8).map(|source| 5 + (source + stage) % 8 * 7).collect();
        let stop = MixtureStop::Named(NamedStop::First);
        let named = NamedMixture::new(sources(8), weights.into(), stop);
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
