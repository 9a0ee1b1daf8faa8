//! The mixture of several sources: what a state tells of them, and how far each one's axis has come.
//!
//! The axis of a source is its passes one after another, without end. It consists of *points*: point j is position
//! `j % rows` of pass `j / rows`. This arithmetic is a part of the cursor's format.
//!
//! Where files come to a source, the passes that were partly taken have the new rows behind their own; if none is, the last
//! one that was taken. The axis begins anew with the first of these passes. A pass behind it that was wholly taken stays
//! so: its new rows count as taken.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::dataset::manifest::MAX_ROWS;
use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::order::period::length_of;
use crate::order::weights::Weights;

/// The version of what a state tells of a mixture.
pub const VERSION: u64 = 1;

/// Where a pass of a mixture ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MixtureStop {
    /// By the passes of its sources.
    Named(NamedStop),
    /// After so many rows.
    Rows(u64),
    /// Before a source would pass the end of its only pass, which is a round of a stream. Other sources run on.
    Round {
        /// The name of the source.
        round: String,
    },
}

/// Where a pass of a mixture ends, by the passes of its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedStop {
    /// Before any source would pass the end of its present pass.
    First,
    /// As soon as each one has ended its present pass.
    All,
}

/// The dataset of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SourceText", into = "SourceText")]
pub struct MixtureSource {
    /// The name that the user gave it.
    pub name: String,
    /// The hash of its files and selected rows.
    pub hash: String,
    /// The rows of one pass.
    pub rows: u64,
    /// Seed, rows of a block and rows of a window of a shuffled order.
    pub shuffle: Option<(u64, u64, u64)>,
    /// What the passes of the mixture have taken of its axis: where that ends, and the pairs [start, end) that they have
    /// left before. Empty if nothing was taken.
    pub taken: Vec<u64>,
    /// How it has grown: nothing if it has not.
    pub growth: Growth,
}

/// A source as the text of a state has it: without names.
#[derive(Serialize, Deserialize)]
struct SourceText(
    String,
    String,
    u64,
    Option<(u64, u64, u64)>,
    Vec<u64>,
    #[serde(default, skip_serializing_if = "Growth::is_none")] Growth,
);

impl From<SourceText> for MixtureSource {
    fn from(SourceText(name, hash, rows, shuffle, taken, growth): SourceText) -> Self {
        Self { name, hash, rows, shuffle, taken, growth }
    }
}

impl From<MixtureSource> for SourceText {
    fn from(MixtureSource { name, hash, rows, shuffle, taken, growth }: MixtureSource) -> Self {
        Self(name, hash, rows, shuffle, taken, growth)
    }
}

/// How a source has grown.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "GrowthText", into = "GrowthText")]
pub struct Growth {
    /// The pass with which its axis begins.
    pub first: u64,
    /// The rows that were taken before that pass, less those that count as taken and were not.
    pub before: i64,
    /// The ends of the generations of rows, and the last pass that is divided by each.
    pub generations: Vec<(u64, u64)>,
    /// Where it has grown in this pass of the mixture.
    pub in_pass: Vec<GrownInPass>,
}

/// The files that a source had before others came in a pass of the mixture: their hash, their rows, and after how many stages
/// the others came.
pub type GrownInPass = (String, u64, u64);

#[derive(Serialize, Deserialize)]
struct GrowthText(u64, i64, Vec<(u64, u64)>, Vec<GrownInPass>);

impl From<GrowthText> for Growth {
    fn from(GrowthText(first, before, generations, in_pass): GrowthText) -> Self {
        Self { first, before, generations, in_pass }
    }
}

impl From<Growth> for GrowthText {
    fn from(Growth { first, before, generations, in_pass }: Growth) -> Self {
        Self(first, before, generations, in_pass)
    }
}

impl Growth {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The axis of a source, and what was taken of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    hash: String,
    rows: u64,
    first: u64,
    before: i64,
    generations: Vec<(u64, u64)>,
    taken: Intervals,
}

impl Axis {
    /// The points that were taken.
    #[must_use]
    pub fn taken(&self) -> &Intervals {
        &self.taken
    }

    pub(crate) fn take(&mut self, points: &Intervals) {
        self.taken = self.taken.union(points);
    }

    /// The rows of each pass.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of rows that were taken, over all passes.
    #[must_use]
    pub fn rows_taken(&self) -> u64 {
        self.taken.count().saturating_add_signed(self.before)
    }

