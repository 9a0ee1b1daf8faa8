//! Cuts rows of lists into sequences of one length.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::documents::{Documents, SequenceMemory};
use crate::batch::filler::Filler;
use crate::batch::packing::{Packing, field_of};
use crate::batch::segment::to_usize;
use crate::batch::slots::pending::repeat;
use crate::decode::decoder::JaggedRows;
use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::memory::buffer::{Memory, Pool};
use crate::memory::vectors::{push, room_for, with_room};

/// Sequences: the memory of each column, of the documents' numbers and of the places in them.
#[derive(Debug)]
pub struct Sequences {
    /// The memory of these.
    pub fields: Vec<Memory>,
    /// The row numbers of the documents of each sequence, one sequence after another.
    pub rows: Vec<u64>,
    /// Where those of each sequence begin, then their number.
    pub offsets: Vec<u64>,
}

/// Some sequences of documents.
#[derive(Debug, Clone)]
pub struct Part {
    /// The documents.
    pub documents: Arc<Documents>,
    /// Tokens of them before the first sequence.
    pub skipped: u64,
    /// The number of sequences; the last one is filled up where the tokens end.
    pub count: usize,
}

impl Documents {
    /// The documents in these rows, in the memory of some that nobody needs any more. `tokens` are about as many as there are.
    ///
    /// # Errors
    /// `Data` or `Source` if rows can't be read; `Data` if a tensor is not one of lists of values, the lists of two of them
    /// have other lengths, or an element is null, which has no number; `Interrupted` once `stop` is set.
    pub fn decode(
        self,
        filler: &Filler,
        packing: &Packing,
        rows: &Intervals,
        tokens: usize,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let Self { mut columns, mut ends, rows: mut numbers, .. } = self;
        columns.iter_mut().for_each(JaggedRows::clear);
        ends.clear();
        numbers.clear();
        let fields = packing.names.iter().map(|name| field_of(filler.layout(), name));
        let (fields, widths): (Vec<_>, Vec<_>) = fields.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let of_store = || JaggedRows { values: Memory::lent(), ..JaggedRows::default() };
        columns.resize_with(fields.len(), of_store);
        for (column, width) in columns.iter_mut().zip(&widths) {
            let expected = tokens.saturating_mul(*width);
            // Rounded up, so that the memory of one chunk is enough for the next. Should it not be there, less may do.
            let grain = (expected / 16 + 1).next_power_of_two();
            column.values.reserve((expected + expected / 16).next_multiple_of(grain)).ok();
        }
        let mut left = rows.ranges().iter().cloned().peekable();
        while let Some(first) = left.peek() {
            let group = filler.sources.group_of(first.start);
            let whole = filler.sources.group(group).rows;
            let mut spans = Vec::new();
            while let Some(run) = left.peek_mut().filter(|run| run.start < whole.end) {
                let end = run.end.min(whole.end);
                push(&mut spans, to_usize(run.start - whole.start)?..to_usize(end - whole.start)?)?;
                run.start = end;
                left.next_if(Range::is_empty);
            }
            filler.append_lists(group, &spans, &fields, &mut columns, stop)?;
        }
        let mut found = Self { columns, widths, first: 0, ends, rows: numbers };
        found.check(packing)?;
        found.count(rows.ranges().iter().cloned().flatten(), packing)?;
        Ok(found)
    }
}

