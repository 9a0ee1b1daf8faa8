//! Decodes a segment's rows into the slots of their batches.

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::batch::fetches::{Fetches, Soon};
use crate::batch::open_files::OpenFiles;
use crate::batch::packed_lists::PackedLists;
use crate::batch::pad_decoder::PadDecoder;
use crate::batch::routes::{Route, RouteParts, Routes, hand_out, hand_out_jagged};
use crate::batch::segment::{Places, Segment, to_usize};
use crate::batch::slots::fields::SharedSlots;
use crate::batch::slots::interleave::{Rows, Scattered};
use crate::batch::slots::jagged_run::{JaggedRun, expected_bytes};
use crate::batch::slots::row_ids::Damage;
use crate::batch::slots::sorter::Sorter;
use crate::batch::sources::{GroupOf, Sources};
use crate::batch::strips::{StripSource, decode_together};
use crate::batch::surveys::{FieldColumn, GroupFile, Masking, Surveys};
use crate::batch::waiting::Waiting;
use crate::batch::window::{Scatter, WindowStretch};
use crate::decode::decoder::{JaggedDecoder, JaggedRows, ScalarDecoder, Target};
use crate::decode::open_file::OpenFile;
use crate::decode::row_picker::StepRows;
use crate::decode::survey::BadRows;
use crate::error::{Error, Result, check, locked};
use crate::format::page::kept_pages::KeptPages;
use crate::format::page::reader::Buffers;
use crate::memory::pool::Memory;
use crate::memory::vectors::{collected, collected_results, with_room};
use crate::projection::layout::Layout;
use crate::projection::padding::Padding;

/// The limit of jagged rows, in bytes, that are decoded of a segment in one go. With dictionaries, a few
/// bytes of a file can expand to many.
pub const DIVIDED_BYTES: usize = 64 << 20;

/// Decodes segments of its sources into batches of one layout.
pub struct Filler {
    pub(super) sources: Arc<Sources>,
    files: OpenFiles,
    pub(super) pages: Arc<KeptPages>,
    pub(super) scratch: Mutex<Vec<Scratch>>,
    scatters: Mutex<Vec<Scatter>>,
    /// What was found where column chunks are damaged.
    pub(super) surveys: Surveys,
    /// What is on its way, where files are objects of a store, and rows that are held until they are decoded.
    fetches: Option<Fetches>,
}

/// What was decoded of a segment.
#[derive(Default)]
pub struct Filled {
    /// The rows that each batch, or bunch, got.
    pub rows: Vec<(u64, u64)>,
    /// The rest of the segment, if it was not decoded as a whole.
    pub left: Option<Segment>,
    /// Its rows, where they wait for their batches.
    pub waiting: Option<Waiting>,
    /// Its lists, where sequences are cut from them.
    pub lists: Vec<PackedLists>,
}

/// Memory that one thread reuses from segment to segment.
pub(super) struct Scratch {
    pub buffers: Buffers,
    /// Columns or padded rows, as decoded, and their masks.
    pub columns: [Memory; 2],
    /// Lengths of padded rows.
    pub lengths: Memory,
    /// For each bundle of fields, what sorts its rows.
    pub sorters: Vec<Sorter>,
    pub step: StepRows,
    /// Rows of a jagged field, as decoded.
    pub jagged: JaggedRows,
    /// For each jagged field, the bytes and rows that were decoded.
    decoded: Vec<(usize, usize)>,
}

impl Scratch {
    pub fn new() -> Self {
        Self {
            buffers: Buffers::default(),
            columns: lent(),
            lengths: Memory::lent(),
            sorters: Vec::new(),
            step: StepRows::default(),
            jagged: JaggedRows::default(),
            decoded: Vec::new(),
        }
    }
}