    /// The pass that holds a point, the position in it, and where the generations of its rows end but for the last one.
    #[must_use]
    pub fn place(&self, point: u64) -> (u64, u64, Vec<u64>) {
        let rows = self.rows.max(1);
        let pass = self.first.saturating_add(point / rows);
        let ends = self.generations.iter().filter(|(_, last)| *last >= pass).map(|(end, _)| *end);
        (pass, point % rows, ends.collect())
    }

    /// The pass that is the present one. What is left of a pass and makes no global batch belongs to the next one.
    fn present(&self, least: u64) -> u64 {
        let rows = self.rows.max(1);
        self.first.saturating_add((self.taken.count() + least.clamp(1, rows) - 1) / rows)
    }

    /// How many points up to the end of a pass are left.
    fn left(&self, pass: u64) -> u64 {
        let end = pass.saturating_add(1).saturating_sub(self.first).saturating_mul(self.rows);
        end - self.taken.rank(end)
    }

    /// How many rows of the pass that it begins with are left.
    pub(crate) fn left_of_first(&self) -> u64 {
        self.left(self.first)
    }

    /// Adds files, with which a pass has so many rows.
    pub(crate) fn grow(&mut self, hash: &str, rows: u64) {
        let old = self.rows;
        (self.hash, self.rows) = (hash.to_owned(), rows);
        if rows == old || self.taken.end() == 0 {
            return;
        }
        let ranges = self.taken.ranges();
        let last = (self.taken.end() - 1) / old;
        let is_partly =
            ranges.iter().any(|range| !range.start.is_multiple_of(old) || !range.end.is_multiple_of(old));
        let hole = if ranges[0].start > 0 { 0 } else { ranges[0].end / old };
        let base = if is_partly { hole } else { hole.min(last) };
        let pass_at = |pass: u64| (pass - base).saturating_mul(rows);
        let start_of = |point: u64| pass_at(point / old).saturating_add(point % old);
        let end_of = |point: u64| {
            let is_whole = point.is_multiple_of(old) && (is_partly || point / old != last + 1);
            if is_whole { pass_at(point / old) } else { start_of(point - 1).saturating_add(1) }
        };
        let mut moved: Vec<Range<u64>> = Vec::with_capacity(2 * ranges.len());
        for range in ranges.iter().filter(|range| range.end > base * old) {
            let mut start = range.start.max(base * old);
            if !start.is_multiple_of(old) {
                let end = range.end.min((start / old + 1) * old);
                moved.push(start_of(start)..start_of(end - 1).saturating_add(1));
                start = end;
            }
            if start < range.end {
                moved.push(start_of(start)..end_of(range.end));
            }
        }
        let taken = Intervals::of_sorted(moved.into_iter());
        let (before, now) = (self.taken.count().cast_signed(), taken.count().cast_signed());
        self.before = self.before.saturating_add(before.saturating_sub(now));
        self.generations.push((old, self.first.saturating_add(last)));
        self.first = self.first.saturating_add(base);
        self.taken = taken;
    }
}

impl MixtureSource {
    fn end(&self) -> u64 {
        self.taken.first().copied().unwrap_or(0)
    }

