//! Which rows of which source stand at the positions of a stage of a mixture.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result, quoted};
use crate::intervals::set::Intervals;
use crate::memory::vectors::{collected, push};
use crate::order::comb::Comb;
use crate::order::pass_order::{Order, OrderKind};
use crate::order::selection::Selection;
use crate::resume::axes::Axes;
use crate::resume::cursor::Cursor;
use crate::resume::named_mixture::order_of;
use crate::resume::source_places::SourcePlaces;

/// A source that is read: its name in the state, and its selected rows.
#[derive(Debug, Clone)]
pub struct ReadSource {
    /// Its name.
    pub name: String,
    /// Its selected rows.
    pub selection: Arc<Selection>,
}

/// The orders of the sources that are read in a stage, by their numbers among those of the reader.
#[derive(Debug, Clone)]
pub struct MixedOrder {
    axes: Axes,
    each: Vec<Option<Member>>,
}

/// Rows, or units, of one pass of a source that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The number of the source.
    pub source: usize,
    /// The first point of its pass: each of them stands once in one.
    pub pass: u64,
    /// Their numbers.
    pub numbers: Range<u64>,
}

/// So many orders of passes of a source are kept: lanes may stand in others.
const MOST_PASSES: usize = 16;

/// A source of the stage.
#[derive(Debug, Clone)]
struct Member {
    /// Its place in the state.
    place: usize,
    comb: Arc<Comb>,
    kind: OrderKind,
    selection: Arc<Selection>,
    pass_rows: u64,
    /// The orders of passes that were asked for last, by their first points.
    passes: VecDeque<(u64, Arc<Order>)>,
}

impl MixedOrder {
    /// That of the stage that a cursor is in. A source that is named and not read in it stands nowhere.
    ///
    /// # Errors
    /// `State` if the cursor is not of a mixture, or a source that stands in the stage is not named.
    pub fn new(cursor: &Cursor, named: &[ReadSource]) -> Result<Self> {
        let mixture = cursor.mixture().ok_or_else(|| Error::State("the state is not of a mixture".into()))?;
        let axes = cursor.axes()?;
        let mut each: Vec<Option<Member>> = named.iter().map(|_| None).collect();
        for (place, source) in mixture.sources.iter().enumerate() {
            let Some(comb) = axes.period().comb(place) else { continue };
            let Some(number) = named.iter().position(|own| own.name == source.name) else {
                return Err(Error::State(format!(
                    "the batch holds rows of the source '{}', which the mixture does not read in this pass: name \
                     it with a weight to read that batch again",
                    quoted(&source.name)
                )));
            };
            let selection = Arc::clone(&named[number].selection);
            let pass_rows = axes.axis(place).map_or(1, |axis| axis.rows().max(1));
            let (comb, kind) = (Arc::new(comb), order_of(source));
            each[number] = Some(Member { place, comb, kind, selection, pass_rows, passes: VecDeque::new() });
        }
        Ok(Self { axes, each })
    }

    /// The sources that stand in the stage, by their numbers.
    pub fn sources(&self) -> impl Iterator<Item = usize> + '_ {
        self.each.iter().enumerate().filter_map(|(number, member)| member.as_ref().map(|_| number))
    }

    /// Where a source stands; `None` of one that does not.
    #[must_use]
    pub fn comb(&self, source: usize) -> Option<&Arc<Comb>> {
        self.each.get(source)?.as_ref().map(|member| &member.comb)
    }

    /// The places of a source among what remains of the positions; `None` of one that stands nowhere.
    #[must_use]
    pub fn places<'a>(&'a self, source: usize, remaining: &'a Intervals) -> Option<SourcePlaces<'a>> {
        let member = self.each.get(source)?.as_ref()?;
        self.axes.places(member.place, &member.comb, remaining)
    }

    /// The order of the pass of a source that holds a point, and the points of that pass.
    ///
    /// # Errors
    /// `Argument` if its blocks are too many for memory; `State` if a generation ends amid a row group.
    pub fn pass_at(&mut self, source: usize, point: u64) -> Result<(Arc<Order>, Range<u64>)> {
        let beyond = || Error::State("a source has no place in its mixture".into());
        let member = self.each.get_mut(source).and_then(Option::as_mut).ok_or_else(beyond)?;
        let first = point - point % member.pass_rows;
        let points = first..first.saturating_add(member.pass_rows);
        if let Some((_, order)) = member.passes.iter().find(|(of, _)| *of == first) {
            return Ok((Arc::clone(order), points));
        }
        let axis = self.axes.axis(member.place).ok_or_else(beyond)?;
        let (pass, _, mut ends) = axis.place(point);
        let rows = member.selection.count();
        // Rows that came after the stage stand behind all others.
        ends.extend([axis.rows()].into_iter().filter(|&own| own < rows));
        let selection = Arc::clone(&member.selection);
        let order = Arc::new(Order::of_generations(&member.kind, pass, selection, &ends)?);
        member.passes.push_front((first, Arc::clone(&order)));
        member.passes.truncate(MOST_PASSES);
        Ok((order, points))
    }

    /// What stands at positions, in their order.
    ///
    /// # Errors
    /// As for `pass_at`; `Argument` if the system does not give so much memory.
    pub fn standing_at(&mut self, positions: &[Range<u64>]) -> Result<Vec<Standing>> {
        let mut each: Vec<Option<(usize, _)>> = Vec::new();
        for number in 0..self.each.len() {
            let Some(place) = self.each[number].as_ref().map(|member| member.place) else { continue };
            let stretches = collected(self.axes.stretches_of(place, positions))?;
            let mut rows = Vec::new();
            for points in stretches {
                let (order, of_pass) = self.pass_at(number, points.start)?;
                for run in order.rows(points.start - of_pass.start..points.end - of_pass.start) {
                    push(&mut rows, (of_pass.start, run))?;
                }
            }
            each.resize_with(each.len().max(place + 1), || None);
            each[place] =
                Some((number, rows.into_iter().flat_map(|(pass, run)| run.map(move |row| (pass, row)))));
        }
        let beyond =
            || Error::State("a pass of a source ends before the rows that the mixture has of it".into());
        let mut found: Vec<Standing> = Vec::new();
        for place in positions.iter().flat_map(|range| self.axes.period().sources_at(range.clone())) {
            let (source, rows) = each.get_mut(place).and_then(Option::as_mut).ok_or_else(beyond)?;
            let (source, (pass, row)) = (*source, rows.next().ok_or_else(beyond)?);
            match found.last_mut() {
                Some(last) if (last.source, last.pass, last.numbers.end) == (source, pass, row) => {
                    last.numbers.end += 1;
                }
                _ => push(&mut found, Standing { source, pass, numbers: row..row + 1 })?,
            }
        }
        Ok(found)
    }

    /// The most rows of a window of a source; `None` of one in file order.
    #[must_use]
    pub fn window_rows(&self, source: usize) -> Option<u64> {
        let member = self.each.get(source)?.as_ref()?;
        match member.kind {
            OrderKind::Shuffled { window_rows, .. } => Some(window_rows.min(member.pass_rows)),
            _ => None,
        }
    }

    /// How many blocks a window of a source has; 0 of one in file order.
    #[must_use]
    pub fn blocks_of_window(&self, source: usize) -> u64 {
        match self.each.get(source).and_then(Option::as_ref).map(|member| &member.kind) {
            Some(&OrderKind::Shuffled { block_rows, window_rows, .. }) => window_rows / block_rows.max(1),
            _ => 0,
        }
    }
}
