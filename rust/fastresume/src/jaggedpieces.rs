//! Rows of any length that go here and there in many batches, until each batch puts its own in order.

use std::ops::Range;
use std::sync::Arc;

use crate::column::JaggedRows;
use crate::error::Result;
use crate::memory::Memory;
use crate::sorted::PIECES;
use crate::transpose::Move;
use crate::vector;

/// Smaller pieces are not worth their while.
const LEAST_BYTES: usize = 4 << 10;

/// A row is asked for so many rows before it is copied: the processor does not know where it lies. What follows its first
/// bytes is read ahead by itself.
const ROWS_AHEAD: usize = 8;
const BYTES_AHEAD: usize = 256;

/// Some rows of a segment in one jagged field: those of each batch one behind another.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The rows.
    pub rows: Arc<JaggedRows>,
    /// Where they consist of rows, the lengths of these.
    pub inner: Option<Arc<JaggedRows>>,
}

/// Rows of one share that lie in one piece.
#[derive(Debug)]
pub struct Stretch {
    /// The number of the share.
    pub share: usize,
    /// Which rows of the piece they are.
    pub rows: Range<usize>,
    /// How many rows of the share lie in pieces before.
    pub before: usize,
}

/// Copies the rows of shares, one behind another, to pieces, which go one by one as batches are ended; `hand_out` gets each
/// piece, and what lies in it.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
pub fn sort(
    source: &JaggedRows,
    is_nested: bool,
    shares: &[&[Move]],
    mut hand_out: impl FnMut(&Piece, Vec<Stretch>),
) -> Result<()> {
    let mut open = Open::default();
    for (share, moves) in shares.iter().enumerate() {
        let mut before = 0;
        while before < moves.len() {
            let added = open.add(source, is_nested, &moves[before..])?;
            if added > 0 {
                let end = open.rows.ends.len();
                open.stretches.push(Stretch { share, rows: end - added..end, before });
                before += added;
            } else {
                let row = source.bytes_of(moves[before].from as usize);
                // Few sizes, so that what one piece let go of fits another.
                let room = (source.values.len() / PIECES).max(LEAST_BYTES).ilog2();
                let room = row.len().max(1 << room);
                std::mem::replace(&mut open, Open::new(room)?).close(&mut hand_out)?;
            }
        }
    }
    open.close(&mut hand_out)
}

/// A piece that is filled; one without room takes rows that have no bytes.
#[derive(Default)]
struct Open {
    rows: JaggedRows,
    stretches: Vec<Stretch>,
}

impl Open {
    /// Room for so many bytes.
    fn new(room: usize) -> Result<Self> {
        let mut values = Memory::lent();
        values.resize(room)?;
        Ok(Self { rows: JaggedRows { values, ..JaggedRows::default() }, stretches: Vec::new() })
    }

    /// Adds rows as long as they fit; gives how many.
    fn add(&mut self, source: &JaggedRows, is_nested: bool, moves: &[Move]) -> Result<usize> {
        let JaggedRows { values, ends, valid, .. } = &mut self.rows;
        let (from, to, first) = (source.values.bytes(), values.bytes_mut(), ends.len());
        let mut end = ends.last().copied().unwrap_or(0);
        for (number, of) in moves.iter().enumerate() {
            if let Some(later) = moves.get(number + ROWS_AHEAD) {
                let bytes = source.bytes_of(later.from as usize);
                vector::fetch_bytes(from, bytes.start, bytes.len().min(BYTES_AHEAD));
            }
            let row = of.from as usize;
            let bytes = &from[source.bytes_of(row)];
            let Some(place) = to.get_mut(end..end + bytes.len()) else { break };
            place.copy_from_slice(bytes);
            end += bytes.len();
            ends.push(end);
            valid.push(source.valid[row]);
        }
        let added = ends.len() - first;
        if is_nested {
            let lengths = self.rows.nested().inner;
            for (end, of) in lengths.ends[first..].iter_mut().zip(moves) {
                lengths.values.extend(source.inner_bytes(of.from as usize))?;
                *end = lengths.values.len();
            }
        }
        Ok(added)
    }

    /// Hands it out.
    fn close(mut self, hand_out: &mut impl FnMut(&Piece, Vec<Stretch>)) -> Result<()> {
        let bytes = self.rows.ends.last().copied().unwrap_or(0);
        let room = self.rows.values.len();
        self.rows.values.truncate(bytes);
        if bytes < room - room / PIECES {
            // It may be long until its last row goes.
            let mut exact = self.rows.values.another();
            exact.extend(self.rows.values.bytes())?;
            self.rows.values = exact;
        }
        if !self.stretches.is_empty() {
            let inner = self.rows.inner.take().map(|inner| Arc::new(*inner));
            hand_out(&Piece { rows: Arc::new(self.rows), inner }, self.stretches);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_shares_lie_one_behind_another_in_pieces_of_even_size() {
        for longest in [0, 1, 40, 3000] {
            let mut source = JaggedRows::default();
            for row in 0..500_u16 {
                let (row, byte) = (usize::from(row), row.to_le_bytes()[0]);
                let length = if row == 77 { 20 * longest } else { row * 7919 % (longest + 1) };
                source.values.extend(&vec![byte; length]).unwrap();
                source.ends.push(source.values.len());
                source.valid.push(u8::from(row % 3 > 0));
                let lengths = source.nested().inner;
                lengths.values.extend(&[byte; 9][..row % 4 * 2]).unwrap();
                lengths.ends[row] = lengths.values.len();
            }
            let moves: Vec<Move> = (0..500).map(|row| Move { from: row * 3 % 500, to: 0 }).collect();
            let shares: Vec<&[Move]> = vec![&moves[..100], &[], &moves[100..101], &moves[101..490]];
            for is_nested in [false, true] {
                let (mut found, mut pieces) = (vec![Vec::new(); shares.len()], 0);
                sort(&source, is_nested, &shares, |piece, stretches| {
                    pieces += 1;
                    assert_eq!(piece.rows.values.len(), piece.rows.ends.last().copied().unwrap_or(0));
                    assert_eq!(piece.inner.is_some(), is_nested);
                    for Stretch { share, rows, before } in stretches {
                        assert_eq!(found[share].len(), before);
                        found[share].extend(rows.map(|row| (piece.clone(), row)));
                    }
                })
                .unwrap();
                let room = (source.values.len() / PIECES).max(LEAST_BYTES).max(20 * longest);
                let least = source.values.len() / room;
                assert!((least..2 * PIECES + 2).contains(&pieces), "{pieces} pieces");
                for (found, moves) in found.iter().zip(&shares) {
                    assert_eq!(found.len(), moves.len());
                    for ((piece, row), of) in found.iter().zip(*moves) {
                        let from = of.from as usize;
                        let bytes = &piece.rows.values.bytes()[piece.rows.bytes_of(*row)];
                        assert_eq!(bytes, &source.values.bytes()[source.bytes_of(from)]);
                        assert_eq!(piece.rows.valid[*row], source.valid[from]);
                        let inner = piece.inner.as_ref().map(|of| &of.values.bytes()[of.bytes_of(*row)]);
                        assert_eq!(inner, is_nested.then(|| source.inner_bytes(from)));
                    }
                }
            }
        }
    }
}
