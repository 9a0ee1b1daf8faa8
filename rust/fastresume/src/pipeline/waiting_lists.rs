//! Lists that are decoded, until batches have taken all their sequences.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::packed_lists::{PackedLists, SequenceShare};
use crate::error::Result;
use crate::memory::vectors::push;
use crate::pipeline::sequence_pass::{SequencePass, Tokens};

/// What waits of all segments. Batches take their sequences in their order.
pub struct WaitingLists {
    pass: Arc<SequencePass>,
    /// By their numbers.
    held: BTreeMap<u64, HeldLists>,
    /// Where tokens that are taken begin: the file, the pass of its source, and the token; where they end, and which lists have
    /// them. Where a source stands more than once in a pass of its mixture, its tokens may wait for several of its passes.
    places: BTreeMap<(usize, u64, u64), (u64, u64)>,
    count: u64,
    bytes: u64,
    /// The batch that takes its sequences next, these, and how many of the first ones are there.
    next: u64,
    sequences: Vec<Tokens>,
    there: usize,
}

struct HeldLists {
    lists: PackedLists,
    /// So many tokens were not taken yet.
    left: u64,
}

impl WaitingLists {
    /// Nothing yet; this batch comes first.
    ///
    /// # Errors
    /// As for [`SequencePass::sequences`].
    pub fn new(pass: Arc<SequencePass>, first: u64) -> Result<Self> {
        let sequences = pass.sequences(first)?;
        let (held, places) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { pass, held, places, count: 0, bytes: 0, next: first, sequences, there: 0 })
    }

    /// The bytes of what waits.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds lists.
    pub fn put(&mut self, lists: Vec<PackedLists>) {
        for lists in lists {
            let number = self.count;
            self.count += 1;
            let left = lists.taken.iter().map(|taken| taken.end - taken.start).sum();
            for taken in &lists.taken {
                self.places.insert((lists.file, lists.pass, taken.start), (taken.end, number));
            }
            self.bytes = self.bytes.saturating_add(lists.bytes());
            self.held.insert(number, HeldLists { lists, left });
        }
        self.look();
    }

    /// The batch that takes its sequences next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether they are all there.
    pub fn is_complete(&self) -> bool {
        self.there == self.sequences.len()
    }

    /// What the next batch takes. Behind it comes another one.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn take(&mut self, next: u64) -> Result<SequenceShare> {
        let behind = self.pass.sequences(next)?;
        let mut share = SequenceShare::new(self.pass.length(), self.pass.widths.clone());
        for sequence in &self.sequences {
            let mut parts = Vec::new();
            for (number, tokens) in self.places_of(sequence) {
                let Some(HeldLists { lists, .. }) = self.held.get(&number) else { break };
                lists.tokens(&tokens, &mut parts)?;
                share.note_damage(&lists.damage);
            }
            share.add(Arc::clone(self.pass.packing(sequence.file)), parts)?;
        }
        for sequence in std::mem::replace(&mut self.sequences, behind) {
            let mut taken = Vec::new();
            for place in self.places_of(&sequence) {
                push(&mut taken, place)?;
            }
            for (number, tokens) in taken {
                self.let_go(number, tokens.end - tokens.start);
            }
        }
        (self.next, self.there) = (next, 0);
        self.look();
        Ok(share)
    }

    /// Counts sequences of the next batch that are there, from the first one that was not.
    fn look(&mut self) {
        while let Some(sequence) = self.sequences.get(self.there)
            && self.places_of(sequence).last().is_some_and(|(_, tokens)| tokens.end == sequence.range.end)
        {
            self.there += 1;
        }
    }

    /// Which lists have the tokens of a sequence, as far as they are there.
    fn places_of(&self, of: &Tokens) -> impl Iterator<Item = (u64, Range<u64>)> {
        let mut token = of.range.start;
        std::iter::from_fn(move || {
            let behind = ..=(of.file, of.pass, token);
            let (&(file, pass, _), &(end, number)) = self.places.range(behind).next_back()?;
            let own = token..end.min(of.range.end);
            token = own.end;
            ((file, pass) == (of.file, of.pass) && !own.is_empty()).then_some((number, own))
        })
    }

    /// Counts tokens of lists as taken; they are let go of with the last one.
    fn let_go(&mut self, number: u64, tokens: u64) {
        let Some(held) = self.held.get_mut(&number) else { return };
        held.left = held.left.saturating_sub(tokens);
        if held.left == 0
            && let Some(HeldLists { lists, .. }) = self.held.remove(&number)
        {
            self.bytes = self.bytes.saturating_sub(lists.bytes());
            for taken in &lists.taken {
                self.places.remove(&(lists.file, lists.pass, taken.start));
            }
        }
    }
}
