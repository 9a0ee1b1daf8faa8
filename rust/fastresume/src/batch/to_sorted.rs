//! Decodes rows of a window of a source, and sorts them by batch: so they wait until their batches are ended.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::filler::{Filler, Scratch};
use crate::batch::pad_decoder::PadDecoder;
use crate::batch::routes::Routes;
use crate::batch::segment::to_usize;
use crate::batch::slots::interleave::{Columns, Move};
use crate::batch::slots::jagged_piece::{self, Lot};
use crate::batch::slots::sorter::{Sorted, Sorter};
use crate::batch::sorted_rows::{Lists, RowsPart, SortedRows};
use crate::batch::sources::GroupOf;
use crate::batch::strips::{StripSource, decode_together};
use crate::batch::surveys::GroupFile;
use crate::batch::window::{Scatter, WindowPart, WindowStretch};
use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::error::{Result, check, locked};
use crate::memory::pool::Memory;
use crate::memory::vectors::{collected, with_room};
use crate::projection::padding::Padding;

impl Filler {
    /// Decodes rows of a window, and sorts them by batch.
    ///
    /// # Errors
    /// `Data` or `Source`, naming file, row group and column; `Interrupted` once `stop` is set.
    pub(super) fn fill_sorted(
        &self,
        group: usize,
        part: &WindowPart,
        stretches: &[WindowStretch],
        stop: &AtomicBool,
    ) -> Result<SortedRows> {
        let of = self.sources.group(group);
        let mut scatter = Scatter::default();
        part.scatter(stretches, &mut scatter)?;
        let bunches: Vec<_> = collected(scatter.bunches().iter().cloned())?;
        if bunches.is_empty() {
            return Ok(SortedRows::default());
        }
        let mut spans = with_room(stretches.len())?;
        for WindowStretch { rows, .. } in stretches {
            spans.push(to_usize(rows.start - of.rows.start)?..to_usize(rows.end - of.rows.start)?);
        }
        let numbers = stretches.iter().map(|stretch| stretch.rows.clone()).collect();
        let mut found = SortedRows::default();
        let damage = self.decode(group, stop, |file| {
            found = self.decode_sorted(file, (group, &of), &spans, &scatter, stop)?;
            Ok(())
        })?;
        let moves = Arc::from(scatter.all_moves());
        Ok(SortedRows { bunches: bunches.into(), moves, numbers, damage: damage.into(), ..found })
    }

    fn decode_sorted(
        &self,
        file: GroupFile<'_>,
        (group, of): (usize, &GroupOf<'_>),
        spans: &[Range<usize>],
        scatter: &Scatter,
        stop: &AtomicBool,
    ) -> Result<SortedRows> {
        let fields = StripSource::all_of(file, of);
        let (count, mut found) = (scatter.all_moves().len(), SortedRows::default());
        let mut scratch = locked(&self.scratch).pop().unwrap_or_else(Scratch::new);
        let end_row = spans.last().map_or(0, |last| last.end as u64);
        scratch.buffers.begin_part(group, end_row, &self.pages);
        for source in fields.iter().filter(|source| source.field.kind.is_jagged()) {
            check(stop)?;
            let lots = source.sorted_lists(spans, scatter, &mut scratch).map_err(|error| of.named(error))?;
            found.jagged.push((source.place, lots));
        }
        for source in &fields {
            let Some(padding) = source.field.padding else { continue };
            check(stop)?;
            let made = source.sorted_padded(padding, spans, (scatter.numbers(), count), &mut scratch);
            let made = made.map_err(|error| of.named(error))?;
            found.flat.extend(made);
        }
        let parts = Routes::of_spans(spans)?.parts_of(usize::MAX)?;
        let bundles = of.source.layout.bundles();
        let mut sorters = std::mem::take(&mut scratch.sorters);
        sorters.resize_with(bundles.len(), Sorter::lent);
        for (bundle, sorter) in bundles.iter().zip(&mut sorters) {
            let sources: Vec<_> = bundle.iter().map(|&index| &fields[index]).collect();
            let Scratch { buffers, step, columns, .. } = &mut scratch;
            let memory = || std::mem::replace(columns, [Memory::lent(), Memory::lent()]);
            let strips = decode_together(&sources, &parts, &[parts.whole()], memory, (buffers, step), stop);
            let Some(strip) = strips.map_err(|error| of.named(error))?.into_iter().next() else { continue };
            let masked = sources.iter().find(|source| source.field.is_masked());
            let first = sources.first().map(|first| (first.place, false));
            for part in first.into_iter().chain(masked.map(|masked| (masked.place, true))) {
                let rows = sorter.sort(strip.columns(part.1), scatter.numbers(), count)?;
                found.flat.push((part, rows));
            }
            scratch.columns = strip.into_memory();
        }
        scratch.sorters = sorters;
        locked(&self.scratch).push(scratch);
        Ok(found)
    }
}

impl StripSource<'_> {
    /// Lists or texts, sorted by bunch.
    fn sorted_lists(
        &self,
        spans: &[Range<usize>],
        scatter: &Scatter,
        scratch: &mut Scratch,
    ) -> Result<VecDeque<Lists>> {
        let Scratch { buffers, jagged, .. } = scratch;
        jagged.clear();
        self.append_lists(spans, jagged, buffers)?;
        let rows: &mut JaggedRows = jagged;
        rows.with_inner(self.field.inner_levels())?;
        let moves = scatter.bunches().iter().map(|(_, own)| scatter.moves(own.clone()));
        let moves: Vec<&[Move]> = collected(moves)?;
        let mut found = VecDeque::new();
        jagged_piece::sort(rows, self.field.inner_levels(), &moves, |piece, lots| {
            let lists =
                |Lot { share, rows, before }| Lists { bunch: share, piece: piece.clone(), rows, before };
            found.extend(lots.into_iter().map(lists));
        })?;
        Ok(found)
    }

    /// Padded rows, their lengths if the field behind this one has them, and their masks, sorted by bunch.
    fn sorted_padded(
        &self,
        padding: Padding,
        spans: &[Range<usize>],
        (numbers, count): (&[u32], usize),
        scratch: &mut Scratch,
    ) -> Result<Vec<(RowsPart, Sorted)>> {
        let (of, of_field) = (self.column(0), (self.field.dtype.width(), self.field.has_lengths()));
        let Scratch { buffers, jagged, columns: [values, valid], lengths, .. } = scratch;
        let take = |decoder: Box<dyn JaggedDecoder + '_>| {
            let mut decoder = PadDecoder::new(decoder, padding, of_field, self.row_bytes, jagged);
            decoder.read_all(spans, [&mut *values, &mut *lengths, &mut *valid])
        };
        self.file.jagged(of, true, buffers, take).map_err(|error| error.in_column(&of.column.name))?;
        let sorted = |memory: &Memory, width| {
            let columns =
                Columns { bytes: memory.bytes(), width, count: 1, stride: numbers.len(), floors: None };
            Sorter::lent().sort(columns, numbers, count)
        };
        let mut made = vec![((self.place, false), sorted(values, self.field.row_bytes())?)];
        if self.field.has_lengths() {
            made.push(((self.lengths_place, false), sorted(lengths, size_of::<u64>())?));
        }
        if self.field.is_masked() {
            made.push(((self.place, true), sorted(valid, 1)?));
        }
        Ok(made)
    }
}
