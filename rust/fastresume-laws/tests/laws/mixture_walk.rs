//! The lives of a job over a mixture, and the oracle, which walks along the positions one by one.

use std::collections::{BTreeMap, BTreeSet};

use fastresume::{Axis, Cursor, Cut, MixtureStop, NamedMixture, NamedSource, NamedStop, Pass, Tail};
use proptest::prelude::*;

use crate::source_places::check_streams;

pub const NAMES: [&str; 4] = ["web", "code", "books", "mail"];

/// What one start of a job asks for: which sources it names and with which weights, what has come to them, which have new
/// names, its ranks, lanes and rows, and after how many batches it is killed.
#[derive(Debug, Clone)]
pub struct Life {
    pub weights: Vec<(usize, u64)>,
    pub new_rows: Vec<u64>,
    pub renames: Vec<bool>,
    pub stop: MixtureStop,
    pub tail: Tail,
    pub world_size: u64,
    pub lanes_each: u64,
    pub rows: u64,
    pub batches: u64,
}

pub fn lives() -> impl Strategy<Value = Life> {
    let sources = prop::sample::subsequence(vec![0, 1, 2, 3], 1..=4).prop_shuffle();
    let weights = sources.prop_flat_map(|sources| {
        let each: Vec<_> = sources.into_iter().map(|source| (Just(source), 1..9_u64)).collect();
        each
    });
    let stop = prop_oneof![
        Just(MixtureStop::Named(NamedStop::First)),
        Just(MixtureStop::Named(NamedStop::All)),
        (1..400_u64).prop_map(MixtureStop::Rows)
    ];
    let new_rows = prop::collection::vec(prop_oneof![3 => Just(0), 1 => 1..50_u64], 4);
    let renames = prop::collection::vec(prop::bool::weighted(0.2), 4);
    let tail = prop::sample::select(vec![Tail::Drop, Tail::Short, Tail::Pad]);
    (weights, (new_rows, renames), (stop, tail), 1..=3_u64, 1..=3_u64, 1..6_u64, 0..40_u64).prop_map(
        |(weights, (new_rows, renames), (stop, tail), world_size, lanes_each, rows, batches)| Life {
            weights,
            new_rows,
            renames,
            stop,
            tail,
            world_size,
            lanes_each,
            rows,
            batches,
        },
    )
}

/// A place on the axis of a source: a pass, and the position in it.
pub type Place = (u64, u64);

/// The sources of a job, by their numbers among `NAMES`.
pub trait Sources {
    /// The rows, or units, of a source.
    fn count(&self, source: usize) -> u64;

    /// More comes to a source: so many rows, or files.
    fn grow(&mut self, source: usize, more: u64);

    /// How it is named.
    fn named(&self, source: usize) -> NamedSource;

    /// A batch takes these places of a source, of passes whose generations end there, but for the last one.
    fn give(&mut self, _source: usize, _places: &[(Place, Vec<u64>)]) {}
}

impl Life {
    pub fn named(&self, all: &impl Sources) -> NamedMixture {
        let sources = self.weights.iter().map(|&(source, _)| all.named(source)).collect();
        let weights: Vec<u64> = self.weights.iter().map(|&(_, weight)| weight).collect();
        NamedMixture::new(sources, weights.into(), self.stop.clone())
    }

    fn least(&self) -> u64 {
        self.rows * self.lanes_each * self.world_size
    }

    pub fn pass(&self, cursor: &Cursor) -> Pass {
        let cut = Cut::new(self.world_size * self.lanes_each, 1, self.rows).unwrap();
        Pass::new(cursor, cut, self.tail, self.world_size).unwrap()
    }

    /// The cursor after so many batches, or behind a pass that has none left: then the next one has some, if that of a new
    /// job has.
    fn after(&self, pass: &Pass, end: u64, (sources, named): (&impl Sources, &NamedMixture)) -> Cursor {
        let is_empty = pass.batches_left() == 0 && self.batches > 0;
        let after = if is_empty { pass.next_pass() } else { pass.cursor_after(end) };
        if after.epoch() > pass.epoch() {
            let fresh = self.pass(&Cursor::start_of_mixture(&self.named(sources), self.least()).unwrap());
            let following = self.pass(&after.fitted_to_mixture(named, self.least()).unwrap());
            let has_some = following.batches() > 0;
            assert!(has_some || fresh.batches() == 0, "a pass behind another one gives batches");
        }
        after
    }
}

/// Which source has, or had, a name: a new one is the old one with a number.
fn place(name: &str) -> usize {
    let first = name.split('-').next().unwrap();
    NAMES.iter().position(|known| *known == first).unwrap()
}

/// The names that sources have had, the last one of now: all others are renamed to it.
struct Names([Vec<String>; 4]);

impl Names {
    fn new() -> Self {
        Self(NAMES.map(|name| vec![name.to_owned()]))
    }

