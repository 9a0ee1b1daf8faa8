//! Planning on paper: what one rank of a very large job does before its first batch, on synthetic manifests.
//!
//! No data is read. `make bench-scale` prints the table that stands in RESULTS.md.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark prints, looks at the clock, and fails by panicking"
)]

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fastresume::{
    Cursor, Cut, Identity, Intervals, Order, OrderChoice, Pass, Selection, Tail, WorkerId,
    decode_cost::{rows_decoded, rows_decoded_by},
    merge::merge,
};

const RANKS: u64 = 16_384;
const RANK_ROWS: u64 = 4096;

/// Nobody stops a benchmark.
static GO: AtomicBool = AtomicBool::new(false);

/// A job on paper.
struct Job {
    files: u64,
    groups_per_file: u64,
    group_rows: u64,
}

impl Job {
    /// The first row of every row group: files end with a smaller group, as real ones do.
    fn group_starts(&self) -> Vec<u64> {
        let mut starts = Vec::with_capacity(usize::try_from(self.files * self.groups_per_file).unwrap() + 1);
        let mut row = 0;
        starts.push(row);
        for file in 0..self.files {
            for group in 0..self.groups_per_file {
                let is_last = group + 1 == self.groups_per_file;
                row += if is_last { self.group_rows - file % 1000 } else { self.group_rows };
                starts.push(row);
            }
        }
        starts
    }
}

/// The median time of a piece of work, and how much more memory the process has after it.
fn measured<T>(times: usize, mut work: impl FnMut() -> T) -> (T, Duration, i64) {
    let before = resident_kib();
    let mut durations = Vec::new();
    let mut last = None;
    for _ in 0..times {
        drop(last.take());
        let began = Instant::now();
        last = Some(black_box(work()));
        durations.push(began.elapsed());
    }
    durations.sort();
    (last.unwrap(), durations[times / 2], resident_kib() - before)
}

fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn print(what: &str, duration: Duration, kib: Option<i64>) {
    let memory = kib.map_or(String::new(), |kib| format!("{:>9} MiB", kib / 1024));
    println!("  {what:<58} {:>10.3} ms {memory}", duration.as_secs_f64() * 1e3);
}

/// A resume from a state that holds intervals, as merged and imported ones do: one rank of eight, 10^6 row groups.
fn resume_from_intervals() {
    const RANKS: u64 = 8;
    let starts = Job { files: 100_000, groups_per_file: 10, group_rows: 100_050 }.group_starts();
    let num_rows = starts[starts.len() - 1];
    println!("{num_rows} rows, 100000 files, {} row groups, {RANKS} ranks", starts.len() - 1);
    let choice = OrderChoice::Shuffled { seed: Some(17), block_rows: None, window_rows: None };
    let kind = choice.resolve(num_rows, 256, 100_050).unwrap();
    let (order, made, kib) = measured(5, || Order::new(&kind, 0, Selection::everything(&starts)).unwrap());
    print("the shuffled order of a pass", made, Some(kib));
    let fingerprint = "0123456789abcdef0123456789abcdef".to_owned();
    let identity = Identity { fingerprint, num_rows, selection: None, order: kind };
    let cut = Cut::new(RANKS * 4, 4, RANK_ROWS).unwrap();
    for count in [0, 10_000, 100_000, 1_000_000] {
        let each = num_rows / (count + 1);
        let ranges = (0..count).map(|index| index * each..index * each + each / 2 + index % 7);
        let consumed = Intervals::new(ranges.collect()).unwrap();
        let cursor = Cursor::from_consumed(identity.clone(), 0, consumed).unwrap();
        println!(" a state of {count} intervals");
        let (text, made, _) = measured(3, || cursor.to_json());
        print(&format!("writing it ({} bytes)", text.len()), made, None);
        let (read, made, _) = measured(3, || Cursor::parse(&text).unwrap());
        print("reading it", made, None);
        let (pass, made, kib) = measured(3, || Pass::new(&read, cut, Tail::Drop, RANKS).unwrap());
        print("cutting what remains", made, Some(kib));
        let mut batch = 0;
        let (_, made, _) = measured(101, || {
            batch = (batch * 48_271 + 11) % pass.batches();
            let positions = pass.positions(batch, batch % RANKS).unwrap();
            black_box(order.rows(positions[0].start..positions[0].end).next())
        });
        print("the first row of any batch of any rank", made, None);
        let (_, made, _) = measured(101, || pass.cursor_after(batch));
        print("the cursor after it", made, None);
    }
    println!();
}

/// `plan()` of jobs of many lanes, and of time order.
fn plans() {
    let starts = Job { files: 100_000, groups_per_file: 10, group_rows: 100_050 }.group_starts();
    let num_rows = starts[starts.len() - 1];
    println!("plan(): rows that all readers decode, {num_rows} rows");
    let choice = OrderChoice::Shuffled { seed: Some(17), block_rows: None, window_rows: None };
    let kind = choice.resolve(num_rows, 256, 100_050).unwrap();
    let order = Order::new(&kind, 0, Selection::everything(&starts)).unwrap();
    let fingerprint = "0123456789abcdef0123456789abcdef".to_owned();
    let start = Cursor::start(Identity { fingerprint, num_rows, selection: None, order: kind });
    for (lanes, groups, world_size, workers) in
        [(64, 1, 8, 1), (131_072, 1, 1, 1), (131_072, 8, 16_384, 8), (1 << 20, 1, 8, 1), (1, 1, 16_384, 8)]
    {
        let rows = if lanes == 1 { world_size * RANK_ROWS } else { 8 };
        let pass =
            Pass::new(&start, Cut::new(lanes, groups, rows).unwrap(), Tail::Short, world_size).unwrap();
        let (_, made, _) = measured(3, || rows_decoded(&pass, &order, world_size, workers, &GO).unwrap());
        print(
            &format!("{lanes} lanes in {groups} groups, {world_size} ranks of {workers} workers"),
            made,
            None,
        );
    }
    println!();
}

