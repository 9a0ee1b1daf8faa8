//! Decodes rows of a row group to strips, in which they wait until their batches are ended.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::bunch::Bunches;
use crate::batch::combed_rows::{CombedRows, StripRows};
use crate::batch::filler::{DIVIDED_BYTES, Filler, Scratch};
use crate::batch::pad_decoder::PadDecoder;
use crate::batch::routes::{Routes, StripSplit};
use crate::batch::segment::{Piece, Places, Segment, to_usize};
use crate::batch::slots::jagged_run::expected_bytes;
use crate::batch::slots::pending::{Strip, waiting_strip_rows};
use crate::batch::slots::placed_rows::FlatRows;
use crate::batch::sources::GroupOf;
use crate::batch::strips::{StripSource, decode_together};
use crate::batch::surveys::GroupFile;
use crate::decode::decoder::{JaggedDecoder, JaggedRows};
use crate::error::{Result, check, locked};
use crate::format::page::reader::Buffers;
use crate::memory::pool::Memory;
use crate::memory::vectors::{push, room_for, with_room};
use crate::order::comb::Comb;
use crate::projection::padding::Padding;

/// Lists and texts are decoded so many rows at a time, with a look at how many bytes they are.
const STEP_ROWS: usize = 4096;

/// The rows of a segment that are decoded in one go.
struct Plan {
    /// Ascending, counted within the row group.
    spans: Vec<Range<usize>>,
    /// The number of them.
    rows: usize,
    /// How many of them lie in a strip.
    strip_rows: usize,
}

impl Plan {
    /// Leaves out all rows but the first ones.
    fn truncate(&mut self, rows: usize) {
        let mut left = rows;
        self.spans.retain_mut(|span| {
            span.end = span.end.min(span.start + left);
            left -= span.len();
            !Range::is_empty(span)
        });
        self.rows = rows;
    }
}

impl Filler {
    /// Decodes a segment whose rows go between those of other sources. Returns what waits, and what of the segment is left,
    /// where it expands to more than is decoded at once.
    ///
    /// # Errors
    /// `Data` or `Source`, naming file, row group and column; `Interrupted` once `stop` is set.
    pub(super) fn fill_combed(
        &self,
        group: usize,
        (comb, bunches): (&Arc<Comb>, Bunches),
        pieces: &[Piece],
        stop: &AtomicBool,
    ) -> Result<(CombedRows, Option<Segment>)> {
        let of = self.sources.group(group);
        let mut spans: Vec<Range<usize>> = Vec::new();
        for piece in pieces {
            let span = to_usize(piece.rows.start)?..to_usize(piece.rows.end)?;
            match spans.last_mut() {
                Some(last) if last.end == span.start => last.end = span.end,
                _ => push(&mut spans, span)?,
            }
        }
        let rows = spans.iter().map(ExactSizeIterator::len).sum();
        let strip_rows = waiting_strip_rows(of.source.layout.row_bytes());
        let mut plan = Plan { spans, rows, strip_rows };
        let mut strips = Vec::new();
        let damage = self.decode(group, stop, |file| {
            strips = self.decode_strips(file, (group, &of), &mut plan, stop)?;
            Ok(())
        })?;
        let number = |row: usize| of.rows.start + row as u64;
        let numbers = plan.spans.iter().map(|span| number(span.start)..number(span.end)).collect();
        let (own, left) = divided(pieces, plan.rows as u64, comb)?;
        let places = |pieces| Places::Combed { comb: Arc::clone(comb), bunches, pieces };
        let left = left.map(|pieces| Segment { group, places: places(pieces) });
        Ok((CombedRows::new((Arc::clone(comb), bunches), own, strips, numbers, damage), left))
    }

