//! The arrays of a message's body, and whether its head tells the truth of them.

use std::ops::Range;
use std::sync::Arc;

use crate::arrow::array::{Array, Lent, offset_at};
use crate::arrow::field::{ArrowField, ArrowForm};
use crate::error::{Error, Result};
use crate::ipc::dictionary_ids::DictionaryIds;
use crate::ipc::inflate::inflated;
use crate::ipc::message::{BatchHead, Node, Span};

/// What has the body of a message, and the dictionaries that its indices refer to.
pub trait Body {
    /// Bytes of it.
    ///
    /// # Errors
    /// `Data` if it ends before them; `Source` if they can't be read.
    fn bytes(&self, span: Span) -> Result<Arc<dyn Lent>>;

    /// A dictionary by its number, of values of a field.
    ///
    /// # Errors
    /// `Data` if there is none; as for `bytes`.
    fn dictionary(&self, id: i64, field: &ArrowField, below: &[DictionaryIds]) -> Result<Arc<Array>>;
}

/// Goes through the arrays that the head of a message tells of, in the order of the fields.
pub struct BatchArrays<'a> {
    head: &'a BatchHead,
    /// None if buffers are only looked for.
    body: Option<&'a dyn Body>,
    node: usize,
    buffer: usize,
    views: usize,
    /// The buffers of columns that are wanted.
    wanted: Vec<Range<u64>>,
}

/// The arrays of columns that are wanted, and where their buffers lie.
type FoundArrays = (Vec<Option<Array>>, Vec<Range<u64>>);

fn lies(what: impl std::fmt::Display) -> Error {
    Error::data(format!("the head of a batch contradicts itself: {what}"))
}

/// How many bytes a buffer must have.
#[derive(Clone, Copy)]
enum Need {
    Exactly(usize),
    /// So many as there are.
    All,
}

impl<'a> BatchArrays<'a> {
    /// The arrays of some columns by their ascending numbers; none of the others.
    ///
    /// # Errors
    /// `Data` if head and body contradict each other; those of the body.
    pub fn read(
        head: &'a BatchHead,
        of: (&[ArrowField], &[DictionaryIds]),
        columns: &[usize],
        body: &'a dyn Body,
    ) -> Result<Vec<Option<Array>>> {
        Self::new(head, Some(body)).columns(of, columns).map(|(arrays, _)| arrays)
    }

    /// Where in the body the buffers of some columns lie, once the head tells no lies that can be seen in it.
    ///
    /// # Errors
    /// `Data` if it does.
    pub fn spans(
        head: &'a BatchHead,
        of: (&[ArrowField], &[DictionaryIds]),
        columns: &[usize],
    ) -> Result<Vec<Range<u64>>> {
        Self::new(head, None).columns(of, columns).map(|(_, spans)| spans)
    }

    fn new(head: &'a BatchHead, body: Option<&'a dyn Body>) -> Self {
        Self { head, body, node: 0, buffer: 0, views: 0, wanted: Vec::new() }
    }

    fn columns(
        mut self,
        (fields, ids): (&[ArrowField], &[DictionaryIds]),
        columns: &[usize],
    ) -> Result<FoundArrays> {
        let mut found = Vec::with_capacity(fields.len());
        for (number, (field, ids)) in fields.iter().zip(ids).enumerate() {
            let is_wanted = columns.binary_search(&number).is_ok();
            let array = self.array(field, ids, is_wanted).map_err(|error| error.in_column(&field.name))?;
            if array.length != self.head.rows {
                let wrong = lies(format!("{} rows, {} values", self.head.rows, array.length));
                return Err(wrong.in_column(&field.name));
            }
            found.push(is_wanted.then_some(array));
        }
        let (nodes, buffers) = (self.head.nodes.len(), self.head.buffers.len());
        if (self.node, self.buffer) != (nodes, buffers) || self.views != self.head.more_buffers.len() {
            return Err(lies(format!("it has {nodes} arrays and {buffers} buffers, its schema others")));
        }
        Ok((found, self.wanted))
    }

    fn node(&mut self) -> Result<Node> {
        let node = self.head.nodes.get(self.node).copied().ok_or_else(|| lies("an array is missing"))?;
        self.node += 1;
        Ok(node)
    }

