//! Mixtures: which points of which source stand at the positions of a stage, what its cuts have taken of them, and the
//! stage that follows.

use std::ops::Range;
use std::sync::Arc;

use crate::dataset::manifest::MAX_ROWS;
use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::order::comb::Comb;
use crate::order::mixture::{Axis, Mixture, MixtureSource, Stage, VERSION};
use crate::order::pass_order::OrderKind;
use crate::order::period::Period;
use crate::order::weights::Weights;
use crate::resume::cursor::{Cursor, Identity, damaged};
use crate::resume::joined::{Joined, in_named_order, merged};
use crate::resume::lanes::{Cut, Division};
use crate::resume::named_mixture::{NamedMixture, NamedSource};
use crate::resume::source_places::SourcePlaces;

/// What stands for the fingerprint of one dataset in the state of a mixture.
const FINGERPRINT: &str = "mixture";

/// Which points stand at the positions of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes {
    period: Arc<Period>,
    /// What was taken of each source before the stage.
    each: Vec<Axis>,
    /// The points of each source that were not, without end.
    free: Vec<Intervals>,
}

impl Axes {
    fn new(weights: &Weights, each: Vec<Axis>) -> Result<Self> {
        let free = each.iter().map(|axis| axis.taken().complement(MAX_ROWS)).collect();
        Ok(Self { period: weights.period()?, each, free })
    }

    /// The period of the stage.
    #[must_use]
    pub fn period(&self) -> &Period {
        &self.period
    }

    /// The axis of a source, as it was when the stage began.
    #[must_use]
    pub fn axis(&self, source: usize) -> Option<&Axis> {
        self.each.get(source)
    }

    /// The places of a source among what remains of the positions; `None` of one that is not read.
    #[must_use]
    pub fn places<'a>(
        &'a self,
        source: usize,
        comb: &'a Comb,
        remaining: &'a Intervals,
    ) -> Option<SourcePlaces<'a>> {
        let pass_rows = self.each.get(source)?.rows().max(1);
        Some(SourcePlaces { comb, free: self.free.get(source)?, pass_rows, remaining })
    }

    /// The points of a source at a range of positions, in their order.
    pub fn points(&self, source: usize, positions: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let count = |position: u64| self.period.count_before(source, position);
        self.free[source].slice(count(positions.start)..count(positions.end))
    }

    /// The points of a source at these positions, in their order, as ranges of which none passes the end of a pass of it.
    pub fn stretches_of(&self, source: usize, positions: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
        let rows = self.each[source].rows().max(1);
        let ranges = positions.iter().flat_map(move |positions| self.points(source, positions));
        ranges.flat_map(move |range| {
            let mut start = range.start;
            std::iter::from_fn(move || {
                let end = range.end.min((start / rows + 1).saturating_mul(rows));
                let found = (start < end).then_some(start..end);
                start = end;
                found
            })
        })
    }

    /// The axes after the stage, of which these positions, of so many, remain.
    fn after(self, positions: u64, remaining: &Intervals) -> Vec<Axis> {
        let done = remaining.complement(positions);
        let mut each = self.each.clone();
        for (source, axis) in each.iter_mut().enumerate() {
            let points = done.ranges().iter().flat_map(|range| self.points(source, range));
            axis.take(&Intervals::of_sorted(points));
        }
        each
    }
}

/// What was taken of the sources before the present stage: the earlier ones of the pass are replayed.
fn axes_before(mixture: &Mixture) -> Result<Vec<Axis>> {
    let mut axes: Vec<Axis> = mixture.sources.iter().map(MixtureSource::axis).collect();
    let grow = |axes: &mut [Axis], stages| {
        for (axis, source) in axes.iter_mut().zip(&mixture.sources) {
            source.grow_after(stages, axis);
        }
    };
    for (number, stage) in (0..).zip(&mixture.stages) {
        grow(&mut axes, number);
        axes = Axes::new(&stage.weights, axes)?.after(stage.positions, &remaining_of(stage)?);
    }
    grow(&mut axes, mixture.stages.len() as u64);
    Ok(axes)
}

