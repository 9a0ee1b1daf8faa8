//! Partitions the scattered jagged rows of a segment by batch. Each batch puts its own rows in order later.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::slots::interleave::Move;
use crate::batch::slots::sorter::{PIECE_BYTES, PIECES};
use crate::decode::decoder::{ElementMarks, JaggedRows};
use crate::error::Result;
use crate::memory::pool::Memory;
use crate::memory::vectors::with_room;
use crate::simd;

/// A row is prefetched this many rows before it is copied, because the processor can't predict its address.
/// Behind its first bytes the processor reads ahead by itself.
const ROWS_AHEAD: usize = 8;
const FIRST_BYTES: usize = 256;

/// Some rows of a segment in one jagged field, grouped by batch, with their inner rows.
pub type JaggedPiece = Arc<JaggedRows>;

/// The rows of one share that lie in one piece.
#[derive(Debug)]
pub struct Lot {
    /// The number of the share.
    pub share: usize,
    /// The number of rows of the share in earlier pieces.
    pub before: usize,
    /// Which rows of the piece they are.
    pub rows: Range<usize>,
}

/// Copies the rows of shares, one behind another, to pieces of memory, and calls `hand_out` with each piece
/// and what lies in it. There are at least sixteen pieces unless rows are few. Batches free them one by one.
///
/// # Errors
/// `Argument` if the system does not give so much memory.
pub fn sort(
    source: &JaggedRows,
    inner_rows: usize,
    shares: &[&[Move]],
    mut hand_out: impl FnMut(&JaggedPiece, Vec<Lot>),
) -> Result<()> {
    let count: usize = shares.iter().map(|moves| moves.len()).sum();
    let most_rows = (count / PIECES).max(1);
    // Few different sizes, so that the memory of one freed piece fits another.
    let most_bytes = 1 << (source.values.len() / PIECES).clamp(1, PIECE_BYTES).ilog2();
    let (mut lots, mut rows, mut bytes) = (Vec::new(), 0, 0);
    for (share, moves) in shares.iter().enumerate() {
        let mut before = 0;
        while before < moves.len() {
            let first = rows;
            for of in &moves[before..] {
                let more = source.bytes_of(of.from as usize).len();
                if rows == most_rows || (rows > 0 && bytes + more > most_bytes) {
                    break;
                }
                (rows, bytes) = (rows + 1, bytes + more);
            }
            if first < rows {
                lots.push(Lot { share, before, rows: first..rows });
                before += rows - first;
            }
            if before < moves.len() {
                let is_full = bytes > most_bytes - most_bytes / PIECES;
                let room = if is_full { bytes.max(most_bytes) } else { bytes };
                hand_out(&copied(source, inner_rows, shares, &lots, room)?, std::mem::take(&mut lots));
                (rows, bytes) = (0, 0);
            }
        }
    }
    if rows > 0 {
        hand_out(&copied(source, inner_rows, shares, &lots, bytes)?, lots);
    }
    Ok(())
}

/// A piece with the rows of lots, and with room for `room` bytes of values.
fn copied(
    source: &JaggedRows,
    inner_rows: usize,
    shares: &[&[Move]],
    lots: &[Lot],
    room: usize,
) -> Result<JaggedPiece> {
    let count = lots.last().map_or(0, |lot| lot.rows.end);
    let mut rows = JaggedRows {
        values: Memory::lent(),
        ends: with_room(count)?,
        valid: with_room(count)?,
        ..JaggedRows::default()
    };
    rows.values.resize(room)?;
    let (from, to) = (source.values.bytes(), rows.values.bytes_mut());
    let mut end = 0;
    let moves_of = |lot: &Lot| &shares[lot.share][lot.before..][..lot.rows.len()];
    for moves in lots.iter().map(moves_of) {
        for (number, of) in moves.iter().enumerate() {
            if let Some(later) = moves.get(number + ROWS_AHEAD) {
                let bytes = source.bytes_of(later.from as usize);
                simd::fetch_bytes(from, bytes.start, bytes.len().min(FIRST_BYTES));
            }
            let row = of.from as usize;
            let bytes = &from[source.bytes_of(row)];
            to[end..][..bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
            rows.ends.push(end);
            rows.valid.push(source.valid[row]);
        }
    }
    rows.values.truncate(end);
    let each = lots.iter().flat_map(moves_of);
    rows.marks = ElementMarks::gathered(&source.marks, each.map(|of| source.bytes_of(of.from as usize)))?;
    for number in 0..inner_rows {
        rows.inner.push(inner(source, number, lots.iter().flat_map(moves_of), count)?);
    }
    Ok(Arc::new(rows))
}

/// The inner rows of a number of these rows.
fn inner<'m>(
    source: &JaggedRows,
    number: usize,
    moves: impl Iterator<Item = &'m Move> + Clone,
    count: usize,
) -> Result<JaggedRows> {
    let of = |of: &Move| source.inner_bytes(number, of.from as usize);
    let mut lengths = JaggedRows { values: Memory::lent(), ends: with_room(count)?, ..JaggedRows::default() };
    lengths.values.reserve(moves.clone().map(|row| of(row).len()).sum())?;
    for row in moves {
        lengths.values.extend(of(row))?;
        lengths.ends.push(lengths.values.len());
    }
    Ok(lengths)
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
                source.with_inner(1).unwrap();
                let lengths = &mut source.inner[0];
                lengths.values.extend(&[byte; 9][..row % 4 * 2]).unwrap();
                lengths.ends[row] = lengths.values.len();
            }
            let moves: Vec<Move> = (0..500).map(|row| Move { from: row * 3 % 500, to: 0 }).collect();
            let shares: Vec<&[Move]> = vec![&moves[..100], &[], &moves[100..101], &moves[101..490]];
            for inner_rows in [0, 1] {
                let (mut found, mut pieces) = (vec![Vec::new(); shares.len()], 0);
                sort(&source, inner_rows, &shares, |piece, lots| {
                    pieces += 1;
                    assert_eq!(piece.values.len(), piece.ends.last().copied().unwrap_or(0));
                    // A long row does not stay in memory for the sake of short ones.
                    let is_long = piece.values.len() > source.values.len() / PIECES;
                    assert!(piece.ends.len() <= if is_long { 1 } else { 490 / PIECES });
                    assert_eq!(piece.inner.len(), inner_rows);
                    for Lot { share, rows, before } in lots {
                        assert_eq!(found[share].len(), before);
                        found[share].extend(rows.map(|row| (piece.clone(), row)));
                    }
                })
                .unwrap();
                assert!((PIECES..4 * PIECES).contains(&pieces), "{pieces} pieces");
                for (found, moves) in found.iter().zip(&shares) {
                    assert_eq!(found.len(), moves.len());
                    for ((piece, row), of) in found.iter().zip(*moves) {
                        let from = of.from as usize;
                        let bytes = &piece.values.bytes()[piece.bytes_of(*row)];
                        assert_eq!(bytes, &source.values.bytes()[source.bytes_of(from)]);
                        assert_eq!(piece.valid[*row], source.valid[from]);
                        for number in 0..inner_rows {
                            assert_eq!(piece.inner_bytes(number, *row), source.inner_bytes(number, from));
                        }
                    }
                }
            }
        }
    }
}
