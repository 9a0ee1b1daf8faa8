//! The bound on the memory of a mixture: what waits of each lane and source, and what is made of it.

use std::num::Saturating;

use crate::batch::bunch_size::BunchSize;
use crate::batch::slots::pending::waiting;
use crate::batch::sources::Sources;
use crate::error::Result;
use crate::order::comb::Comb;
use crate::pipeline::counted::Counted;
use crate::pipeline::memory_bound::{
    ALONE, Count, MemoryBound, Most, Reads, ZERO, count, in_pieces, of_lists, of_made_sequences,
    rows_of_units,
};
use crate::pipeline::mixed_schedule::{part_bytes, windows};
use crate::projection::memory_estimate::MemoryEstimate;
use crate::resume::lanes::{Stream, WorkerId};
use crate::resume::mixed_order::MixedOrder;
use crate::resume::pass::Pass;

/// The bound for the rest of a stage, of one rank with so many readers.
///
/// # Errors
/// `Argument` if so many readers have no share in the pass's cut.
pub fn of_mixture(
    sources: &Sources,
    (order, counted): (&MixedOrder, &Counted),
    pass: &Pass,
    (rank, workers): (u64, u64),
) -> Result<MemoryBound> {
    let rank_rows = Saturating(pass.rank_rows());
    let size = match counted {
        Counted::Rows => BunchSize::of_mixture(sources.layout(), rank_rows.0, windows(sources, order)),
        Counted::Bins(_) | Counted::Sequences(_) => ALONE,
    };
    let world_size = pass.world_size();
    let readers = (0..workers).map(|worker| pass.streams(WorkerId { rank, world_size, worker, workers }));
    let readers: Vec<Vec<Stream>> = readers.collect::<Result<_>>()?;
    let mut rank_bytes = counted.sequences().map_or(ZERO, |of| of_made_sequences(of, rank_rows));
    let (mut batch_bytes, mut thread_bytes) = (ZERO, ZERO);
    let (mut footer_bytes, mut opening_bytes) = (ZERO, 0);
    let (mut objects, mut held_rows) = (ZERO, ZERO);
    for source in order.sources() {
        let (of, Some(comb)) = (&sources.each()[source], order.comb(source)) else { continue };
        let footprint = MemoryEstimate::new(&of.manifest, &of.layout);
        let (units, rows) = counts(counted, source, of.manifest.num_rows());
        let window_units = Saturating(order.window_rows(source).unwrap_or(0));
        let reads = Reads {
            num_rows: units,
            window_rows: window_units,
            sizes: None,
            rank_rows,
            rows_left: Saturating(pass.rows_left()),
            lanes: Saturating(pass.division().cut().lanes()),
            world_size: Saturating(world_size),
        };
        let reads = reads.of_units(rows);
        let most = Most::new(&of.manifest, &of.layout, reads, size, footprint);
        let is_shuffled = order.window_rows(source).is_some();
        let blocks = Saturating(order.blocks_of_window(source).max(1));
        let mut widest_part = ZERO;
        for streams in &readers {
            let part = part_bytes((sources, order, counted), streams.len() as u64)[source];
            for stream in streams {
                let given = share(stream, comb);
                let rows_given = rows_of_units(given, (units, rows));
                let held = match counted.sequences() {
                    Some(of) if is_shuffled => of_lists(of, source, window_units.min(given), blocks),
                    Some(of) => of_lists(of, source, given, count(1))
                        .min(Saturating(part) + of_lists(of, source, ZERO, count(1))),
                    // Each block may come from another row group. Rows wait with their numbers.
                    None if is_shuffled => {
                        let rows = reads.window_rows.min(rows_given);
                        in_pieces(most.bytes_of(rows, blocks)) + rows * count(size_of::<u64>())
                    }
                    None => most.bytes_of(most.part_rows(part).min(rows_given), count(1)),
                };
                let held = if is_shuffled { held } else { Saturating(waiting(held.0)) };
                // A segment is begun while there is room, whatever it takes.
                if !is_shuffled {
                    widest_part = widest_part.max(held);
                }
                rank_bytes += held;
            }
        }
        let (of_reader, of_thread) = most.object_bytes(&of.manifest);
        // One bound for all sources.
        if of.manifest.holds_rows() {
            held_rows += of_reader;
        } else {
            objects = objects.max(of_reader);
        }
        footer_bytes += footprint.footer_bytes;
        opening_bytes = opening_bytes.max(footprint.opening_bytes);
        batch_bytes = batch_bytes.max(most.batch_bytes());
        let are_rows_shuffled = is_shuffled && counted.sequences().is_none();
        thread_bytes = thread_bytes.max(most.thread_bytes(are_rows_shuffled) + of_thread + widest_part);
    }
    let objects = objects.max(held_rows.min(Saturating(sources.held_bytes().unwrap_or(0))));
    for streams in &readers {
        let kept = sources.most_kept((streams.len() * sources.each().len()) as u64);
        rank_bytes += Saturating(waiting(kept)) + footer_bytes + objects;
    }
    Ok(MemoryBound {
        // Bunches that are ended, and the one that is taken apart.
        rank_bytes: (rank_bytes + count(2) * batch_bytes).0,
        thread_bytes: thread_bytes.0,
        footer_bytes: footer_bytes.0,
        opening_bytes,
    })
}

/// What positions count of a source: how many there are, and of how many rows.
fn counts(counted: &Counted, source: usize, num_rows: u64) -> (Count, u64) {
    let (starts, rows) = match counted {
        Counted::Rows => return (Saturating(num_rows), num_rows),
        Counted::Bins(bins) => (&bins.bins(source).table.starts, &bins.bins(source).rows),
        Counted::Sequences(of) => (&of.of(source).table.starts, &of.of(source).rows),
    };
    (Saturating(starts.last().copied().unwrap_or(0)), rows.count())
}

/// How many rows, or units, of a source a stream has, at most.
fn share(stream: &Stream, comb: &Comb) -> Count {
    Saturating(stream.rows().div_ceil(comb.length()).saturating_mul(comb.weight()))
}