/// The positions that the cuts of an earlier stage leave.
fn remaining_of(Stage { positions, cuts, .. }: &Stage) -> Result<Intervals> {
    let cuts = cuts.iter().map(|&(lanes, groups, rows, done)| Ok((Cut::new(lanes, groups, rows)?, done)));
    let begun = Cursor::start(identity(OrderKind::Sequential, *positions));
    Cursor { cuts: cuts.collect::<Result<_>>()?, ..begun }.remaining()
}

fn identity(order: OrderKind, num_rows: u64) -> Identity {
    Identity { fingerprint: FINGERPRINT.to_owned(), num_rows, selection: None, order }
}

impl Cursor {
    /// The mixture that it is of, if it is of one.
    #[must_use]
    pub fn mixture(&self) -> Option<&Mixture> {
        match &self.identity.order {
            OrderKind::Mixture(mixture) => Some(mixture),
            _ => None,
        }
    }

    /// The cursor before the first batch of a mixture; passes end by global batches of `least` rows.
    ///
    /// # Errors
    /// `Argument` if a stage would be too long.
    pub fn start_of_mixture(named: &NamedMixture, least: u64) -> Result<Self> {
        let mixture = Mixture {
            mixture: VERSION,
            least,
            sources: named.sources.iter().map(NamedSource::begun).collect(),
            stages: Vec::new(),
            stop: named.stop.clone(),
            weights: named.weights.clone(),
        };
        mixture.check().map_err(Error::Argument)?;
        Self::stage(mixture)
    }

    /// The beginning of the present stage of a mixture.
    fn stage(mixture: Mixture) -> Result<Self> {
        let positions = mixture.positions(&axes_before(&mixture)?, given(&mixture)?)?;
        Ok(Self::start(identity(OrderKind::Mixture(Box::new(mixture)), positions)))
    }

    /// Which points stand at the positions of the present stage.
    ///
    /// # Errors
    /// `State` if it is not of a mixture.
    pub fn axes(&self) -> Result<Axes> {
        let mixture = self.mixture().ok_or_else(|| Error::State("the state is not of a mixture".into()))?;
        Axes::new(&mixture.weights, axes_before(mixture)?)
    }

    /// The beginning of the present stage of a mixture; of another pass, its state with nothing done.
    #[must_use]
    pub fn before_stage(&self) -> Self {
        Self { cuts: Vec::new(), ..self.clone() }
    }

    /// The axis of each source, with what was taken of it.
    ///
    /// # Errors
    /// `State` if it is not of a mixture, or damaged.
    pub fn taken(&self) -> Result<Vec<Axis>> {
        Ok(self.axes()?.after(self.identity.num_rows, &self.remaining_of_cuts()?))
    }

    /// How many rows the sources of a mixture had given when the pass began; `None` if it is of one dataset.
    #[must_use]
    pub fn rows_of_earlier_passes(&self) -> Option<u64> {
        let taken = self.mixture()?.sources.iter().map(|source| source.axis().rows_taken());
        Some(taken.fold(0, u64::saturating_add))
    }

    /// The first cut under an earlier stage of the pass; `None` if there was none.
    pub(super) fn first_cut_of_stages(&self) -> Option<Cut> {
        let &(lanes, groups, rows, _) = self.mixture()?.stages.first()?.cuts.first()?;
        Cut::new(lanes, groups, rows).ok()
    }

    /// The positions that its cuts leave, also where they leave none.
    fn remaining_of_cuts(&self) -> Result<Intervals> {
        let Some(&(cut, done)) = self.cuts.last() else { return self.remaining() };
        Division::new(cut, self.before_last_cut().remaining()?).remaining_after(done)
    }

    pub(super) fn check_mixture(&self) -> Result<()> {
        let Some(mixture) = self.mixture() else { return Ok(()) };
        let is_canonical = self.consumed.intervals.is_empty()
            && self.generations.is_empty()
            && self.identity.fingerprint == FINGERPRINT
            && self.identity.selection.is_none();
        if !is_canonical {
            return Err(damaged("it is of a mixture, and has what only a dataset's state has"));
        }
        let is_done = |stage: &Stage| stage.cuts.is_empty() || stage.cuts.iter().any(|cut| cut.3 == 0);
        if mixture.stages.iter().any(is_done) {
            return Err(damaged("a stage of its mixture has nothing done"));
        }
        mixture.stages.iter().try_for_each(|stage| remaining_of(stage).map(|_| ()))
    }