    /// The next array, and all below it. Buffers of what is not wanted are empty.
    fn array(&mut self, field: &ArrowField, ids: &DictionaryIds, is_wanted: bool) -> Result<Array> {
        let Node { length, nulls } = self.node()?;
        let has_validity = !matches!(field.form, ArrowForm::Null | ArrowForm::Runs);
        let validity = if has_validity { self.validity(length, nulls, is_wanted)? } else { None };
        let values = |width: usize, count: usize| {
            width.checked_mul(count).map(Need::Exactly).ok_or_else(|| lies("an array is too long"))
        };
        let offsets = |is_wide| values(width_of(is_wide), if length == 0 { 0 } else { length + 1 });
        let mut buffers = Vec::new();
        match field.form {
            ArrowForm::Null | ArrowForm::Runs | ArrowForm::Struct | ArrowForm::FixedList(_) => {}
            ArrowForm::Bool => buffers.push(self.next(Need::Exactly(length.div_ceil(8)), is_wanted)?),
            ArrowForm::Fixed(width, _) => buffers.push(self.next(values(width, length)?, is_wanted)?),
            ArrowForm::List { is_wide } => buffers.push(self.next(offsets(is_wide)?, is_wanted)?),
            ArrowForm::Map => buffers.push(self.next(offsets(false)?, is_wanted)?),
            ArrowForm::ListViews { is_wide } => {
                for _ in 0..2 {
                    buffers.push(self.next(values(width_of(is_wide), length)?, is_wanted)?);
                }
            }
            ArrowForm::Bytes { is_wide } => {
                let places = self.next(offsets(is_wide)?, is_wanted)?;
                let end = match places.bytes().len() / width_of(is_wide) {
                    0 => 0,
                    count => offset_at(places.bytes(), count - 1, is_wide)
                        .ok_or_else(|| lies("an offset is negative"))?,
                };
                buffers.extend([places, self.next(Need::Exactly(end), is_wanted)?]);
            }
            ArrowForm::Views => {
                let more = self.head.more_buffers.get(self.views).copied();
                let more = more.ok_or_else(|| lies("the number of a view's buffers is missing"))?;
                self.views += 1;
                buffers.push(self.next(values(16, length)?, is_wanted)?);
                for _ in 0..more {
                    buffers.push(self.next(Need::All, is_wanted)?);
                }
            }
        }
        let mut children = Vec::new();
        let mut dictionary = None;
        if let Some(values) = &field.dictionary {
            dictionary = self.dictionary(values, ids, is_wanted)?;
        } else {
            for (child, ids) in field.children.iter().zip(&ids.below) {
                children.push(self.array(child, ids, is_wanted)?);
            }
        }
        let least = match field.form {
            ArrowForm::Struct => Some(length),
            ArrowForm::FixedList(size) => size.checked_mul(length),
            _ => Some(0),
        };
        if children.iter().any(|child| least.is_none_or(|least| child.length < least)) {
            return Err(lies(format!("{length} values have fewer below them")));
        }
        Ok(Array { length, offset: 0, validity, buffers, children, dictionary })
    }

    fn dictionary(
        &self,
        values: &ArrowField,
        ids: &DictionaryIds,
        is_wanted: bool,
    ) -> Result<Option<Arc<Array>>> {
        let id = ids.id.ok_or_else(|| lies("a dictionary has no number"))?;
        let Some(body) = self.body.filter(|_| is_wanted) else { return Ok(None) };
        body.dictionary(id, values, &ids.below).map(Some)
    }

    /// The bits that say which values are not null, if some are.
    fn validity(&mut self, length: usize, nulls: usize, is_wanted: bool) -> Result<Option<Arc<dyn Lent>>> {
        let is_there = self.head.buffers.get(self.buffer).is_some_and(|span| span.length > 0);
        if !is_there {
            self.next(Need::Exactly(0), false)?;
            let wrong = || lies(format!("{nulls} values are null, and no bits say which"));
            return if nulls == 0 { Ok(None) } else { Err(wrong()) };
        }
        let bits = self.next(Need::Exactly(length.div_ceil(8)), is_wanted)?;
        if self.body.is_none() || !is_wanted {
            return Ok(None);
        }
        let found = length - ones(bits.bytes(), length);
        if found != nulls {
            return Err(lies(format!("{nulls} values are stated to be null, {found} are")));
        }
        Ok((nulls > 0).then_some(bits))
    }

    /// The next buffer; an empty one if it is not wanted.
    fn next(&mut self, need: Need, is_wanted: bool) -> Result<Arc<dyn Lent>> {
        let span = self.head.buffers.get(self.buffer).copied();
        let span = span.ok_or_else(|| lies("a buffer is missing"))?;
        self.buffer += 1;
        let nothing = || Arc::new(Vec::new()) as Arc<dyn Lent>;
        let is_plain = self.head.codec.is_none();
        if let Need::Exactly(need) = need {
            // Of bytes behind offsets, the need is known where these were read.
            if is_plain && span.length < need as u64 {
                return Err(lies(format!("a buffer of {} bytes is to hold {need}", span.length)));
            }
        }
        if !is_wanted {
            return Ok(nothing());
        }
        let Some(body) = self.body else {
            self.wanted.push(span.start..span.start + span.length);
            return Ok(nothing());
        };
        let wanted = match need {
            Need::Exactly(0) => return Ok(nothing()),
            Need::Exactly(need) => Some(need),
            Need::All => None,
        };
        match self.head.codec {
            None => body.bytes(Span { length: wanted.map_or(span.length, |need| need as u64), ..span }),
            Some(codec) => {
                let stored = body.bytes(span)?;
                Ok(Arc::new(inflated(codec, stored.bytes(), wanted)?))
            }
        }
    }
}

fn width_of(is_wide: bool) -> usize {
    if is_wide { 8 } else { 4 }
}

/// How many of the first bits are 1.
fn ones(bytes: &[u8], length: usize) -> usize {
    let whole = length / 8;
    let (words, rest) = bytes[..whole].as_chunks::<8>();
    let of_words: usize = words.iter().map(|word| u64::from_le_bytes(*word).count_ones() as usize).sum();
    let of_rest: usize = rest.iter().map(|byte| byte.count_ones() as usize).sum();
    let last = bytes.get(whole).map_or(0, |byte| (byte & ((1 << (length % 8)) - 1)).count_ones() as usize);
    of_words + of_rest + last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_counted_up_to_any_bit() {
        let bytes: Vec<u8> = (0..40).map(|place: u8| place.wrapping_mul(37)).collect();
        for length in 0..=bytes.len() * 8 {
            let each = (0..length).filter(|place| bytes[place / 8] >> (place % 8) & 1 == 1).count();
            assert_eq!(ones(&bytes, length), each, "{length}");
        }
    }
}
