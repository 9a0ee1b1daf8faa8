//! Segments of a window: its rows, part by part of their row groups.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::bin_rows::Bins;
use crate::batch::segment::{Places, SEGMENT_BYTES, Segment, part_of};
use crate::batch::sources::Sources;
use crate::batch::window::{WindowPart, WindowStretch};
use crate::order::pass_order::Order;

/// What the rows of a window are.
pub struct WindowRows<'a> {
    /// The sources.
    pub sources: &'a Sources,
    /// The one that they are of.
    pub source: usize,
    /// Its order.
    pub order: &'a Order,
    /// The bins that the window has in the place of rows, if it has.
    pub bins: Option<&'a Bins>,
}

impl WindowRows<'_> {
    /// The first run of the rows of ordinals.
    fn first_of(&self, ordinals: &Range<u64>) -> Option<Range<u64>> {
        match self.bins {
            Some(bins) => bins.rows.rows(ordinals.clone()).next(),
            None => self.order.rows_of_ordinals(ordinals.clone()).next(),
        }
    }
}

/// The segments of a window. Blocks of one part of a row group are decoded in one go: its dictionaries are read once.
pub fn segments_of(part: &Arc<WindowPart>, of: &WindowRows<'_>) -> Vec<Segment> {
    let files = &of.sources.each()[of.source];
    let (row_bytes, before) = (files.layout.row_bytes() as u64, of.sources.rows_before(of.source));
    let (mut found, mut reached): (Vec<Segment>, u64) = (Vec::new(), 0);
    for (block, units) in part.blocks() {
        let mut ordinals = of.bins.map_or(units.clone(), |bins| bins.ordinals(units));
        while let Some(rows) = of.first_of(&ordinals) {
            let group = files.manifest.group_of(rows.start);
            let decoded = part_of(&files.manifest.group_rows(group), rows.start, row_bytes, SEGMENT_BYTES);
            let rows = rows.start..decoded.end.min(rows.end);
            let of_all = before + rows.start..before + rows.end;
            let stretch = WindowStretch { block, ordinal: ordinals.start, rows: of_all };
            ordinals.start += rows.end - rows.start;
            match found.last_mut() {
                Some(Segment { places: Places::Scattered { stretches, .. }, .. })
                    if decoded.start < reached =>
                {
                    stretches.push(stretch);
                }
                _ => {
                    let group = of.sources.number_of(of.source, group);
                    let places = Places::Scattered { part: Arc::clone(part), stretches: vec![stretch] };
                    found.push(Segment { group, places });
                }
            }
            reached = decoded.end;
        }
    }
    found
}