    /// The start of the next pass of a mixture: what the present one has not taken of the sources comes first in it. If a
    /// last batch of the tail has the `rest`, all was taken. Fewer rows than `least` of a source do not end that pass: else
    /// a job with larger batches than before would meet the same few rows in each pass.
    pub(super) fn next_of_mixture(&self, least: u64, rest: bool) -> Option<Self> {
        let mixture = self.mixture()?;
        let left = if rest { Intervals::default() } else { self.remaining_of_cuts().ok()? };
        let axes = self.axes().ok()?.after(self.identity.num_rows, &left);
        let sources = mixture.sources.iter().zip(axes).map(|(source, axis)| source.with_axis(axis));
        let next = Mixture { sources: sources.collect(), stages: Vec::new(), least, ..mixture.clone() };
        let next = Self::stage(next).ok()?;
        Some(Self { epoch: self.epoch + 1, earlier_batches: next.earlier_batches, ..self.place_of(next) })
    }

    /// The end of the earlier stage of a mixture that held batch `step` of the pass; `None` if none did.
    pub(super) fn stage_at(&self, step: u64) -> Option<Self> {
        let mixture = self.mixture()?;
        let mut end = 0_u64;
        let number = mixture.stages.iter().position(|stage| {
            end = stage.cuts.iter().fold(end, |steps, cut| steps.saturating_add(cut.3));
            step < end
        })?;
        let Stage { weights, positions, cuts } = &mixture.stages[number];
        let cuts =
            cuts.iter().map(|&(lanes, groups, rows, done)| Some((Cut::new(lanes, groups, rows).ok()?, done)));
        let cuts = cuts.collect::<Option<_>>()?;
        let stages = mixture.stages[..number].to_vec();
        let sources = mixture.sources.iter().map(|source| source.in_stage(number as u64)).collect();
        let of_stage = Mixture { weights: weights.clone(), stages, sources, ..mixture.clone() };
        let begun = Self::start(identity(OrderKind::Mixture(Box::new(of_stage)), *positions));
        Some(Self { cuts, ..self.place_of(begun) })
    }

    /// The start of the present pass of a mixture.
    pub(super) fn restarted_mixture(&self) -> Option<Self> {
        let mixture = self.mixture()?;
        let sources = mixture.sources.iter().map(|source| {
            let mut axis = source.axis();
            (0..=mixture.stages.len() as u64).for_each(|stages| source.grow_after(stages, &mut axis));
            source.with_axis(axis)
        });
        let sources = sources.collect();
        let begun = Self::stage(Mixture { stages: Vec::new(), sources, ..mixture.clone() }).ok()?;
        Some(self.place_of(begun))
    }

    /// Another cursor as one of the same pass of the same job.
    fn place_of(&self, other: Self) -> Self {
        let (first_epoch, epoch, earlier_batches) = (self.first_epoch, self.epoch, self.earlier_batches);
        Self { first_epoch, epoch, earlier_batches, round: self.round.clone(), ..other }
    }

    /// The start of a pass of a mixture in which a source that has given all its rows is another dataset: the next round of
    /// a stream.
    ///
    /// # Errors
    /// `State` if the pass has begun, or the source has rows left, or is not there.
    pub fn with_next_round(&self, next: &NamedSource) -> Result<Self> {
        let mixture = self.mixture().filter(|mixture| mixture.stages.is_empty() && self.cuts.is_empty());
        let place =
            mixture.and_then(|mixture| mixture.sources.iter().position(|source| source.name == next.name));
        let (Some(mixture), Some(place)) = (mixture, place) else {
            return Err(Error::State("a round follows at the beginning of a pass of its mixture".into()));
        };
        let left = mixture.sources[place].axis().left_of_first();
        if left > 0 {
            return Err(Error::State(format!("the round before has {left} rows left")));
        }
        let mut followed = mixture.clone();
        followed.sources[place] = followed.sources[place].followed(next.begun());
        followed.check().map_err(Error::State)?;
        Ok(self.place_of(Self::stage(followed)?))
    }

