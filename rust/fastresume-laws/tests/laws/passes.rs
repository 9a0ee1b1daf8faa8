//! The laws of `docs/DESIGN.md`, section 3, over random histories: jobs are killed and resumed on other
//! topologies. Only positions are read, so no data is needed.

use std::ops::Range;

use fastresume::{
    Cursor, Cut, Identity, Intervals, Order, OrderKind, Pass, Selection, Tail, WorkerId, merge::merge,
};
use proptest::prelude::*;

use crate::config;

/// A topology: `lanes_each` lanes per rank and group, or one lane in all (then batches follow the order).
#[derive(Debug, Clone, Copy)]
struct Topology {
    world_size: u64,
    workers: u64,
    groups_per_worker: u64,
    lanes_each: u64,
    rows: u64,
    is_time_order: bool,
    tail: Tail,
}

impl Topology {
    fn cut(self) -> Cut {
        let groups = self.workers * self.groups_per_worker;
        if self.is_time_order {
            return Cut::new(1, 1, self.world_size * self.lanes_each * self.rows).unwrap();
        }
        Cut::new(self.world_size * groups * self.lanes_each, groups, self.rows).unwrap()
    }

    fn pass(self, cursor: &Cursor) -> Pass {
        Pass::new(cursor, self.cut(), self.tail, self.world_size).unwrap()
    }

    fn readers(self, rank: u64) -> impl Iterator<Item = WorkerId> {
        let Self { world_size, workers, .. } = self;
        (0..workers).map(move |worker| WorkerId { rank, world_size, worker, workers })
    }
}

fn tails() -> impl Strategy<Value = Tail> {
    prop::sample::select(vec![Tail::Drop, Tail::Short, Tail::Pad])
}

fn topologies() -> impl Strategy<Value = Topology> {
    let rows = prop_oneof![Just(1), Just(2), 3..12_u64, Just(31), Just(1000)];
    (1..=16_u64, 1..=4_u64, 1..=2_u64, 1..=4_u64, rows, prop::bool::weighted(0.15), tails()).prop_map(
        |(world_size, workers, groups_per_worker, lanes_each, rows, is_time_order, tail)| Topology {
            world_size,
            workers,
            groups_per_worker,
            lanes_each,
            rows,
            is_time_order,
            tail,
        },
    )
}

fn start(num_rows: u64) -> Cursor {
    let fingerprint = "0123456789abcdef0123456789abcdef".to_owned();
    Cursor::start(Identity { fingerprint, num_rows, selection: None, order: OrderKind::Sequential })
}

/// The positions of every batch that one reader delivers, with the batch's number; valid rows only.
///
/// Rows are placed slot by slot. So the test sees a stream that overwrites another one's rows, or leaves a
/// hole.
fn batches_of(pass: &Pass, reader: WorkerId) -> Vec<(u64, Vec<u64>)> {
    let mine =
        (pass.done() + reader.worker..pass.batches()).step_by(usize::try_from(reader.workers).unwrap());
    let mut batches: Vec<(u64, Vec<Option<u64>>)> = mine
        .map(|batch| (batch, vec![None; usize::try_from(pass.shape(batch, reader.rank).distinct).unwrap()]))
        .collect();
    let remaining = pass.division().remaining();
    for stream in pass.streams(reader).unwrap() {
        let counted: Vec<u64> = stream.stretches(0).flatten().collect();
        assert_eq!(counted.len() as u64, stream.rows());
        for (given, counted) in (0..).zip(counted) {
            assert_eq!((stream.counted(given), stream.rows_before(counted)), (counted, given));
            let position = remaining.slice(counted..counted + 1).next().unwrap().start;
            assert_eq!(remaining.rank(position), counted);
            let (batch, slot_row) = stream.slot_of(counted).unwrap();
            assert_eq!(batch, stream.batch_of(given));
            let (_, slots) =
                batches.iter_mut().find(|(number, _)| *number == batch).expect("a batch of this reader");
            let slot = &mut slots[usize::try_from(slot_row).unwrap()];
            assert!(slot.replace(position).is_none(), "two positions in one slot");
        }
    }
    let whole = |batch: u64, slots: Vec<Option<u64>>| {
        let mut slots: Vec<u64> = slots.into_iter().map(|slot| slot.expect("a hole in a batch")).collect();
        let positions: Vec<u64> = pass.positions(batch, reader.rank).unwrap().into_iter().flatten().collect();
        assert_eq!(positions, slots, "a batch by its number is the batch that is read");
        slots.truncate(usize::try_from(pass.shape(batch, reader.rank).valid).unwrap());
        slots
    };
    batches.into_iter().map(|(batch, slots)| (batch, whole(batch, slots))).collect()
}

