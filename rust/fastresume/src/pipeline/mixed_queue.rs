//! The streams of the sources of a mixture in a priority queue: how far each one is, and which one a batch needs next.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use crate::resume::lanes::Stream;

/// A lane's stream, of which one source is read. How far it is is counted in places of the lane.
#[derive(Debug)]
pub struct SourceStream {
    /// The stream of the lane.
    pub stream: Stream,
    /// The source.
    pub source: usize,
    /// The place at which the source stands next; `None` at its end.
    next: Option<u64>,
    /// The point that stands there.
    point: u64,
    /// So many segments were cut of it.
    pub cut: usize,
}

/// The streams of one reader, one for each lane and source.
#[derive(Debug, Default)]
pub struct MixedQueue {
    streams: Vec<SourceStream>,
    /// The next batch of each stream that has not ended, the smallest on top. It also has outdated entries, of streams that
    /// advanced along with another one.
    batches: BinaryHeap<Reverse<(u64, usize)>>,
    /// The source of each stream that has not ended, its next point, and its index.
    standing: BTreeSet<(usize, u64, usize)>,
}

impl MixedQueue {
    /// Adds a stream of a source; `advance` finds its place and point.
    pub fn add(&mut self, stream: Stream, source: usize) -> usize {
        self.streams.push(SourceStream { stream, source, next: None, point: 0, cut: 0 });
        self.streams.len() - 1
    }

    /// The number of streams.
    pub fn count(&self) -> usize {
        self.streams.len()
    }

    /// A stream, and the place at which its source stands next; `None` at its end.
    pub fn stream(&self, index: usize) -> (&SourceStream, Option<u64>) {
        (&self.streams[index], self.streams[index].next)
    }

    /// The point at which a stream stands.
    pub fn point(&self, index: usize) -> u64 {
        self.streams[index].point
    }

    /// A stream goes on at a place, at which a point stands, or ends.
    pub fn advance(&mut self, index: usize, next: Option<(u64, u64)>) {
        let own = &mut self.streams[index];
        self.standing.remove(&(own.source, own.point, index));
        own.next = next.map(|(place, _)| place);
        if let Some((place, point)) = next {
            own.point = point;
            self.standing.insert((own.source, point, index));
            self.batches.push(Reverse((own.stream.batch_of(place), index)));
        }
    }

    /// Counts a segment of a stream.
    pub fn count_segment(&mut self, index: usize) {
        self.streams[index].cut += 1;
    }

    /// The index of the stream that the smallest batch needs; `None` at the end.
    pub fn first(&mut self) -> Option<usize> {
        while let Some(&Reverse((batch, index))) = self.batches.peek() {
            let (own, next) = self.stream(index);
            if next.is_some_and(|next| own.stream.batch_of(next) == batch) {
                return Some(index);
            }
            self.batches.pop();
        }
        None
    }

    /// The streams of a source that stand at one of these points now.
    pub fn standing_in(&self, source: usize, points: &Range<u64>) -> Vec<usize> {
        let there = self.standing.range((source, points.start, 0)..(source, points.end, 0));
        let mut there: Vec<usize> = there.map(|&(_, _, index)| index).collect();
        there.sort_unstable();
        there
    }
}
