//! A segment's rows into the slots of their batches.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::batch::Slots;
use crate::column::{JaggedRows, Target};
use crate::decode::OpenFile;
use crate::error::{Error, Result, check};
use crate::layout::{Field, Layout};
use crate::manifest::Manifest;
use crate::memory::Memory;
use crate::page::Buffers;
use crate::schema::Column;
use crate::segment::{Piece, Places, Segment, Stretch};
use crate::transpose::{Columns, Rows, scatter_rows};

/// Files that stay open between segments.
const OPEN_FILES: usize = 8;

/// Jagged rows of a segment are decoded until they have so many bytes: dictionaries let few bytes in a file
/// state many.
const DIVIDED_BYTES: usize = 64 << 20;

/// A batch that several threads write to.
pub type SharedSlots = Arc<Mutex<Slots>>;

/// The lock, whatever became of the thread that had it: nothing panics while it holds one, and if
/// something did, what it guards is still whole.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number as an index of this machine.
///
/// # Errors
/// `Data` if it does not fit.
pub fn to_usize(count: u64) -> Result<usize> {
    usize::try_from(count).map_err(|_| Error::data(format!("{count} rows do not fit the address space")))
}

/// Decodes segments of one dataset into batches of one layout.
pub struct Filler {
    manifest: Arc<Manifest>,
    layout: Layout,
    files: Mutex<VecDeque<(usize, Arc<OpenFile>)>>,
    scratch: Mutex<Vec<Scratch>>,
}

/// What became of a segment.
pub struct Filled {
    /// The rows that each batch got.
    pub rows: Vec<(u64, u64)>,
    /// What of it is left.
    pub left: Option<Segment>,
}

/// What one thread reuses from segment to segment.
#[derive(Default)]
struct Scratch {
    buffers: Buffers,
    /// The columns of a field as decoded, and their masks.
    values: Memory,
    valid: Memory,
    /// The same row by row.
    by_row: Memory,
    /// Of each jagged field the rows as decoded.
    jagged: Vec<JaggedRows>,
}

/// What of a row group goes where: the same for all fields.
struct Shares<'a> {
    /// Rows to decode, counted within the row group, ascending.
    spans: Vec<Range<usize>>,
    /// Of these, counted on, what goes to which batch. Where a batch has no slots, its rows go nowhere.
    shares: Vec<(Option<&'a SharedSlots>, Rows<'a>)>,
}

impl Shares<'_> {
    fn rows(&self) -> usize {
        self.spans.iter().map(ExactSizeIterator::len).sum()
    }

    /// Whether all rows of a batch come as runs.
    fn are_runs(&self) -> bool {
        self.shares.iter().all(|(_, rows)| matches!(rows, Rows::Run { .. }))
    }
}

/// A field of one row group, open for reading.
struct Source<'a> {
    file: &'a OpenFile,
    row_group: usize,
    /// Its columns in the file.
    columns: Vec<&'a Column>,
    index: usize,
    field: &'a Field,
}

impl Filler {
    pub fn new(manifest: Arc<Manifest>, layout: Layout) -> Self {
        Self { manifest, layout, files: Mutex::default(), scratch: Mutex::default() }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Decodes a segment into the slots that `slots_of` gives per batch, and gives the rows that each batch
    /// got, and what of the segment is left, where it expands to more than is decoded at once. Where a batch
    /// has no slots, its rows go nowhere.
    ///
    /// # Errors
    /// `Data` or `Source`, naming file, row group and column; `Interrupted` once `stop` is set.
    pub fn fill<'a>(
        &self,
        segment: &Segment,
        slots_of: impl Fn(u64) -> Option<&'a SharedSlots>,
        stop: &AtomicBool,
    ) -> Result<Filled> {
        let group_start = self.manifest.group_rows(segment.group).start;
        match &segment.places {
            Places::Pieces(pieces) => {
                let slots: Vec<_> = pieces.iter().map(|piece| slots_of(piece.batch)).collect();
                let mut shares = runs(pieces, &slots)?;
                self.decode(segment.group, &mut shares, true, stop)?;
                let done = shares.shares.len();
                let (pieces, later) = pieces.split_at(done);
                let noted = pieces.iter().zip(slots).map(|(piece, slots)| {
                    let rows = group_start + piece.rows.start..group_start + piece.rows.end;
                    let count = rows.end - rows.start;
                    if let Some(slots) = slots {
                        locked(slots).note(piece.slot_row, rows);
                    }
                    (piece.batch, count)
                });
                let group = segment.group;
                let left = Segment { group, places: Places::Pieces(later.to_vec()) };
                Ok(Filled { rows: noted.collect(), left: (!later.is_empty()).then_some(left) })
            }
            Places::Scattered { part, stretches } => {
                let scatter = part.scatter(stretches);
                let mut spans = Vec::with_capacity(stretches.len());
                for Stretch { rows: of, .. } in stretches {
                    spans.push(to_usize(of.start - group_start)?..to_usize(of.end - group_start)?);
                }
                let shares = scatter.batches.iter();
                let shares = shares
                    .map(|(batch, places)| (slots_of(*batch), Rows::Each(&scatter.rows[places.clone()])));
                let mut shares = Shares { spans, shares: shares.collect() };
                if !shares.shares.is_empty() {
                    self.decode(segment.group, &mut shares, false, stop)?;
                }
                let numbers: Vec<u64> = stretches.iter().flat_map(|of| of.rows.clone()).collect();
                let noted = scatter.batches.iter().map(|(batch, places)| {
                    if let Some(slots) = slots_of(*batch) {
                        locked(slots).note_scattered(&numbers, &scatter.rows[places.clone()]);
                    }
                    (*batch, places.len() as u64)
                });
                Ok(Filled { rows: noted.collect(), left: None })
            }
        }
    }