    fn rename(&mut self, source: usize) {
        let number = self.0[source].len();
        self.0[source].push(format!("{}-{number}", NAMES[source]));
    }

    /// The same mixture by the names of now; sources that it has not are let go.
    fn with_renames(&self, mut named: NamedMixture) -> NamedMixture {
        let own: BTreeSet<usize> = named.sources.iter().map(|source| place(&source.name)).collect();
        for source in &mut named.sources {
            source.name.clone_from(self.0[place(&source.name)].last().unwrap());
        }
        for (number, names) in self.0.iter().enumerate() {
            let now = names.last().filter(|_| own.contains(&number));
            let old = names.iter().filter(|old| Some(*old) != now);
            named.renamed.extend(old.map(|old| (old.clone(), now.cloned())));
        }
        named
    }
}

/// Checks that a state is refused where nobody says that its sources have new names, or which of them are let go where new
/// ones come; and where it has none of the sources. Whether it fits otherwise.
fn fits(state: &Cursor, named: &NamedMixture, least: u64) -> bool {
    let taken = state.taken().unwrap();
    let known: BTreeMap<usize, usize> = places(state).into_iter().zip(0..).collect();
    let unrenamed = NamedMixture { renamed: Vec::new(), ..named.clone() };
    let is_lost = |source: &NamedSource| {
        known.get(&place(&source.name)).is_some_and(|&index| {
            state.mixture().unwrap().sources[index].name != source.name && taken[index].rows_taken() > 0
        })
    };
    if named.sources.iter().any(is_lost) {
        let error = state.fitted_to_mixture(&unrenamed, least).unwrap_err().to_string();
        assert!(error.contains("write Mixture(..., renamed={"), "{error}");
    }
    let own: BTreeSet<usize> = named.sources.iter().map(|source| place(&source.name)).collect();
    let fits = own.iter().any(|source| known.contains_key(source));
    let is_new = own.iter().any(|source| !known.contains_key(source));
    let is_left = known.iter().any(|(source, &index)| !own.contains(source) && taken[index].rows_taken() > 0);
    if !fits || (is_new && is_left) {
        let mut kept = named.clone();
        kept.renamed.retain(|(_, new)| new.is_some());
        let error = state.fitted_to_mixture(&kept, least).unwrap_err().to_string();
        let what = if fits { "is not in the state" } else { "the state is of a mixture of other sources" };
        assert!(error.contains(what), "{error}");
    }
    fits
}

/// Which of the names the sources of a state have.
fn places(cursor: &Cursor) -> Vec<usize> {
    cursor.mixture().unwrap().sources.iter().map(|source| place(&source.name)).collect()
}

