//! The lives of a job over a dataset that grows, and the oracle, which walks along the positions one by one.

use std::collections::BTreeSet;

use fastresume::permutation::{Permutation, key};
use fastresume::{Cursor, Cut, OrderKind, Pass, Selection, Tail};
use proptest::prelude::*;

/// One start of a job: how many files came before it, its ranks, lanes and rows, and after how many batches it is killed.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    pub files_come: usize,
    pub world_size: u64,
    pub lanes_each: u64,
    pub rows: u64,
    pub tail: Tail,
    pub batches: u64,
}

pub fn lives() -> impl Strategy<Value = Life> {
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

pub fn orders() -> impl Strategy<Value = OrderKind> {
    let shuffled = (0..100_u64, 1..9_u64, 1..4_u64).prop_map(|(seed, block_rows, blocks)| {
        OrderKind::Shuffled { seed, block_rows, window_rows: block_rows * blocks }
    });
    prop_oneof![1 => Just(OrderKind::Sequential), 3 => shuffled]
}

impl Life {
    pub fn lanes(self) -> u64 {
        self.world_size * self.lanes_each
    }

    pub fn cut(self) -> Cut {
        Cut::new(self.lanes(), 1, self.rows).unwrap()
    }

    pub fn pass(self, cursor: &Cursor) -> Pass {
        Pass::new(cursor, self.cut(), self.tail, self.world_size).unwrap()
    }

    /// The valid positions of a global batch, rank after rank.
    pub fn given(self, pass: &Pass, batch: u64) -> Vec<u64> {
        let ranks = (0..self.world_size).map(|rank| pass.valid_positions(batch, rank).unwrap());
        ranks.flatten().flatten().collect()
    }
}

pub fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// The ordinals at the positions of a generation, one by one, from where its row groups begin.
pub fn slow_order(kind: &OrderKind, epoch: u64, generation: u64, starts: &[u64]) -> Vec<u64> {
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

/// Where a job is, position by position.
pub struct Walk<'a> {
    kind: &'a OrderKind,
    /// What is counted.
    now: &'a Selection,
    pub epoch: u64,
    pub ends: Vec<u64>,
    /// The ordinal at each position of the pass.
    pub order: Vec<u64>,
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
    pub fn new(kind: &'a OrderKind, now: &'a Selection) -> Self {
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
        self.order = slow_order(self.kind, epoch, 0, self.now.group_starts());
        self.divided = (0..self.now.count()).collect();
        (self.cut, self.done) = (None, 0);
    }

    /// The rows that one lane gives in one batch.
    fn slice(&self, lane: u64, batch: u64) -> &[u64] {
        let (lanes, rows) = self.cut.unwrap();
        let of_lane = self.divided.len() as u64 / (lanes * rows) * rows;
        &self.divided[index(lane * of_lane + batch * rows)..index(lane * of_lane + (batch + 1) * rows)]
    }

    pub fn remaining(&self) -> Vec<u64> {
        let Some((lanes, _)) = self.cut else { return self.divided.clone() };
        let given: BTreeSet<u64> = (0..self.done)
            .flat_map(|batch| (0..lanes).flat_map(move |lane| self.slice(lane, batch).to_vec()))
            .collect();
        self.divided.iter().copied().filter(|position| !given.contains(position)).collect()
    }

    /// Files come.
    pub fn grow(&mut self, next: &'a Selection) {
        let (old, new) = (self.now.count(), next.count());
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
            self.now.group_starts().iter().copied().filter(|&start| start >= old).collect();
        self.order.extend(slow_order(self.kind, self.epoch, self.ends.len() as u64, &starts));
    }

    /// Gives some batches, and returns the positions of each, and whether the pass has ended.
    pub fn live(&mut self, life: Life) -> (Vec<Vec<u64>>, bool) {
        let cut = (life.lanes(), life.rows);
        if self.cut != Some(cut) {
            self.divided = self.remaining();
            (self.cut, self.done) = (Some(cut), 0);
        }
        let size = life.lanes() * life.rows;
        let whole = self.divided.len() as u64 / size;
        let rest = &self.divided[index(whole * size)..];
        let gives_rest = match life.tail {
            Tail::Drop | Tail::Carry => false,
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
            let seen: BTreeSet<u64> = self.given.union(&self.dropped).copied().collect();
            assert_eq!(seen, (0..self.now.count()).collect(), "each position of the pass, once");
            self.before = (std::mem::take(&mut self.given), std::mem::take(&mut self.dropped));
            self.begin(self.epoch + 1);
        }
        (batches, ends)
    }
}
