//! What reading a pass will take, told before it is read.

use crate::error::Result;
use crate::lanes::Reader;
use crate::order::Order;
use crate::pass::Pass;
use crate::turns::Turns;

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
    let mut turns = Turns::new(streams);
    let mut decoded = 0;
    while let Some(index) = turns.first() {
        let (stream, given) = turns.stream(index);
        let counted = stream.counted(given);
        let Some(position) = remaining.slice(counted..counted + 1).next() else { break };
        let window = order.window_positions(position.start);
        decoded += window.end - window.start;
        turns.take_window(&(remaining.rank(window.start)..remaining.rank(window.end)));
    }
    Ok(decoded)
}
