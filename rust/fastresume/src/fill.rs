//! A segment's rows into the slots of their batches.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::batch::{Layout, Memory, Slots};
use crate::column::Target;
use crate::decode::OpenFile;
use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::schema::Column;
use crate::segment::{Piece, Places, Scatter, Segment, Stretch};

/// Files that stay open between segments.
const OPEN_FILES: usize = 8;

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
}

/// One column of one row group, open for reading.
struct Source<'a> {
    file: &'a OpenFile,
    row_group: usize,
    column: &'a Column,
    /// Its field in the layout, and its place in that.
    target: (usize, usize),
}

impl Filler {
    pub fn new(manifest: Arc<Manifest>, layout: Layout) -> Self {
        Self { manifest, layout, files: Mutex::default() }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Decodes a segment into the slots that `slots_of` gives per batch, and gives the rows that each batch
    /// got. Where a batch has no slots, its rows go nowhere.
    ///
    /// # Errors
    /// `Data` or `Source`, naming file, row group and column; `Interrupted` once `stop` is set.
    pub fn fill<'a>(
        &self,
        segment: &Segment,
        slots_of: impl Fn(u64) -> Option<&'a SharedSlots>,
        stop: &AtomicBool,
    ) -> Result<Vec<(u64, u64)>> {
        let group_start = self.manifest.group_rows(segment.group).start;
        match &segment.places {
            Places::Pieces(pieces) => {
                let slots: Vec<_> = pieces.iter().map(|piece| slots_of(piece.batch)).collect();
                self.each_column(segment.group, stop, |source| self.fill_pieces(source, pieces, &slots))?;
                let noted = pieces.iter().zip(slots).map(|(piece, slots)| {
                    let rows = group_start + piece.rows.start..group_start + piece.rows.end;
                    let count = rows.end - rows.start;
                    if let Some(slots) = slots {
                        locked(slots).note(piece.slot_row, rows);
                    }
                    (piece.batch, count)
                });
                Ok(noted.collect())
            }
            Places::Scattered { part, stretches } => {
                let scatter = part.scatter(stretches);
                if scatter.batches.is_empty() {
                    return Ok(Vec::new());
                }
                let slots: Vec<_> = scatter.batches.iter().map(|(batch, _)| slots_of(*batch)).collect();
                let mut rows = Vec::with_capacity(stretches.len());
                for Stretch { rows: of, .. } in stretches {
                    rows.push(to_usize(of.start - group_start)?..to_usize(of.end - group_start)?);
                }
                let mut scratch = Memory::default();
                self.each_column(segment.group, stop, |source| {
                    self.fill_scattered(source, &rows, &mut scratch, &scatter, &slots)
                })?;
                let numbers: Vec<u64> = stretches.iter().flat_map(|of| of.rows.clone()).collect();
                let noted = scatter.batches.iter().zip(slots).map(|((batch, places), slots)| {
                    if let Some(slots) = slots {
                        locked(slots).note_scattered(&numbers, &scatter.rows[places.clone()]);
                    }
                    (*batch, places.len() as u64)
                });
                Ok(noted.collect())
            }
        }
    }

    /// Column by column over a row group, so that one dictionary at a time is live.
    fn each_column(
        &self,
        group: usize,
        stop: &AtomicBool,
        mut read: impl FnMut(&Source<'_>) -> Result<()>,
    ) -> Result<()> {
        let place = self.manifest.place_of(group);
        let file = self.open(place.file)?;
        let schema = self.manifest.schema_of(place.file);
        for (field, column, in_schema) in self.layout.columns(schema) {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let source = &self.manifest.columns(schema)[in_schema];
            let target = (field, column);
            read(&Source { file: &file, row_group: place.index, column: source, target }).map_err(
                |error| {
                    let path = &self.manifest.files()[place.file].path;
                    error.in_column(&source.name).in_row_group(place.index).in_file(path)
                },
            )?;
        }
        Ok(())
    }

    fn fill_pieces(
        &self,
        source: &Source<'_>,
        pieces: &[Piece],
        slots: &[Option<&SharedSlots>],
    ) -> Result<()> {
        let mut decoder = source.file.decoder(source.row_group, source.column)?;
        let mut row = 0;
        for (piece, slots) in pieces.iter().zip(slots) {
            let Some(slots) = slots else { continue };
            decoder.skip(to_usize(piece.rows.start - row)?)?;
            let rows = to_usize(piece.rows.end - piece.rows.start)?;
            let slot_row = to_usize(piece.slot_row)?;
            decoder.read(locked(slots).target(&self.layout, source.target, slot_row, rows))?;
            row = piece.rows.end;
        }
        Ok(())
    }

    /// Decodes the columns of a field side by side, and hands out whole rows with the last of them: one
    /// random access for all columns of a matrix.
    fn fill_scattered(
        &self,
        source: &Source<'_>,
        stretches: &[Range<usize>],
        scratch: &mut Memory,
        scatter: &Scatter,
        slots: &[Option<&SharedSlots>],
    ) -> Result<()> {
        let (field, column) = source.target;
        let of_field = &self.layout.fields()[field];
        let (columns, row_bytes) = (of_field.columns.len(), of_field.row_bytes());
        if column == 0 {
            *scratch =
                Memory::zeroed(stretches.iter().map(ExactSizeIterator::len).sum::<usize>() * row_bytes)?;
        }
        let mut decoder = source.file.decoder(source.row_group, source.column)?;
        let (mut row, mut first) = (0, column);
        for stretch in stretches {
            decoder.skip(stretch.start - row)?;
            let rows = stretch.len();
            decoder.read(Target { memory: scratch.bytes_mut(), first, step: columns, rows })?;
            row = stretch.end;
            first += rows * columns;
        }
        if column + 1 == columns {
            for ((_, places), slots) in scatter.batches.iter().zip(slots) {
                if let Some(slots) = slots {
                    let places = &scatter.rows[places.clone()];
                    locked(slots).copy_rows(field, row_bytes, scratch.bytes(), places);
                }
            }
        }
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
