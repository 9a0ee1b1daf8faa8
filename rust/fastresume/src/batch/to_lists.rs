//! Decodes lists, of which sequences are made.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::documents::Documents;
use crate::batch::filler::{Filler, Scratch};
use crate::batch::list_span::ListSpan;
use crate::batch::packed_lists::{ListPart, PackedLists};
use crate::batch::packing::{PackedRows, field_of};
use crate::batch::segment::to_usize;
use crate::batch::slots::row_ids::Damage;
use crate::batch::sources::GroupOf;
use crate::batch::strips::StripSource;
use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::error::{Error, Result, check, locked};
use crate::format::page::reader::Buffers;
use crate::memory::pool::Memory;
use crate::memory::vectors::{push, room_for, with_room};

impl Filler {
    /// Decodes the lists of spans of a row group. Where damage is masked, those between the two anchors around a damaged row
    /// are none.
    ///
    /// # Errors
    /// `Data` or `Source`, naming file, row group and column; `Data` for an element that is null, for lists of other lengths
    /// than those of the first column, or than the index has; `Interrupted` once `stop` is set.
    pub(super) fn fill_lists(
        &self,
        group: usize,
        of: &PackedRows,
        spans: &[ListSpan],
        stop: &AtomicBool,
    ) -> Result<Vec<PackedLists>> {
        let (decoded, damage) = self.documents(group, of, spans, stop)?;
        let damage: Arc<[Damage]> = damage.into();
        let GroupOf { file, before, .. } = self.sources.group(group);
        let mut found = with_room(spans.len())?;
        for (span, documents) in spans.iter().zip(decoded) {
            let parts = if first_damaged((of, before), &span.ordinals, &damage).is_none() {
                vec![self.part(group, of, (&span.tokens, &span.ordinals), documents)?]
            } else {
                self.undamaged(group, of, (span, &damage), stop)?
            };
            let damage = Arc::clone(&damage);
            found.push(PackedLists { file, pass: span.pass, taken: span.taken.clone(), parts, damage });
        }
        Ok(found)
    }