/// The sequences of all parts, over and over until there are `count`.
///
/// # Errors
/// `Argument` if the system does not give so much memory; `Data` if documents do not fit how they are packed.
pub fn cut(packing: &Packing, parts: &[Part], count: usize, pool: &Pool) -> Result<Sequences> {
    let beyond = || Error::data("documents do not have the columns that are packed");
    let widths: Vec<usize> = match parts.first() {
        Some(part) => part.documents.widths.clone(),
        None => Vec::new(),
    };
    let distinct: usize = parts.iter().map(|part| part.count).sum();
    if widths.len() != packing.names.len() || distinct > count {
        return Err(beyond());
    }
    let tokens = count.saturating_mul(packing.length);
    let each = widths.iter().chain(&[4, 4]);
    let mut fields =
        each.map(|&width| pool.memory(tokens.saturating_mul(width))).collect::<Result<Vec<_>>>()?;
    let (mut rows, mut offsets) = (Vec::new(), with_room(count + 1)?);
    offsets.push(0);
    let mut memory = SequenceMemory::new(fields.iter_mut().map(Memory::bytes_mut).collect())?;
    let length = packing.length;
    let mut at = 0;
    for part in parts {
        if part.documents.widths != widths {
            return Err(beyond());
        }
        let mut token = part.skipped;
        for _ in 0..part.count {
            let mut begun = SequenceMemory::begin(at);
            let tokens = token..token + length as u64;
            memory.append((packing, &part.documents), tokens, &mut begun, &mut rows)?;
            memory.fill_up(begun, length, widths.iter().copied())?;
            offsets.push(rows.len() as u64);
            (at, token) = (at + length, token + length as u64);
        }
    }
    for (memory, width) in fields.iter_mut().zip(widths.iter().chain(&[4, 4])) {
        repeat(memory.bytes_mut(), distinct * packing.length * width);
    }
    for again in distinct..count {
        let bound = |at: usize| usize::try_from(offsets[at]).map_err(|_| beyond());
        let documents = bound(again - distinct)?..bound(again - distinct + 1)?;
        room_for(&mut rows, documents.len())?;
        rows.extend_from_within(documents);
        offsets.push(rows.len() as u64);
    }
    Ok(Sequences { fields, rows, offsets })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents of these lengths in rows 10, 11, ...; token k of all is k in the first column, 1000 + k in the second.
    fn documents(lengths: &[u64], has_separator: bool) -> Documents {
        let tokens: u16 = lengths.iter().sum::<u64>().try_into().unwrap();
        let small: Vec<u16> = (0..tokens).collect();
        let large: Vec<u32> = small.iter().map(|&token| 1000 + u32::from(token)).collect();
        let memory = |bytes: &[u8]| {
            let mut memory = Pool::new(0).memory(bytes.len()).unwrap();
            memory.bytes_mut().copy_from_slice(bytes);
            memory
        };
        let column = |values| JaggedRows { values, ..JaggedRows::default() };
        let columns =
            vec![column(memory(bytemuck::cast_slice(&small))), column(memory(bytemuck::cast_slice(&large)))];
        let (mut ends, mut rows, mut end) = (Vec::new(), Vec::new(), 0);
        for (row, length) in (10..).zip(lengths).filter(|(_, length)| **length > 0) {
            end += length + u64::from(has_separator);
            ends.push(end);
            rows.push(row);
        }
        Documents { columns, widths: vec![2, 4], first: 0, ends, rows }
    }

    /// Of each token of all documents its value, its document's number and its place there; None where tokens end.
    fn tokens(lengths: &[u64], has_separator: bool) -> Vec<(u16, u64, i32)> {
        let (mut found, mut token) = (Vec::new(), 0);
        for (row, &length) in (10..).zip(lengths).filter(|(_, length)| **length > 0) {
            for place in 0..length + u64::from(has_separator) {
                let value = if place < length { token } else { 999 };
                token += u16::from(place < length);
                found.push((value, row, i32::try_from(place).unwrap()));
            }
        }
        found
    }

    #[test]
    fn every_token_of_a_part_is_in_its_sequence_with_its_document_and_place() {
        let lengths = [3, 0, 1, 9, 2, 0, 0, 4];
        for (has_separator, length, skipped, parts, count) in [
            (false, 4, 0, vec![4], 4),
            (true, 4, 0, vec![6], 6),
            (true, 5, 3, vec![2, 1], 8),
            (false, 30, 2, vec![1], 2),
            (true, 1, 0, vec![3, 4, 2], 9),
        ] {
            let separators =
                has_separator.then(|| vec![999_u16.to_ne_bytes().to_vec(), 999_u32.to_ne_bytes().to_vec()]);
            let names = vec!["small".to_owned(), "large".to_owned()];
            let packing = Packing { names, length, separators };
            let documents = Arc::new(documents(&lengths, has_separator));
            let all = tokens(&lengths, has_separator);
            let (mut given, mut skips) = (Vec::new(), skipped);
            for &count in &parts {
                given.push(Part { documents: Arc::clone(&documents), skipped: skips, count });
                skips += (count * length) as u64;
            }
            let made = cut(&packing, &given, count, &Pool::new(0)).unwrap();
            let small: &[u16] = bytemuck::cast_slice(made.fields[0].bytes());
            let large: &[u32] = bytemuck::cast_slice(made.fields[1].bytes());
            let numbers: Vec<&[i32]> =
                made.fields[2..].iter().map(|memory| bytemuck::cast_slice(memory.bytes())).collect();
            let distinct: usize = parts.iter().sum();
            for sequence in 0..count {
                let first = usize::try_from(skipped).unwrap() + sequence % distinct * length;
                let mut rows: Vec<u64> = Vec::new();
                for within in 0..length {
                    let at = sequence * length + within;
                    let found = (small[at], large[at], numbers[0][at], numbers[1][at]);
                    let Some(&(value, row, place)) = all.get(first + within) else {
                        assert_eq!(found, (0, 0, -1, 0));
                        continue;
                    };
                    if rows.last() != Some(&row) {
                        rows.push(row);
                    }
                    let wide = if value == 999 { 999 } else { 1000 + u32::from(value) };
                    assert_eq!(found, (value, wide, i32::try_from(rows.len() - 1).unwrap(), place));
                }
                let bound = |at: usize| usize::try_from(made.offsets[at]).unwrap();
                assert_eq!(made.rows[bound(sequence)..bound(sequence + 1)], rows);
            }
        }
    }

    #[test]
    fn documents_of_other_columns_are_refused() {
        let packing = Packing { names: vec!["small".to_owned()], length: 2, separators: None };
        let documents = Arc::new(documents(&[4], false));
        let part = Part { documents, skipped: 0, count: 1 };
        assert!(cut(&packing, &[part], 1, &Pool::new(0)).is_err());
        assert!(cut(&packing, &[], 1, &Pool::new(0)).is_err());
    }
}
