//! The cursor: the resume state, a small value that each batch carries.

use std::sync::{Arc, OnceLock};

use crate::dataset::manifest::{MAX_ROWS, Manifest};
use crate::error::{Error, Result, quoted};
use crate::intervals::set::Intervals;
use crate::order::pass_order::{OrderChoice, OrderKind};
use crate::order::selection::Selection;
use crate::resume::lanes::{Cut, Division};

/// The dataset, the selection and the order that a cursor belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The manifest's fingerprint.
    pub fingerprint: String,
    /// The number of selected rows.
    pub num_rows: u64,
    /// The hash of the selection; `None` if all rows are selected.
    pub selection: Option<String>,
    /// The order.
    pub order: OrderKind,
}

impl Identity {
    /// The identity of the selected rows of a manifest, in this order.
    #[must_use]
    pub fn of(manifest: &Manifest, selection: &Selection, order: OrderKind) -> Self {
        Self {
            fingerprint: manifest.fingerprint().to_owned(),
            num_rows: selection.count(),
            selection: selection.hash().map(str::to_owned),
            order,
        }
    }

    /// A hash of the files and of the selected rows, short enough to stand beside many others.
    #[must_use]
    pub fn short_hash(&self) -> String {
        let text = format!("{} {}", self.fingerprint, self.selection.as_deref().unwrap_or_default());
        blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
    }

    pub(super) fn name(&self) -> String {
        format!("{} with {} rows", quoted(&self.fingerprint), self.num_rows)
    }

    pub(super) fn selection_name(&self) -> String {
        match &self.selection {
            Some(hash) => format!("{} with {} rows", quoted(hash), self.num_rows),
            None => format!("all {} rows", self.num_rows),
        }
    }
}

/// How far a job has come: what `state_dict()` saves and `load_state_dict()` takes.
///
/// It is canonical: there is no cut without batches done, and the end of a pass is the start of the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub(super) identity: Arc<Identity>,
    pub(super) first_epoch: u64,
    pub(super) epoch: u64,
    /// Positions of this pass that were delivered under no known cut: one memory for all cursors of a pass.
    pub(super) consumed: Arc<Consumed>,
    /// The cuts of this pass with the batches done in each; the last one may continue.
    pub(super) cuts: Vec<(Cut, u64)>,
    /// Where rows came while this pass went on: the generations before the last one, which ends with the rows.
    pub(super) generations: Vec<Generation>,
    /// The global batches of the job before the cuts of this pass. `None` until the first batch that follows, if nobody
    /// counted them.
    pub(super) earlier_batches: Option<u64>,
    /// Of a stream: the round that the dataset is, as who reads it describes it. `None` of other datasets.
    pub(super) round: Option<Arc<serde_json::Value>>,
}

/// Rows of a pass that were there before others came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// The position behind its last row.
    pub end: u64,
    /// After so many cuts of the pass the rows behind it came.
    pub cuts: usize,
}

/// Positions that were delivered under no known cut. There may be millions of intervals: no work per batch
/// looks at them.
#[derive(Debug, Default)]
pub(super) struct Consumed {
    pub(super) intervals: Intervals,
    /// The checksum of the text up to their end, once it was needed.
    pub(super) check: OnceLock<u32>,
}

impl PartialEq for Consumed {
    fn eq(&self, other: &Self) -> bool {
        self.intervals == other.intervals
    }
}

/// With this, an `Arc` compares addresses first.
impl Eq for Consumed {}

impl From<Intervals> for Consumed {
    fn from(intervals: Intervals) -> Self {
        Self { intervals, check: OnceLock::new() }
    }
}

pub(super) fn damaged(what: impl std::fmt::Display) -> Error {
    Error::State(format!("damaged state: {}", quoted(what)))
}

impl Cursor {
    /// The cursor before the first batch of the first pass.
    #[must_use]
    pub fn start(identity: Identity) -> Self {
        Self {
            identity: Arc::new(identity),
            first_epoch: 0,
            epoch: 0,
            consumed: Arc::default(),
            cuts: Vec::new(),
            generations: Vec::new(),
            earlier_batches: Some(0),
            round: None,
        }
    }

