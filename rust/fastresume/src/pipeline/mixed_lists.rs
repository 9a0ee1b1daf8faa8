//! Segments of lists, from which the sequences of a mixture's sources are cut.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::list_span::{ListCut, SpanCutter, no_rows};
use crate::batch::segment::{Places, Segment};
use crate::error::Result;
use crate::memory::vectors::push;
use crate::order::comb::Comb;
use crate::order::pass_order::Order;
use crate::order::shuffle::Window;
use crate::pipeline::mixed_schedule::{MixedSchedule, nowhere};
use crate::pipeline::mixed_windows::Taken;
use crate::pipeline::sequence_pass::SequencePass;
use crate::resume::lanes::Stream;
use crate::resume::source_places::Run;
use crate::units::sequence_table::SequenceTable;

/// The lists of a segment that is being cut.
struct BegunLists<'a> {
    cutter: SpanCutter<'a>,
    table: &'a SequenceTable,
    /// The token of its file up to which the next sequence was begun.
    token: Option<u64>,
    /// The sequence behind the last one.
    last: u64,
}

impl MixedSchedule {
    /// The segment that begins with the next token of a stream; the sequences that end in it count as given.
    pub(super) fn lists_from(
        &mut self,
        index: usize,
        (stream, source): (&Stream, usize),
        mut given: u64,
        of: &SequencePass,
    ) -> Result<Segment> {
        let (order, of_pass) = self.order.pass_at(source, self.queue.point(index))?;
        let comb = self.order.comb(source).map(Arc::clone).ok_or_else(nowhere)?;
        let (first_batch, share) = (stream.batch_of(given), self.share(index, stream, given));
        let most_tokens = self.most_tokens(source, of);
        let most_tokens = (most_tokens / share.count).saturating_mul(share.number).max(1);
        let (packed, manifest) = (Arc::clone(of.of(source)), self.sources.each()[source].manifest.clone());
        let mut begun = BegunLists {
            cutter: SpanCutter::new((&packed, of_pass.start), &manifest, most_tokens),
            table: &packed.table,
            token: self.begun.remove(&index),
            last: 0,
        };
        let places = self.order.places(source, self.pass.division().remaining()).ok_or_else(nowhere)?;
        let mut stopped = None;
        while stopped.is_none() && given < stream.rows() && stream.batch_of(given) < share.end_batch {
            self.runs.clear();
            let end = places.runs(stream, given, &mut self.runs);
            for run in &self.runs {
                stopped = begun.add(run, (&*order, &of_pass, &*comb))?;
                if stopped.is_some() {
                    break;
                }
            }
            given =
                if self.runs.is_empty() { places.next(stream, end).unwrap_or(stream.rows()) } else { end };
        }
        let (token, cut) = (begun.token, begun.cutter.taken());
        let cut = cut.ok_or_else(no_rows)?;
        if let Some(token) = token {
            self.begun.insert(index, token);
        }
        self.queue.count_segment(index);
        self.settle(index, Some(stopped.unwrap_or(given)));
        Ok(self.lists(source, of, (first_batch, cut)))
    }

    /// Makes the segments of a window of sequences, for streams that need it now.
    pub(super) fn put_lists(
        &mut self,
        source: usize,
        (order, pass, window): (&Order, u64, &Window),
        comb: &Comb,
        taken: &[Taken],
        of: &SequencePass,
    ) -> Result<()> {
        let mut sequences: Vec<(u64, u64)> = Vec::new();
        for (spreads, stream) in taken {
            for spread in spreads {
                let position = |place: u64| window.positions.start + place;
                let positions = position(spread.places.start)..position(spread.places.end);
                for (behind, sequence) in (0..).zip(order.rows(positions).flatten()) {
                    let offset = spread.past + comb.distance(spread.phase, behind);
                    if offset % stream.slice_stride < stream.slice_rows {
                        let slice = offset / stream.slice_stride;
                        push(&mut sequences, (sequence, stream.first_batch + slice * stream.batch_stride))?;
                    }
                }
            }
        }
        sequences.sort_unstable();
        let manifest = Arc::clone(&self.sources.each()[source].manifest);
        let cutter = SpanCutter::new((of.of(source), pass), &manifest, self.most_tokens(source, of));
        for cut in cutter.cut(&sequences)? {
            let segment = self.lists(source, of, cut);
            self.put(segment);
        }
        Ok(())
    }

    /// About so many tokens of a source are decoded in one go.
    fn most_tokens(&self, source: usize, of: &SequencePass) -> u64 {
        (self.part_bytes[source] / of.token_bytes()).max(1)
    }

    /// A segment of lists that was cut, and the first batch that needs it.
    fn lists(&self, source: usize, of: &SequencePass, (first_batch, cut): (u64, ListCut)) -> Segment {
        let (group, spans, tokens) = cut;
        let (bytes, of) = (tokens.saturating_mul(of.token_bytes()), Arc::clone(of.of(source)));
        let group = self.sources.number_of(source, group);
        Segment { group, places: Places::Lists { of, first_batch, bytes, spans } }
    }
}

impl BegunLists<'_> {
    /// Adds the sequences of a run. Returns the place of the first one that does not end in this segment, if there is one.
    fn add(
        &mut self,
        run: &Run,
        (order, of_pass, comb): (&Order, &Range<u64>, &Comb),
    ) -> Result<Option<u64>> {
        if !of_pass.contains(&run.points.start) {
            return Ok(Some(run.given));
        }
        let positions = run.points.start - of_pass.start..run.points.end - of_pass.start;
        let mut done = 0;
        for mut left in order.rows(positions) {
            while !left.is_empty() {
                let (file, _) = self.table.tokens(&left);
                let own = left.start..left.end.min(self.table.starts[file + 1]);
                // One before the last one opens a segment of its own.
                if own.start < self.last {
                    return Ok(Some(run.given + comb.distance(run.phase, done)));
                }
                let (_, tokens) = self.table.tokens(&own);
                let upto = self.cutter.add(file, self.token.take().unwrap_or(tokens.start)..tokens.end)?;
                if upto < tokens.end {
                    // The one that the segment ends in goes on in the next one.
                    let ended = self.table.sequence_of(file, upto).max(own.start);
                    let begins = self.table.tokens(&(ended..ended + 1)).1.start;
                    self.token = Some(upto).filter(|&upto| upto > begins);
                    return Ok(Some(run.given + comb.distance(run.phase, done + (ended - own.start))));
                }
                done += own.end - own.start;
                (self.last, left.start) = (own.end, own.end);
            }
        }
        Ok(None)
    }
}