    /// Field by field and column by column over a row group, so that one dictionary at a time is live. If that
    /// expands to too much and `can_divide`, only the first shares are served, and the others left out.
    fn decode(
        &self,
        group: usize,
        shares: &mut Shares<'_>,
        can_divide: bool,
        stop: &AtomicBool,
    ) -> Result<()> {
        let place = self.manifest.place_of(group);
        let in_group =
            |error: Error| error.in_row_group(place.index).in_file(&self.manifest.files()[place.file].path);
        let file = self.open(place.file)?;
        let schema = self.manifest.schema_of(place.file);
        let of_schema = self.manifest.columns(schema);
        let mut columns = self.layout.columns(schema).iter().map(|&place| &of_schema[place]);
        let fields = self.layout.fields().iter().enumerate().map(|(index, field)| Source {
            file: &file,
            row_group: place.index,
            columns: columns.by_ref().take(field.columns.len()).collect(),
            index,
            field,
        });
        let fields: Vec<Source<'_>> = fields.collect();
        let mut scratch = locked(&self.scratch).pop().unwrap_or_default();
        let jagged = || fields.iter().filter(|source| source.field.kind.is_jagged());
        scratch.jagged.resize_with(jagged().count(), JaggedRows::default);
        // The first fields leave room for the others.
        let most = if can_divide { DIVIDED_BYTES / scratch.jagged.len().max(1) } else { usize::MAX };
        for (source, output) in jagged().zip(&mut scratch.jagged) {
            check(stop)?;
            let done = source.read_jagged(shares, &mut scratch.buffers, output, most).map_err(in_group)?;
            shares.spans.truncate(done);
            if can_divide {
                shares.shares.truncate(done);
            }
        }
        for (source, decoded) in jagged().zip(&scratch.jagged) {
            for (slots, rows) in &shares.shares {
                if let Some(slots) = slots {
                    locked(slots).put_jagged(source.index, *rows, decoded)?;
                }
            }
        }
        for source in fields.iter().filter(|source| !source.field.kind.is_jagged()) {
            check(stop)?;
            let filled = if source.columns.len() == 1 && shares.are_runs() {
                source.fill_runs(shares, &mut scratch)
            } else {
                source.fill_scalars(shares, &mut scratch, stop)
            };
            filled.map_err(in_group)?;
        }
        locked(&self.scratch).push(scratch);
        Ok(())
    }

    fn open(&self, index: usize) -> Result<Arc<OpenFile>> {
        if let Some((_, file)) = locked(&self.files).iter().find(|(open, _)| *open == index) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(OpenFile::open(&self.manifest.files()[index])?);
        let mut files = locked(&self.files);
        files.push_front((index, Arc::clone(&file)));
        files.truncate(OPEN_FILES);
        Ok(file)
    }
}

