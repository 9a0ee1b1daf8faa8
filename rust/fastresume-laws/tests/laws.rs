//! The laws of `docs/DESIGN.md` section 3, over random histories of jobs that are killed and resumed on
//! other topologies. What is read is positions, so that no data is needed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::ops::Range;

use fastresume::cursor::{Cursor, Identity, Pass};
use fastresume::intervals::Intervals;
use fastresume::lanes::{Cut, Reader};
use fastresume::order::OrderKind;
use proptest::prelude::*;

/// A topology: `lanes_each` lanes per rank and group.
#[derive(Debug, Clone, Copy)]
struct Topology {
    world_size: u64,
    workers: u64,
    groups_per_worker: u64,
    lanes_each: u64,
    rows: u64,
}

impl Topology {
    fn cut(self) -> Cut {
        let groups = self.workers * self.groups_per_worker;
        Cut::new(self.world_size * groups * self.lanes_each, groups, self.rows).unwrap()
    }

    fn readers(self, rank: u64) -> impl Iterator<Item = Reader> {
        let Self { world_size, workers, .. } = self;
        (0..workers).map(move |worker| Reader { rank, world_size, worker, workers })
    }
}

fn topologies() -> impl Strategy<Value = Topology> {
    (1..=16_u64, 1..=4_u64, 1..=2_u64, 1..=4_u64, prop_oneof![Just(1), Just(2), 3..12_u64]).prop_map(
        |(world_size, workers, groups_per_worker, lanes_each, rows)| Topology {
            world_size,
            workers,
            groups_per_worker,
            lanes_each,
            rows,
        },
    )
}

fn start(num_rows: u64) -> Cursor {
    let fingerprint = "0123456789abcdef0123456789abcdef".to_owned();
    Cursor::start(Identity { fingerprint, num_rows, order: OrderKind::Sequential })
}

/// The positions of every batch that one reader delivers, with the batch's number.
///
/// Slot by slot, so that a stream that writes where another one does, or leaves a hole, is seen.
fn batches_of(pass: &Pass, reader: Reader) -> Vec<(u64, Vec<u64>)> {
    let division = pass.division();
    let batch_rows = division.cut().global_batch_rows() / reader.world_size;
    let mine =
        (pass.done() + reader.worker..division.batches()).step_by(usize::try_from(reader.workers).unwrap());
    let mut batches: Vec<(u64, Vec<Option<u64>>)> =
        mine.map(|batch| (batch, vec![None; usize::try_from(batch_rows).unwrap()])).collect();
    for stream in division.streams(reader, pass.done()).unwrap() {
        let positions = division.remaining().slice(stream.counted.clone()).flatten();
        for (index, position) in positions.enumerate() {
            let index = index as u64;
            let batch = stream.first_batch + index / stream.slice_rows * stream.batch_stride;
            let (_, slots) =
                batches.iter_mut().find(|(number, _)| *number == batch).expect("a batch of this reader");
            let slot = &mut slots[usize::try_from(stream.slot_row + index % stream.slice_rows).unwrap()];
            assert!(slot.replace(position).is_none(), "two positions in one slot");
        }
    }
    let whole =
        |slots: Vec<Option<u64>>| slots.into_iter().map(|slot| slot.expect("a hole in a batch")).collect();
    batches.into_iter().map(|(batch, slots)| (batch, whole(slots))).collect()
}

/// The batches of one rank in the order of their numbers, whichever worker delivers them.
fn batches_of_rank(pass: &Pass, topology: Topology, rank: u64) -> Vec<Vec<u64>> {
    let mut batches: Vec<_> = topology.readers(rank).flat_map(|reader| batches_of(pass, reader)).collect();
    batches.sort_unstable();
    let numbers: Vec<u64> = batches.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (pass.done()..pass.division().batches()).collect::<Vec<_>>());
    batches.into_iter().map(|(_, positions)| positions).collect()
}

/// Per step, the positions of all ranks, rank after rank.
fn global_batches(pass: &Pass, topology: Topology) -> Vec<Vec<u64>> {
    let ranks: Vec<Vec<Vec<u64>>> =
        (0..topology.world_size).map(|rank| batches_of_rank(pass, topology, rank)).collect();
    (0..ranks[0].len()).map(|step| ranks.iter().flat_map(|batches| batches[step].clone()).collect()).collect()
}

