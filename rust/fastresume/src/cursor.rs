//! The resume state: a small value that rides on every batch.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::intervals::Intervals;
use crate::lanes::{Cut, Division};
use crate::manifest::MAX_ROWS;
use crate::order::OrderKind;

/// The number of the cursor's format. Every number ever released is read for ever.
pub const FORMAT: u64 = 1;

/// Which dataset in which order a cursor belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The manifest's fingerprint.
    pub fingerprint: String,
    /// The number of rows.
    pub num_rows: u64,
    /// The order.
    pub order: OrderKind,
}

/// How far a job has come: what `state_dict()` saves and `load_state_dict()` takes.
///
/// Canonical: no cut with nothing done, and the end of a pass is the start of the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    identity: Arc<Identity>,
    first_epoch: u64,
    epoch: u64,
    /// Positions of this pass that no cut explains.
    consumed: Arc<Intervals>,
    /// The cuts of this pass with the batches done in each; the last one may go on.
    cuts: Vec<(Cut, u64)>,
}

/// The JSON text; fields in the order of their names, which makes it canonical.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
    consumed: Vec<(u64, u64)>,
    cuts: Vec<(u64, u64, u64, u64)>,
    dataset: DatasetText,
    epoch: u64,
    fastresume: u64,
    first_epoch: u64,
    order: serde_json::Value,
    selection: (),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetText {
    fingerprint: String,
    rows: u64,
}