impl Source<'_> {
    /// Decodes the only column straight into the slots.
    fn fill_runs(&self, shares: &Shares<'_>, scratch: &mut Scratch) -> Result<()> {
        let column = self.columns[0];
        let mut decode = || {
            let mut decoder =
                self.file.scalars(self.row_group, column, self.field.nulls[0], &mut scratch.buffers)?;
            let mut row = 0;
            for ((slots, rows), span) in shares.shares.iter().zip(&shares.spans) {
                let (Some(slots), Rows::Run { to, count, .. }) = (slots, rows) else { continue };
                decoder.skip(span.start - row)?;
                let mut slots = locked(slots);
                let (values, valid) = slots.scalars((self.index, self.field), *to, *count);
                decoder.read(Target { values, valid })?;
                row = span.end;
            }
            Ok(())
        };
        decode().map_err(|error: Error| error.in_column(&column.name))
    }

    /// Decodes the columns side by side, and hands out rows with the last of them: one random access for all
    /// columns of a matrix.
    fn fill_scalars(&self, shares: &Shares<'_>, scratch: &mut Scratch, stop: &AtomicBool) -> Result<()> {
        let (rows, count, width) = (shares.rows(), self.columns.len(), self.field.dtype.width());
        let mask_width = usize::from(self.field.is_masked());
        let Scratch { buffers, values, valid, by_row, .. } = scratch;
        values.resize(rows * count * width)?;
        valid.resize(rows * count * mask_width)?;
        for (number, column) in self.columns.iter().enumerate() {
            check(stop)?;
            let mut decode = || {
                let nulls = self.field.nulls[number];
                let mut decoder = self.file.scalars(self.row_group, column, nulls, buffers)?;
                let (mut row, mut first) = (0, number * rows);
                for span in &shares.spans {
                    decoder.skip(span.start - row)?;
                    let part = |width: usize| first * width..(first + span.len()) * width;
                    let values = &mut values.bytes_mut()[part(width)];
                    let valid = &mut valid.bytes_mut()[part(mask_width)];
                    decoder.read(Target { values, valid })?;
                    row = span.end;
                    first += span.len();
                }
                Ok(())
            };
            decode().map_err(|error: Error| error.in_column(&column.name))?;
        }
        let values = Columns { bytes: values.bytes(), width, count, rows };
        self.hand_out(shares, false, values, by_row)?;
        if self.field.is_masked() {
            let valid = Columns { bytes: valid.bytes(), width: 1, count, rows };
            self.hand_out(shares, true, valid, by_row)?;
        }
        Ok(())
    }

    fn hand_out(
        &self,
        shares: &Shares<'_>,
        is_mask: bool,
        columns: Columns<'_>,
        by_row: &mut Memory,
    ) -> Result<()> {
        if columns.count == 1 || shares.are_runs() {
            for (slots, rows) in &shares.shares {
                if let Some(slots) = slots {
                    locked(slots).put(self.index, is_mask, *rows, columns);
                }
            }
            return Ok(());
        }
        let row_bytes = columns.count * columns.width;
        by_row.resize(columns.rows * row_bytes)?;
        columns.interleave(0, by_row.bytes_mut());
        for (slots, rows) in &shares.shares {
            if let (Some(slots), Rows::Each(places)) = (slots, rows) {
                scatter_rows(by_row.bytes(), row_bytes, places, locked(slots).scalar(self.index, is_mask));
            }
        }
        Ok(())
    }

    /// Decodes the spans of the only column, until these have `most` bytes; gives how many they were.
    fn read_jagged(
        &self,
        shares: &Shares<'_>,
        buffers: &mut Buffers,
        output: &mut JaggedRows,
        most: usize,
    ) -> Result<usize> {
        let column = self.columns[0];
        output.clear();
        let mut decode = || {
            let mut decoder = self.file.jagged(self.row_group, column, self.field.nulls[0], buffers)?;
            let (mut row, mut done) = (0, 0);
            for span in &shares.spans {
                if output.values.len() >= most {
                    break;
                }
                decoder.skip(span.start - row)?;
                decoder.read(span.len(), output)?;
                (row, done) = (span.end, done + 1);
            }
            Ok(done)
        };
        decode().map_err(|error: Error| error.in_column(&column.name))
    }
}

/// Pieces as runs of what is decoded.
fn runs<'a>(pieces: &[Piece], slots: &[Option<&'a SharedSlots>]) -> Result<Shares<'a>> {
    let mut shares = Shares { spans: Vec::new(), shares: Vec::new() };
    let mut from = 0;
    for (piece, slots) in pieces.iter().zip(slots) {
        let span = to_usize(piece.rows.start)?..to_usize(piece.rows.end)?;
        let count = span.len();
        shares.shares.push((*slots, Rows::Run { from, to: to_usize(piece.slot_row)?, count }));
        shares.spans.push(span);
        from += count;
    }
    Ok(shares)
}