/// The sources at some positions, one by one: each time the one that must come before any other one.
pub fn slow_sources(weights: &[u64], positions: u64) -> Vec<usize> {
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
    /// Where files came: the rows before, and the last pass that had been begun.
    generations: Vec<(u64, u64)>,
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
        self.generations.extend(passes.last().map(|&last| (self.rows, last)));
        let is_partly = passes.iter().any(|&pass| self.count(pass) < self.rows);
        for &pass in &passes {
            if self.count(pass) == self.rows && (is_partly || Some(&pass) != passes.last()) {
                self.taken.extend((self.rows..self.rows + new_rows).map(|position| (pass, position)));
            }
        }
        self.rows += new_rows;
    }

    /// Where the generation of a place begins and ends: a pass that begins behind files that came has them all in one.
    fn generation(&self, (pass, position): Place) -> (u64, u64) {
        let ends = self.generations.iter().filter(|(_, last)| pass <= *last).map(|(end, _)| *end);
        generation_among(ends.collect(), self.rows, position)
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
        let taken = axis.taken().ranges().iter().cloned().flatten();
        let taken: BTreeSet<_> = taken.map(|point| axis.place(point)).map(|at| (at.0, at.1)).collect();
        let own: BTreeSet<_> = self.taken.range((first, 0)..).copied().collect();
        assert_eq!(taken, own, "the state tells what was taken");
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

/// Where the generation of the rows at a point begins and ends.
fn generation_of(axis: &Axis, point: u64) -> (u64, u64) {
    let (_, position, ends) = axis.place(point);
    generation_among(ends, axis.rows(), position)
}

fn generation_among(mut ends: Vec<u64>, rows: u64, position: u64) -> (u64, u64) {
    ends.push(rows);
    let number = ends.partition_point(|&end| end <= position);
    (if number == 0 { 0 } else { ends[number - 1] }, ends[number])
}

/// Checks a history: nothing is delivered twice, what was left of a source comes first, and the state says all of it.
pub fn check_history(sources: &mut impl Sources, lives: &[Life]) {
    let begun = |source| Slow { rows: sources.count(source), ..Slow::default() };
    let mut all: Vec<Slow> = (0..NAMES.len()).map(begun).collect();
    let mut state: Option<String> = None;
    // The present pass, and the batches and rows that it gave, under whatever stages.
    let (mut epoch, mut steps, mut given) = (0, 0, 0);
    let mut aliases = Names::new();
    let mut steps_of_job = 0;
    for life in lives {
        let is_renamed = (0..NAMES.len()).filter(|&source| life.renames[source]);
        is_renamed.for_each(|source| aliases.rename(source));
        if let Some(text) = &state {
            let named = aliases.with_renames(life.named(sources));
            if !fits(&Cursor::parse(text).unwrap(), &named, life.least()) {
                continue;
            }
        }
        for &(source, _) in &life.weights {
            // What came to a source while it was not read is seen when it is read again.
            sources.grow(source, life.new_rows[source]);
            let new_rows = sources.count(source) - all[source].rows;
            if new_rows > 0 {
                all[source].grow(new_rows);
            }
        }
        let named = aliases.with_renames(life.named(sources));
        let cursor = match &state {
            None => Cursor::start_of_mixture(&named, life.least()).unwrap(),
            Some(text) => Cursor::parse(text).unwrap().fitted_to_mixture(&named, life.least()).unwrap(),
        };
        if cursor.epoch() > epoch {
            (epoch, steps, given) = (cursor.epoch(), 0, 0);
        }
        assert_eq!((cursor.epoch(), cursor.steps()), (epoch, steps));
        if let (MixtureStop::Rows(rows), true) = (&life.stop, cursor.cuts().is_empty()) {
            assert_eq!(cursor.identity().num_rows, rows.saturating_sub(given), "what is left of the pass");
        }
        let known = places(&cursor);
        let axes = cursor.axes().unwrap();
        let positions = cursor.identity().num_rows;
        let weights = cursor.mixture().unwrap().weights.clone();
        let source_at = slow_sources(&weights, positions);
        // What a stage may take: of each source what had not been taken before it.
        let begun = cursor.before_stage().taken().unwrap();
        let mut expected = Vec::new();
        for (source, &name) in known.iter().enumerate() {
            let count = usize::try_from(axes.period().count_before(source, positions)).unwrap();
            let at_start = Slow { rows: all[name].rows, ..Slow::default() };
            let taken = begun[source].taken().ranges().iter().cloned().flatten();
            let (first, _, _) = begun[source].place(0);
            let taken = taken.map(|point| begun[source].place(point)).map(|at| (at.0, at.1));
            let at_start = Slow { taken: taken.collect(), ..at_start };
            let next = at_start.left().filter(|place| place.0 >= first);
            expected.push(next.take(count).collect::<Vec<_>>().into_iter());
        }
        let mut at = Vec::new();
        for (position, &source) in (0..).zip(&source_at) {
            let points: Vec<_> = axes.points(source, &(position..position + 1)).collect();
            let of_source = axes.axis(source).unwrap();
            assert_eq!(points.iter().map(|range| range.end - range.start).sum::<u64>(), 1);
            let (pass, place, _) = of_source.place(points[0].start);
            assert_eq!(Some((pass, place)), expected[source].next());
            let generation = all[known[source]].generation((pass, place));
            assert_eq!(generation_of(of_source, points[0].start), generation, "of pass {pass}");
            assert_eq!(axes.period().source_at(position), source);
            at.push((known[source], (pass, place), points[0].start));
        }
        let pass = life.pass(&cursor);
        let points: Vec<u64> = at.iter().map(|place| place.2).collect();
        check_streams(&pass, &axes, (&source_at, &points), life.world_size);
        let end = (pass.done() + life.batches).min(pass.batches());
        assert_eq!(pass.global_step_of(pass.done()), steps_of_job, "each batch of the job counts once");
        steps_of_job += end - pass.done();
        steps += end - pass.done();
        given += (end - pass.done()) * life.least();
        for batch in pass.done()..end {
            for rank in 0..life.world_size {
                let mut taken: BTreeMap<usize, Vec<(Place, Vec<u64>)>> = BTreeMap::new();
                for position in pass.valid_positions(batch, rank).unwrap().into_iter().flatten() {
                    let (name, place, point) = at[usize::try_from(position).unwrap()];
                    let own = axes.axis(known.iter().position(|&of| of == name).unwrap()).unwrap();
                    let before = all[name].delivered.insert(place, generation_of(own, point));
                    assert!(before.is_none(), "{name} gave {place:?} twice");
                    assert!(all[name].taken.insert(place), "{name} gave {place:?}, which was done");
                    taken.entry(name).or_default().push((place, own.place(point).2));
                }
                for (name, places) in taken {
                    sources.give(name, &places);
                }
            }
        }
        let after = life.after(&pass, end, (&*sources, &named));
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
