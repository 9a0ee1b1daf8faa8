//! The bound on the memory of a mixture: what waits of each lane and source, and what is made of it.

use std::num::Saturating;

use crate::batch::bunch_size::BunchSize;
use crate::batch::slots::pending::waiting;
use crate::batch::sources::Sources;
use crate::error::Result;
use crate::order::comb::Comb;
use crate::pipeline::counted::Counted;
use crate::pipeline::memory_bound::{Count, MemoryBound, Most, Reads, ZERO, count, in_pieces};
use crate::pipeline::mixed_schedule::{part_bytes, windows};
use crate::projection::memory_estimate::Footprint;
use crate::resume::lanes::{Stream, WorkerId};
use crate::resume::mixed_order::MixedOrder;
use crate::resume::pass::Pass;

/// The bound for the rest of a stage, of one rank with so many readers.
///
/// # Errors
/// `Argument` if so many readers have no share in the pass's cut.
pub fn of_mixture(
    sources: &Sources,
    order: &MixedOrder,
    pass: &Pass,
    (rank, workers): (u64, u64),
) -> Result<MemoryBound> {
    let size = BunchSize::of_mixture(sources.layout(), pass.rank_rows(), windows(sources, order));
    let world_size = pass.world_size();
    let readers = (0..workers).map(|worker| pass.streams(WorkerId { rank, world_size, worker, workers }));
    let readers: Vec<Vec<Stream>> = readers.collect::<Result<_>>()?;
    let mut rank_bytes = ZERO;
    let (mut batch_bytes, mut thread_bytes) = (ZERO, ZERO);
    let (mut footer_bytes, mut opening_bytes, mut objects) = (ZERO, 0, ZERO);
    for source in order.sources() {
        let (of, Some(comb)) = (&sources.each()[source], order.comb(source)) else { continue };
        let footprint = Footprint::new(&of.manifest, &of.layout);
        let reads = Reads {
            num_rows: Saturating(of.manifest.num_rows()),
            window_rows: Saturating(order.window_rows(source).unwrap_or(0)),
            sizes: None,
            rank_rows: Saturating(pass.rank_rows()),
            rows_left: Saturating(pass.rows_left()),
            lanes: Saturating(pass.division().cut().lanes()),
            world_size: Saturating(world_size),
        };
        let most = Most::new(&of.manifest, &of.layout, reads, size, footprint);
        let is_shuffled = order.window_rows(source).is_some();
        let mut widest_part = ZERO;
        for streams in &readers {
            let part = part_bytes((sources, order, &Counted::Rows), streams.len() as u64)[source];
            for stream in streams {
                let given = share(stream, comb);
                let held = if is_shuffled {
                    // Each block may come from another row group. Rows wait with their numbers.
                    let rows = reads.window_rows.min(given);
                    let blocks = Saturating(order.blocks_of_window(source).max(1));
                    in_pieces(most.bytes_of(rows, blocks)) + rows * count(size_of::<u64>())
                } else {
                    let rows = most.part_rows(part).min(given);
                    Saturating(waiting(most.bytes_of(rows, count(1)).0))
                };
                widest_part = widest_part.max(held);
                rank_bytes += held;
            }
        }
        let (of_reader, of_thread) = most.object_bytes(&of.manifest);
        // One bound for all sources.
        objects = objects.max(of_reader);
        footer_bytes += footprint.footer_bytes;
        opening_bytes = opening_bytes.max(footprint.opening_bytes);
        batch_bytes = batch_bytes.max(most.batch_bytes());
        // A segment is begun while there is room, whatever it takes.
        let begun = if is_shuffled { ZERO } else { widest_part };
        thread_bytes = thread_bytes.max(most.thread_bytes(is_shuffled) + of_thread + begun);
    }
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

/// How many rows of a source a stream has, at most.
fn share(stream: &Stream, comb: &Comb) -> Count {
    Saturating(stream.rows().div_ceil(comb.length()).saturating_mul(comb.weight()))
}