impl Text {
    fn write(&self) -> String {
        // Strings, integers and lists: nothing that serialization can refuse.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn checksum(&self) -> String {
        format!("{:08x}", crc32fast::hash(self.write().as_bytes()))
    }
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::State(format!("damaged state: {what}"))
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
        }
    }

    /// A cursor of a pass whose `consumed` positions are done, after `epoch` whole passes.
    ///
    /// If everything is consumed, it is the next pass at zero.
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
        let cursor = Self { epoch, consumed: Arc::new(consumed), ..Self::start(identity) };
        Ok(if done { cursor.next_pass() } else { cursor })
    }

    /// Reads the JSON text of a cursor, however it is spaced.
    ///
    /// # Errors
    /// `State` if it is not a cursor, of another version, or damaged.
    pub fn parse(text: &str) -> Result<Self> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|cause| damaged(format!("it is not JSON: {cause}")))?;
        match value.get("fastresume") {
            Some(serde_json::Value::Number(version)) if version.as_u64() == Some(FORMAT) => {}
            Some(version) => {
                return Err(Error::State(format!(
                    "the state has version {version}, this release reads version {FORMAT}"
                )));
            }
            None => return Err(damaged("it has no key 'fastresume'")),
        }
        let mut text: Text = serde_json::from_value(value).map_err(damaged)?;
        let stated = text.check.take().ok_or_else(|| damaged("it has no checksum"))?;
        let found = text.checksum();
        if stated != found {
            return Err(damaged(format!("its checksum is {found}, it states {stated}")));
        }
        Self::from_text(text)
    }

    fn from_text(text: Text) -> Result<Self> {
        let numbers = [text.dataset.rows, text.epoch, text.first_epoch];
        let pairs = text.consumed.iter().flat_map(|&(start, end)| [start, end]);
        let cuts = text.cuts.iter().flat_map(|&(lanes, groups, rows, done)| [lanes, groups, rows, done]);
        if let Some(large) = numbers.into_iter().chain(pairs).chain(cuts).find(|&number| number >= MAX_ROWS) {
            return Err(damaged(format!("{large} is not below 2^53")));
        }
        // Written again, so that an order with something more to it is another one.
        let order = serde_json::from_value(text.order.clone())
            .ok()
            .filter(|order: &OrderKind| serde_json::to_value(order).is_ok_and(|again| again == text.order))
            .ok_or_else(|| {
                Error::State(format!(
                    "the state is of the order {}, which this release does not know: it has 'sequential'",
                    text.order
                ))
            })?;
        if text.first_epoch > text.epoch {
            return Err(damaged(format!(
                "epoch {} lies before first_epoch {}",
                text.epoch, text.first_epoch
            )));
        }
        let identity = Identity { fingerprint: text.dataset.fingerprint, num_rows: text.dataset.rows, order };
        let ranges = text.consumed.iter().map(|&(start, end)| start..end).collect();
        let consumed = Intervals::new(ranges).map_err(damaged)?;
        let as_stated = consumed.ranges().iter().map(|range| (range.start, range.end));
        if !as_stated.eq(text.consumed.iter().copied()) || consumed.end() > identity.num_rows {
            return Err(damaged(
                "its consumed intervals are not sorted, coalesced and inside of the dataset",
            ));
        }
        let mut cursor = Self {
            identity: Arc::new(identity),
            first_epoch: text.first_epoch,
            epoch: text.epoch,
            consumed: Arc::new(consumed),
            cuts: Vec::with_capacity(text.cuts.len()),
        };
        for (lanes, groups, rows, done) in text.cuts {
            let cut = Cut::new(lanes, groups, rows).map_err(damaged)?;
            if done == 0 {
                return Err(damaged("a cut has nothing done"));
            }
            cursor.cuts.push((cut, done));
        }
        if cursor.remaining()?.is_empty() && cursor.identity.num_rows > 0 {
            return Err(damaged("all rows are done, after which it would be in the next pass"));
        }
        Ok(cursor)
    }

    /// The canonical JSON text: sorted keys, no spaces, ASCII, with its checksum.
    #[must_use]
    pub fn to_json(&self) -> String {
        let Identity { fingerprint, num_rows, order } = self.identity.as_ref();
        let mut text = Text {
            check: None,
            consumed: self.consumed.ranges().iter().map(|range| (range.start, range.end)).collect(),
            cuts: self
                .cuts
                .iter()
                .map(|&(cut, done)| (cut.lanes(), cut.groups(), cut.rows(), done))
                .collect(),
            dataset: DatasetText { fingerprint: fingerprint.clone(), rows: *num_rows },
            epoch: self.epoch,
            fastresume: FORMAT,
            first_epoch: self.first_epoch,
            order: serde_json::to_value(order).unwrap_or_default(),
            selection: (),
        };
        text.check = Some(text.checksum());
        text.write()
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

    /// The number of the pass that this job began with; `epoch - first_epoch` passes are its own.
    #[must_use]
    pub fn first_epoch(&self) -> u64 {
        self.first_epoch
    }

    /// Global batches of this pass that were delivered, over all cuts.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.cuts.iter().map(|(_, done)| done).sum()
    }

    /// Refuses a cursor of another dataset or order.
    ///
    /// # Errors
    /// `State`, naming both values.
    pub fn check_identity(&self, expected: &Identity) -> Result<()> {
        let found = self.identity.as_ref();
        let differ = |what: &str, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
            Err(Error::State(format!("the state is of another {what}: {found}, this one is {expected}")))
        };
        if (&found.fingerprint, found.num_rows) != (&expected.fingerprint, expected.num_rows) {
            let name = |of: &Identity| format!("{} with {} rows", of.fingerprint, of.num_rows);
            return differ("dataset", &name(found), &name(expected));
        }
        if found.order != expected.order {
            let name = |of: &Identity| serde_json::to_string(&of.order).unwrap_or_default();
            return differ("order", &name(found), &name(expected));
        }
        Ok(())
    }

    /// The positions of this pass that were not delivered yet.
    ///
    /// # Errors
    /// `State` if a cut has as many batches done as it holds, or more.
    pub fn remaining(&self) -> Result<Intervals> {
        let num_rows = self.identity.num_rows;
        let mut consumed = self.consumed.as_ref().clone();
        for &(cut, done) in &self.cuts {
            let division = Division::new(cut, consumed.complement(num_rows));
            if done >= division.batches() {
                return Err(damaged(format!(
                    "{done} batches done of a cut that has {}, after which it would be in the next pass",
                    division.batches()
                )));
            }
            consumed = consumed.union(&division.consumed(done)?);
        }
        Ok(consumed.complement(num_rows))
    }

    /// The pass that goes on from here under `cut`: the last cut goes on if it is the same one.
    ///
    /// # Errors
    /// `State` if a cut has more batches done than it holds.
    pub fn pass(&self, cut: Cut) -> Result<Pass> {
        let mut before = self.clone();
        let done = match before.cuts.last() {
            Some(&(last, done)) if last == cut => {
                before.cuts.pop();
                done
            }
            _ => 0,
        };
        let division = Division::new(cut, before.remaining()?);
        Ok(Pass { before, division, done })
    }

    /// The start of the present pass.
    #[must_use]
    pub fn restarted(&self) -> Self {
        Self { consumed: Arc::default(), cuts: Vec::new(), ..self.clone() }
    }

    /// The start of the next pass.
    #[must_use]
    pub fn next_pass(&self) -> Self {
        Self { epoch: self.epoch + 1, ..self.restarted() }
    }

    /// The same position as the first pass of another job: the count starts anew.
    #[must_use]
    pub fn with_epochs_reset(&self) -> Self {
        Self { first_epoch: self.epoch, ..self.clone() }
    }
}

