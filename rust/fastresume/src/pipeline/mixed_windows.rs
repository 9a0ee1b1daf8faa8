//! Windows of the shuffled sources of a mixture.

use std::sync::Arc;

use crate::batch::window::WindowPart;
use crate::error::Result;
use crate::pipeline::counted::Counted;
use crate::pipeline::mixed_schedule::{MixedSchedule, nowhere};
use crate::pipeline::window_segments::{WindowRows, segments_of};
use crate::resume::lanes::Stream;
use crate::resume::source_places::Spread;

/// What a stream takes of a window.
pub(super) type Taken = (Vec<Spread>, Stream);

impl MixedSchedule {
    /// Makes the segments of the window at which a stream stands, for all streams that need it now; whether there is one.
    pub(super) fn open_window(&mut self, index: usize, source: usize) -> Result<bool> {
        let point = self.queue.point(index);
        let (order, of_pass) = self.order.pass_at(source, point)?;
        let Some(window) = order.window_at(point - of_pass.start) else { return Ok(false) };
        let comb = self.order.comb(source).map(Arc::clone).ok_or_else(nowhere)?;
        let points = of_pass.start + window.positions.start..of_pass.start + window.positions.end;
        let there = self.queue.standing_in(source, &points);
        let places = self.order.places(source, self.pass.division().remaining()).ok_or_else(nowhere)?;
        let streams = there.iter().map(|&index| &self.queue.stream(index).0.stream);
        let taken: Vec<Taken> =
            streams.map(|stream| (places.spreads(stream, &points), stream.clone())).collect();
        let next: Vec<_> = taken
            .iter()
            .map(|(_, stream)| {
                let place = places.behind(stream, &points)?;
                Some((place, places.point_at(stream, place)?))
            })
            .collect();
        for (index, next) in there.into_iter().zip(next) {
            self.queue.advance(index, next);
        }
        let counted = self.counted.clone();
        if let Counted::Sequences(of) = &counted {
            self.put_lists(source, (&*order, of_pass.start, &window), &comb, &taken, of)?;
            return Ok(true);
        }
        let mut part = WindowPart::of_source(window, &comb, &taken, self.bunches);
        if let Some(bins) = counted.bins() {
            part = part.of_bins(source, bins);
        }
        let bins = counted.bins().map(|bins| bins.bins(source));
        let of = WindowRows { sources: &self.sources, source, order: &order, bins };
        for segment in segments_of(&Arc::new(part), &of) {
            self.put(segment);
        }
        Ok(true)
    }
}
