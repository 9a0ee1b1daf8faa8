//! What reading a pass will take, told before it is read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::Result;
use crate::lanes::Reader;
use crate::order::Order;
use crate::pass::Pass;

/// How many rows one reader decodes in what is left of a pass: a window whole for each time that it is opened,
/// and in a sequential order all rows between the first and the last of a stretch.
///
/// # Errors
/// `Argument` if the reader has no share in the pass's cut.
pub fn rows_decoded(pass: &Pass, order: &Order, reader: Reader) -> Result<u64> {
    let streams = pass.streams(reader)?;
    if order.sizes().is_none() {
        return Ok(streams.iter().map(|of| of.counted(of.rows() - 1) + 1 - of.counted(0)).sum());
    }
    let remaining = pass.division().remaining();
    let mut given = vec![0; streams.len()];
    let first = streams.iter().enumerate().map(|(index, stream)| Reverse((stream.first_batch, index)));
    let mut next: BinaryHeap<_> = first.collect();
    let mut decoded = 0;
    // As the schedule opens windows: for the batch that is next, and for all streams that are there.
    while let Some(Reverse((batch, index))) = next.pop() {
        let stream = &streams[index];
        if given[index] >= stream.rows() || stream.batch_of(given[index]) != batch {
            continue; // came along with another stream
        }
        let counted = stream.counted(given[index]);
        let Some(position) = remaining.slice(counted..counted + 1).next() else { continue };
        let window = order.window_positions(position.start);
        decoded += window.end - window.start;
        let counted = remaining.rank(window.start)..remaining.rank(window.end);
        for (index, stream) in streams.iter().enumerate() {
            if given[index] < stream.rows() && counted.contains(&stream.counted(given[index])) {
                given[index] = stream.rows_before(counted.end);
                if given[index] < stream.rows() {
                    next.push(Reverse((stream.batch_of(given[index]), index)));
                }
            }
        }
    }
    Ok(decoded)
}
