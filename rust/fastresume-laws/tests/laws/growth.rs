//! The laws of files that are added, over random histories: jobs are killed, files come behind those that are there, and
//! other ranks go on. The oracle walks along the positions one by one.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use fastresume::permutation::{Permutation, key};
use fastresume::{
    Cursor, Cut, Identity, Intervals, Manifest, Order, OrderKind, Pass, Read, Selection, Tail, split,
};
use parquet::data_type::Int32Type;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use crate::config;

// ------------------------------------------------------------------------------------------------ the files

/// Row groups of files, in their order: each of these is a dataset that grows file by file.
const LOGS: [&[&[u64]]; 4] = [
    &[&[5, 3], &[7], &[], &[1, 1, 1], &[0], &[12, 2], &[6]],
    &[&[40], &[1], &[40, 40], &[2], &[9, 9, 9]],
    &[&[2], &[3], &[1], &[0], &[0], &[4], &[2], &[1], &[3]],
    &[&[11, 0, 13], &[0], &[17], &[1, 0], &[8, 8]],
];

/// The first files of a dataset, and which of their rows are selected.
struct Beginning {
    manifest: Manifest,
    selection: Selection,
}

impl Beginning {
    fn read(&self) -> Read<'_> {
        Read { manifest: &self.manifest, selection: &self.selection, units: None }
    }

    fn identity(&self, order: &OrderKind) -> Identity {
        Identity::of(&self.manifest, &self.selection, order.clone())
    }
}

