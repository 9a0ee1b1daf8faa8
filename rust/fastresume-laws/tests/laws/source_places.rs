//! The places of sources in the streams of readers, beside a walk over every place.

use std::ops::Range;

use fastresume::{Axes, Pass, Run, SourcePlaces, Stream, WorkerId};

/// A row of a source in a stream: its point, its batch, and its row there.
type Row = (u64, u64, u64);

/// Checks all that readers take of a stage: which rows of each source stand in each stream, and where they go, run by run
/// and window by window. `at` has the source and the point at each position.
pub fn check_streams(pass: &Pass, axes: &Axes, at: (&[usize], &[u64]), world_size: u64) {
    let remaining = pass.division().remaining();
    let counted: Vec<u64> = remaining.ranges().iter().cloned().flatten().collect();
    for rank in 0..world_size {
        let reader = WorkerId { rank, world_size, worker: 0, workers: 1 };
        for stream in pass.streams(reader).unwrap() {
            for source in 0..axes.period().num_sources() {
                let expected = walked(&stream, &counted, at, source);
                let Some(comb) = axes.period().comb(source) else {
                    assert_eq!(expected, [], "a source without weight stands nowhere");
                    continue;
                };
                let places = axes.places(source, &comb, remaining).unwrap();
                assert_eq!(by_runs(&places, &stream), expected, "source {source} in {stream:?}");
                let window_rows = places.pass_rows.div_ceil(3);
                assert_eq!(by_windows(&places, &stream, window_rows), expected, "windows of {window_rows}");
            }
        }
    }
}

/// What stands of a source in a stream, place by place.
fn walked(
    stream: &Stream,
    counted: &[u64],
    (sources, points): (&[usize], &[u64]),
    source: usize,
) -> Vec<Row> {
    let index = |number: u64| usize::try_from(number).unwrap();
    let slices = (0..stream.slices).flat_map(|slice| (0..stream.slice_rows).map(move |row| (slice, row)));
    let rows = slices.filter_map(|(slice, row)| {
        let position = index(counted[index(stream.start + slice * stream.slice_stride + row)]);
        let batch = stream.first_batch + slice * stream.batch_stride;
        (sources[position] == source).then_some((points[position], batch, stream.slot_row + row))
    });
    rows.collect()
}

/// The same by runs.
fn by_runs(places: &SourcePlaces<'_>, stream: &Stream) -> Vec<Row> {
    let (mut found, mut runs) = (Vec::new(), Vec::<Run>::new());
    let mut next = places.next(stream, 0);
    while let Some(given) = next {
        runs.clear();
        let end = places.runs(stream, given, &mut runs);
        for run in &runs {
            assert_eq!(run.points.start / places.pass_rows, (run.points.end - 1) / places.pass_rows);
            for (point, distance) in run.points.clone().zip(places.comb.distances(run.phase)) {
                assert_eq!(distance, places.comb.distance(run.phase, point - run.points.start));
                let place = run.given + distance;
                let row = stream.slot_row + place % stream.slice_rows;
                found.push((point, stream.batch_of(place), row));
            }
        }
        assert_eq!(runs.first().map(|run| run.given), Some(given), "the source stands where it is said to");
        next = places.next(stream, end);
    }
    found
}

/// The same by windows of each pass.
fn by_windows(places: &SourcePlaces<'_>, stream: &Stream, window_rows: u64) -> Vec<Row> {
    let mut found = Vec::new();
    let mut next = places.next(stream, 0);
    while let Some(given) = next {
        let point = places.point_at(stream, given).unwrap();
        let pass = point - point % places.pass_rows;
        let start = (point - pass) / window_rows * window_rows;
        let window: Range<u64> = pass + start..pass + (start + window_rows).min(places.pass_rows);
        let mut of_window: Vec<Row> = Vec::new();
        for spread in places.spreads(stream, &window) {
            for (place, distance) in spread.places.clone().zip(places.comb.distances(spread.phase)) {
                let behind = spread.past + distance;
                let (slice, row) = (behind / stream.slice_stride, behind % stream.slice_stride);
                if slice < stream.slices && row < stream.slice_rows {
                    let batch = stream.first_batch + slice * stream.batch_stride;
                    of_window.push((window.start + place, batch, stream.slot_row + row));
                }
            }
        }
        let first = of_window.iter().map(|row| row.1).min();
        assert_eq!(first, Some(stream.batch_of(given)), "the window is opened for its first batch");
        found.extend(of_window);
        next = places.behind(stream, &window);
        assert!(next.is_none_or(|next| next > given));
    }
    found
}