    /// Column by column, lists and texts first: if they expand to too much, only the first rows are decoded.
    fn decode_strips(
        &self,
        file: GroupFile<'_>,
        (group, of): (usize, &GroupOf<'_>),
        plan: &mut Plan,
        stop: &AtomicBool,
    ) -> Result<Vec<StripRows>> {
        let layout = &of.source.layout;
        let fields = StripSource::all_of(file, of);
        let mut scratch = locked(&self.scratch).pop().unwrap_or_else(Scratch::new);
        let end_row = plan.spans.last().map_or(0, |last| last.end as u64);
        scratch.buffers.begin_part(group, end_row, &self.pages);
        let lists: Vec<_> = fields.iter().filter(|source| source.field.kind.is_jagged()).collect();
        let most = DIVIDED_BYTES / lists.len().max(1);
        let mut jagged = Vec::with_capacity(lists.len());
        for source in &lists {
            check(stop)?;
            let (rows, strips) =
                source.lists(plan, most, &mut scratch.buffers).map_err(|error| of.named(error))?;
            plan.truncate(rows);
            jagged.push(strips);
        }
        let parts = Routes::of_spans(&plan.spans)?.parts_of(plan.strip_rows)?;
        let cuts = parts.cuts();
        let mut strips: Vec<StripRows> = with_room(cuts.len())?;
        strips.extend(cuts.iter().map(|cut| StripRows { rows: cut.rows.clone(), ..StripRows::default() }));
        for (source, lists) in lists.iter().zip(jagged) {
            for (strip, mut rows) in strips.iter_mut().zip(lists) {
                rows.truncate(strip.rows.len());
                rows.with_inner(source.field.inner_levels())?;
                strip.bytes += rows.bytes();
                strip.jagged.push((source.place, Arc::new(rows)));
            }
        }
        for source in &fields {
            let Some(padding) = source.field.padding else { continue };
            check(stop)?;
            let made = source.padded(padding, plan, &mut scratch).map_err(|error| of.named(error))?;
            for (place, strip) in made {
                keep_whole(&mut strips, place, &Arc::new(strip));
            }
        }
        for bundle in layout.bundles() {
            let sources: Vec<_> = bundle.iter().map(|&index| &fields[index]).collect();
            let Scratch { buffers, step, .. } = &mut scratch;
            let memory = || [Memory::lent(), Memory::lent()];
            let decoded = decode_together(&sources, &parts, &cuts, memory, (buffers, step), stop);
            let decoded = decoded.map_err(|error| of.named(error))?;
            keep_columns(&mut strips, &sources, &cuts, decoded);
        }
        for strip in &mut strips {
            strip.flat.sort_by_key(|flat| flat.field);
        }
        locked(&self.scratch).push(scratch);
        Ok(strips)
    }
}

/// The pieces of the first rows, and those of the others, if there are any.
fn divided(pieces: &[Piece], rows: u64, comb: &Comb) -> Result<(Vec<Piece>, Option<Vec<Piece>>)> {
    let (mut own, mut left, mut taken) = (with_room(pieces.len())?, Vec::new(), 0);
    for piece in pieces {
        let count = (piece.rows.end - piece.rows.start).min(rows - taken);
        taken += count;
        let middle = piece.rows.start + count;
        if count > 0 {
            own.push(Piece { rows: piece.rows.start..middle, ..piece.clone() });
        }
        if middle < piece.rows.end {
            let slot_row = piece.slot_row + comb.distance(piece.phase, count);
            let phase = comb.phase_of(piece.phase + count);
            push(&mut left, Piece { rows: middle..piece.rows.end, slot_row, phase, ..piece.clone() })?;
        }
    }
    Ok((own, (!left.is_empty()).then_some(left)))
}

/// Keeps rows that were decoded to one strip for all.
fn keep_whole(strips: &mut [StripRows], field: usize, whole: &Arc<Strip>) {
    let all: usize = strips.iter().map(|strip| strip.rows.len()).sum();
    for strip in strips {
        strip.bytes += whole.bytes() * strip.rows.len() as u64 / all.max(1) as u64;
        let masks = whole.has_masks().then_some(0..1);
        strip.flat.push(FlatRows { field, strip: Arc::clone(whole), first: 0, columns: 0..1, masks });
    }
}

/// Keeps the columns of fields that were decoded side by side, strip by strip.
fn keep_columns(
    strips: &mut [StripRows],
    sources: &[&StripSource<'_>],
    cuts: &[StripSplit],
    decoded: Vec<Strip>,
) {
    for ((strip, cut), own) in strips.iter_mut().zip(cuts).zip(decoded) {
        strip.bytes += own.bytes();
        let own = Arc::new(own);
        let (mut column, mut mask) = (0, 0);
        for source in sources {
            let columns = column..column + source.columns.len();
            let masks = mask..mask + source.field.mask_bytes();
            (column, mask) = (columns.end, masks.end);
            strip.flat.push(FlatRows {
                field: source.place,
                strip: Arc::clone(&own),
                first: cut.rows.start,
                columns,
                masks: source.field.is_masked().then_some(masks),
            });
        }
    }
}

impl StripSource<'_> {
    /// Decodes lists or texts, strip by strip, until they have so many bytes. Returns how many rows that is.
    fn lists(&self, plan: &Plan, most: usize, buffers: &mut Buffers) -> Result<(usize, Vec<JaggedRows>)> {
        let of = self.column(0);
        let mut strips: Vec<JaggedRows> = Vec::new();
        let take = |mut decoder: Box<dyn JaggedDecoder + '_>| {
            // Where this is tried again.
            strips.clear();
            let (mut row, mut done, mut bytes) = (0, 0, 0);
            for span in &plan.spans {
                decoder.skip(span.start - row)?;
                row = span.start;
                while row < span.end {
                    if bytes >= most {
                        return Ok(done);
                    }
                    let in_strip = done % plan.strip_rows;
                    let left = (plan.strip_rows - in_strip).min(plan.rows - done);
                    if in_strip == 0 {
                        let mean = expected_bytes(self.row_bytes, (bytes, done));
                        push(&mut strips, room_for_lists(left, mean, most))?;
                    }
                    let Some(rows) = strips.last_mut() else { return Ok(done) };
                    let count = left.min(span.end - row).min(STEP_ROWS);
                    let before = rows.values.len();
                    decoder.read(count, rows)?;
                    bytes += rows.values.len() - before;
                    (row, done) = (row + count, done + count);
                }
            }
            Ok(done)
        };
        let done = self.file.jagged(of, self.field.marks_elements(), buffers, take);
        Ok((done.map_err(|error| error.in_column(&of.column.name))?, strips))
    }