    /// A cursor of a pass in which `consumed` positions were delivered, after `epoch` complete passes.
    ///
    /// If everything is consumed, it is the start of the next pass.
    ///
    /// # Errors
    /// `State` if positions lie beyond the dataset.
    pub fn from_consumed(identity: Identity, epoch: u64, consumed: Intervals) -> Result<Self> {
        if consumed.end() > identity.num_rows {
            return Err(Error::State(format!(
                "rows up to {} are consumed, but the dataset has {}",
                consumed.end(),
                identity.num_rows
            )));
        }
        let done = consumed.count() == identity.num_rows && identity.num_rows > 0;
        let is_start = epoch == 0 && consumed.is_empty();
        let start = Self { earlier_batches: is_start.then_some(0), ..Self::start(identity) };
        let cursor = Self { epoch, consumed: Arc::new(consumed.into()), ..start };
        Ok(if done { cursor.at_epoch(epoch + 1) } else { cursor })
    }

    /// The cursor before a position of a pass whose generations of rows end there, but for the last one.
    #[must_use]
    pub fn at_position(identity: Identity, epoch: u64, position: u64, ends: &[u64]) -> Self {
        let generations = ends.iter().map(|&end| Generation { end, cuts: 0 }).collect();
        let consumed = Arc::new(Intervals::full(position).into());
        Self { epoch, consumed, generations, ..Self::start(identity) }
    }

