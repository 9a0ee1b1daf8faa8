//! The places of one source of a mixture in the streams of a reader: which of its rows stand there, and where each goes.
//!
//! A stream is that of a lane, whatever sources stand at its places: how far it is is counted in places. From a point of
//! a source to a place are four steps. Which occurrence it is: what earlier stages took are holes in its axis. At which
//! position that stands: the comb says so. How many positions remain before it: what earlier cuts took are gaps. And where
//! the lane has that.

use std::ops::Range;

use crate::intervals::set::Intervals;
use crate::order::comb::Comb;
use crate::resume::lanes::Stream;

/// The places of a source among the positions that remain of a stage.
#[derive(Debug, Clone, Copy)]
pub struct SourcePlaces<'a> {
    /// Where it stands.
    pub comb: &'a Comb,
    /// The points that were not taken before the stage, without end.
    pub free: &'a Intervals,
    /// The rows of each of its passes.
    pub pass_rows: u64,
    /// The positions that remain.
    pub remaining: &'a Intervals,
}

/// Rows of a source that follow one another in its axis within one slice, without a hole, a gap or the end of a pass.
///
/// Row k of it is at place `given + comb.distance(phase, k)` of its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The rows.
    pub points: Range<u64>,
    /// The place of the first one in its stream.
    pub given: u64,
    /// Where that is among the source's places of a period.
    pub phase: u64,
}

/// Rows of a window of a source that follow one another in a stream.
///
/// The row at place p is `past + comb.distance(phase, p - places.start)` places, of those that remain, behind where the
/// stream begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Their places in the window.
    pub places: Range<u64>,
    /// Where the first one is among the source's places of a period.
    pub phase: u64,
    /// How far behind the beginning of the stream that is.
    pub past: u64,
}

impl SourcePlaces<'_> {
    /// The first place of a stream, from one on, at which the source stands; `None` if there is none.
    ///
    /// A source may stand in none of a rank's slices: where these and the period come to the same again, it is known.
    #[must_use]
    pub fn next(&self, stream: &Stream, mut given: u64) -> Option<u64> {
        while given < stream.rows() {
            let counted = stream.counted(given);
            let position = self.remaining.slice(counted..counted + 1).next()?.start;
            let next = self.comb.position_of(self.comb.count_before(position));
            if next == position {
                return Some(given);
            }
            let there = stream.rows_before(self.remaining.rank(next));
            given = there.max(given + 1);
        }
        None
    }

    /// The point at a place of a stream, at which the source stands.
    #[must_use]
    pub fn point_at(&self, stream: &Stream, given: u64) -> Option<u64> {
        let counted = stream.counted(given);
        let position = self.remaining.slice(counted..counted + 1).next()?.start;
        let occurrence = self.comb.count_before(position);
        self.free.slice(occurrence..occurrence + 1).next().map(|found| found.start)
    }

    /// Adds the runs from a place of a stream on to the end of its slice; returns the place where the next slice begins.
    pub fn runs(&self, stream: &Stream, given: u64, runs: &mut Vec<Run>) -> u64 {
        let end = (given / stream.slice_rows + 1) * stream.slice_rows;
        let counted = stream.counted(given);
        let mut at = given;
        for positions in self.remaining.slice(counted..counted + (end - given)) {
            let mut occurrence = self.comb.count_before(positions.start);
            let last = self.comb.count_before(positions.end);
            for mut points in self.free.slice(occurrence..last) {
                while !points.is_empty() {
                    let of_pass = (points.start / self.pass_rows + 1).saturating_mul(self.pass_rows);
                    let own = points.start..points.end.min(of_pass);
                    let given = at + (self.comb.position_of(occurrence) - positions.start);
                    occurrence += own.end - own.start;
                    points.start = own.end;
                    let phase = self.comb.phase_of(occurrence - (own.end - own.start));
                    runs.push(Run { points: own, given, phase });
                }
            }
            at += positions.end - positions.start;
        }
        end
    }

    /// What a stream takes of the points of a window: a range within one pass.
    #[must_use]
    pub fn spreads(&self, stream: &Stream, window: &Range<u64>) -> Vec<Spread> {
        let ends = stream.start..stream.counted(stream.rows().saturating_sub(1)) + 1;
        let before = self.free.rank(window.start);
        let mut occurrence = before;
        let mut found = Vec::new();
        for points in self.free.slice(before..self.free.rank(window.end)) {
            let count = points.end - points.start;
            let own = occurrence..occurrence + count;
            occurrence = own.end;
            let positions = self.comb.position_of(own.start)..self.comb.position_of(own.end - 1) + 1;
            let counted = self.remaining.rank(positions.start).max(ends.start)
                ..self.remaining.rank(positions.end).min(ends.end);
            let mut reached = counted.start;
            for there in self.remaining.slice(counted.start..counted.end.max(counted.start)) {
                let first = self.comb.count_before(there.start).max(own.start);
                let last = self.comb.count_before(there.end).min(own.end);
                if first < last {
                    let place = points.start + (first - own.start) - window.start;
                    found.push(Spread {
                        places: place..place + (last - first),
                        phase: self.comb.phase_of(first),
                        past: reached + (self.comb.position_of(first) - there.start) - stream.start,
                    });
                }
                reached += there.end - there.start;
            }
        }
        found
    }

    /// The first place of a stream behind the points of a window at which the source stands; `None` if there is none.
    #[must_use]
    pub fn behind(&self, stream: &Stream, window: &Range<u64>) -> Option<u64> {
        let last = self.free.rank(window.end).saturating_sub(1);
        let counted = self.remaining.rank(self.comb.position_of(last) + 1);
        self.next(stream, stream.rows_before(counted))
    }
}
