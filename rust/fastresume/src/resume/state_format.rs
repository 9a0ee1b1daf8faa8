//! The cursor as JSON text, written and read: the text is what `state_dict()` holds.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dataset::manifest::MAX_ROWS;
use crate::error::{Error, Result, quoted};
use crate::intervals::set::Intervals;
use crate::order::pass_order::OrderKind;
use crate::resume::cursor::{Cursor, Generation, Identity, damaged};
use crate::resume::lanes::Cut;

/// The version of the cursor's format. Every released version can be read for ever.
pub const FORMAT: u64 = 1;

/// How the text begins, apart from its checksum.
const TEXT_START: &str = "{\"consumed\":";

/// The JSON text. Its fields are in alphabetical order, which makes it canonical.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
    consumed: Vec<(u64, u64)>,
    cuts: Vec<(u64, u64, u64, u64)>,
    dataset: DatasetText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    earlier_batches: Option<u64>,
    epoch: u64,
    fastresume: u64,
    first_epoch: u64,
    /// The ends of generations, and after how many cuts of the pass others came behind them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    generations: Vec<(u64, u64)>,
    order: Value,
    /// What a stream's round is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round: Option<Value>,
    selection: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatasetText {
    fingerprint: String,
    rows: u64,
}

impl Text {
    fn write(&self) -> String {
        // Strings, integers and lists: serializing them can't fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The checksum of a text that follows a part with the checksum `start`.
fn checksum(start: u32, text: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(start);
    hasher.update(text.as_bytes());
    hasher.finalize()
}

/// A checksum, as the text spells it.
fn stated(check: u32) -> String {
    format!("{check:08x}")
}

impl Cursor {
    /// Reads the JSON text of a cursor, with any whitespace.
    ///
    /// # Errors
    /// `State` if it is not a cursor, of another version, or damaged.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value =
            serde_json::from_str(text).map_err(|cause| damaged(format!("it is not JSON: {cause}")))?;
        match value.get("fastresume") {
            Some(Value::Number(version)) if version.as_u64() == Some(FORMAT) => {}
            Some(version) => {
                return Err(Error::State(format!(
                    "the state has version {}, this release reads version {FORMAT}",
                    quoted(version)
                )));
            }
            None => return Err(damaged("it has no key 'fastresume'")),
        }
        let mut text: Text = serde_json::from_value(value).map_err(damaged)?;
        let given = text.check.take().ok_or_else(|| damaged("it has no checksum"))?;
        let found = stated(checksum(0, &text.write()));
        if given != found {
            return Err(damaged(format!("its checksum is {found}, it states {}", quoted(given))));
        }
        Self::from_text(text)
    }

    fn from_text(text: Text) -> Result<Self> {
        let numbers = [text.dataset.rows, text.epoch, text.first_epoch, text.earlier_batches.unwrap_or(0)];
        let pairs = text.consumed.iter().flat_map(|&(start, end)| [start, end]);
        let cuts = text.cuts.iter().flat_map(|&(lanes, groups, rows, done)| [lanes, groups, rows, done]);
        if let Some(large) = numbers.into_iter().chain(pairs).chain(cuts).find(|&number| number >= MAX_ROWS) {
            return Err(damaged(format!("{large} is not below 2^53")));
        }
        // Compared with the text as written anew, so that an order with additional fields is refused.
        let order = serde_json::from_value(text.order.clone())
            .ok()
            .filter(|order: &OrderKind| serde_json::to_value(order).is_ok_and(|again| again == text.order))
            .ok_or_else(|| {
                Error::State(format!(
                    "the state is of the order {}, which this release does not know: it has 'sequential', \
                     'shuffled' and 'mixture'",
                    quoted(&text.order)
                ))
            })?;
        order.check().map_err(damaged)?;
        if text.first_epoch > text.epoch {
            return Err(damaged(format!("epoch {} is before first_epoch {}", text.epoch, text.first_epoch)));
        }
        let DatasetText { fingerprint, rows: num_rows } = text.dataset;
        let identity = Identity { fingerprint, num_rows, selection: text.selection, order };
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
            consumed: Arc::new(consumed.into()),
            cuts: Vec::with_capacity(text.cuts.len()),
            generations: Vec::with_capacity(text.generations.len()),
            earlier_batches: text.earlier_batches,
            round: text.round.map(Arc::new),
        };
        for &(end, cuts) in &text.generations {
            let cuts = usize::try_from(cuts).unwrap_or(usize::MAX);
            let before = cursor.generations.last().copied().unwrap_or(Generation { end: 0, cuts: 0 });
            if end <= before.end || end >= num_rows || cuts < before.cuts || cuts > text.cuts.len() {
                return Err(damaged("its generations do not ascend inside of the dataset and its cuts"));
            }
            cursor.generations.push(Generation { end, cuts });
        }
        for (lanes, groups, rows, done) in text.cuts {
            let cut = Cut::new(lanes, groups, rows).map_err(damaged)?;
            if done == 0 {
                return Err(damaged("a cut has nothing done"));
            }
            cursor.cuts.push((cut, done));
        }
        cursor.check_mixture()?;
        if cursor.remaining()?.is_empty() && cursor.identity.num_rows > 0 {
            return Err(damaged("all rows are done, after which it would be in the next pass"));
        }
        Ok(cursor)
    }