    /// The lists of a span between anchors that have no damage between them.
    fn undamaged(
        &self,
        group: usize,
        of: &PackedRows,
        (span, damage): (&ListSpan, &[Damage]),
        stop: &AtomicBool,
    ) -> Result<Vec<ListPart>> {
        let (mut parts, mut good, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let (file, mut number) = (span.file, of.table.anchor_before(span.file, span.tokens.start));
        let rows_before = self.sources.group(group).before;
        loop {
            let [before, behind] = [number, number + 1].map(|number| of.table.anchor_of(file, number));
            let (tokens, ordinals) = (before.tokens..behind.tokens, before.ordinal..behind.ordinal);
            if tokens.is_empty() || ordinals.end > span.ordinals.end {
                break;
            }
            let damaged = first_damaged((of, rows_before), &ordinals, damage);
            if damaged.is_none() {
                push(&mut places, parts.len())?;
                push(&mut good, ListSpan { tokens: tokens.clone(), ordinals, taken: Vec::new(), ..*span })?;
            }
            push(&mut parts, ListPart { tokens, lists: Err(damaged.unwrap_or(0)) })?;
            number += 1;
        }
        let (decoded, _) = self.documents(group, of, &good, stop)?;
        for ((span, place), documents) in good.iter().zip(places).zip(decoded) {
            parts[place] = self.part(group, of, (&span.tokens, &span.ordinals), documents)?;
        }
        Ok(parts)
    }

    /// Lists of rows, if they are as they have to be.
    fn part(
        &self,
        group: usize,
        of: &PackedRows,
        (tokens, ordinals): (&Range<u64>, &Range<u64>),
        mut documents: Documents,
    ) -> Result<ListPart> {
        let of_group = self.sources.group(group);
        let rows = of.rows.rows(ordinals.clone()).flatten().map(|row| of_group.before + row);
        let checked = documents.check(&of.packing).and_then(|()| {
            documents.count(rows, &of.packing)?;
            let found = documents.end() - tokens.start;
            if documents.end() == tokens.end {
                return Ok(());
            }
            Err(Error::data(format!(
                "the lists of the selected rows {ordinals:?} have {found} tokens, and {} in the index of units: the \
                 file is not the one that was indexed, or what was kept of the index is damaged",
                tokens.end - tokens.start
            )))
        });
        checked.map_err(|error| of_group.named(error))?;
        Ok(ListPart { tokens: tokens.clone(), lists: Ok(Arc::new(documents)) })
    }

    /// The lists of spans, as they are, and which rows of the row group can't be decoded.
    fn documents(
        &self,
        group: usize,
        of: &PackedRows,
        spans: &[ListSpan],
        stop: &AtomicBool,
    ) -> Result<(Vec<Documents>, Vec<Damage>)> {
        let of_group = self.sources.group(group);
        let layout = &of_group.source.layout;
        let fields = of.packing.names.iter().map(|name| field_of(layout, name));
        let (fields, widths): (Vec<_>, Vec<_>) = fields.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let (mut rows, mut made) = (with_room(spans.len())?, with_room(spans.len())?);
        for span in spans {
            let mut own: Vec<Range<usize>> = Vec::new();
            for run in of.rows.rows(span.ordinals.clone()) {
                let [start, end] =
                    [run.start, run.end].map(|row| to_usize(of_group.before + row - of_group.rows.start));
                push(&mut own, start?..end?)?;
            }
            let tokens = to_usize(span.tokens.end - span.tokens.start)?;
            let count = to_usize(span.ordinals.end - span.ordinals.start)?;
            rows.push(own);
            let columns = widths.iter().map(|width| room_for_lists(tokens.saturating_mul(*width), count));
            let (columns, widths, first) = (columns.collect(), widths.clone(), span.tokens.start);
            made.push(Documents { columns, widths, first, ..Documents::default() });
        }
        let end_row = rows.last().and_then(|own| own.last()).map_or(0, |last| last.end as u64);
        let damage = self.decode(group, stop, |file| {
            let sources = StripSource::all_of(file, &of_group);
            let mut scratch = locked(&self.scratch).pop().unwrap_or_else(Scratch::new);
            scratch.buffers.begin_part(group, end_row, &self.pages);
            for (number, &field) in fields.iter().enumerate() {
                check(stop)?;
                let mut columns: Vec<_> = made.iter_mut().map(|one| &mut one.columns[number]).collect();
                let decoded = sources[field].lists_of(&rows, &mut columns, &mut scratch.buffers);
                decoded.map_err(|error| of_group.named(error))?;
            }
            locked(&self.scratch).push(scratch);
            Ok(())
        })?;
        Ok((made, damage))
    }
}

impl StripSource<'_> {
    /// Decodes spans of rows, each to its own lists.
    fn lists_of(
        &self,
        rows: &[Vec<Range<usize>>],
        output: &mut [&mut JaggedRows],
        buffers: &mut Buffers,
    ) -> Result<()> {
        let of = self.column(0);
        let take = |mut decoder: Box<dyn JaggedDecoder + '_>| {
            let mut row = 0;
            for (own, lists) in rows.iter().zip(output.iter_mut()) {
                // Where this is tried again.
                lists.clear();
                for run in own {
                    decoder.skip(run.start - row)?;
                    decoder.read(run.len(), lists)?;
                    row = run.end;
                }
            }
            Ok(())
        };
        let taken = self.file.jagged(of, self.field.marks_elements(), buffers, take);
        taken.map_err(|error| error.in_column(&of.column.name))
    }
}

/// The number, over all sources, of the first of some rows that can't be decoded. So many rows are of the sources before.
fn first_damaged((of, before): (&PackedRows, u64), ordinals: &Range<u64>, damage: &[Damage]) -> Option<u64> {
    let of_run = |run: Range<u64>| {
        let run = before + run.start..before + run.end;
        let both = damage.iter().map(|one| one.rows.start.max(run.start)..one.rows.end.min(run.end));
        both.filter(|both| !both.is_empty()).map(|both| both.start).min()
    };
    if damage.is_empty() { None } else { of.rows.rows(ordinals.clone()).find_map(of_run) }
}

/// Room for lists of so many bytes. If the system refuses this, what is really needed may still fit.
fn room_for_lists(bytes: usize, rows: usize) -> JaggedRows {
    let mut found = JaggedRows { values: Memory::lent(), ..JaggedRows::default() };
    // Rounded up, so that the memory of one segment is enough for the next.
    let grain = (bytes / 16 + 1).next_power_of_two();
    found.values.reserve(bytes.next_multiple_of(grain)).ok();
    room_for(&mut found.ends, rows).ok();
    room_for(&mut found.valid, rows).ok();
    found
}
