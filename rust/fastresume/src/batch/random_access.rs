//! Any rows of the dataset, by their numbers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::batch::filler::Filler;
use crate::batch::segment::{Piece, Places, Segment, to_usize};
use crate::batch::slots::fields::{SharedSlots, Slots};
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result, locked};
use crate::memory::buffer::{Memory, Pool};
use crate::projection::layout::Layout;

/// The memory of each field of the layout (see [`Slots::into_parts`]), filled with the rows of ascending, disjoint `runs`.
///
/// # Errors
/// `Argument` for a row beyond the dataset, or too many for memory; `Data` or `Source` if they can't be read;
/// `Interrupted` once `stop` is set.
pub fn read(
    manifest: Arc<Manifest>,
    layout: Layout,
    runs: &[Range<u64>],
    stop: &AtomicBool,
) -> Result<Vec<Memory>> {
    if let Some(last) = runs.last().filter(|last| last.end > manifest.num_rows()) {
        return Err(Error::Argument(format!(
            "row {} is not below {}, the number of rows",
            last.end - 1,
            manifest.num_rows()
        )));
    }
    let rows = to_usize(runs.iter().map(|run| run.end - run.start).sum())?;
    let slots: SharedSlots = Arc::new(Mutex::new(Slots::new(&layout, rows, &Pool::new(0), None)?));
    let mut segments = VecDeque::from(segments(&manifest, runs));
    let filler = Filler::new(manifest, layout);
    while let Some(segment) = segments.pop_front() {
        segments.extend(filler.fill(&segment, |_| Some(&slots), stop)?.left);
    }
    let mut slots = locked(&slots).taken();
    slots.finish(filler.layout(), rows, rows)?;
    Ok(slots.into_parts(filler.layout()).0)
}

/// One segment per row group; all rows go to one batch, one after another.
fn segments(manifest: &Manifest, runs: &[Range<u64>]) -> Vec<Segment> {
    let mut segments: Vec<(usize, Vec<Piece>)> = Vec::new();
    let mut slot_row = 0;
    for run in runs {
        let mut row = run.start;
        while row < run.end {
            let group = manifest.group_of(row);
            let whole = manifest.group_rows(group);
            let end = run.end.min(whole.end);
            let piece = Piece { batch: 0, rows: row - whole.start..end - whole.start, slot_row };
            match segments.last_mut() {
                Some((last, pieces)) if *last == group => pieces.push(piece),
                _ => segments.push((group, vec![piece])),
            }
            slot_row += end - row;
            row = end;
        }
    }
    segments.into_iter().map(|(group, pieces)| Segment { group, places: Places::Pieces(pieces) }).collect()
}