    fn holes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.taken.get(1..).unwrap_or_default().chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }

    /// Its hash and its rows after it had grown so often in this pass of the mixture.
    fn after_growths(&self, count: usize) -> (&str, u64) {
        self.growth.in_pass.get(count).map_or((&self.hash, self.rows), |(hash, rows, _)| (hash, *rows))
    }

    /// Its axis when this pass of the mixture began.
    #[must_use]
    pub fn axis(&self) -> Axis {
        let Growth { first, before, generations, .. } = &self.growth;
        let (hash, rows) = self.after_growths(0);
        Axis {
            hash: hash.to_owned(),
            rows,
            first: *first,
            before: *before,
            generations: generations.clone(),
            taken: Intervals::of_sorted(self.holes().map(|(start, end)| start..end)).complement(self.end()),
        }
    }

    /// Adds to its axis the files that came after so many stages of this pass of the mixture.
    pub(crate) fn grow_after(&self, stages: u64, axis: &mut Axis) {
        let in_pass = &self.growth.in_pass;
        for (next, _) in (1..).zip(in_pass).filter(|(_, came)| came.2 == stages) {
            let (hash, rows) = self.after_growths(next);
            axis.grow(hash, rows);
        }
    }

    /// The same source with this axis: what has come in this pass of the mixture was there when it began.
    #[must_use]
    pub(crate) fn with_axis(&self, axis: Axis) -> Self {
        let left = axis.taken.complement(axis.taken.end());
        let hole = left.ranges().first().map_or(axis.taken.end(), |hole| hole.start);
        let open = axis.first.saturating_add(hole / axis.rows.max(1));
        let holes = left.ranges().iter().flat_map(|hole| [hole.start, hole.end]);
        let taken = [axis.taken.end()].into_iter().filter(|&end| end > 0).chain(holes).collect();
        let generations = axis.generations.into_iter().filter(|(_, last)| *last >= open).collect();
        let growth = Growth { first: axis.first, before: axis.before, generations, in_pass: Vec::new() };
        Self {
            hash: axis.hash,
            rows: axis.rows,
            taken,
            growth,
            name: self.name.clone(),
            shuffle: self.shuffle,
        }
    }

    /// Its next pass, which has other rows: nothing of it is taken.
    #[must_use]
    pub(crate) fn followed(&self, next: Self) -> Self {
        let axis = self.axis();
        let before = i64::try_from(axis.rows_taken()).unwrap_or(i64::MAX);
        let first = axis.first.saturating_add(u64::from(before > 0));
        let growth = Growth { first, before, ..Growth::default() };
        Self { growth, ..next }
    }

    /// The same source as it was in a stage of this pass of the mixture.
    #[must_use]
    pub(crate) fn in_stage(&self, stage: u64) -> Self {
        let Growth { first, before, generations, in_pass } = &self.growth;
        let came = in_pass.partition_point(|came| came.2 <= stage);
        let (hash, rows) = self.after_growths(came);
        let in_pass = in_pass[..came].to_vec();
        let growth = Growth { first: *first, before: *before, generations: generations.clone(), in_pass };
        Self { hash: hash.to_owned(), rows, growth, ..self.clone() }
    }

    /// The same source with files that come after so many stages of this pass of the mixture.
    #[must_use]
    pub(crate) fn grown(&self, hash: &str, rows: u64, stages: u64) -> Self {
        let mut grown = self.clone();
        (grown.hash, grown.rows) = (hash.to_owned(), rows);
        if stages == 0 {
            let mut axis = self.axis();
            axis.grow(hash, rows);
            return self.with_axis(axis);
        }
        if rows != self.rows {
            grown.growth.in_pass.push((self.hash.clone(), self.rows, stages));
        }
        grown
    }

    /// Why the numbers are no growth.
    fn check_growth(&self, stages: u64) -> bool {
        let Growth { first, before, generations, in_pass } = &self.growth;
        let ascends = |numbers: &[u64]| numbers.windows(2).all(|pair| pair[0] < pair[1]);
        let ends = generations.iter().map(|(end, _)| *end);
        let rows: Vec<u64> = in_pass.iter().map(|came| came.1).chain([self.rows]).collect();
        let lasts = generations.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        let came = in_pass.windows(2).all(|pair| pair[0].2 <= pair[1].2);
        let numbers = generations.iter().map(|(_, last)| *last).chain([*first, before.unsigned_abs()]);
        ascends(&ends.chain([rows[0]]).collect::<Vec<_>>())
            && ascends(&rows)
            && lasts
            && came
            && in_pass.iter().all(|came| came.2 > 0 && came.2 <= stages)
            && numbers.max() < Some(MAX_ROWS)
    }
}

