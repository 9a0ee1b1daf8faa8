//! The schedule of sequences: it cuts the tokens that the streams of one reader take into segments.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::bunch::Bunches;
use crate::batch::list_span::{ListCut, SpanCutter, no_rows};
use crate::batch::packing::PackedRows;
use crate::batch::segment::{Places, SEGMENT_BYTES, Segment};
use crate::batch::sources::Sources;
use crate::dataset::manifest::Manifest;
use crate::error::{Error, Result};
use crate::memory::vectors::push;
use crate::order::pass_order::Order;
use crate::order::shuffle::Window;
use crate::pipeline::sequence_pass::SequencePass;
use crate::pipeline::stream_queue::StreamQueue;
use crate::resume::lanes::{Stream, WorkerId};
use crate::resume::pass::Pass;

/// The first segment of a stream that begins in the middle of a row group is of so many batches, so that a resume need not wait
/// for more.
const FIRST_BATCHES: u64 = 2;

/// Returns the segments of one reader in the order in which batches first need them.
pub struct SequenceSchedule {
    manifest: Arc<Manifest>,
    of: Arc<SequencePass>,
    /// The sequence at each position.
    order: Order,
    pass: Arc<Pass>,
    turns: StreamQueue,
    /// Of a stream whose next sequence was begun, the token of its file up to which it was.
    begun: BTreeMap<usize, u64>,
    /// The segments of windows that were opened, by the first batch that needs them, and in their order.
    open: BTreeMap<(u64, u64), Segment>,
    count: u64,
    bunches: Bunches,
    dictionary_bytes: u64,
}

impl SequenceSchedule {
    /// The schedule of the rest of a pass for one reader.
    ///
    /// # Errors
    /// `Argument` if the reader has no share in the pass's cut.
    pub fn new(
        sources: &Sources,
        (order, of): (Order, Arc<SequencePass>),
        pass: Arc<Pass>,
        reader: WorkerId,
    ) -> Result<Self> {
        let first = pass.done() + reader.worker;
        Ok(Self {
            manifest: Arc::clone(&sources.each()[0].manifest),
            of,
            order,
            bunches: Bunches::new(first, reader.workers, 0, pass.rank_rows()),
            turns: StreamQueue::new(pass.streams(reader)?),
            pass,
            begun: BTreeMap::new(),
            open: BTreeMap::new(),
            count: 0,
            dictionary_bytes: sources.most_kept(1),
        })
    }

    /// How batches are put in order together: each is alone.
    pub fn bunches(&self) -> Bunches {
        self.bunches
    }

    /// Whether sequences come in another order than that of the files.
    pub fn is_shuffled(&self) -> bool {
        self.order.sizes().is_some()
    }

    /// The bytes of what is decoded in one go, over all streams, until batches have taken it.
    pub fn open_bytes(&self) -> u64 {
        let sequence_bytes = self.of.sequence_bytes();
        let of_each = self.turns.streams().map(|stream| match self.order.largest_window() {
            0 => stream.rows().saturating_mul(sequence_bytes).min(SEGMENT_BYTES) / 2 * 3,
            rows => stream.rows().min(rows).saturating_mul(sequence_bytes),
        });
        of_each.fold(self.dictionary_bytes, u64::saturating_add)
    }

    /// The next segment; `None` at the end.
    ///
    /// # Errors
    /// The first batch that can't be had, and why.
    pub fn next_segment(&mut self) -> Option<std::result::Result<Segment, (u64, Error)>> {
        loop {
            let index = self.turns.first();
            let batch = index.map(|index| {
                let (stream, given) = self.turns.stream(index);
                stream.batch_of(given)
            });
            if let Some(entry) = self.open.first_entry()
                && batch.is_none_or(|batch| entry.key().0 <= batch)
            {
                return Some(Ok(entry.remove()));
            }
            let (index, batch) = index.zip(batch)?;
            let (stream, given) = self.turns.stream(index);
            let counted = stream.counted(given);
            let position = self.pass.division().remaining().slice(counted..counted + 1).next()?.start;
            let opened = match self.order.window_at(position) {
                None => self.open_stream(index),
                Some(window) => self.open_window(&window),
            };
            if let Err(error) = opened {
                return Some(Err((batch, error)));
            }
        }
    }

    fn most_tokens(&self) -> u64 {
        (SEGMENT_BYTES / self.of.token_bytes()).max(1)
    }