    /// The same place in a mixture, of which a new stage begins here if it has other sources, weights or another end.
    /// Then what the present stage has not taken goes back to the sources.
    ///
    /// # Errors
    /// `State` if it is not of a mixture, or a source is another dataset than the one of this name in the state, or has
    /// another name there; if it has none of the sources.
    pub fn fitted_to_mixture(&self, named: &NamedMixture, least: u64) -> Result<Self> {
        let Some(mixture) = self.mixture() else {
            return Err(Error::State(format!(
                "the state is of one dataset, {}, and this is a mixture of {} sources",
                self.identity.name(),
                named.sources.len()
            )));
        };
        let renamed = named.in_names_of_now(mixture, || self.taken())?;
        let own_names = renamed.clone();
        let mixture = renamed.as_ref().unwrap_or(mixture);
        let places = named.places(mixture);
        let is_begun = !self.cuts.is_empty();
        // Places of equal ends go by the order of the sources: what a pass has given depends on the one that it began with.
        let keeps_order = places.iter().flatten().is_sorted() || is_begun || !mixture.stages.is_empty();
        let count = mixture.sources.len();
        let joined = if keeps_order { merged(&places, count) } else { in_named_order(&places, count) };
        let weight_of = |own: Option<usize>| own.map_or(0, |own| named.weights[own]);
        let weights: Vec<u64> = joined.iter().map(|joined| weight_of(joined.own)).collect();
        let grown = |&Joined { from, own }: &Joined| {
            let own = &named.sources[own?];
            (own.fingerprint != mixture.sources[from?].hash).then_some(own)
        };
        let has_grown = joined.iter().any(|joined| grown(joined).is_some());
        let is_same = joined.iter().map(|joined| joined.from).eq((0..count).map(Some)) && !has_grown;
        if is_same && weights == *mixture.weights && named.stop == mixture.stop {
            let identity = own_names
                .map(|renamed| identity(OrderKind::Mixture(Box::new(renamed)), self.identity.num_rows));
            return Ok(Self {
                identity: identity.map_or_else(|| Arc::clone(&self.identity), Arc::new),
                ..self.clone()
            });
        }
        let made = [&named.weights, &mixture.weights].into_iter().find(|made| ***made == weights);
        let weights = made.cloned().unwrap_or_else(|| weights.into());
        let mut stages = mixture.stages.clone();
        if is_begun {
            let cuts = self.cuts.iter().map(|&(cut, done)| (cut.lanes(), cut.groups(), cut.rows(), done));
            let (weights, positions) = (mixture.weights.clone(), self.identity.num_rows);
            stages.push(Stage { weights, positions, cuts: cuts.collect() });
        }
        if !is_same {
            for stage in &mut stages {
                let old = joined.iter().map(|joined| joined.from.map_or(0, |from| stage.weights[from]));
                stage.weights = old.collect::<Vec<_>>().into();
            }
        }
        let sources = joined.iter().filter_map(|joined| match (joined.from, joined.own) {
            (Some(from), _) => mixture.sources.get(from).cloned(),
            (None, own) => named.sources.get(own?).map(NamedSource::begun),
        });
        let sources = sources.collect();
        let stop = named.stop.clone();
        let mut next = Mixture { sources, stages, stop, weights, ..mixture.clone() };
        let stages = next.stages.len() as u64;
        for (source, joined) in next.sources.iter_mut().zip(&joined) {
            if let Some(own) = grown(joined) {
                *source = source.grown(&own.fingerprint, own.rows, stages);
            }
        }
        next.check().map_err(Error::State)?;
        let begun = self.place_of(Self::stage(next)?);
        let is_over = begun.identity.num_rows < least && is_begun;
        Ok(if is_over { begun.next_pass(least, false) } else { begun })
    }
}

/// How many positions the earlier stages of a pass have given.
fn given(mixture: &Mixture) -> Result<u64> {
    let each = mixture.stages.iter().flat_map(|stage| &stage.cuts).map(|&(lanes, groups, rows, done)| {
        Ok::<u64, Error>(Cut::new(lanes, groups, rows)?.global_batch_rows().saturating_mul(done))
    });
    each.sum()
}