fn write(path: &Path, groups: &[u64]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let schema = Arc::new(parse_message_type("message m { required int32 x; }").unwrap());
    let mut writer = SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::default()).unwrap();
    for &rows in groups {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<i32> = (0..i32::try_from(rows).unwrap()).collect();
        column.typed::<Int32Type>().write_batch(&values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// Of each dataset the beginnings with rows: of all rows, and of those that a split selects.
fn beginnings() -> &'static Vec<[Vec<Beginning>; 2]> {
    static OPENED: OnceLock<Vec<[Vec<Beginning>; 2]>> = OnceLock::new();
    OPENED.get_or_init(|| {
        let root = std::env::temp_dir().join(format!("fastresume-growth-{}", std::process::id()));
        let stop = AtomicBool::new(false);
        let of_log = |(log, files): (usize, &&[&[u64]])| {
            let paths: Vec<_> = (0..files.len())
                .map(|file| root.join(format!("log-{log}/day={file:02}/part.parquet")))
                .collect();
            paths.iter().zip(*files).for_each(|(path, groups)| write(path, groups));
            [false, true].map(|is_split| {
                let opened = (1..=paths.len()).map(|count| {
                    let manifest = Manifest::open(&paths[..count], &stop).unwrap();
                    let starts = manifest.group_starts();
                    let rows = split::split(manifest.num_rows(), &(0..1 << 52), 5, &stop).unwrap();
                    let some = || Selection::new(starts, rows).unwrap();
                    let selection = if is_split { some() } else { Selection::everything(starts) };
                    Beginning { manifest, selection }
                });
                opened.filter(|beginning| beginning.selection.count() > 0).collect()
            })
        };
        let opened = LOGS.iter().enumerate().map(of_log).collect();
        std::fs::remove_dir_all(&root).unwrap();
        opened
    })
}

// ------------------------------------------------------------------------------------------------ the lives

/// One start of a job: how many files came before it, its ranks, lanes and rows, and after how many batches it is killed.
#[derive(Debug, Clone, Copy)]
struct Life {
    files_come: usize,
    world_size: u64,
    lanes_each: u64,
    rows: u64,
    tail: Tail,
    batches: u64,
}

fn lives() -> impl Strategy<Value = Life> {
    let tail = prop::sample::select(vec![Tail::Drop, Tail::Short, Tail::Pad]);
    let files = prop_oneof![3 => Just(0_usize), 2 => Just(1), 1 => 2..4_usize];
    let batches = prop_oneof![3 => 0..6_u64, 1 => Just(1000)];
    (files, 1..=3_u64, 1..=2_u64, prop_oneof![1..4_u64, Just(9)], tail, batches).prop_map(
        |(files_come, world_size, lanes_each, rows, tail, batches)| Life {
            files_come,
            world_size,
            lanes_each,
            rows,
            tail,
            batches,
        },
    )
}

fn orders() -> impl Strategy<Value = OrderKind> {
    let shuffled = (0..100_u64, 1..9_u64, 1..4_u64).prop_map(|(seed, block_rows, blocks)| {
        OrderKind::Shuffled { seed, block_rows, window_rows: block_rows * blocks }
    });
    prop_oneof![1 => Just(OrderKind::Sequential), 3 => shuffled]
}

impl Life {
    fn lanes(self) -> u64 {
        self.world_size * self.lanes_each
    }

    fn cut(self) -> Cut {
        Cut::new(self.lanes(), 1, self.rows).unwrap()
    }

    fn pass(self, cursor: &Cursor) -> Pass {
        Pass::new(cursor, self.cut(), self.tail, self.world_size).unwrap()
    }

    /// The valid positions of a global batch, rank after rank.
    fn given(self, pass: &Pass, batch: u64) -> Vec<u64> {
        let ranks = (0..self.world_size).map(|rank| pass.valid_positions(batch, rank).unwrap());
        ranks.flatten().flatten().collect()
    }
}

// ----------------------------------------------------------------------------------------------- the oracle

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// The ordinals at the positions of a generation, one by one, from where its row groups begin.
fn slow_order(kind: &OrderKind, epoch: u64, generation: u64, starts: &[u64]) -> Vec<u64> {
    let OrderKind::Shuffled { seed, block_rows, window_rows } = *kind else {
        return (starts[0]..starts[starts.len() - 1]).collect();
    };
    let key_of = |number| match generation {
        0 => key(&[seed, epoch, number]),
        _ => key(&[seed, epoch, number, generation]),
    };
    let mut blocks: Vec<Vec<u64>> = Vec::new();
    let mut is_open = false; // whether the next row group may be joined to the last block
    for group in starts.windows(2).filter(|group| group[0] < group[1]) {
        let (start, rows) = (group[0], group[1] - group[0]);
        let parts = rows.div_ceil(block_rows);
        let joins = is_open && blocks[blocks.len() - 1].len() as u64 + rows <= block_rows;
        for part in 0..parts {
            let of_part = start + rows * part / parts..start + rows * (part + 1) / parts;
            if joins { blocks.last_mut().unwrap().extend(of_part) } else { blocks.push(of_part.collect()) }
        }
        is_open = parts == 1;
    }
    let count = blocks.len() as u64;
    let places = Permutation::new(count, key_of(0));
    let windows = count.div_ceil(window_rows / block_rows);
    let mut order = Vec::new();
    for window in 0..windows {
        let of_window = window * count / windows..(window + 1) * count / windows;
        let rows: Vec<u64> = of_window.flat_map(|place| blocks[index(places.at(place))].clone()).collect();
        let inside = Permutation::new(rows.len() as u64, key_of(window + 1));
        order.extend((0..rows.len() as u64).map(|offset| rows[index(inside.at(offset))]));
    }
    order
}

/// Where a job stands, told position by position.
struct Walk<'a> {
    kind: &'a OrderKind,
    now: &'a Beginning,
    epoch: u64,
    ends: Vec<u64>,
    /// The ordinal at each position of the pass.
    order: Vec<u64>,
    /// What the present cut divides, that cut (lanes, rows), and its batches that are done.
    divided: Vec<u64>,
    cut: Option<(u64, u64)>,
    done: u64,
    given: BTreeSet<u64>,
    dropped: BTreeSet<u64>,
    /// What was given and dropped of the pass before.
    before: (BTreeSet<u64>, BTreeSet<u64>),
}

impl<'a> Walk<'a> {
    fn new(kind: &'a OrderKind, now: &'a Beginning) -> Self {
        let mut walk = Self {
            kind,
            now,
            epoch: 0,
            ends: Vec::new(),
            order: Vec::new(),
            divided: Vec::new(),
            cut: None,
            done: 0,
            given: BTreeSet::new(),
            dropped: BTreeSet::new(),
            before: Default::default(),
        };
        walk.begin(0);
        walk
    }

    fn begin(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.ends.clear();
        self.order = slow_order(self.kind, epoch, 0, self.now.selection.group_starts());
        self.divided = (0..self.now.selection.count()).collect();
        (self.cut, self.done) = (None, 0);
    }