/// What is left of a pass under one cut.
#[derive(Debug, Clone)]
pub struct Pass {
    /// The cursor without the present cut.
    before: Cursor,
    division: Division,
    done: u64,
}

impl Pass {
    /// The present cut, applied.
    #[must_use]
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// Batches of the present cut that were done when the pass was taken up.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Batches that are still to come.
    #[must_use]
    pub fn batches_left(&self) -> u64 {
        self.division.batches() - self.done
    }

    /// The number of the pass.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.before.epoch
    }

    /// Batches of the pass before batch `batch` of the present cut, over all cuts.
    #[must_use]
    pub fn step_of(&self, batch: u64) -> u64 {
        self.before.steps() + batch
    }

    /// The cursor after `done` batches of the present cut; after the last one it is the next pass.
    #[must_use]
    pub fn cursor_after(&self, done: u64) -> Cursor {
        if done >= self.division.batches() {
            return self.before.next_pass();
        }
        let mut cursor = self.before.clone();
        if done > 0 {
            cursor.cuts.push((self.division.cut(), done));
        }
        cursor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(num_rows: u64) -> Cursor {
        let fingerprint = "00112233445566778899aabbccddeeff".to_owned();
        Cursor::start(Identity { fingerprint, num_rows, order: OrderKind::Sequential })
    }

    #[test]
    fn the_text_is_canonical_and_reads_back() {
        let pass = start(100).pass(Cut::new(2, 1, 5).unwrap()).unwrap();
        let cursor = pass.cursor_after(3);
        let text = cursor.to_json();
        assert!(text.contains(r#""consumed":[],"cuts":[[2,1,5,3]],"dataset":{"fingerprint":"0011"#));
        assert_eq!(Cursor::parse(&text).unwrap(), cursor);
        assert_eq!(cursor.remaining().unwrap().ranges(), &[15..50, 65..100]);
    }

    #[test]
    fn a_finished_pass_is_the_next_pass_at_zero() {
        let pass = start(100).pass(Cut::new(2, 1, 5).unwrap()).unwrap();
        let end = pass.cursor_after(10);
        assert_eq!((end.epoch(), end.steps()), (1, 0));
        assert_eq!(end.remaining().unwrap(), Intervals::full(100));
    }

    #[test]
    fn every_single_character_of_damage_is_noticed() {
        let pass = start(100).pass(Cut::new(2, 1, 5).unwrap()).unwrap();
        let text = pass.cursor_after(3).to_json();
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
        let pass = start(100).pass(Cut::new(2, 1, 5).unwrap()).unwrap();
        let mut cursor = pass.cursor_after(3);
        for done in [10, 11] {
            cursor.cuts[0].1 = done;
            assert!(matches!(Cursor::parse(&cursor.to_json()), Err(Error::State(_))));
        }
        let everything = Cursor { consumed: Arc::new(Intervals::full(100)), ..start(100) };
        assert!(matches!(Cursor::parse(&everything.to_json()), Err(Error::State(_))));
    }
}