fn positions(set: &Intervals) -> Vec<u64> {
    set.ranges().iter().cloned().flat_map(|range: Range<u64>| range).collect()
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Laws 1 and 8: each position once over all ranks and workers, but for a rest of less than a global
    /// batch; as many batches on every rank.
    #[test]
    fn a_pass_delivers_each_row_once_but_for_the_rest(num_rows in 0..400_u64, topology in topologies()) {
        let pass = start(num_rows).pass(topology.cut()).unwrap();
        let delivered = sorted(global_batches(&pass, topology).concat());
        let rest = pass.division().rest();
        prop_assert!(rest < topology.cut().global_batch_rows());
        prop_assert_eq!(delivered.len() as u64 + rest, num_rows);
        // The rest is the end of what remained.
        prop_assert_eq!(delivered, (0..num_rows - rest).collect::<Vec<_>>());
    }

    /// Law 2: with the same cut, what comes after the cursor of batch k is what came after batch k.
    #[test]
    fn resume_with_the_same_cut_goes_on(num_rows in 1..300_u64, topology in topologies(), k in any::<prop::sample::Index>()) {
        let pass = start(num_rows).pass(topology.cut()).unwrap();
        let golden = global_batches(&pass, topology);
        let k = k.index(golden.len() + 1);
        let cursor = Cursor::parse(&pass.cursor_after(k as u64).to_json()).unwrap();
        let resumed = cursor.pass(topology.cut()).unwrap();
        if k == golden.len() && k > 0 {
            prop_assert_eq!(cursor.epoch(), 1);
            prop_assert_eq!(global_batches(&resumed, topology), golden);
        } else {
            prop_assert_eq!(&global_batches(&resumed, topology)[..], &golden[k..]);
        }
    }

    /// Laws 3, 5 and 7: any chain of topologies with a kill between any two of them delivers each position
    /// once (as a multiset), through the JSON text; what is delivered after the cursor is rolled back.
    #[test]
    fn a_chain_of_topologies_delivers_each_row_once(
        num_rows in 1..500_u64,
        chain in prop::collection::vec((topologies(), any::<prop::sample::Index>()), 1..6),
    ) {
        let mut cursor = start(num_rows);
        let mut delivered = Vec::new();
        for (topology, kill) in chain {
            let pass = cursor.pass(topology.cut()).unwrap();
            let left = usize::try_from(pass.batches_left()).unwrap();
            let kept = kill.index(left + 1);
            if kept == left {
                break; // the end of the pass is the last leg's, below
            }
            delivered.extend(global_batches(&pass, topology).into_iter().take(kept).flatten());
            cursor = Cursor::parse(&pass.cursor_after(pass.done() + kept as u64).to_json()).unwrap();
            prop_assert_eq!(cursor.epoch(), 0);
            let left = positions(&cursor.remaining().unwrap());
            prop_assert_eq!(sorted([delivered.clone(), left].concat()), (0..num_rows).collect::<Vec<_>>());
        }
        let last = Topology { world_size: 1, workers: 1, groups_per_worker: 1, lanes_each: 1, rows: 1 };
        let pass = cursor.pass(last.cut()).unwrap();
        delivered.extend(global_batches(&pass, last).concat());
        prop_assert_eq!(sorted(delivered), (0..num_rows).collect::<Vec<_>>());
        let end = pass.cursor_after(pass.division().batches());
        prop_assert_eq!(end, start(num_rows).next_pass());
    }

    /// Law 4: with the same lanes, groups and rows, the global batches are the same for every world size
    /// that divides lanes / groups and every number of workers that divides groups, as sets of positions per
    /// step, and the cursors are equal.
    #[test]
    fn one_cut_is_one_sequence_of_global_batches(
        num_rows in 1..400_u64, lanes_per_group in prop::sample::select(vec![1, 2, 4, 6, 12_u64]),
        groups in prop::sample::select(vec![1, 2, 4, 6_u64]), rows in 1..4_u64, done in any::<prop::sample::Index>(),
    ) {
        let cut = Cut::new(lanes_per_group * groups, groups, rows).unwrap();
        let whole = start(num_rows).pass(cut).unwrap();
        let batches = usize::try_from(whole.division().batches()).unwrap();
        let cursor = whole.cursor_after(done.index(batches.max(1)) as u64);
        let pass = cursor.pass(cut).unwrap();
        let mut sequences = Vec::new();
        for world_size in (1..=lanes_per_group).filter(|size| lanes_per_group % size == 0) {
            for workers in (1..=groups).filter(|workers| groups % workers == 0) {
                let topology = Topology {
                    world_size, workers, groups_per_worker: groups / workers,
                    lanes_each: lanes_per_group / world_size, rows,
                };
                prop_assert_eq!(topology.cut(), cut);
                sequences.push(global_batches(&pass, topology));
            }
        }
        prop_assert!(sequences.windows(2).all(|pair| pair[0] == pair[1]));
    }

    /// Law 5: keys and kinds of the text never change; its size does not grow with steps.
    #[test]
    fn the_text_keeps_its_keys_and_its_size(num_rows in 1..2_u64 << 40, topology in topologies(), done in any::<u64>()) {
        let pass = start(num_rows).pass(topology.cut()).unwrap();
        let text = pass.cursor_after(done % (pass.division().batches() + 1)).to_json();
        let keys = ["\"check\":\"", "\"consumed\":[", "\"cuts\":[", "\"dataset\":{", "\"epoch\":",
            "\"fastresume\":1", "\"first_epoch\":", "\"order\":{", "\"selection\":null"];
        prop_assert!(keys.iter().all(|key| text.contains(key)), "{text}");
        prop_assert!(text.is_ascii() && !text.contains(' '));
        prop_assert!(text.len() < 400);
    }

    /// Law 9: no change of a single byte of a state goes unnoticed.
    #[test]
    fn a_damaged_state_is_refused(
        num_rows in 50..1000_u64, topology in topologies(), at in any::<prop::sample::Index>(), byte in 0x20..0x7f_u8,
    ) {
        let pass = start(num_rows).pass(topology.cut()).unwrap();
        let text = pass.cursor_after(pass.division().batches() / 2).to_json();
        let mut bytes = text.clone().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(Cursor::parse(std::str::from_utf8(&bytes).unwrap()).is_err());
    }
}
