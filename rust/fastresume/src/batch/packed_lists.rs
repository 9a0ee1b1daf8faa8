//! Lists that are decoded, until sequences have taken their tokens.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::documents::{Documents, SequenceMemory};
use crate::batch::packing::Packing;
use crate::batch::slots::fields::FieldSlots;
use crate::batch::slots::row_ids::Damage;
use crate::error::Result;
use crate::memory::vectors::push;

/// The lists of a span, and which of their tokens sequences take.
#[derive(Debug)]
pub struct PackedLists {
    /// The file, counted over all sources.
    pub file: usize,
    /// The pass of its source.
    pub pass: u64,
    /// The tokens that are taken, ascending.
    pub taken: Vec<Range<u64>>,
    /// The lists, in parts that follow one another.
    pub parts: Vec<ListPart>,
    /// Rows that can't be decoded, some of which may be of others.
    pub damage: Arc<[Damage]>,
}

/// Lists between two anchors.
#[derive(Debug, Clone)]
pub struct ListPart {
    /// Their tokens.
    pub tokens: Range<u64>,
    /// The lists, or the number of the first row that can't be decoded.
    pub lists: std::result::Result<Arc<Documents>, u64>,
}

/// What a batch takes of lists.
#[derive(Debug)]
pub struct SequenceShare {
    length: usize,
    widths: Vec<usize>,
    /// Of each sequence its tokens, part by part, and how they are packed.
    sequences: Vec<(Arc<Packing>, Vec<ListPart>)>,
    damage: Vec<Arc<[Damage]>>,
}

impl PackedLists {
    /// The bytes that they take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.parts.iter().filter_map(|part| part.lists.as_ref().ok()).map(|lists| lists.bytes()).sum()
    }

    /// Tokens of them, part by part.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn tokens(&self, tokens: &Range<u64>, output: &mut Vec<ListPart>) -> Result<()> {
        let first = self.parts.partition_point(|part| part.tokens.end <= tokens.start);
        for part in &self.parts[first..] {
            let own = tokens.start.max(part.tokens.start)..tokens.end.min(part.tokens.end);
            if own.is_empty() {
                break;
            }
            push(output, ListPart { tokens: own, lists: part.lists.clone() })?;
        }
        Ok(())
    }
}

impl SequenceShare {
    /// Sequences of so many elements, whose columns have elements of so many bytes, one after another.
    #[must_use]
    pub fn new(length: usize, widths: Vec<usize>) -> Self {
        Self { length, widths, sequences: Vec::new(), damage: Vec::new() }
    }

    /// Adds a sequence.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn add(&mut self, packing: Arc<Packing>, parts: Vec<ListPart>) -> Result<()> {
        push(&mut self.sequences, (packing, parts))
    }

    /// Notes rows that can't be decoded, some of which may be of the batch.
    pub fn note_damage(&mut self, damage: &Arc<[Damage]>) {
        if !damage.is_empty() && !self.damage.iter().any(|one| Arc::ptr_eq(one, damage)) {
            self.damage.push(Arc::clone(damage));
        }
    }

    /// Cuts the sequences into the slots of the batch. One with tokens that can't be decoded is padding.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if lists are not packed so.
    pub fn hand_over(&self, slots: &mut FieldSlots) -> Result<()> {
        let (fields, written) = slots.values();
        let mut memory = SequenceMemory::new(fields)?;
        let length = self.length;
        let mut rows = Vec::new();
        for (number, (packing, parts)) in self.sequences.iter().enumerate() {
            let mut begun = SequenceMemory::begin(number * length);
            if let Some(&damaged) = parts.iter().find_map(|part| part.lists.as_ref().err()) {
                push(&mut rows, damaged)?;
            } else {
                for ListPart { tokens, lists } in parts {
                    let Ok(lists) = lists else { continue };
                    memory.append((packing, lists), tokens.clone(), &mut begun, &mut rows)?;
                }
            }
            memory.fill_up(begun, length, self.widths.iter().copied())?;
            written.note_documents(rows.drain(..))?;
        }
        self.damage.iter().for_each(|damage| written.note_damage(damage));
        Ok(())
    }
}