    /// The rows that one lane gives in one batch.
    fn slice(&self, lane: u64, batch: u64) -> &[u64] {
        let (lanes, rows) = self.cut.unwrap();
        let of_lane = self.divided.len() as u64 / (lanes * rows) * rows;
        &self.divided[index(lane * of_lane + batch * rows)..index(lane * of_lane + (batch + 1) * rows)]
    }

    fn remaining(&self) -> Vec<u64> {
        let Some((lanes, _)) = self.cut else { return self.divided.clone() };
        let given: BTreeSet<u64> = (0..self.done)
            .flat_map(|batch| (0..lanes).flat_map(move |lane| self.slice(lane, batch).to_vec()))
            .collect();
        self.divided.iter().copied().filter(|position| !given.contains(position)).collect()
    }

    /// Files come.
    fn grow(&mut self, next: &'a Beginning) {
        let (old, new) = (self.now.selection.count(), next.selection.count());
        self.now = next;
        if old == new {
            return;
        }
        let is_untouched = self.given.is_empty() && self.dropped.is_empty();
        if is_untouched && self.epoch == 0 {
            return self.begin(0);
        }
        if is_untouched {
            self.epoch -= 1;
            (self.given, self.dropped) = std::mem::take(&mut self.before);
            self.divided.clear();
            self.order = (0..old).collect(); // nobody reads them again
        } else {
            self.divided = self.remaining();
        }
        (self.cut, self.done) = (None, 0);
        self.divided.extend(old..new);
        self.ends.push(old);
        let starts: Vec<u64> =
            self.now.selection.group_starts().iter().copied().filter(|&start| start >= old).collect();
        self.order.extend(slow_order(self.kind, self.epoch, self.ends.len() as u64, &starts));
    }

    /// Gives some batches, and returns the positions of each, and whether the pass has ended.
    fn live(&mut self, life: Life) -> (Vec<Vec<u64>>, bool) {
        let cut = (life.lanes(), life.rows);
        if self.cut != Some(cut) {
            self.divided = self.remaining();
            (self.cut, self.done) = (Some(cut), 0);
        }
        let size = life.lanes() * life.rows;
        let whole = self.divided.len() as u64 / size;
        let rest = &self.divided[index(whole * size)..];
        let gives_rest = match life.tail {
            Tail::Drop => false,
            Tail::Short => !rest.is_empty() && rest.len() as u64 >= life.world_size,
            Tail::Pad => !rest.is_empty(),
        };
        let all = whole + u64::from(gives_rest);
        let (first, end) = (self.done, (self.done + life.batches).min(all));
        let of_batch = |batch| {
            let lanes = (0..life.lanes()).flat_map(|lane| self.slice(lane, batch).to_vec());
            if batch < whole { lanes.collect() } else { rest.to_vec() }
        };
        let batches: Vec<Vec<u64>> = (first..end).map(of_batch).collect();
        let ends = end == all && (end > first || life.batches > 0);
        let dropped = if ends && !gives_rest { rest.to_vec() } else { Vec::new() };
        for position in batches.iter().flatten() {
            assert!(self.given.insert(*position), "position {position} was given twice");
        }
        self.dropped.extend(dropped);
        self.done = end;
        if self.done == 0 {
            self.cut = None;
        }
        if ends {
            let told: BTreeSet<u64> = self.given.union(&self.dropped).copied().collect();
            assert_eq!(told, (0..self.now.selection.count()).collect(), "each position of the pass, once");
            self.before = (std::mem::take(&mut self.given), std::mem::take(&mut self.dropped));
            self.begin(self.epoch + 1);
        }
        (batches, ends)
    }
}

// ------------------------------------------------------------------------------------------------- the laws