/// The batches of one rank, ordered by their numbers, whichever worker delivers them.
fn batches_of_rank(pass: &Pass, topology: Topology, rank: u64) -> Vec<Vec<u64>> {
    let mut batches: Vec<_> = topology.readers(rank).flat_map(|reader| batches_of(pass, reader)).collect();
    batches.sort_unstable();
    let numbers: Vec<u64> = batches.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (pass.done()..pass.batches()).collect::<Vec<_>>());
    batches.into_iter().map(|(_, positions)| positions).collect()
}

/// For each step, the valid positions of all ranks, rank after rank.
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
    #![proptest_config(config(2000))]

    /// Laws 1 and 8. Each position comes once over all ranks and workers, except those that the tail policy
    /// drops. Every rank has as many batches, and there is padding only where it is counted.
    #[test]
    fn a_pass_delivers_each_row_once_but_for_the_rest(num_rows in 0..400_u64, topology in topologies()) {
        let pass = topology.pass(&start(num_rows));
        let batches = global_batches(&pass, topology);
        let size = topology.cut().global_batch_rows();
        let dropped = pass.dropped().count();
        let limit = if topology.tail == Tail::Short { topology.world_size } else { size };
        prop_assert!(dropped < limit);
        prop_assert!(topology.tail != Tail::Pad || dropped == 0);
        // The dropped rows are the end of what remained.
        prop_assert_eq!(sorted(batches.concat()), (0..num_rows - dropped).collect::<Vec<_>>());
        for (step, batch) in (0..).zip(&batches) {
            let shapes = (0..topology.world_size).map(|rank| pass.shape(step, rank));
            let (rows, valid) = shapes.fold((0, 0), |(rows, valid), of| (rows + of.rows, valid + of.valid));
            let is_last = step + 1 == pass.batches();
            prop_assert_eq!(valid, batch.len() as u64);
            prop_assert_eq!(rows - valid, if is_last { pass.padded_rows() } else { 0 });
            prop_assert!(rows == size || (is_last && topology.tail == Tail::Short));
        }
    }

    /// Law 2: with the same cut, the batches after the cursor of batch k are those that came after batch k.
    #[test]
    fn resume_with_the_same_cut_goes_on(num_rows in 1..300_u64, topology in topologies(), k in any::<prop::sample::Index>()) {
        let pass = topology.pass(&start(num_rows));
        let golden = global_batches(&pass, topology);
        let k = k.index(golden.len() + 1);
        let cursor = Cursor::parse(&pass.cursor_after(k as u64).to_json()).unwrap();
        let resumed = topology.pass(&cursor);
        if k == golden.len() && k > 0 {
            prop_assert_eq!(cursor.epoch(), 1);
            prop_assert_eq!(global_batches(&resumed, topology), golden);
        } else {
            prop_assert_eq!(&global_batches(&resumed, topology)[..], &golden[k..]);
        }
    }

    /// Laws 3, 5 and 7. A chain of topologies with a kill between any two of them delivers each position once
    /// (as a multiset). States go through JSON text, and what is delivered after a cursor is rolled back.
    #[test]
    fn a_chain_of_topologies_delivers_each_row_once(
        num_rows in 1..500_u64,
        chain in prop::collection::vec((topologies(), any::<prop::sample::Index>()), 1..6),
    ) {
        let mut cursor = start(num_rows);
        let mut delivered = Vec::new();
        let mut steps = Vec::new();
        for (topology, kill) in chain {
            let pass = topology.pass(&cursor);
            let left = usize::try_from(pass.batches_left()).unwrap();
            let kept = kill.index(left + 1);
            if kept == left {
                break; // the end of the pass is the last leg's, below
            }
            let batches = global_batches(&pass, topology).into_iter().take(kept);
            steps.extend(batches.map(|batch| (topology, batch)));
            delivered = steps.iter().flat_map(|(_, batch)| batch.clone()).collect();
            cursor = Cursor::parse(&pass.cursor_after(pass.done() + kept as u64).to_json()).unwrap();
            prop_assert_eq!(cursor.epoch(), 0);
            prop_assert_eq!(cursor.steps(), steps.len() as u64);
            let left = positions(&cursor.remaining().unwrap());
            prop_assert_eq!(sorted([delivered.clone(), left].concat()), (0..num_rows).collect::<Vec<_>>());
        }
        // The last state can replay every batch before it.
        for (step, (of, batch)) in (0..).zip(&steps) {
            let (pass, number) = Pass::at_step(&cursor, step, of.cut(), of.tail, of.world_size).unwrap();
            let ranks = (0..of.world_size).map(|rank| pass.positions(number, rank).unwrap());
            prop_assert_eq!(&ranks.flatten().flatten().collect::<Vec<_>>(), batch);
        }
        let last = Topology {
            world_size: 1, workers: 1, groups_per_worker: 1, lanes_each: 1, rows: 7, is_time_order: false,
            tail: Tail::Short,
        };
        let pass = last.pass(&cursor);
        delivered.extend(global_batches(&pass, last).concat());
        prop_assert_eq!(sorted(delivered), (0..num_rows).collect::<Vec<_>>());
        let end = pass.cursor_after(pass.batches());
        let given = steps.len() as u64 + pass.batches_left();
        prop_assert_eq!(end, start(num_rows).at_epoch(1).with_earlier_batches(given));
    }

    /// Law 4. Lanes, groups and rows stay the same. Then every world size that divides lanes / groups, and
    /// every number of workers that divides groups, gives the same global batches. They are equal as
    /// sequences of positions per step, and the cursors are equal. A short last batch is excepted.
    #[test]
    fn one_cut_is_one_sequence_of_global_batches(
        num_rows in 1..400_u64, lanes_per_group in prop::sample::select(vec![1, 2, 4, 6, 12_u64]),
        groups in prop::sample::select(vec![1, 2, 4, 6_u64]), rows in 1..4_u64, done in any::<prop::sample::Index>(),
        tail in tails(),
    ) {
        let cut = Cut::new(lanes_per_group * groups, groups, rows).unwrap();
        let is_time_order = cut.lanes() == 1;
        let mut cursor = start(num_rows);
        let mut sequences = Vec::new();
        for world_size in (1..=lanes_per_group * rows)
            .filter(|size| if is_time_order { rows % size == 0 } else { lanes_per_group % size == 0 }) {
            for workers in (1..=4).filter(|workers| is_time_order || groups % workers == 0) {
                let topology = Topology {
                    world_size, workers, groups_per_worker: (groups / workers).max(1), is_time_order, tail,
                    lanes_each: if is_time_order { rows / world_size } else { lanes_per_group / world_size },
                    rows: if is_time_order { 1 } else { rows },
                };
                prop_assert_eq!(topology.cut(), cut);
                if sequences.is_empty() {
                    // In mid pass, at the same step for all.
                    let whole = topology.pass(&cursor);
                    cursor = whole.cursor_after(done.index(usize::try_from(whole.division().batches()).unwrap().max(1)) as u64);
                }
                let pass = topology.pass(&cursor);
                let mut batches = global_batches(&pass, topology);
                if tail == Tail::Short {
                    batches.truncate(usize::try_from(pass.division().batches() - pass.done()).unwrap());
                }
                sequences.push(batches);
            }
        }
        prop_assert!(sequences.windows(2).all(|pair| pair[0] == pair[1]));
    }

    /// Law 5: keys and types of the text never change; its size does not grow with steps.
    #[test]
    fn the_text_keeps_its_keys_and_its_size(num_rows in 1..2_u64 << 40, topology in topologies(), done in any::<u64>()) {
        let pass = topology.pass(&start(num_rows));
        let text = pass.cursor_after(done % (pass.batches() + 1)).to_json();
        let keys = ["\"check\":\"", "\"consumed\":[", "\"cuts\":[", "\"dataset\":{", "\"earlier_batches\":", "\"epoch\":",
            "\"fastresume\":1", "\"first_epoch\":", "\"order\":{", "\"selection\":null"];
        prop_assert!(keys.iter().all(|key| text.contains(key)), "{text}");
        prop_assert!(text.is_ascii() && !text.contains(' '));
        prop_assert!(text.len() < 400);
    }

    /// Law 9: a change of any single byte of a state is noticed.
    #[test]
    fn a_damaged_state_is_refused(
        num_rows in 50..1000_u64, topology in topologies(), at in any::<prop::sample::Index>(), byte in 0x20..0x7f_u8,
    ) {
        let pass = topology.pass(&start(num_rows));
        let text = pass.cursor_after(pass.batches() / 2).to_json();
        let mut bytes = text.clone().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(Cursor::parse(std::str::from_utf8(&bytes).unwrap()).is_err());
    }

    /// Ranks out of step: the merged cursor holds exactly what every rank was given. Repeating a rank's state
    /// changes nothing, and equal states merge to that state.
    #[test]
    fn a_merge_holds_what_each_rank_was_given(
        num_rows in 1..400_u64, topology in topologies(), earlier in topologies(),
        kept in any::<prop::sample::Index>(), done in prop::collection::vec(any::<prop::sample::Index>(), 16),
    ) {
        let before = earlier.pass(&start(num_rows));
        let cursor = before.cursor_after(kept.index(usize::try_from(before.batches()).unwrap().max(1)) as u64);
        let pass = topology.pass(&cursor);
        prop_assume!(cursor.epoch() == 0 && pass.batches_left() > 0);
        // The last batch of a pass gives a state of the next pass, which is no state of this one.
        let left = usize::try_from(pass.batches_left()).unwrap().max(1);
        let mut given = positions(&cursor.remaining().unwrap().complement(num_rows));
        let mut states = Vec::new();
        for rank in 0..topology.world_size {
            let done = done[usize::try_from(rank).unwrap()].index(left);
            given.extend(batches_of_rank(&pass, topology, rank).into_iter().take(done).flatten());
            states.push(pass.cursor_after(pass.done() + done as u64));
        }
        let merged = merge(&states, Some(topology.world_size)).unwrap();
        prop_assert_eq!(merged.epoch(), 0);
        let left = positions(&merged.remaining().unwrap());
        prop_assert_eq!(sorted([given, left].concat()), (0..num_rows).collect::<Vec<_>>());
        let equal = vec![states[0].clone(); states.len()];
        prop_assert_eq!(merge(&equal, Some(topology.world_size)).unwrap(), states[0].clone());
        // Without the first one they are never taken for whole: the rows of that rank may be behind.
        let lacking = &states[1..];
        prop_assert!(merge(lacking, Some(topology.world_size)).is_err());
        let has_begun = lacking.iter().any(|state| state.cuts().last().is_some_and(|last| last.0 == topology.cut()));
        if has_begun && (topology.is_time_order || topology.lanes_each == 1) {
            prop_assert!(merge(lacking, None).is_err());
        }
        prop_assert_eq!(Cursor::parse(&merged.to_json()).unwrap(), merged);
    }

    /// Law 1 of the order: every selected row stands at one position, inside its window. The inverse gives
    /// the position back.
    #[test]
    fn a_shuffled_order_is_a_bijection(
        groups in prop::collection::vec(prop_oneof![Just(0), Just(1), 0..90_u64], 0..40), seed in any::<u64>(),
        epoch in 0..5_u64, block_rows in 1..60_u64, blocks in 1..9_u64, extra in 0..50_u64,
        chosen in prop::option::of(prop::collection::vec((0..2000_u64, 0..90_u64), 0..60)),
    ) {
        let starts: Vec<u64> = std::iter::once(0).chain(groups.iter().scan(0, |sum, rows| { *sum += rows; Some(*sum) })).collect();
        let num_rows = starts[starts.len() - 1];
        let chosen = chosen.map_or(Intervals::full(num_rows), |ranges| {
            let ranges = ranges.into_iter().map(|(start, rows)| start.min(num_rows)..(start + rows).min(num_rows));
            Intervals::new(ranges.collect()).unwrap()
        });
        let selection = Selection::new(&starts, chosen.clone()).unwrap();
        let num_rows = selection.count();
        let window_rows = block_rows * blocks + extra % block_rows;
        let kind = OrderKind::Shuffled { seed: seed >> 11, block_rows, window_rows };
        let order = Order::new(&kind, epoch, selection.clone()).unwrap();
        let rows: Vec<u64> = order.rows(0..num_rows + 9).flatten().collect();
        prop_assert_eq!(sorted(rows.clone()), positions(&chosen));
        let in_files = Order::new(&OrderKind::Sequential, epoch, selection.clone()).unwrap();
        prop_assert_eq!(in_files.rows(0..num_rows + 9).flatten().collect::<Vec<_>>(), positions(&chosen));
        for (position, &row) in (0..).zip(&rows) {
            let window = order.window_at(position).unwrap();
            prop_assert!(window.positions.end - window.positions.start <= window_rows);
            prop_assert!(window.blocks.iter().all(|rows| rows.end - rows.start <= block_rows));
            let ordinal = selection.ordinals(row..row + 1).start;
            let block = window.blocks.iter().position(|ordinals| ordinals.contains(&ordinal)).unwrap();
            let mut places = Vec::new();
            window.places(&window.inverse(), block, ordinal..ordinal + 1, |some| places.extend_from_slice(some));
            prop_assert_eq!(places, [position - window.positions.start]);
            prop_assert_eq!(order.rows_of_ordinals(ordinal..ordinal + 1).next(), Some(row..row + 1));
        }
        let some = Intervals::new(vec![num_rows / 5..num_rows / 2, num_rows / 3 * 2..num_rows]).unwrap();
        let expected = positions(&some).into_iter().map(|position| rows[usize::try_from(position).unwrap()]);
        prop_assert_eq!(positions(&order.row_set(&some).unwrap()), sorted(expected.collect()));
    }
}

