//! The streams of one reader in a priority queue: how far each one is, and which one a batch needs next.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;

use crate::resume::lanes::Stream;

/// The streams of one reader, and how many rows of each were given.
pub struct StreamQueue {
    streams: Vec<Stream>,
    given: Vec<u64>,
    /// The next batch of each unfinished stream, the smallest on top. It also has outdated entries, of
    /// streams that advanced along with another one.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// Where each unfinished stream stands, counted along what remains, and its index.
    places: BTreeSet<(u64, usize)>,
}

impl StreamQueue {
    pub fn new(streams: Vec<Stream>) -> Self {
        let next = streams.iter().enumerate().map(|(index, stream)| Reverse((stream.first_batch, index)));
        let next = next.collect();
        let places = streams.iter().enumerate().map(|(index, stream)| (stream.counted(0), index)).collect();
        Self { next, places, given: vec![0; streams.len()], streams }
    }

    /// The streams.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter()
    }

    /// The index of the stream that the smallest batch needs; `None` at the end.
    pub fn first(&mut self) -> Option<usize> {
        while let Some(&Reverse((batch, index))) = self.next.peek() {
            let (stream, given) = self.stream(index);
            if given < stream.rows() && stream.batch_of(given) == batch {
                return Some(index);
            }
            self.next.pop();
        }
        None
    }

    /// A stream, and how many of its rows were given.
    pub fn stream(&self, index: usize) -> (&Stream, u64) {
        (&self.streams[index], self.given[index])
    }

    /// The stream that begins at this place along what remains, if none of its rows were given.
    pub fn beginning_at(&self, counted: u64) -> Option<usize> {
        let mut there = self.places.range((counted, 0)..(counted + 1, 0)).map(|&(_, index)| index);
        there.find(|&index| self.given[index] == 0)
    }

    /// Counts the rows of a stream up to `given` as given.
    pub fn take(&mut self, index: usize, given: u64) {
        if self.next.peek().is_some_and(|Reverse((_, first))| *first == index) {
            self.next.pop();
        }
        let (stream, before) = self.stream(index);
        self.places.remove(&(stream.counted(before), index));
        self.given[index] = given;
        if given < self.streams[index].rows() {
            self.places.insert((self.streams[index].counted(given), index));
            self.next.push(Reverse((self.streams[index].batch_of(given), index)));
        }
    }

    /// Counts as given the rows in `counted` of all streams that stand there now. Returns the indices of
    /// these streams, and the rows of each.
    pub fn take_window(&mut self, counted: &Range<u64>) -> Vec<(usize, Range<u64>)> {
        let there = self.places.range((counted.start, 0)..(counted.end, 0)).map(|&(_, index)| index);
        let mut there: Vec<usize> = there.collect();
        there.sort_unstable();
        let mut taken = Vec::with_capacity(there.len());
        for index in there {
            let (stream, given) = self.stream(index);
            let end = stream.rows_before(counted.end);
            taken.push((index, given..end));
            self.take(index, end);
        }
        taken
    }
}
