//! Reads any rows by their numbers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::batch::filler::Filler;
use crate::batch::gather_rows::gather;
use crate::batch::segment::{Piece, Places, Segment, to_usize};
use crate::batch::slots::fields::{FieldSlots, SharedSlots};
use crate::batch::slots::pending::repeat;
use crate::batch::slots::row_ids::RowIds;
use crate::batch::sources::Sources;
use crate::error::{Error, Result, locked};
use crate::intervals::set::Intervals;
use crate::memory::pool::{Memory, Pool};
use crate::memory::vectors::{collected, collected_results, exact_room_for, push};

/// Rows that were read by their numbers.
#[derive(Debug)]
pub struct ReadRows {
    /// The memory of each field of the layout; see [`FieldSlots::into_parts`].
    pub fields: Vec<Memory>,
    /// The numbers of the rows.
    pub written: RowIds,
}

/// The rows that `runs` name, counted over all sources, in their order, repeated until there are `count` rows. `runs` may
/// come in any order. Each row is decoded once, however often it is named.
///
/// # Errors
/// `Argument` for a row beyond the sources, or too many for memory; `Data` or `Source` if they can't be read;
/// `Interrupted` once `stop` is set.
pub fn read(sources: &Arc<Sources>, runs: &[Range<u64>], count: u64, stop: &AtomicBool) -> Result<ReadRows> {
    let last = runs.iter().filter(|run| !run.is_empty()).map(|run| run.end - 1).max();
    let rows = sources.num_rows();
    if let Some(last) = last.filter(|last| *last >= rows) {
        return Err(Error::Argument(format!("row {last} is not below {rows}, the number of rows")));
    }
    let count = to_usize(count)?;
    let mut written = RowIds::default();
    let mut slot_row = 0;
    for run in runs.iter().filter(|run| !run.is_empty()) {
        written.note(slot_row, run.clone())?;
        slot_row += run.end - run.start;
    }
    let distinct = Intervals::new(collected(runs.iter().cloned())?)?;
    let (filler, pool) = (Filler::new(Arc::clone(sources), 1), Pool::new(0));
    let fields = if runs.windows(2).all(|pair| pair[0].end <= pair[1].start) {
        decoded(&filler, &pool, &distinct, Some(count), &mut written, stop)?
    } else {
        let named = runs.iter().cloned().flatten();
        let places = collected_results(named.map(|row| to_usize(distinct.rank(row))))?;
        let fields = decoded(&filler, &pool, &distinct, None, &mut written, stop)?;
        let places = filled_up(places, count)?;
        // The buffers of pages are let go of before there are two of each row.
        drop(filler);
        gather(fields, sources.layout(), &places.iter().map(|&place| place..place + 1))?
    };
    Ok(ReadRows { fields, written })
}

/// The places, repeated until there are `count`.
fn filled_up(mut places: Vec<usize>, count: usize) -> Result<Vec<usize>> {
    let distinct = places.len();
    let missing = if distinct == 0 { 0 } else { count.saturating_sub(distinct) };
    exact_room_for(&mut places, missing)?;
    places.resize(distinct + missing, 0);
    repeat(&mut places, distinct);
    Ok(places)
}

/// The memory of each field, filled with rows in their order in the files, then with the same rows again up
/// to `count`. Notes which of them are damaged.
fn decoded(
    filler: &Filler,
    pool: &Pool,
    wanted: &Intervals,
    count: Option<usize>,
    written: &mut RowIds,
    stop: &AtomicBool,
) -> Result<Vec<Memory>> {
    let distinct = to_usize(wanted.count())?;
    let rows = count.map_or(distinct, |count| count.max(distinct));
    let slots: SharedSlots = Arc::new(Mutex::new(FieldSlots::new(filler.layout(), rows, pool, None)?));
    let mut segments = VecDeque::from(segments(filler.sources(), wanted.ranges())?);
    while let Some(segment) = segments.pop_front() {
        segments.extend(filler.fill(&segment, |_| Some(&slots), stop)?.left);
    }
    let mut slots = locked(&slots).taken();
    slots.finish(filler.layout(), (distinct, rows), &[])?;
    let (fields, found) = slots.into_parts(filler.layout());
    written.note_damage(found.damage());
    Ok(fields)
}

/// One segment per row group; all rows go to one batch, one after another.
fn segments(sources: &Sources, runs: &[Range<u64>]) -> Result<Vec<Segment>> {
    let mut segments: Vec<(usize, Vec<Piece>)> = Vec::new();
    let mut slot_row = 0;
    for run in runs {
        let mut row = run.start;
        while row < run.end {
            let group = sources.group_of(row);
            let whole = sources.group(group).rows;
            let end = run.end.min(whole.end);
            let piece = Piece { batch: 0, rows: row - whole.start..end - whole.start, slot_row, phase: 0 };
            match segments.last_mut() {
                Some((last, pieces)) if *last == group => push(pieces, piece)?,
                _ => push(&mut segments, (group, vec![piece]))?,
            }
            slot_row += end - row;
            row = end;
        }
    }
    let each = segments.into_iter().map(|(group, pieces)| Segment { group, places: Places::Pieces(pieces) });
    collected(each)
}