/// Law 5: a state stays small, however many steps were made and however often the topology changed.
#[test]
fn a_state_stays_small_through_many_steps_and_changes() {
    let num_rows = 1_000_000_000_000_u64;
    let order = OrderKind::Shuffled { seed: (1 << 53) - 1, block_rows: 131_072, window_rows: 524_288 };
    let fingerprint = "0123456789abcdef0123456789abcdef".to_owned();
    let mut cursor = Cursor::start(Identity { fingerprint, num_rows, selection: None, order });
    let pass = Pass::new(&cursor, Cut::new(16_384, 1, 32).unwrap(), Tail::Drop, 16_384).unwrap();
    assert!(pass.batches() > 1_000_000);
    assert!(pass.cursor_after(1_000_000).to_json().len() < 1024);
    for change in 0..100 {
        let (world_size, lanes_each) = (1 << (change * 7 % 13), 1 + change * 5 % 4);
        let cut = Cut::new(world_size * lanes_each, 1, 100 + change).unwrap();
        let pass = Pass::new(&cursor, cut, Tail::Pad, world_size).unwrap();
        cursor = Cursor::parse(&pass.cursor_after(1_000 + change * 37).to_json()).unwrap();
    }
    assert_eq!(cursor.cuts().len(), 100);
    assert!(cursor.to_json().len() < 8192, "{} bytes", cursor.to_json().len());
    let consumed = num_rows - cursor.remaining().unwrap().count();
    let delivered = cursor.cuts().iter().map(|(cut, done)| cut.global_batch_rows() * done).sum::<u64>();
    assert_eq!(consumed, delivered);
}