    /// Decodes padded rows, and their lengths if the field behind this one has them.
    fn padded(&self, padding: Padding, plan: &Plan, scratch: &mut Scratch) -> Result<Vec<(usize, Strip)>> {
        let (of, of_field) = (self.column(0), (self.field.dtype.width(), self.field.has_lengths()));
        let Scratch { buffers, jagged, .. } = scratch;
        let [mut values, mut lengths, mut valid] = [Memory::lent(), Memory::lent(), Memory::lent()];
        let take = |decoder: Box<dyn JaggedDecoder + '_>| {
            let mut decoder = PadDecoder::new(decoder, padding, of_field, self.row_bytes, jagged);
            decoder.read_all(&plan.spans, [&mut values, &mut lengths, &mut valid])
        };
        self.file.jagged(of, true, buffers, take).map_err(|error| error.in_column(&of.column.name))?;
        let (rows, masks) = (plan.rows, if self.field.is_masked() { valid } else { Memory::lent() });
        let own = Strip::of_rows(rows, self.field.row_bytes(), values, masks);
        let mut made = vec![(self.place, own)];
        if self.field.has_lengths() {
            made.push((self.lengths_place, Strip::of_rows(rows, size_of::<u64>(), lengths, Memory::lent())));
        }
        Ok(made)
    }
}

/// Room for so many rows, of which one is expected to take so many bytes. If the system refuses this, what is really needed
/// may still fit.
fn room_for_lists(rows: usize, row_bytes: usize, most: usize) -> JaggedRows {
    let mut found = JaggedRows { values: Memory::lent(), ..JaggedRows::default() };
    let expected = rows.saturating_mul(row_bytes).min(most);
    // Rounded up, so that memory freed by one strip is enough for the next.
    let grain = (expected / 16 + 1).next_power_of_two();
    found.values.reserve((expected + expected / 16).next_multiple_of(grain)).ok();
    room_for(&mut found.ends, rows).ok();
    room_for(&mut found.valid, rows).ok();
    found
}
