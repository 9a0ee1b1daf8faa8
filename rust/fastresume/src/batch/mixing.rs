//! Puts the batches of a mixture together, of rows of its sources that were decoded many at a time.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::batch::joining::{Joiner, Stretch};
use crate::batch::segment::to_usize;
use crate::batch::slots::pending::repeat;
use crate::error::{Error, Result};
use crate::memory::buffer::Memory;
use crate::memory::vectors::{append, collected, collected_results, filled, push, room_for, with_room};
use crate::resume::mixed::Axes;

/// The memory of the fields of a chunk.
pub trait Fields {
    /// The bytes of each field.
    fn fields(&self) -> Vec<&[u8]>;
}

/// A range of numbers of rows that can't be decoded, and why.
pub type Cause = (u64, u64, String);

/// Rows, or units, of a source that follow each other in its order.
#[derive(Debug)]
pub struct Chunk<M> {
    /// Their memory.
    pub memory: M,
    /// Their row numbers; of units, those of all rows or documents that they are made of.
    pub rows: Vec<u64>,
    /// Where those of each unit begin, then their number; `None` of rows.
    pub offsets: Option<Vec<u64>>,
    /// The numbers of the units, where a delivery log notes them.
    pub units: Option<Vec<u64>>,
    /// The rows that could not be decoded, and others beside them.
    pub damage: Vec<Cause>,
}

impl<M> Chunk<M> {
    /// How many rows, or units, there are.
    fn count(&self) -> usize {
        self.offsets.as_ref().map_or(self.rows.len(), |offsets| offsets.len().saturating_sub(1))
    }

    /// Of one row, or unit, the numbers of its rows.
    fn rows_of(&self, at: usize) -> Result<&[u64]> {
        let own = match &self.offsets {
            None => at..at + 1,
            Some(offsets) => match offsets.get(at..=at + 1) {
                Some(&[start, end]) => to_usize(start)?..to_usize(end)?,
                _ => return Err(beyond()),
            },
        };
        self.rows.get(own).ok_or_else(beyond)
    }
}

fn beyond() -> Error {
    Error::data("a row of a source is beyond what was decoded of it")
}

/// A batch of rows of several sources.
#[derive(Debug)]
pub struct Mixed {
    /// The memory of each field.
    pub fields: Vec<Memory>,
    /// The numbers of its rows; of units, those of all rows or documents that they are made of.
    pub rows: Vec<u64>,
    /// What each of its rows, or units, is called after its source.
    pub sources: Vec<u64>,
    /// Where the rows of each unit begin, then their number; `None` of rows.
    pub offsets: Option<Vec<u64>>,
    /// The numbers of the units that do not repeat others, where a delivery log notes them.
    pub units: Option<Vec<u64>>,
    /// What could not be decoded of the chunks that its rows are of, and the source of each.
    pub damage: Vec<(Cause, u64)>,
}

/// Some of a chunk: the source, the ordinal at which the chunk begins, and which of its rows.
type Piece = (usize, u64, Range<usize>);

/// Keeps decoded rows of the sources of a stage until batches need them.
#[derive(Debug)]
pub struct Mixer<M> {
    axes: Axes,
    /// What stands for each source in a batch.
    numbers: Vec<u64>,
    /// By the source, and the ordinal at which it begins; with how many of its rows no batch has had.
    chunks: BTreeMap<(usize, u64), (Chunk<M>, usize)>,
}

impl<M: Fields> Mixer<M> {
    /// Of the sources on these axes, for which these numbers stand in a batch.
    #[must_use]
    pub fn new(axes: Axes, numbers: Vec<u64>) -> Self {
        Self { axes, numbers, chunks: BTreeMap::new() }
    }

    /// Keeps rows of a source from an ordinal on.
    pub fn put(&mut self, source: usize, ordinal: u64, chunk: Chunk<M>) {
        let left = chunk.count();
        self.chunks.insert((source, ordinal), (chunk, left));
    }