    /// Whether the intervals share the memory of another cursor's: `false` proves nothing.
    #[must_use]
    pub fn shares_consumed(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.consumed, &other.consumed)
    }

    /// The dataset and order that the cursor belongs to.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The number of the pass, counted over all jobs.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the pass that this job began with; it has done `epoch - first_epoch` passes itself.
    #[must_use]
    pub fn first_epoch(&self) -> u64 {
        self.first_epoch
    }

    /// The number of delivered global batches of this pass, over all cuts.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps_of_stages() + self.cuts.iter().map(|(_, done)| done).sum::<u64>()
    }

    /// The number of global batches of the job before the cuts of this pass. `None` if nobody counted them: in imported
    /// states, states of releases before they were counted, and passes that are looked at out of turn.
    #[must_use]
    pub fn earlier_batches(&self) -> Option<u64> {
        self.earlier_batches
    }

    /// The same place after so many global batches of the job before the cuts of this pass.
    #[must_use]
    pub fn with_earlier_batches(self, earlier: u64) -> Self {
        Self { earlier_batches: Some(earlier.min(MAX_ROWS - 1)), ..self }
    }

    /// The round of a stream that the dataset is, as JSON text. `None` of other datasets.
    #[must_use]
    pub fn round(&self) -> Option<String> {
        self.round.as_ref().map(ToString::to_string)
    }

    /// The same place in a round of a stream.
    ///
    /// # Errors
    /// `State` if it is no JSON.
    pub fn with_round(self, round: &str) -> Result<Self> {
        let round = serde_json::from_str(round).map_err(damaged)?;
        Ok(Self { round: Some(Arc::new(round)), ..self })
    }

    /// The start of a pass over another dataset, which follows in the same job: a stream's next round.
    #[must_use]
    pub fn followed_by(&self, start: &Self) -> Self {
        Self {
            first_epoch: self.first_epoch,
            epoch: self.epoch,
            earlier_batches: self.earlier_batches,
            ..start.clone()
        }
    }

    /// Those under earlier stages of a mixture.
    pub(super) fn steps_of_stages(&self) -> u64 {
        match &self.identity.order {
            OrderKind::Mixture(mixture) => {
                let cuts = mixture.stages.iter().flat_map(|stage| &stage.cuts);
                cuts.fold(0, |steps, cut| steps.saturating_add(cut.3))
            }
            _ => 0,
        }
    }

    /// The number of rows that the present pass had when it began.
    #[must_use]
    pub fn rows_at_begin(&self) -> u64 {
        self.generations.first().map_or(self.identity.num_rows, |first| first.end)
    }

    /// The number of positions of this pass that were delivered under no known cut.
    #[must_use]
    pub fn rows_without_cut(&self) -> u64 {
        self.consumed.intervals.count()
    }

    /// Refuses a cursor of another selection than `own`, or with an order that contradicts `choice`. The order of `own` is
    /// not used, and its files are the cursor's: it is [`fitted`](Self::fitted).
    ///
    /// # Errors
    /// `State`, naming both values.
    pub fn check_identity(&self, own: &Identity, choice: &OrderChoice) -> Result<()> {
        let found = self.identity.as_ref();
        let foreign = |what: &'static str, found: String, own: String| {
            let message = format!("the state is of another {what}: {found}, this one is {own}");
            Err(Error::Foreign { what, message })
        };
        if found.selection != own.selection {
            let own = format!("{}: name the same rows= and filter= as then", own.selection_name());
            return foreign("selection of rows", found.selection_name(), own);
        }
        if found.num_rows != own.num_rows {
            return foreign("dataset", found.name(), own.name());
        }
        match choice.contradiction(&found.order) {
            Some((what, found, chosen)) => foreign(what, found, chosen),
            None => Ok(()),
        }
    }

    /// The number of delivered positions of this pass.
    #[must_use]
    pub fn consumed_rows(&self) -> u64 {
        let of_cuts = self.cuts.iter().map(|(cut, done)| done * cut.global_batch_rows());
        self.consumed.intervals.count() + of_cuts.sum::<u64>()
    }

    /// The positions of this pass that are not delivered yet.
    ///
    /// # Errors
    /// `State` if a cut has more batches done than it holds, or all of them with nothing left over.
    pub fn remaining(&self) -> Result<Intervals> {
        let num_rows = self.identity.num_rows;
        let left = self.consumed.intervals.complement(num_rows);
        let mut remaining = self.left_after_cuts(&left, 0)?;
        for (&(cut, done), cuts) in self.cuts.iter().zip(1..) {
            let division = Division::new(cut, remaining);
            if done == division.batches() && division.rest() == 0 {
                return Err(damaged(format!(
                    "all {done} batches done of a cut, after which it would be in the next pass"
                )));
            }
            remaining = division.remaining_after(done)?;
            if self.generations.iter().any(|generation| generation.cuts == cuts) {
                remaining = remaining.union(&self.left_after_cuts(&left, cuts)?);
            }
        }
        Ok(remaining)
    }

    /// What came after so many cuts, among positions that are left: of the rows at the beginning, after none.
    fn left_after_cuts(&self, left: &Intervals, cuts: usize) -> Result<Intervals> {
        let num_rows = self.identity.num_rows;
        let at = |generation: usize| self.generations.get(generation).map_or(num_rows, |found| found.end);
        let first = self.generations.partition_point(|generation| generation.cuts < cuts);
        let end = self.generations.partition_point(|generation| generation.cuts <= cuts);
        // The rows behind generation i came when it says so; those of the first one were there.
        let came = if cuts == 0 { 0 } else { at(first) }..at(end);
        let came = Intervals::of_sorted([came].into_iter().filter(|came| !came.is_empty()));
        left.intersection(&came)
    }

    /// The ends of the generations before the last one.
    #[must_use]
    pub fn generation_ends(&self) -> Vec<u64> {
        self.generations.iter().map(|generation| generation.end).collect()
    }

    /// The cuts of the current pass with the batches done in each; the last one may continue.
    #[must_use]
    pub fn cuts(&self) -> &[(Cut, u64)] {
        &self.cuts
    }

    /// The cursor before its last cut, if that is `cut`, and the batches done in it; otherwise itself and 0.
    #[must_use]
    pub fn before_cut(&self, cut: Cut) -> (Self, u64) {
        // What came since the last cut is divided by another one, even if that has the same numbers.
        let has_grown = self.generations.last().is_some_and(|last| last.cuts == self.cuts.len());
        match self.cuts.last() {
            Some(&(last, done)) if last == cut && !has_grown => (self.before_last_cut(), done),
            _ => (self.clone(), 0),
        }
    }

    /// The cursor before its last cut; itself if it has none.
    #[must_use]
    pub fn before_last_cut(&self) -> Self {
        Self { cuts: self.cuts[..self.cuts.len().saturating_sub(1)].to_vec(), ..self.clone() }
    }

    /// Where batch `step` of the pass was or will be. Returns the cursor before its cut, the cut, the batches
    /// done in the cut, and the batch's number in it. The last cut continues; `None` if there is no cut.
    #[must_use]
    pub fn at_step(&self, step: u64) -> Option<(Self, Cut, u64, u64)> {
        if let Some(stage) = self.stage_at(step) {
            return stage.at_step(step);
        }
        let mut batch = step - self.steps_of_stages();
        let mut index = 0;
        while index + 1 < self.cuts.len() && batch >= self.cuts[index].1 {
            batch -= self.cuts[index].1;
            index += 1;
        }
        let &(cut, done) = self.cuts.get(index)?;
        Some((Self { cuts: self.cuts[..index].to_vec(), ..self.clone() }, cut, done, batch))
    }

    /// The cursor after `done` batches of one more cut.
    #[must_use]
    pub fn with_cut(&self, cut: Cut, done: u64) -> Self {
        let mut cursor = self.clone();
        cursor.cuts.extend((done > 0).then_some((cut, done)));
        cursor
    }

    /// The start of the current pass.
    #[must_use]
    pub fn restarted(&self) -> Self {
        if let Some(restarted) = self.restarted_mixture() {
            return restarted;
        }
        let here = self.generations.iter().map(|generation| Generation { cuts: 0, ..*generation });
        Self { consumed: Arc::default(), cuts: Vec::new(), generations: here.collect(), ..self.clone() }
    }

    /// The start of the next pass behind this one, which ends under global batches of `least` rows; its last batch may have
    /// the rest, which is less than a whole one.
    pub(super) fn next_pass(&self, least: u64, rest: bool) -> Self {
        let next = self.next_of_mixture(least, rest).unwrap_or_else(|| self.at_epoch(self.epoch + 1));
        let done = self.steps().saturating_add(u64::from(rest));
        match self.earlier_batches {
            Some(earlier) => next.with_earlier_batches(earlier.saturating_add(done)),
            None => next,
        }
    }

    /// The start of any pass, whose earlier batches nobody counted if it is another one. A pass before this job's is the
    /// start of a job that begins there.
    #[must_use]
    pub fn at_epoch(&self, epoch: u64) -> Self {
        let generations = Vec::new();
        let earlier_batches = self.earlier_batches.filter(|_| epoch == self.epoch);
        Self {
            epoch,
            first_epoch: self.first_epoch.min(epoch),
            generations,
            earlier_batches,
            ..self.restarted()
        }
    }

    /// The same position as the first pass of another job: its own passes are counted from 0.
    #[must_use]
    pub fn with_epochs_reset(&self) -> Self {
        Self { first_epoch: self.epoch, earlier_batches: Some(0), ..self.clone() }
    }

    /// The same place in the order of another cursor's pass, if it is still in that pass: all that came to that one is there.
    #[must_use]
    pub fn of_pass_of(self, other: &Self) -> Self {
        let generations = other.restarted().generations;
        if self.epoch == other.epoch { Self { generations, ..self } } else { self }
    }

    /// The same position of a job that began with the pass `first_epoch`.
    #[must_use]
    pub fn with_first_epoch(self, first_epoch: u64) -> Self {
        Self { first_epoch, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(num_rows: u64) -> Cursor {
        let fingerprint = "00112233445566778899aabbccddeeff".to_owned();
        Cursor::start(Identity { fingerprint, num_rows, selection: None, order: OrderKind::Sequential })
    }

    fn after(done: u64) -> Cursor {
        start(100).with_cut(Cut::new(2, 1, 5).unwrap(), done)
    }

    #[test]
    fn the_text_is_canonical_and_reads_back() {
        let cursor = after(3);
        let text = cursor.to_json();
        assert!(text.contains(r#""consumed":[],"cuts":[[2,1,5,3]],"dataset":{"fingerprint":"0011"#));
        assert_eq!(Cursor::parse(&text).unwrap(), cursor);
        assert_eq!(cursor.remaining().unwrap().ranges(), &[15..50, 65..100]);
    }

    #[test]
    fn every_single_character_of_damage_is_noticed() {
        let text = after(3).to_json();
        for index in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[index] = if bytes[index] == b'1' { b'2' } else { b'1' };
            let Ok(damaged) = String::from_utf8(bytes) else { continue };
            if damaged != text {
                assert!(matches!(Cursor::parse(&damaged), Err(Error::State(_))), "{damaged}");
            }
        }
    }

    #[test]
    fn a_state_with_more_done_than_there_is_is_refused() {
        let mut cursor = after(3);
        for done in [10, 11] {
            cursor.cuts[0].1 = done;
            assert!(matches!(Cursor::parse(&cursor.to_json()), Err(Error::State(_))));
        }
        let everything = Cursor { consumed: Arc::new(Intervals::full(100).into()), ..start(100) };
        assert!(matches!(Cursor::parse(&everything.to_json()), Err(Error::State(_))));
    }
}
