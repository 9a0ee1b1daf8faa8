//! Rows of a source in file order that wait, as they were decoded, until their batches are ended.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::segment::{Piece, to_usize};
use crate::batch::slots::fields::FieldSlots;
use crate::batch::slots::interleave::Move;
use crate::batch::slots::placed_rows::{FlatRows, PlacedRows};
use crate::batch::slots::row_ids::Damage;
use crate::decode::decoder::JaggedRows;
use crate::error::{Error, Result};
use crate::memory::vectors::{push, with_room};
use crate::order::comb::Comb;

/// Some rows of a segment, in all fields.
#[derive(Debug, Default)]
pub struct StripRows {
    /// Which, counted over all that were decoded.
    pub rows: Range<usize>,
    /// Fields of one length, in their order.
    pub flat: Vec<FlatRows>,
    /// Fields of lists or texts, by their numbers in the batch.
    pub jagged: Vec<(usize, Arc<JaggedRows>)>,
    /// The bytes that they take.
    pub bytes: u64,
}

/// The rows of a segment that no batch has taken yet.
#[derive(Debug)]
pub struct CombedRows {
    comb: Arc<Comb>,
    bunches: Bunches,
    /// Where they go, in the order of batches.
    pieces: VecDeque<Piece>,
    /// The first of them, counted over all that were decoded.
    first: usize,
    /// Where they lie; each is let go of with the last of its rows.
    strips: VecDeque<Arc<StripRows>>,
    /// The row numbers of all that were decoded, over all sources.
    numbers: Arc<[Range<u64>]>,
    damage: Arc<[Damage]>,
}

impl CombedRows {
    /// The rows of pieces, in strips.
    pub fn new(
        (comb, bunches): (Arc<Comb>, Bunches),
        pieces: Vec<Piece>,
        strips: Vec<StripRows>,
        numbers: Arc<[Range<u64>]>,
        damage: Vec<Damage>,
    ) -> Self {
        let strips = strips.into_iter().map(Arc::new).collect();
        Self { comb, bunches, pieces: pieces.into(), first: 0, strips, numbers, damage: damage.into() }
    }

    /// The bytes of what is left.
    pub fn bytes(&self) -> u64 {
        self.strips.iter().map(|strip| strip.bytes).sum()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many rows a bunch takes, before which none takes any more.
    pub fn rows_of(&self, bunch: u64) -> u64 {
        let own = self.pieces.iter().take_while(|piece| self.bunches.of(piece.batch) <= bunch);
        own.map(|piece| piece.rows.end - piece.rows.start).sum()
    }

    /// Takes the rows of a bunch out, before which none takes any more; `None` if it has none.
    ///
    /// # Errors
    /// `Data` if there are too many for this machine.
    pub fn take(&mut self, bunch: u64) -> Result<Option<CombedShare>> {
        let (mut pieces, mut count) = (Vec::new(), 0);
        while let Some(piece) = self.pieces.front()
            && self.bunches.of(piece.batch) <= bunch
        {
            count += to_usize(piece.rows.end - piece.rows.start)?;
            push(&mut pieces, piece.clone())?;
            self.pieces.pop_front();
        }
        let rows = self.first..self.first + count;
        self.first = rows.end;
        let mut strips = Vec::new();
        for strip in &self.strips {
            if strip.rows.start < rows.end {
                push(&mut strips, Arc::clone(strip))?;
            }
        }
        while self.strips.front().is_some_and(|strip| strip.rows.end <= rows.end) {
            self.strips.pop_front();
        }
        if pieces.is_empty() {
            return Ok(None);
        }
        let (numbers, damage) = (Arc::clone(&self.numbers), Arc::clone(&self.damage));
        let (comb, bunches) = (Arc::clone(&self.comb), self.bunches);
        Ok(Some(CombedShare { comb, bunches, pieces, rows, strips, numbers, damage }))
    }
}

/// What a bunch takes of a segment.
#[derive(Debug)]
pub struct CombedShare {
    comb: Arc<Comb>,
    bunches: Bunches,
    pieces: Vec<Piece>,
    /// Its rows, counted over all that were decoded.
    rows: Range<usize>,
    strips: Vec<Arc<StripRows>>,
    numbers: Arc<[Range<u64>]>,
    damage: Arc<[Damage]>,
}

impl CombedShare {
    /// Gives the rows to the slots of the bunch; those of one length are put in their places when it is finished.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if a bunch has 2^32 rows or more.
    pub fn hand_over<'a>(&'a self, slots: &mut FieldSlots, placed: &mut Vec<PlacedRows<'a>>) -> Result<()> {
        let moves = self.moves()?;
        let written = slots.written();
        written.note_damage(&self.damage);
        let before = written.note_scattered(&moves, &self.numbers)?;
        for strip in &self.strips {
            let rows = self.rows.start.max(strip.rows.start)..self.rows.end.min(strip.rows.end);
            let before = before + (rows.start - self.rows.start);
            let own = rows.start - strip.rows.start..rows.end - strip.rows.start;
            for (field, lists) in &strip.jagged {
                if let Some(slot) = slots.jagged(*field) {
                    slot.keep(lists, own.clone(), before);
                }
            }
            push(placed, PlacedRows { fields: &strip.flat, rows, before })?;
        }
        Ok(())
    }

    /// Which decoded rows become which rows of the bunch.
    fn moves(&self) -> Result<Vec<Move>> {
        let fits = |row: u64| u32::try_from(row).map_err(|_| Error::data("a batch has 2^32 rows or more"));
        let mut moves = with_room(self.rows.len())?;
        let mut from = fits(self.rows.end as u64).and(fits(self.rows.start as u64))?;
        for piece in &self.pieces {
            let first = fits(self.bunches.first_row(piece.batch) + piece.slot_row)?;
            let count = piece.rows.end - piece.rows.start;
            fits(u64::from(first) + self.comb.distance(piece.phase, count))?;
            let to = self.comb.distances(piece.phase).take(to_usize(count)?);
            moves.extend(to.map(|distance| {
                // It fits: it is below that of the row behind the last one.
                let row = Move { from, to: first + u32::try_from(distance).unwrap_or(0) };
                from += 1;
                row
            }));
        }
        Ok(moves)
    }
}