    /// The canonical JSON text: sorted keys, no spaces, ASCII, with its checksum.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (before, after) = self.json_around_consumed();
        [before, self.json_of_consumed(), after].concat()
    }

    /// What the text says, by name.
    #[must_use]
    pub fn values(&self) -> Value {
        // The text is ours, and whole.
        serde_json::from_str(&self.to_json()).unwrap_or_default()
    }

    /// What the text says of the order.
    #[must_use]
    pub fn values_of_order(&self) -> Value {
        serde_json::to_value(&self.identity.order).unwrap_or_default()
    }

    /// The part of the text with the intervals: nearly all of it if there are many.
    #[must_use]
    pub fn json_of_consumed(&self) -> String {
        let ranges = self.consumed.intervals.ranges().iter();
        let pairs: Vec<_> = ranges.map(|range| (range.start, range.end)).collect();
        // As in `Text::write`.
        serde_json::to_string(&pairs).unwrap_or_default()
    }

    /// The text before the intervals, which always has the same length, and the text after them. The time
    /// does not depend on the number of intervals.
    #[must_use]
    pub fn json_around_consumed(&self) -> (String, String) {
        let Identity { fingerprint, num_rows, selection, .. } = self.identity.as_ref();
        let text = Text {
            check: None,
            consumed: Vec::new(),
            cuts: self
                .cuts
                .iter()
                .map(|&(cut, done)| (cut.lanes(), cut.groups(), cut.rows(), done))
                .collect(),
            dataset: DatasetText { fingerprint: fingerprint.clone(), rows: *num_rows },
            earlier_batches: self.earlier_batches,
            epoch: self.epoch,
            fastresume: FORMAT,
            first_epoch: self.first_epoch,
            generations: self.generations.iter().map(|found| (found.end, found.cuts as u64)).collect(),
            order: self.values_of_order(),
            round: self.round.as_deref().cloned(),
            selection: selection.clone(),
        };
        let text = text.write();
        let after = text.get(TEXT_START.len() + "[]".len()..).unwrap_or_default().to_owned();
        let start =
            *self.consumed.check.get_or_init(|| checksum(checksum(0, TEXT_START), &self.json_of_consumed()));
        // The checksum's key comes first.
        let check = stated(checksum(start, &after));
        (format!("{{\"check\":\"{check}\",{}", TEXT_START.trim_start_matches('{')), after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(num_rows: u64) -> Cursor {
        let fingerprint = "00112233445566778899aabbccddeeff".to_owned();
        Cursor::start(Identity { fingerprint, num_rows, selection: None, order: OrderKind::Sequential })
    }

    #[test]
    fn a_text_is_the_same_however_its_intervals_are_given() {
        let consumed = Intervals::new(vec![0..7, 9..10, 40..41]).unwrap();
        let first = Cursor::from_consumed(start(100).identity().clone(), 3, consumed).unwrap();
        let later = first.with_cut(Cut::new(2, 1, 5).unwrap(), 4);
        let parsed = Cursor::parse(&first.to_json()).unwrap();
        assert!(later.shares_consumed(&first) && !parsed.shares_consumed(&first));
        for cursor in [first, later, start(100)] {
            let text = cursor.to_json();
            let value: Text = serde_json::from_str(&text).unwrap();
            assert_eq!(value.write(), text);
            assert_eq!(Cursor::parse(&text).unwrap(), cursor);
            let (before, after) = cursor.json_around_consumed();
            assert_eq!(before.len(), r#"{"check":"01234567","consumed":"#.len());
            assert_eq!(text, before + &cursor.json_of_consumed() + &after);
            assert_eq!(cursor.consumed_rows(), 100 - cursor.remaining().unwrap().count());
        }
    }
}