    /// Keeps nothing any more.
    pub fn forget(&mut self) {
        self.chunks.clear();
    }

    /// The first ordinals at positions that are not kept, and their source; they do not pass the end of a pass of it.
    #[must_use]
    pub fn lacking(&self, positions: &[Range<u64>]) -> Option<(usize, Range<u64>)> {
        self.axes.stretches(positions).find_map(|(source, ordinals)| {
            let mut at = ordinals.start;
            while let Some((_, _, rows)) = self.piece(source, at, ordinals.end) {
                at += rows.len() as u64;
            }
            (at < ordinals.end).then_some((source, at..ordinals.end))
        })
    }

    /// What is kept of a source from an ordinal on, up to another.
    fn piece(&self, source: usize, from: u64, upto: u64) -> Option<Piece> {
        let (&(of, first), (chunk, _)) = self.chunks.range(..=(source, from)).next_back()?;
        let start = usize::try_from(from.checked_sub(first).filter(|_| of == source)?).ok()?;
        let count = usize::try_from(upto - from).unwrap_or(usize::MAX);
        let end = chunk.count().min(start.saturating_add(count));
        (start < end).then_some((source, first, start..end))
    }

    /// The batch of what stands at these positions, over and over until it has `count` rows. What is used up is kept no
    /// longer.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory; `Data` if rows are lacking, or are not as the joiner's.
    pub fn batch(&mut self, positions: &[Range<u64>], count: u64, joiner: &Joiner) -> Result<Mixed> {
        let mut pieces = Vec::new();
        for (source, ordinals) in self.axes.stretches(positions) {
            let mut at = ordinals.start;
            while at < ordinals.end {
                let piece = self.piece(source, at, ordinals.end).ok_or_else(beyond)?;
                at += piece.2.len() as u64;
                push(&mut pieces, piece)?;
            }
        }
        let found = self.joined(positions, &pieces, to_usize(count)?, joiner)?;
        for (source, first, rows) in pieces {
            let Some((_, left)) = self.chunks.get_mut(&(source, first)) else { continue };
            *left = left.saturating_sub(rows.len());
            if *left == 0 {
                self.chunks.remove(&(source, first));
            }
        }
        Ok(found)
    }

    fn joined(
        &self,
        positions: &[Range<u64>],
        pieces: &[Piece],
        count: usize,
        joiner: &Joiner,
    ) -> Result<Mixed> {
        let (mut sources, places) = self.places(positions, count)?;
        let kept = pieces.iter().map(|(source, first, _)| self.chunks.get(&(*source, *first)));
        let kept = kept.map(|kept| kept.map(|(chunk, _)| chunk).ok_or_else(beyond));
        let kept = collected_results(kept)?;
        let stretches = kept
            .iter()
            .zip(pieces)
            .map(|(chunk, (_, _, rows))| Stretch { memory: chunk.memory.fields(), rows: rows.clone() });
        let fields = joiner.join(&collected(stretches)?, &places, count)?;
        // Of each row of the batch the chunk, and the row of it; the joiner has seen that all have places.
        let mut members = filled(count, (0, 0))?;
        let each = pieces
            .iter()
            .enumerate()
            .flat_map(|(number, piece)| piece.2.clone().map(move |row| (number, row)));
        for (member, &place) in each.zip(&places) {
            members[place as usize] = member;
        }
        repeat(&mut members, places.len());
        let of_units = kept.iter().any(|chunk| chunk.offsets.is_some());
        let mut rows = with_room(count)?;
        let mut offsets = of_units.then(|| with_room(count + 1)).transpose()?;
        if let Some(offsets) = &mut offsets {
            offsets.push(0);
        }
        for &(number, row) in &members {
            let own = kept[number].rows_of(row)?;
            match &mut offsets {
                None => rows.extend_from_slice(own),
                Some(offsets) => {
                    room_for(&mut rows, own.len())?;
                    rows.extend_from_slice(own);
                    offsets.push(rows.len() as u64);
                }
            }
        }
        let units = members[..places.len()]
            .iter()
            .map(|&(number, row)| kept[number].units.as_ref()?.get(row).copied());
        let units = if of_units { units.collect::<Option<Vec<_>>>() } else { None };
        repeat(&mut sources, places.len());
        Ok(Mixed { fields, rows, sources, offsets, units, damage: self.damage(pieces, &kept)? })
    }

