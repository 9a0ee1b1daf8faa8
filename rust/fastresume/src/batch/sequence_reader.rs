//! The sequences of batches, cut from documents that are decoded many at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::documents::Documents;
use crate::batch::filler::Filler;
use crate::batch::packing::Packing;
use crate::batch::segment::to_usize;
use crate::batch::sequences::{Part, Sequences, cut};
use crate::batch::sources::Sources;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::intervals::set::Intervals;
use crate::memory::buffer::Pool;
use crate::order::selection::Selection;
use crate::projection::layout::Layout;
use crate::units::sequence_table::{SequenceRows, SequenceTable};

/// What sequences are made of.
#[derive(Debug, Clone)]
pub struct SequenceSource {
    /// The files.
    pub manifest: Arc<Manifest>,
    /// Which of their rows are packed.
    pub selection: Arc<Selection>,
    /// What becomes of rows.
    pub layout: Layout,
    /// How sequences are made of these.
    pub packing: Arc<Packing>,
    /// Which rows each one is cut from.
    pub table: Arc<SequenceTable>,
}

/// What is decoded in one go, and for how long it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// Sequences of a file.
    pub sequences: u64,
    /// So many chunks are kept: those that were used last.
    pub most_kept: usize,
}

/// Makes sequences; its files stay open.
pub struct SequenceReader {
    source: SequenceSource,
    filler: Filler,
    /// `None` where nothing is decoded but what is asked for.
    chunks: Option<Chunks>,
    /// By the first sequence and the end.
    kept: BTreeMap<(u64, u64), Chunk>,
    uses: u64,
    /// What was kept before, for its memory.
    spare: Option<Documents>,
    pool: Pool,
}

/// Documents that were decoded in one go.
#[derive(Clone)]
struct Chunk {
    documents: Arc<Documents>,
    /// Tokens of them before the first sequence.
    skipped: u64,
    /// Which use was the last one.
    used: u64,
}

impl SequenceReader {
    /// About `stated_bytes` of batches are in use at a time.
    #[must_use]
    pub fn new(source: SequenceSource, chunks: Option<Chunks>, stated_bytes: usize) -> Self {
        let filler =
            Filler::new(Arc::new(Sources::one(Arc::clone(&source.manifest), source.layout.clone())), 1);
        let pool = Pool::new(stated_bytes);
        Self { source, filler, chunks, kept: BTreeMap::new(), uses: 0, spare: None, pool }
    }

    /// The sequences in these runs, over and over until there are `count`. Without `stop` nothing is decoded: `None` where
    /// that is needed.
    ///
    /// # Errors
    /// `Data` or `Source` if rows can't be read, or not be packed; `Argument` for a sequence that there is not, or if the
    /// system does not give so much memory; `Interrupted` once `stop` is set.
    pub fn sequences(
        &mut self,
        runs: &[Range<u64>],
        count: usize,
        stop: Option<&AtomicBool>,
    ) -> Result<Option<Sequences>> {
        let SequenceTable { length, starts, .. } = &*self.source.table;
        let (length, there) = (*length, starts.last().copied().unwrap_or(0));
        if let Some(run) = runs.iter().find(|run| run.end > there) {
            return Err(Error::Argument(format!(
                "sequence {} is not below {there}, their number",
                run.end.saturating_sub(1)
            )));
        }
        let mut parts: Vec<Part> = Vec::new();
        for mut run in runs.iter().cloned() {
            while !run.is_empty() {
                let chunk = self.source.table.chunk(&run, self.chunks.map(|chunks| chunks.sequences));
                let Some(Chunk { documents, skipped, .. }) = self.chunk(&chunk, stop)? else {
                    return Ok(None);
                };
                let end = run.end.min(chunk.end);
                let skipped = skipped + (run.start - chunk.start) * length;
                parts.push(Part { documents, skipped, count: to_usize(end - run.start)? });
                run.start = end;
            }
        }
        cut(&self.source.packing, &parts, count, &self.pool).map(Some)
    }

    /// One sequence without documents: padding alone.
    ///
    /// # Errors
    /// `Argument` if the system does not give so much memory.
    pub fn padding(&self) -> Result<Sequences> {
        let packing = &self.source.packing;
        let (nothing, never) = (Intervals::default(), AtomicBool::new(false));
        let none = Documents::default().decode(&self.filler, packing, &nothing, 0, &never)?;
        cut(packing, &[Part { documents: Arc::new(none), skipped: 0, count: 1 }], 1, &self.pool)
    }

    /// Gives back what is kept for the next batches.
    pub fn forget(&mut self) {
        self.kept.clear();
        self.spare = None;
    }

    /// These sequences of one file, kept or decoded now.
    fn chunk(&mut self, sequences: &Range<u64>, stop: Option<&AtomicBool>) -> Result<Option<Chunk>> {
        let key = (sequences.start, sequences.end);
        self.uses += 1;
        if let Some(chunk) = self.kept.get_mut(&key) {
            chunk.used = self.uses;
            return Ok(Some(chunk.clone()));
        }
        let Some(stop) = stop else { return Ok(None) };
        let Some(Chunks { most_kept, .. }) = self.chunks else {
            return self.decoded(sequences, stop).map(Some);
        };
        while self.kept.len() >= most_kept.max(1) {
            let oldest = self.kept.iter().min_by_key(|(_, chunk)| chunk.used).map(|(key, _)| *key);
            let Some(chunk) = oldest.and_then(|key| self.kept.remove(&key)) else { break };
            self.spare = Arc::into_inner(chunk.documents);
        }
        let chunk = self.decoded(sequences, stop)?;
        self.kept.insert(key, chunk.clone());
        Ok(Some(chunk))
    }

    fn decoded(&mut self, sequences: &Range<u64>, stop: &AtomicBool) -> Result<Chunk> {
        let SequenceSource { selection, packing, table, .. } = &self.source;
        let SequenceRows { ordinals, skipped } = table.rows(sequences);
        let rows = Intervals::try_of_sorted(selection.rows(ordinals))?;
        let tokens = to_usize((sequences.end - sequences.start).saturating_mul(table.length))?;
        let spare = self.spare.take().unwrap_or_default();
        let documents = Arc::new(spare.decode(&self.filler, packing, &rows, tokens, stop)?);
        Ok(Chunk { documents, skipped, used: self.uses })
    }
}