fn check_history(log: usize, is_split: bool, kind: &OrderKind, lives: &[Life]) {
    let beginnings = &beginnings()[log][usize::from(is_split)];
    let mut files = 0;
    let mut walk = Walk::new(kind, &beginnings[0]);
    let mut text = Cursor::start(beginnings[0].identity(kind)).to_json();
    // The rows that each batch of the pass gave, by its step; none are known of a pass that was gone back to.
    let mut steps: Vec<(Life, Vec<u64>)> = Vec::new();
    for &life in lives {
        let state = Cursor::parse(&text).unwrap();
        let before = files;
        files = (files + life.files_come).min(beginnings.len() - 1);
        let now = &beginnings[files];
        let epoch = walk.epoch;
        walk.grow(now);
        if walk.epoch < epoch {
            steps.clear();
        }
        if files > before {
            let refused = state.fitted(now.read(), false).unwrap_err().to_string();
            assert!(refused.contains("more than then, behind those of the state"), "{refused}");
            let ahead = Cursor::start(now.identity(kind));
            assert!(ahead.fitted(beginnings[before].read(), true).is_err(), "files are gone");
        }
        let cursor = state.fitted(now.read(), true).unwrap();
        let told: Vec<u64> = cursor.remaining().unwrap().ranges().iter().cloned().flatten().collect();
        assert_eq!(told, walk.remaining(), "what is left");
        assert_eq!((cursor.epoch(), &cursor.generation_ends()), (walk.epoch, &walk.ends));
        let order =
            Order::of_generations(kind, cursor.epoch(), now.selection.clone(), &cursor.generation_ends())
                .unwrap();
        let rows = |positions: &[u64]| -> Vec<u64> {
            positions.iter().flat_map(|&at| order.rows(at..at + 1)).flatten().collect()
        };
        let expected: Vec<u64> =
            walk.remaining().iter().flat_map(|&at| rows_of(now, walk.order[index(at)])).collect();
        assert_eq!(rows(&told), expected, "the rows at these positions");
        let pass = life.pass(&cursor);
        let (batches, ends) = walk.live(life);
        let first = pass.done();
        for (batch, expected) in (first..).zip(&batches) {
            assert_eq!(&life.given(&pass, batch), expected, "batch {batch}");
            assert_eq!(pass.step_of(batch), steps.len() as u64);
            steps.push((life, rows(expected)));
        }
        let end = first + batches.len() as u64;
        let after = if ends && batches.is_empty() { cursor.next_pass() } else { pass.cursor_after(end) };
        assert_eq!(after.epoch() > cursor.epoch(), ends);
        // Each batch is found again by its step, with the rows that it gave.
        let known = if ends { cursor } else { after.clone() };
        for (step, (of, given)) in (0..known.steps()).zip(&steps) {
            let (pass, batch) = Pass::at_step(&known, step, of.cut(), of.tail, of.world_size).unwrap();
            assert_eq!(&rows(&of.given(&pass, batch)), given, "step {step} again");
        }
        if ends {
            steps.clear();
            assert_eq!(after.rows_at_begin(), now.selection.count(), "generations go with their pass");
        }
        text = after.to_json();
        assert_eq!(Cursor::parse(&text).unwrap(), after);
        let most = 24 * walk.ends.len() + r#""generations":[],"#.len();
        let without = after.restarted().next_pass().to_json().len();
        let of_cuts = after.cuts().len() * 30;
        assert!(walk.ends.is_empty() || text.len() <= without + of_cuts + most + 20, "{text}");
    }
}

fn rows_of(now: &Beginning, ordinal: u64) -> Vec<u64> {
    now.selection.rows(ordinal..ordinal + 1).flatten().collect()
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn nothing_is_lost_or_repeated_where_files_come(
        log in 0..LOGS.len(), is_split in any::<bool>(), kind in orders(), lives in prop::collection::vec(lives(), 1..12),
    ) {
        check_history(log, is_split, &kind, &lives);
    }
}

proptest! {
    #![proptest_config(config(100_000))]

    #[test]
    #[ignore = "takes minutes"]
    fn nothing_is_lost_or_repeated_in_very_many_histories(
        log in 0..LOGS.len(), is_split in any::<bool>(), kind in orders(), lives in prop::collection::vec(lives(), 1..12),
    ) {
        check_history(log, is_split, &kind, &lives);
    }
}

/// What is selected of the first files is what is selected of all of them: else no state of these would fit.
#[test]
fn each_beginning_is_one_of_the_next() {
    let selected = |of: &Beginning| {
        of.selection.intervals().cloned().unwrap_or_else(|| Intervals::full(of.manifest.num_rows()))
    };
    for pair in beginnings().iter().flatten().flat_map(|all| all.windows(2)) {
        let of_first = Intervals::full(pair[0].manifest.num_rows());
        assert_eq!(selected(&pair[1]).intersection(&of_first), selected(&pair[0]));
    }
}
