//! Rows of a window of a source that wait, sorted by batch, until their batches are ended.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::slots::fields::FieldSlots;
use crate::batch::slots::interleave::Move;
use crate::batch::slots::jagged_piece::JaggedPiece;
use crate::batch::slots::pending::PendingRows;
use crate::batch::slots::row_ids::Damage;
use crate::batch::slots::sorter::Sorted;
use crate::error::Result;
use crate::memory::vectors::{collected, with_room};

/// A field, and whether these are its masks.
pub type RowsPart = (usize, bool);

/// Rows of lists or texts of one bunch: its number among those of the segment, and how many of its rows come before them.
#[derive(Debug, Clone)]
pub struct Lists {
    pub bunch: usize,
    pub piece: JaggedPiece,
    pub rows: Range<usize>,
    pub before: usize,
}

/// The rows of a segment that no batch has taken yet.
#[derive(Debug, Default)]
pub struct SortedRows {
    /// Each bunch that gets a row, and which of the moves are its own.
    pub bunches: VecDeque<(u64, Range<usize>)>,
    /// Rows of the segment, ascending within each bunch.
    pub moves: Arc<[Move]>,
    pub flat: Vec<(RowsPart, Sorted)>,
    /// Fields of lists or texts, and the rows of each bunch in them.
    pub jagged: Vec<(usize, VecDeque<Lists>)>,
    /// How many bunches have taken their rows.
    pub taken: usize,
    pub numbers: Arc<[Range<u64>]>,
    pub damage: Arc<[Damage]>,
}

/// What a bunch takes of a segment.
#[derive(Debug)]
pub struct SortedShare {
    moves: Arc<[Move]>,
    own: Range<usize>,
    flat: Vec<(RowsPart, Vec<PendingRows>)>,
    jagged: Vec<(usize, Vec<Lists>)>,
    numbers: Arc<[Range<u64>]>,
    damage: Arc<[Damage]>,
}

impl SortedRows {
    /// The bytes of what is left.
    pub fn bytes(&self) -> u64 {
        let flat: u64 = self.flat.iter().map(|(_, sorted)| sorted.bytes()).sum();
        let lists = self.jagged.iter().flat_map(|(_, lots)| lots);
        let jagged = lists.map(|Lists { piece, rows, .. }| {
            piece.bytes() * rows.len() as u64 / (piece.ends.len() as u64).max(1)
        });
        flat + jagged.sum::<u64>() + size_of_val(&*self.moves) as u64
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bunches.is_empty()
    }

    /// How many rows a bunch takes, before which none takes any more.
    pub fn rows_of(&self, bunch: u64) -> u64 {
        let own = self.bunches.iter().take_while(|(of, _)| *of <= bunch);
        own.map(|(_, rows)| rows.len() as u64).sum()
    }

    /// Takes the rows of a bunch out; `None` if it has none.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn take(&mut self, bunch: u64) -> Result<Option<SortedShare>> {
        let Some(own) = self.bunches.front().filter(|(of, _)| *of <= bunch).map(|(_, own)| own.clone())
        else {
            return Ok(None);
        };
        self.bunches.pop_front();
        let number = self.taken;
        self.taken += 1;
        let mut flat = with_room(self.flat.len())?;
        for (part, sorted) in &mut self.flat {
            flat.push((*part, collected(sorted.parts(own.clone(), 0))?));
            sorted.let_go(own.end);
        }
        let mut jagged = with_room(self.jagged.len())?;
        for (field, lots) in &mut self.jagged {
            let mut own = Vec::new();
            while lots.front().is_some_and(|lot| lot.bunch <= number) {
                own.extend(lots.pop_front());
            }
            jagged.push((*field, own));
        }
        let (numbers, damage) = (Arc::clone(&self.numbers), Arc::clone(&self.damage));
        Ok(Some(SortedShare { moves: Arc::clone(&self.moves), own, flat, jagged, numbers, damage }))
    }
}

impl SortedShare {
    /// Gives the rows to the slots of the bunch.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn hand_over(&self, slots: &mut FieldSlots) -> Result<()> {
        let written = slots.written();
        written.note_damage(&self.damage);
        let base = written.note_scattered(&self.moves[self.own.clone()], &self.numbers)?;
        for (part, rows) in &self.flat {
            slots.keep(*part, rows.iter().map(|rows| rows.clone().behind(base)));
        }
        for (field, lots) in &self.jagged {
            let Some(slot) = slots.jagged(*field) else { continue };
            for Lists { piece, rows, before, .. } in lots {
                slot.keep(piece, rows.clone(), base + before);
            }
        }
        Ok(())
    }
}