impl Filler {
    /// A filler for so many streams of rows, each of which is in a row group of its own.
    pub fn new(sources: Arc<Sources>, streams: usize) -> Self {
        let most_kept = sources.most_kept(streams as u64);
        let fetches = sources.held_bytes().map(Fetches::new);
        Self {
            files: OpenFiles::new(Arc::clone(&sources)),
            fetches,
            sources,
            pages: Arc::new(KeptPages::new(most_kept, if streams > 1 { 2 * streams } else { 1 })),
            scratch: Mutex::default(),
            scatters: Mutex::default(),
            surveys: Surveys::default(),
        }
    }

    /// The sources.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The layout of the batches.
    pub fn layout(&self) -> &Layout {
        self.sources.layout()
    }

    /// Decodes a segment into the slots that `slots_of` gives per batch, or bunch. Returns the rows that each got,
    /// and what of the segment is left, where it expands to more than is decoded at once. Where a batch has no
    /// slots, its rows go nowhere.
    ///
    /// # Errors
    /// `Data` or `Source`, naming file, row group and column; `Interrupted` once `stop` is set.
    pub fn fill<'a>(
        &self,
        segment: &Segment,
        slots_of: impl Fn(u64) -> Option<&'a SharedSlots>,
        stop: &AtomicBool,
    ) -> Result<Filled> {
        let group_start = self.sources.group(segment.group).rows.start;
        match &segment.places {
            Places::Pieces(pieces) => {
                let slots = collected(pieces.iter().map(|piece| slots_of(piece.batch)))?;
                let mut shares = Routes::of_pieces(pieces, &slots)?;
                let damage = self.decode_to(segment.group, &mut shares, stop)?;
                shares.note_damage(&damage);
                let done = shares.each.len();
                let (pieces, later) = pieces.split_at(done);
                let noted = pieces.iter().zip(slots).map(|(piece, slots)| {
                    let rows = group_start + piece.rows.start..group_start + piece.rows.end;
                    let count = rows.end - rows.start;
                    if let Some(slots) = slots {
                        locked(slots).written().note(piece.slot_row, rows)?;
                    }
                    Ok((piece.batch, count))
                });
                let rows = collected_results(noted)?;
                let (group, places) = (segment.group, Places::Pieces(collected(later.iter().cloned())?));
                let left = (!later.is_empty()).then_some(Segment { group, places });
                Ok(Filled { rows, left, ..Filled::default() })
            }
            Places::Combed { comb, bunches, pieces } => {
                let (rows, left) = self.fill_combed(segment.group, (comb, *bunches), pieces, stop)?;
                Ok(Filled { left, waiting: Some(Waiting::Combed(rows)), ..Filled::default() })
            }
            Places::Scattered { part, stretches } if part.is_waiting() => {
                let rows = self.fill_sorted(segment.group, part, stretches, stop)?;
                Ok(Filled { waiting: Some(Waiting::Sorted(rows)), ..Filled::default() })
            }
            Places::Lists { of, spans, .. } => {
                let lists = self.fill_lists(segment.group, of, spans, stop)?;
                Ok(Filled { lists, ..Filled::default() })
            }
            Places::Scattered { part, stretches } => {
                let mut scatter = locked(&self.scatters).pop().unwrap_or_default();
                part.scatter(stretches, &mut scatter)?;
                let mut spans = with_room(stretches.len())?;
                for WindowStretch { rows: of, .. } in stretches {
                    spans.push(to_usize(of.start - group_start)?..to_usize(of.end - group_start)?);
                }
                let numbers = stretches.iter().map(|of| of.rows.clone()).collect();
                let shares = scatter.bunches().iter().map(|(bunch, of)| {
                    let (slots, moves) = (slots_of(*bunch), scatter.moves(of.clone()));
                    let noted = slots.map(|slots| locked(slots).written().note_scattered(moves, &numbers));
                    let before = noted.transpose()?.unwrap_or(0);
                    Ok(Route { slots, rows: Rows::Each(Scattered { moves, before }) })
                });
                let each = collected_results(shares)?;
                let mut shares = Routes { spans, each, numbers: scatter.numbers() };
                if !shares.each.is_empty() {
                    let damage = self.decode_to(segment.group, &mut shares, stop)?;
                    shares.note_damage(&damage);
                }
                let rows = collected(scatter.bunches().iter().map(|(bunch, of)| (*bunch, of.len() as u64)))?;
                locked(&self.scatters).push(scatter);
                Ok(Filled { rows, ..Filled::default() })
            }
        }
    }

    /// Decodes rows of a row group to their batches. Gives the damaged rows that are masked.
    fn decode_to(&self, group: usize, shares: &mut Routes<'_>, stop: &AtomicBool) -> Result<Vec<Damage>> {
        let of_group = self.sources.group(group);
        self.decode(group, stop, |file| self.decode_from(file, (group, &of_group), shares, stop))
    }

    /// Lets a row group be decoded, if its file is the same before and after it. Gives the damaged rows that are masked.
    pub(super) fn decode(
        &self,
        group: usize,
        stop: &AtomicBool,
        mut from: impl FnMut(GroupFile<'_>) -> Result<()>,
    ) -> Result<Vec<Damage>> {
        let of_group = self.sources.group(group);
        let rows = of_group.rows.clone();
        let masking = of_group.source.layout.masks_damage().then(|| Masking {
            surveys: &self.surveys,
            stop,
            group,
            rows: usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX),
            found: RefCell::default(),
        });
        let masking = masking.as_ref();
        let opened = self.opened(of_group.file, group);
        let of = |file| GroupFile { file, row_group: of_group.index, masking };
        match &opened {
            Err(error) if masking.is_none() || !error.is_damage() => return Err(error.clone()),
            Err(error) => from(of(Err(error)))?,
            Ok(file) => {
                let decoded = from(of(Ok(file)));
                if decoded == Err(Error::Interrupted) {
                    return Err(Error::Interrupted);
                }
                match file.check_unchanged() {
                    // What was read before the file went is whole.
                    Err(gone) if masking.is_some() && gone.is_damage() => decoded?,
                    // What can't be decoded may be another file's bytes, too: then that is what is said.
                    unchanged => unchanged.and(decoded)?,
                }
            }
        }
        let found = masking.map(|masking| masking.found.take()).unwrap_or_default();
        let damage = found.into_iter().map(|BadRows { rows: bad, cause }| Damage {
            rows: rows.start + bad.start as u64..rows.start + bad.end as u64,
            cause: of_group.named(cause).to_string().into(),
        });
        Ok(damage.collect())
    }

    /// The file of a row group, whose bytes are asked for.
    pub(super) fn opened(&self, file: usize, group: usize) -> Result<Arc<OpenFile>> {
        let file = self.files.open(file)?;
        match &self.fetches {
            Some(fetches) => fetches.fetched(group, &file, &self.files),
            None => Ok(file),
        }
    }

    /// Field by field, or bundle by bundle, and column by column over a row group, so that one dictionary at a time is
    /// live. If that expands to too much, only the first runs are served, and the others left out.
    fn decode_from(
        &self,
        file: GroupFile<'_>,
        (group, of_group): (usize, &GroupOf<'_>),
        shares: &mut Routes<'_>,
        stop: &AtomicBool,
    ) -> Result<()> {
        let in_group = |error: Error| of_group.named(error);
        let layout = &of_group.source.layout;
        let fields = StripSource::all_of(file, of_group);
        let mut scratch = locked(&self.scratch).pop().unwrap_or_else(Scratch::new);
        let end_row = shares.spans.last().map_or(u64::MAX, |last| last.end as u64);
        scratch.buffers.begin_part(group, end_row, &self.pages);
        let mut begun = Vec::new();
        let jagged = fields.iter().filter(|source| source.field.kind.is_jagged());
        scratch.decoded.resize(jagged.clone().count(), (0, 0));
        for (number, source) in jagged.enumerate() {
            check(stop)?;
            if shares.are_runs() {
                let parts = source.read_jagged_runs(shares, &mut scratch, number).map_err(in_group)?;
                begun.push((source.place, parts));
            } else {
                source.scatter_jagged(shares, &mut scratch).map_err(in_group)?;
            }
        }
        for (place, parts) in begun {
            for part in parts {
                part.put(place, &shares.spans);
            }
        }
        for source in &fields {
            if let Some(padding) = source.field.padding {
                check(stop)?;
                source.fill_padded(padding, shares, &mut scratch).map_err(in_group)?;
            }
        }
        let parts = shares.parts(layout.row_bytes())?;
        if shares.are_runs() {
            for source in fields.iter().filter(|source| source.field.is_flat()) {
                check(stop)?;
                let filled = if source.columns.len() == 1 {
                    source.fill_runs(&parts, &mut scratch)
                } else {
                    fill_matrix(source, &parts, &mut scratch, stop)
                };
                filled.map_err(in_group)?;
            }
        } else {
            let bundles = layout.bundles();
            let mut sorters = std::mem::take(&mut scratch.sorters);
            sorters.resize_with(bundles.len(), Sorter::lent);
            for (bundle, sorter) in bundles.iter().zip(&mut sorters) {
                let sources: Vec<_> = bundle.iter().map(|&index| &fields[index]).collect();
                fill_bundle(&sources, &parts, &mut scratch, sorter, stop).map_err(in_group)?;
            }
            scratch.sorters = sorters;
        }
        locked(&self.scratch).push(scratch);
        Ok(())
    }

    /// Asks for row groups that are decoded soon, if they are waited for; see [`Fetches::look_ahead`].
    pub fn look_ahead(&self, soon: impl FnOnce() -> Soon, stop: &AtomicBool) {
        if let Some(fetches) = &self.fetches {
            fetches.look_ahead(&self.files, &soon(), stop);
        }
    }
}