    /// Makes the segment that begins with the next token of a stream; the sequences that end in it count as given.
    fn open_stream(&mut self, index: usize) -> Result<()> {
        let (of, manifest) = (Arc::clone(&self.of), Arc::clone(&self.manifest));
        let (stream, given) = self.turns.stream(index);
        let mut cutter = SpanCutter::new((of.of(0), 0), &manifest, self.most_tokens());
        let mut begun = self.begun.get(&index).copied();
        let (mut reached, first_batch) = (given, stream.batch_of(given));
        let (table, mut last, mut most) = (&of.of(0).table, 0, None);
        for run in self.runs(stream, given) {
            let (file, tokens) = table.tokens(&run);
            let most = *most.get_or_insert_with(|| {
                self.most_sequences(stream, given, (file, begun.unwrap_or(tokens.start)))
            });
            // One before the last one opens a segment of its own.
            let room = if run.start < last { 0 } else { most - (reached - given).min(most) };
            let own = run.start..table.starts[file + 1].min(run.end).min(run.start.saturating_add(room));
            if own.is_empty() {
                break;
            }
            let (_, tokens) = table.tokens(&own);
            let upto = cutter.add(file, begun.take().unwrap_or(tokens.start)..tokens.end)?;
            if upto < tokens.end {
                // The one that the segment ends in goes on in the next one.
                let ended = table.sequence_of(file, upto);
                reached += ended.saturating_sub(own.start);
                begun = Some(upto).filter(|&upto| upto > table.tokens(&(ended..ended + 1)).1.start);
                break;
            }
            (reached, last) = (reached + own.end - own.start, own.end);
            if own.end < run.end {
                break;
            }
        }
        if cutter.is_empty() {
            return Err(no_rows());
        }
        match begun {
            Some(token) => self.begun.insert(index, token),
            None => self.begun.remove(&index),
        };
        self.turns.take(index, reached);
        if let Some(cut) = cutter.taken() {
            self.put(first_batch, cut);
        }
        Ok(())
    }

    /// How many sequences a segment may have that begins with the next one of a stream, at a token of a file.
    fn most_sequences(&self, stream: &Stream, given: u64, (file, token): (usize, u64)) -> u64 {
        let PackedRows { table, rows, .. } = &**self.of.of(0);
        let ordinal = table.anchor_of(file, table.anchor_before(file, token)).ordinal;
        let is_resumed = given == 0 && rows.group_starts().binary_search(&ordinal).is_err();
        if is_resumed { FIRST_BATCHES * stream.slice_rows } else { u64::MAX }
    }

    /// Makes the segments of a window, for all streams that need it now.
    fn open_window(&mut self, window: &Window) -> Result<()> {
        let (of, manifest) = (Arc::clone(&self.of), Arc::clone(&self.manifest));
        let remaining = self.pass.division().remaining();
        let counted = remaining.rank(window.positions.start)..remaining.rank(window.positions.end);
        let taken = self.turns.take_window(&counted);
        let mut sequences: Vec<(u64, u64)> = Vec::new();
        for (index, given) in taken {
            let stream = self.turns.stream(index).0;
            let own = self.runs(stream, given.start).flatten();
            for (sequence, given) in own.zip(given) {
                push(&mut sequences, (sequence, stream.batch_of(given)))?;
            }
        }
        sequences.sort_unstable();
        let cutter = SpanCutter::new((of.of(0), 0), &manifest, self.most_tokens());
        for (first_batch, cut) in cutter.cut(&sequences)? {
            self.put(first_batch, cut);
        }
        Ok(())
    }

    /// Takes a segment that was cut.
    fn put(&mut self, first_batch: u64, (group, spans, tokens): ListCut) {
        let (of, bytes) = (Arc::clone(self.of.of(0)), tokens.saturating_mul(self.of.token_bytes()));
        let places = Places::Lists { of, first_batch, bytes, spans };
        self.open.insert((first_batch, self.count), Segment { group, places });
        self.count += 1;
    }

    /// The sequences behind the first `given` of a stream.
    fn runs(&self, stream: &Stream, given: u64) -> impl Iterator<Item = Range<u64>> + use<'_> {
        let remaining = self.pass.division().remaining();
        let positions = stream.stretches(given).flat_map(|counted| remaining.slice(counted));
        positions.flat_map(|positions| self.order.rows(positions))
    }
}
