//! The mixture of several sources: what a state tells of them, and how far each one's axis has come.
//!
//! The axis of a source is its passes one after another, without end: ordinal j of it is position `j % rows` of its pass
//! `j / rows`. This arithmetic is a part of the cursor's format.

use serde::{Deserialize, Serialize};

use crate::dataset::manifest::MAX_ROWS;
use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::order::period::Period;

/// The version of what a state tells of a mixture.
pub const VERSION: u64 = 1;

/// Where a pass of a mixture ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Stop {
    /// By the passes of its sources.
    Named(NamedStop),
    /// After so many rows.
    Rows(u64),
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
pub struct Source(
    /// The name that the user gave it.
    pub String,
    /// The hash of its files and selected rows.
    pub String,
    /// The rows of one pass.
    pub u64,
    /// Seed, rows of a block and rows of a window of a shuffled order.
    pub Option<(u64, u64, u64)>,
    /// What the passes of the mixture have taken of its axis: where that ends, and the pairs [start, end) that they have
    /// left before. Empty if nothing was taken.
    pub Vec<u64>,
);

impl Source {
    fn end(&self) -> u64 {
        self.4.first().copied().unwrap_or(0)
    }

    fn holes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.4.get(1..).unwrap_or_default().chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }

    /// The ordinals that were taken before this pass of the mixture.
    #[must_use]
    pub fn taken(&self) -> Intervals {
        Intervals::of_sorted(self.holes().map(|(start, end)| start..end)).complement(self.end())
    }

    /// The same source, of which these ordinals were taken.
    #[must_use]
    pub fn with_taken(&self, taken: &Intervals) -> Self {
        let end = taken.end();
        let left = taken.complement(end);
        let holes = left.ranges().iter().flat_map(|hole| [hole.start, hole.end]);
        let told = [end].into_iter().filter(|&end| end > 0).chain(holes).collect();
        Self(self.0.clone(), self.1.clone(), self.2, self.3, told)
    }
}

/// A stage of the present pass that has ended: weights of the sources, positions, and its cuts as the cursor has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage(pub Vec<u64>, pub u64, pub Vec<(u64, u64, u64, u64)>);

/// A mixture, as a state tells of it. Positions are those of its present stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mixture {
    /// The version of this part of the text.
    pub mixture: u64,
    /// What is too few rows of a source to make a pass end: less than the global batch with which the pass before ended.
    pub least: u64,
    /// The sources, in the order in which they were named; also those that are not read any more.
    pub sources: Vec<Source>,
    /// The stages of this pass before the present one.
    pub stages: Vec<Stage>,
    /// Where the pass ends.
    pub stop: Stop,
    /// The weights of the present stage; 0 for sources that are not read.
    pub weights: Vec<u64>,
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
        let stages = self.stages.iter().map(|stage| &stage.0);
        if stages
            .chain([&self.weights])
            .any(|weights| weights.len() != count || Period::new(weights).is_err())
        {
            return Err("the weights of its mixture are not those of its sources".into());
        }
        for source in &self.sources {
            let Source(name, _, rows, _, told) = source;
            let is_sorted = told.get(1..).unwrap_or_default().windows(2).all(|pair| pair[0] < pair[1]);
            let ends_behind = told.len() < 2 || told[told.len() - 1] < source.end();
            if !is_sorted || !ends_behind || (!told.is_empty() && (told.len() % 2 == 0 || told[0] == 0)) {
                return Err(format!(
                    "what was taken of source '{name}' is not told by its end and sorted pairs"
                ));
            }
            if *rows == 0 || *rows >= MAX_ROWS || source.end() >= MAX_ROWS {
                return Err(format!("source '{name}' has {rows} rows, of which {} were taken", source.end()));
            }
        }
        if self.stages.iter().any(|stage| stage.1 >= MAX_ROWS) {
            return Err("a stage of its mixture has 2^53 rows or more".into());
        }
        Ok(())
    }

    /// Whether a source is read in the present stage.
    #[must_use]
    pub fn is_read(&self, source: usize) -> bool {
        self.weights[source] > 0
    }

    /// Where the present pass of each source ends, if so much was taken of it before.
    fn ends(&self, taken: &[Intervals]) -> Vec<u64> {
        let each = self.sources.iter().zip(taken).map(|(source, taken)| {
            let rows = source.2;
            // What is left of a pass and makes no global batch belongs to the next one.
            let passed = (taken.count() + self.least.clamp(1, rows) - 1) / rows;
            (passed + 1).saturating_mul(rows)
        });
        each.collect()
    }

    /// The positions of a stage that begins when so much was taken of the sources, `given` positions of the pass before
    /// it.
    ///
    /// # Errors
    /// `State` if the weights are none.
    pub fn positions(&self, taken: &[Intervals], given: u64) -> Result<u64> {
        let period = Period::new(&self.weights)?;
        let begun: Vec<Intervals> = self.sources.iter().map(Source::taken).collect();
        let left = |ends: &[u64]| -> Vec<(usize, u64)> {
            let active = (0..ends.len()).filter(|&source| self.is_read(source));
            let left = |source: usize| {
                let before = Intervals::full(ends[source]);
                (source, ends[source] - taken[source].intersection(&before).count())
            };
            active.map(left).collect()
        };
        let first_of = |left: Vec<(usize, u64)>| {
            left.into_iter().filter_map(|(source, left)| period.position_of(source, left)).min().unwrap_or(0)
        };
        let positions = match self.stop {
            Stop::Rows(rows) => rows.saturating_sub(given),
            Stop::Named(NamedStop::First) => {
                let of_pass = first_of(left(&self.ends(&begun)));
                if of_pass > 0 { of_pass } else { first_of(left(&self.ends(taken))) }
            }
            Stop::Named(NamedStop::All) => {
                let each = left(&self.ends(&begun)).into_iter().filter_map(|(source, left)| {
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