impl StripSource<'_> {
    /// Decodes a field's only column straight into the slots.
    fn fill_runs(&self, parts: &RouteParts<'_>, scratch: &mut Scratch) -> Result<()> {
        let of = self.column(0);
        let sieve = &parts.sieve;
        let Scratch { buffers, step, .. } = scratch;
        let take = |decoder: &mut dyn ScalarDecoder| {
            for (share, steps) in parts.shares.iter().zip(&parts.steps) {
                if let Route { slots: Some(slots), rows: Rows::Run { to, count, .. } } = *share {
                    let mut slots = locked(slots);
                    let (values, valid) = slots.scalars((self.place, self.field), to, count);
                    sieve.read(steps.clone(), decoder, of.nulls, Target { values, valid }, step)?;
                } else {
                    sieve.skip(steps.clone(), decoder)?;
                }
            }
            Ok(())
        };
        let sieved = FieldColumn { nulls: sieve.nulls(of.nulls), ..of };
        self.file.scalars(sieved, buffers, take).map_err(|error| error.in_column(&of.column.name))
    }

    /// Decodes runs of rows of a field's only column, each behind the rows that its batch has. Once the
    /// decoded bytes reach the limit, the other runs are left out.
    fn read_jagged_runs<'a>(
        &self,
        shares: &mut Routes<'a>,
        scratch: &mut Scratch,
        number: usize,
    ) -> Result<Vec<JaggedRun<'a>>> {
        let of = self.column(0);
        // The first fields leave some of the limit to the others.
        let most = DIVIDED_BYTES / scratch.decoded.len().max(1);
        let so_far = &mut scratch.decoded[number];
        let mut parts: Vec<JaggedRun<'a>> = Vec::new();
        let take = |mut decoder: Box<dyn JaggedDecoder + '_>| {
            // Where this is tried again, the batches get back what they had.
            parts.drain(..).for_each(|part| part.put(self.place, &[]));
            let (mut row, mut bytes) = (0, 0);
            for (number, (share, span)) in shares.each.iter().zip(&shares.spans).enumerate() {
                if bytes >= most {
                    return Ok(number);
                }
                let Route { slots: Some(slots), rows: Rows::Run { to, .. } } = *share else { continue };
                if !parts.last().is_some_and(|last| last.goes_on(slots, to, number)) {
                    parts.push(JaggedRun::new(
                        slots,
                        self.place,
                        to,
                        number,
                        expected_bytes(self.row_bytes, *so_far),
                    ));
                }
                let Some(part) = parts.last_mut() else { continue };
                decoder.skip(span.start - row)?;
                let added = part.add(|rows| decoder.read(span.len(), rows))?;
                bytes += added;
                *so_far = (so_far.0 + added, so_far.1 + span.len());
                row = span.end;
            }
            Ok(shares.each.len())
        };
        let done = self.file.jagged(of, self.field.marks_elements(), &mut scratch.buffers, take);
        let done = done.map_err(|error| error.in_column(&of.column.name))?;
        shares.spans.truncate(done);
        shares.each.truncate(done);
        Ok(parts)
    }

    /// Decodes the spans of a field's only column, and copies each row to its batch.
    fn scatter_jagged(&self, shares: &Routes<'_>, scratch: &mut Scratch) -> Result<()> {
        let Scratch { buffers, jagged, .. } = scratch;
        jagged.clear();
        self.append_lists(&shares.spans, jagged, buffers)?;
        hand_out_jagged(&shares.each, self.place, self.field.inner_levels(), jagged)
    }

    /// Decodes a field's only column to padded rows, and their lengths to the field behind this one.
    fn fill_padded(&self, padding: Padding, shares: &Routes<'_>, scratch: &mut Scratch) -> Result<()> {
        let (of, of_field) = (self.column(0), (self.field.dtype.width(), self.field.has_lengths()));
        let Scratch { buffers, jagged, columns: [values, valid], lengths, .. } = scratch;
        let take = |decoder: Box<dyn JaggedDecoder + '_>| {
            let mut decoder = PadDecoder::new(decoder, padding, of_field, self.row_bytes, jagged);
            let memory = [&mut *values, &mut *lengths, &mut *valid];
            decoder.fill(shares, (self.place, self.lengths_place, self.field.is_masked()), memory)
        };
        self.file.jagged(of, true, buffers, take).map_err(|error| error.in_column(&of.column.name))
    }
}