fn main() {
    resume_from_intervals();
    plans();
    let jobs = [
        Job { files: 1_000_000, groups_per_file: 1, group_rows: 1_000_500 },
        Job { files: 1_000_000, groups_per_file: 10, group_rows: 100_050 },
        Job { files: 10_000, groups_per_file: 8, group_rows: 1_048_576 },
    ];
    for job in jobs {
        let (starts, made, kib) = measured(1, || job.group_starts());
        let num_rows = starts[starts.len() - 1];
        println!("{num_rows} rows, {} files, {} row groups, {RANKS} ranks", job.files, starts.len() - 1);
        print("the table of row groups (a manifest has it)", made, Some(kib));
        let choice = OrderChoice::Shuffled { seed: Some(17), block_rows: None, window_rows: None };
        let order_kind = choice.resolve(num_rows, 256, job.group_rows).unwrap();
        let (order, made, kib) =
            measured(5, || Order::new(&order_kind, 0, Selection::everything(&starts)).unwrap());
        let (blocks, windows) = order.sizes().unwrap();
        print(&format!("the shuffled order of a pass: {blocks} blocks, {windows} windows"), made, Some(kib));

        let fingerprint = "0123456789abcdef0123456789abcdef".to_owned();
        let start = Cursor::start(Identity { fingerprint, num_rows, selection: None, order: order_kind });
        let cut = Cut::new(RANKS * 4, 4, RANK_ROWS).unwrap();
        let pass_of = |cursor: &Cursor, cut| Pass::new(cursor, cut, Tail::Drop, RANKS).unwrap();
        let (pass, made, kib) = measured(5, || pass_of(&start, cut));
        print(&format!("cutting {} lanes of the pass", RANKS * 4), made, Some(kib));
        let reader = |rank| WorkerId { rank, world_size: RANKS, worker: 0, workers: 1 };
        let (_, made, _) = measured(5, || pass.streams(reader(RANKS - 1)).unwrap());
        print("a rank's share of it", made, None);
        let mut rank = 0;
        let (_, made, _) = measured(101, || {
            rank = (rank * 48_271 + 11) % RANKS;
            let batch = pass.batches() * rank / RANKS;
            let positions = pass.positions(batch, rank).unwrap();
            positions.into_iter().flat_map(|range| order.rows(range).collect::<Vec<_>>()).count()
        });
        print(&format!("the {RANK_ROWS} rows of any batch of any rank"), made, None);
        let mut position = 0;
        let ((), made, _) = measured(5, || {
            for _ in 0..1000 {
                position = (position + 0x9E37_79B9_7F4A_7C15 % num_rows) % num_rows;
                black_box(order.rows(position..position + 1).next());
            }
        });
        print("one seek of the order (1000 of them, each)", made / 1000, None);
        let (_, made, _) = measured(5, || rows_decoded_by(&pass, &order, reader(7), &GO).unwrap());
        print("a rank's part of plan(): rows that it decodes", made, None);

        let mut cursor = start.clone();
        for change in 0..100 {
            let lanes = RANKS / (1 << (change % 4)) - u64::from(change % 5 == 4);
            let rows = 64 + change;
            let done = num_rows / 400 / (lanes * rows);
            cursor = cursor.with_cut(Cut::new(lanes, 1, rows).unwrap(), done);
        }
        let text = cursor.to_json();
        let (read, made, _) = measured(3, || Cursor::parse(&text).unwrap());
        print(&format!("reading a state of 100 changes ({} bytes)", text.len()), made, None);
        let (_, made, kib) = measured(3, || pass_of(&read, cut));
        print(
            &format!(
                "folding them into {} intervals, cutting them anew",
                read.remaining().unwrap().ranges().len()
            ),
            made,
            Some(kib),
        );
        let states: Vec<Cursor> =
            (0..RANKS).map(|rank| pass.cursor_after(pass.batches() / 2 + rank % 97)).collect();
        let (_, made, kib) = measured(1, || merge(&states, Some(states.len() as u64)).unwrap());
        print(&format!("merging {RANKS} states that are out of step"), made, Some(kib));
        let (_, made, _) = measured(3, || {
            let order =
                Order::new(&read.identity().order, read.epoch(), Selection::everything(&starts)).unwrap();
            let read = Cursor::parse(&pass.cursor_after(123_456 % pass.batches()).to_json()).unwrap();
            let pass = pass_of(&read, cut);
            let positions = pass.positions(pass.done(), 12_345).unwrap();
            positions.into_iter().flat_map(|range| order.rows(range).collect::<Vec<_>>()).count()
        });
        print("all of a rank's start: state, order, lanes, first rows", made, None);
        println!();
    }
}