    /// What stands at each position for its source, with room for `count` of them; and which rows of the batch those of
    /// source after source become.
    fn places(&self, positions: &[Range<u64>], count: usize) -> Result<(Vec<u64>, Vec<u32>)> {
        let period = self.axes.period();
        let distinct: u64 = positions.iter().map(|range| range.end - range.start).sum();
        let distinct = to_usize(distinct)?.min(count);
        let beyond = |_| Error::Argument("a batch has too many rows".into());
        let end = u32::try_from(distinct).map_err(beyond)?;
        let mut nexts = filled(period.num_sources(), 0_usize)?;
        let mut begin = 0;
        for (source, next) in nexts.iter_mut().enumerate() {
            *next = begin;
            let own = positions.iter().map(|range| {
                period.count_before(source, range.end) - period.count_before(source, range.start)
            });
            begin += to_usize(own.sum())?;
        }
        let mut sources = filled(count, 0)?;
        let mut places = filled(distinct, 0)?;
        let each = positions.iter().flat_map(|range| period.sources_at(range.clone()));
        for ((place, source), told) in (0..end).zip(each).zip(&mut sources) {
            *told = self.numbers.get(source).copied().ok_or_else(self::beyond)?;
            *places.get_mut(nexts[source]).ok_or_else(self::beyond)? = place;
            nexts[source] += 1;
        }
        Ok((sources, places))
    }

    /// The damage of chunks, each range once.
    fn damage(&self, pieces: &[Piece], kept: &[&Chunk<M>]) -> Result<Vec<(Cause, u64)>> {
        let mut found: Vec<(Cause, u64)> = Vec::new();
        for ((source, _, _), chunk) in pieces.iter().zip(kept) {
            let number = self.numbers.get(*source).copied().ok_or_else(beyond)?;
            let own = chunk.damage.iter().map(|cause| (cause.clone(), number));
            let new: Vec<_> = own.filter(|one| !found.contains(one)).collect();
            append(&mut found, new)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "positions are ranges, of which there may be one")]
mod tests {
    use super::*;
    use crate::batch::joining::RowParts;
    use crate::memory::buffer::Pool;
    use crate::order::mixture::{NamedStop, Stop};
    use crate::order::pass_order::{OrderChoice, OrderKind};
    use crate::resume::cursor::Cursor;
    use crate::resume::named_mixture::{NamedMixture, NamedSource};

    struct Bytes(Vec<Vec<u8>>);

    impl Fields for Bytes {
        fn fields(&self) -> Vec<&[u8]> {
            self.0.iter().map(Vec::as_slice).collect()
        }
    }

    /// Two rows of "a", which has 7 of them, for each of "b".
    fn axes() -> Axes {
        let source = |name: &str, rows| NamedSource {
            name: name.to_owned(),
            fingerprint: name.to_owned(),
            rows,
            order: OrderKind::Sequential,
            choice: OrderChoice::Sequential,
            files: None,
            appends: false,
        };
        let sources = vec![source("a", 7), source("b", 50)];
        let named = NamedMixture::new(sources, vec![2, 1].into(), Stop::Named(NamedStop::All));
        Cursor::start_of_mixture(&named, 1).unwrap().axes().unwrap()
    }

    /// The rows of a source whose bytes are `first`, the number behind it, and so on; the row numbers 100 times as large.
    fn chunk(first: u8, count: u8) -> Chunk<Bytes> {
        let bytes: Vec<u8> = (first..first + count).collect();
        let rows = bytes.iter().map(|&byte| u64::from(byte) * 100).collect();
        Chunk { memory: Bytes(vec![bytes]), rows, offsets: None, units: None, damage: Vec::new() }
    }