/// Decodes the columns of a matrix side by side, and hands out what each batch makes its rows of.
fn fill_matrix(
    source: &StripSource<'_>,
    parts: &RouteParts<'_>,
    scratch: &mut Scratch,
    stop: &AtomicBool,
) -> Result<()> {
    let cuts = parts.cuts();
    let Scratch { buffers, step, .. } = scratch;
    let strips = decode_together(&[source], parts, &cuts, lent, (buffers, step), stop)?;
    for (cut, strip) in cuts.iter().zip(strips) {
        parts.hand_out_runs(cut, &Arc::new(strip), (source.place, source.field.is_masked()));
    }
    Ok(())
}

/// Decodes the columns of a bundle, or of a matrix, side by side where rows are scattered, and hands them
/// out. This takes one random access for all columns.
fn fill_bundle(
    sources: &[&StripSource<'_>],
    parts: &RouteParts<'_>,
    scratch: &mut Scratch,
    sorter: &mut Sorter,
    stop: &AtomicBool,
) -> Result<()> {
    let Some(first) = sources.first() else { return Ok(()) };
    let Scratch { buffers, columns, step, .. } = scratch;
    let memory = || std::mem::replace(columns, lent());
    let strips = decode_together(sources, parts, &[parts.whole()], memory, (buffers, step), stop)?;
    let Some(strip) = strips.into_iter().next() else { return Ok(()) };
    let masked = sources.iter().find(|source| source.field.is_masked());
    let fields = [Some((first.place, false)), masked.map(|masked| (masked.place, true))];
    for field in fields.into_iter().flatten() {
        hand_out(&parts.shares, parts.numbers, field, strip.columns(field.1), sorter)?;
    }
    scratch.columns = strip.into_memory();
    Ok(())
}

/// Empty memory for values, and for masks.
fn lent() -> [Memory; 2] {
    [Memory::lent(), Memory::lent()]
}