/// A stage of the present pass that has ended: weights of the sources, positions, and its cuts as the cursor has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StageText", into = "StageText")]
pub struct Stage {
    /// The weights of the sources.
    pub weights: Weights,
    /// How many positions it has.
    pub positions: u64,
    /// Lanes, groups and rows of each cut, and the batches done in it.
    pub cuts: Vec<(u64, u64, u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct StageText(Weights, u64, Vec<(u64, u64, u64, u64)>);

impl From<StageText> for Stage {
    fn from(StageText(weights, positions, cuts): StageText) -> Self {
        Self { weights, positions, cuts }
    }
}

impl From<Stage> for StageText {
    fn from(Stage { weights, positions, cuts }: Stage) -> Self {
        Self(weights, positions, cuts)
    }
}

/// A mixture, as a state tells of it. Positions are those of its present stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixture {
    /// The version of this part of the text.
    pub mixture: u64,
    /// What is too few rows of a source to make a pass end: less than the global batch with which the pass before ended.
    pub least: u64,
    /// The sources, in the order in which they were named; also those that are not read any more.
    pub sources: Vec<MixtureSource>,
    /// The stages of this pass before the present one.
    pub stages: Vec<Stage>,
    /// Where the pass ends.
    pub stop: MixtureStop,
    /// The weights of the present stage; 0 for sources that are not read.
    pub weights: Weights,
}

impl Mixture {
    /// Why the numbers are no mixture.
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        if self.mixture != VERSION {
            return Err(format!(
                "its mixture has version {}, this release reads version {VERSION}",
                self.mixture
            ));
        }
        let count = self.sources.len();
        let stages = self.stages.iter().map(|stage| &stage.weights);
        if stages.chain([&self.weights]).any(|weights| weights.len() != count || length_of(weights).is_err())
        {
            return Err("the weights of its mixture are not those of its sources".into());
        }
        for (place, source) in self.sources.iter().enumerate() {
            let MixtureSource { name, rows, taken, .. } = source;
            let is_sorted = taken.get(1..).unwrap_or_default().windows(2).all(|pair| pair[0] < pair[1]);
            let ends_behind = taken.len() < 2 || taken[taken.len() - 1] < source.end();
            if !is_sorted || !ends_behind || (!taken.is_empty() && (taken.len() % 2 == 0 || taken[0] == 0)) {
                return Err(format!(
                    "what was taken of source '{name}' is not given by its end and sorted pairs"
                ));
            }
            // Of a stream nothing is there before its first round.
            let is_of_stream = matches!(&self.stop, MixtureStop::Round { round } if round == name);
            let is_there = *rows > 0 || (source.end() == 0 && (is_of_stream || !self.is_ever_read(place)));
            if !is_there || *rows >= MAX_ROWS || source.end() >= MAX_ROWS {
                return Err(format!("source '{name}' has {rows} rows, {} were taken", source.end()));
            }
            if !source.check_growth(self.stages.len() as u64) {
                return Err(format!("what has come to source '{name}' does not ascend inside of its rows"));
            }
        }
        if self.stages.iter().any(|stage| stage.positions >= MAX_ROWS) {
            return Err("a stage of its mixture has 2^53 rows or more".into());
        }
        Ok(())
    }

    fn is_ever_read(&self, source: usize) -> bool {
        self.is_read(source) || self.stages.iter().any(|stage| stage.weights[source] > 0)
    }

    /// Whether a source is read in the present stage.
    #[must_use]
    pub fn is_read(&self, source: usize) -> bool {
        self.weights[source] > 0
    }

    /// The positions of a stage that begins when so much was taken of the sources, `given` positions of the pass before
    /// it.
    ///
    /// # Errors
    /// `State` if the weights are none.
    pub fn positions(&self, axes: &[Axis], given: u64) -> Result<u64> {
        let period = self.weights.period()?;
        let begun = self.sources.iter().map(|source| source.axis().present(self.least)).collect();
        let now = axes.iter().map(|axis| axis.present(self.least)).collect();
        let left = |passes: Vec<u64>| -> Vec<(usize, u64)> {
            let active = (0..passes.len()).filter(|&source| self.is_read(source));
            active.map(|source| (source, axes[source].left(passes[source]))).collect()
        };
        let first_of = |left: Vec<(usize, u64)>| {
            left.into_iter().filter_map(|(source, left)| period.position_of(source, left)).min().unwrap_or(0)
        };
        let positions = match &self.stop {
            MixtureStop::Rows(rows) => rows.saturating_sub(given),
            MixtureStop::Round { round } => {
                let source = self.sources.iter().position(|source| source.name == *round);
                let left = source.map_or(0, |source| axes[source].left_of_first());
                let end = source.filter(|_| left > 0).and_then(|source| period.position_of(source, left));
                end.unwrap_or(0)
            }
            MixtureStop::Named(NamedStop::First) => {
                let of_pass = first_of(left(begun));
                if of_pass > 0 { of_pass } else { first_of(left(now)) }
            }
            MixtureStop::Named(NamedStop::All) => {
                let each = left(begun).into_iter().filter_map(|(source, left)| {
                    period.position_of(source, left.checked_sub(1)?).map(|last| last + 1)
                });
                each.max().unwrap_or(0)
            }
        };
        if positions >= MAX_ROWS {
            return Err(Error::Argument(format!(
                "a stage of {positions} rows: fewer than 2^53 are possible"
            )));
        }
        Ok(positions)
    }
}