    fn joiner() -> Joiner {
        Joiner { parts: vec![RowParts::Flat(1)], pool: Pool::new(0) }
    }

    #[test]
    fn what_is_kept_goes_to_its_places_until_it_is_used_up() {
        let mut mixer = Mixer::new(axes(), vec![5, 6]);
        let places: Vec<usize> = axes().period().sources_at(0..9).collect();
        assert_eq!(places, [0, 0, 1, 0, 0, 1, 0, 0, 1]);
        let positions = [0..6];
        assert_eq!(mixer.lacking(&positions), Some((0, 0..4)));
        assert!(mixer.batch(&positions, 6, &joiner()).is_err());
        mixer.put(0, 0, chunk(0, 3));
        assert_eq!(mixer.lacking(&positions), Some((0, 3..4)));
        mixer.put(0, 3, chunk(3, 4));
        assert_eq!(mixer.lacking(&positions), Some((1, 0..2)));
        let damaged = vec![(4000, 4100, "torn".to_owned())];
        mixer.put(1, 0, Chunk { damage: damaged, ..chunk(40, 5) });
        assert_eq!(mixer.lacking(&positions), None);
        let found = mixer.batch(&positions, 8, &joiner()).unwrap();
        assert_eq!(found.fields[0].bytes(), [0, 1, 40, 2, 3, 41, 0, 1]);
        assert_eq!(found.rows, [0, 100, 4000, 200, 300, 4100, 0, 100]);
        assert_eq!(found.sources, [5, 5, 6, 5, 5, 6, 5, 5]);
        assert_eq!((found.offsets, found.units), (None, None));
        assert_eq!(found.damage, [((4000, 4100, "torn".to_owned()), 6)]);
        let begins: Vec<_> = mixer.chunks.keys().copied().collect();
        assert_eq!(begins, [(0, 3), (1, 0)]);
        // The pass of the first source ends within the next positions.
        assert_eq!(mixer.lacking(&[6..12]), Some((0, 7..8)));
        mixer.forget();
        assert_eq!(mixer.lacking(&[6..12]), Some((0, 4..7)));
    }

    #[test]
    fn a_chunk_is_kept_until_all_of_it_was_taken() {
        let mut mixer = Mixer::new(axes(), vec![0, 1]);
        mixer.put(0, 0, chunk(0, 7));
        // Another lane begins with the last row of the chunk.
        assert_eq!(mixer.batch(&[9..10], 1, &joiner()).unwrap().rows, [600]);
        assert_eq!(mixer.batch(&[0..2], 2, &joiner()).unwrap().rows, [0, 100]);
        for position in [3, 4, 6, 7] {
            assert!(!mixer.chunks.is_empty());
            mixer.batch(&[position..position + 1], 1, &joiner()).unwrap();
        }
        assert!(mixer.chunks.is_empty());
    }

    #[test]
    fn the_rows_of_units_come_with_them() {
        let mut mixer = Mixer::new(axes(), vec![0, 1]);
        let units = |first, offsets: &[u64]| {
            let count = u8::try_from(offsets.len() - 1).unwrap();
            let rows = (0..offsets[usize::from(count)]).map(|row| u64::from(first) + row).collect();
            let numbers = (0..count).map(|unit| u64::from(first + unit) * 10).collect();
            Chunk { rows, offsets: Some(offsets.to_vec()), units: Some(numbers), ..chunk(first, count) }
        };
        mixer.put(0, 0, units(20, &[0, 2, 2, 5]));
        mixer.put(1, 0, units(60, &[0, 3]));
        let found = mixer.batch(&[0..3], 4, &joiner()).unwrap();
        assert_eq!(found.fields[0].bytes(), [20, 21, 60, 20]);
        assert_eq!(found.rows, [20, 21, 60, 61, 62, 20, 21]);
        assert_eq!(found.offsets.unwrap(), [0, 2, 2, 5, 7]);
        assert_eq!(found.units.unwrap(), [200, 210, 600]);
    }
}
