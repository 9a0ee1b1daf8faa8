//! Tests of the task queue: every row is decoded and delivered once, within the budget, in any order of steps.

use std::collections::BTreeMap;
use std::ops::Range;

use super::*;
use crate::batch::window::Scatter;
use crate::resume::lanes::Cut;
use crate::test_files::{ALONE, Made};

/// Bytes of a row.
const ROW_BYTES: u64 = 8;

fn agenda(made: &Made, cut: Cut, window_rows: Option<u64>, budget_bytes: u64) -> TaskQueue {
    let (order, pass) = made.pass(cut, window_rows);
    let sources = Arc::new(Sources::one(Arc::clone(&made.manifest), made.layout.clone()));
    TaskQueue::new(sources, PassOrder::of_rows(order), pass, ALONE, budget_bytes).unwrap()
}

/// Batches of 10 rows, in the order of the file.
fn sequential(made: &Made, budget_bytes: u64) -> TaskQueue {
    agenda(made, Cut::new(1, 1, 10).unwrap(), None, budget_bytes)
}

/// The number of rows of a segment that go to each batch.
fn rows_of(segment: &Segment) -> Vec<(u64, u64)> {
    match &segment.places {
        Places::Pieces(pieces) | Places::Combed { pieces, .. } => {
            pieces.iter().map(|piece| (piece.batch, piece.rows.end - piece.rows.start)).collect()
        }
        Places::Scattered { part, stretches } => {
            let mut scatter = Scatter::default();
            part.scatter(stretches, &mut scatter).unwrap();
            scatter.bunches().iter().map(|(bunch, of)| (*bunch, of.len() as u64)).collect()
        }
        Places::Lists { .. } => Vec::new(),
    }
}

/// The rows of the file that are decoded.
fn decoded(made: &Made, segment: &Segment) -> Vec<Range<u64>> {
    let start = made.manifest.group_rows(segment.group).start;
    match &segment.places {
        Places::Pieces(pieces) | Places::Combed { pieces, .. } => {
            pieces.iter().map(|piece| start + piece.rows.start..start + piece.rows.end).collect()
        }
        Places::Scattered { stretches, .. } => stretches.iter().map(|of| of.rows.clone()).collect(),
        Places::Lists { .. } => Vec::new(),
    }
}

fn decoding(task: Option<Task>) -> Decoding {
    match task {
        Some(Task::Decode(decoding)) => decoding,
        Some(Task::End(batch, ..)) => panic!("batch {batch} is to be ended, expected a segment"),
        None => panic!("there is nothing to do, expected a segment"),
    }
}

fn ending(task: Option<Task>) -> Option<u64> {
    task.map(|task| match task {
        Task::End(batch, ..) => batch,
        Task::Decode(decoding) => panic!("{:?} is to be decoded", decoding.segment),
    })
}

/// Takes the next segment, and notes that all of it was decoded.
fn decode_one(agenda: &mut TaskQueue, made: &Made) {
    let decoding = decoding(agenda.take(&made.layout));
    agenda.note_decoded(&decoding, Ok(Filled { rows: rows_of(&decoding.segment), ..Filled::default() }));
}

fn front(agenda: &mut TaskQueue, made: &Made) -> Option<u64> {
    match agenda.take_front(&made.layout)? {
        Ok(Front::Batch(batch, _) | Front::OfBunch(batch, ..)) => Some(batch),
        Ok(Front::End) => panic!("the pass is over"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_batch_is_decoded_then_ended_then_delivered() {
    let made = Made::new(&[10, 10]);
    let mut agenda = sequential(&made, 1 << 20);
    assert!(agenda.has_task() && !agenda.has_front());
    decode_one(&mut agenda, &made);
    assert!(agenda.has_front(), "the consumer may end it");
    assert_eq!(agenda.queued().0, 1);
    assert_eq!(front(&mut agenda, &made), None);
    let end = agenda.take_front_end(&made.layout);
    assert!(agenda.take_front_end(&made.layout).is_none() && !agenda.has_front(), "somebody is at it");
    assert_eq!(ending(end), Some(0));
    agenda.note_ended(0);
    assert!(agenda.has_front());
    assert_eq!(front(&mut agenda, &made), Some(0));
    assert_eq!((agenda.queued(), front(&mut agenda, &made)), ((0, 0), None));
}

#[test]
fn a_full_budget_leaves_what_the_front_batch_needs_to_be_taken() {
    let made = Made::new(&[10, 10, 10]);
    let mut agenda = sequential(&made, 0);
    decode_one(&mut agenda, &made);
    assert_eq!(ending(agenda.take(&made.layout)), Some(0));
    agenda.note_ended(0);
    assert!(!agenda.has_task() && agenda.take(&made.layout).is_none(), "batch 1 has no room");
    assert_eq!(front(&mut agenda, &made), Some(0));
    assert!(agenda.has_task(), "batch 1 is the front one now");
    decode_one(&mut agenda, &made);
}

#[test]
fn few_batches_behind_the_front_one_are_ended() {
    let made = Made::new(&[10; 12]);
    let mut agenda = sequential(&made, 1 << 20);
    // The first one is decoded last, so that complete batches wait.
    let first = decoding(agenda.take(&made.layout));
    for batch in 1..12 {
        decode_one(&mut agenda, &made);
        if batch <= ENDED_AHEAD {
            assert_eq!(ending(agenda.take(&made.layout)), Some(batch));
            agenda.note_ended(batch);
        }
    }
    assert!(!agenda.has_front() && agenda.take(&made.layout).is_none());
    agenda.note_decoded(&first, Ok(Filled { rows: rows_of(&first.segment), ..Filled::default() }));
    assert_eq!(ending(agenda.take(&made.layout)), Some(0));
    agenda.note_ended(0);
    assert_eq!(front(&mut agenda, &made), Some(0));
    assert_eq!(ending(agenda.take(&made.layout)), Some(1 + ENDED_AHEAD));
}

#[test]
fn what_is_left_of_a_segment_is_taken_before_the_next_one() {
    let made = Made::new(&[30, 30]);
    let mut agenda = sequential(&made, 1 << 20);
    let first = decoding(agenda.take(&made.layout));
    let Places::Pieces(pieces) = &first.segment.places else { panic!("it is scattered") };
    let left = Segment { group: 0, places: Places::Pieces(pieces[1..].to_vec()) };
    agenda.note_decoded(&first, Ok(Filled { rows: vec![(0, 10)], left: Some(left), ..Filled::default() }));
    assert_eq!(ending(agenda.take(&made.layout)), Some(0));
    let rest = decoding(agenda.take(&made.layout)).segment;
    assert_eq!(decoded(&made, &rest), [10..20, 20..30]);
    assert_eq!(decoded(&made, &decoding(agenda.take(&made.layout)).segment), [30..40, 40..50, 50..60]);
}

#[test]
fn batches_before_a_failed_one_are_delivered_and_nothing_behind_it_is_decoded() {
    let made = Made::new(&[10; 4]);
    let mut agenda = sequential(&made, 1 << 20);
    let [first, second] = [0, 1].map(|_| decoding(agenda.take(&made.layout)));
    agenda.note_decoded(&second, Err((1, Error::data("damaged"))));
    agenda.note_failed(2, Error::data("later"));
    assert!(!agenda.has_task() && !agenda.has_front());
    agenda.note_decoded(&first, Ok(Filled { rows: rows_of(&first.segment), ..Filled::default() }));
    assert_eq!(ending(agenda.take_front_end(&made.layout)), Some(0));
    agenda.note_ended(0);
    assert_eq!(front(&mut agenda, &made), Some(0));
    for _ in 0..2 {
        assert!(agenda.has_front());
        assert_eq!(
            agenda.take_front(&made.layout).unwrap().err(),
            Some(Error::data("damaged")),
            "the error stays"
        );
    }
    assert!(agenda.take(&made.layout).is_none());
}

#[test]
fn batches_of_a_bunch_before_a_failed_one_are_delivered() {
    let made = Made::new(&[320]);
    for failed in 0..20 {
        let mut agenda = agenda(&made, Cut::new(1, 1, 4).unwrap(), Some(320), 1 << 20);
        assert!(!agenda.bunches.are_single());
        let mut decoded = Vec::new();
        while let Some(Task::Decode(decoding)) = agenda.take(&made.layout) {
            decoded.push(decoding);
        }
        let last = decoded.pop().unwrap();
        for decoding in decoded {
            agenda.note_decoded(
                &decoding,
                Ok(Filled { rows: rows_of(&decoding.segment), ..Filled::default() }),
            );
        }
        // As if no row of it came to an earlier batch.
        let bunch = agenda.bunches.of(failed);
        let mut before = rows_of(&last.segment);
        before.retain(|(of, _)| *of < bunch);
        agenda.filling.count(&before);
        agenda.note_decoded(&last, Err((failed, Error::data("damaged"))));
        let mut delivered = 0;
        while let Some(end) = ending(agenda.take_front_end(&made.layout)) {
            agenda.note_ended(end);
            while agenda.failure().is_none() && front(&mut agenda, &made) == Some(delivered) {
                delivered += 1;
            }
        }
        assert_eq!(delivered, failed);
        assert_eq!(agenda.take_front(&made.layout).unwrap().err(), Some(Error::data("damaged")));
    }
}

/// Numbers that look like random ones.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Threads and a consumer, with their steps in any order.
struct Play<'a> {
    made: &'a Made,
    agenda: TaskQueue,
    budget_bytes: u64,
    dice: Dice,
    /// The tasks of the threads.
    begun: Vec<Task>,
    /// How often each row of the file was decoded.
    times: Vec<u32>,
    /// A window in which lanes meet is opened for each of them.
    most_times: u32,
    /// The rows of undelivered batches, and those that threads are decoding.
    held: BTreeMap<u64, u64>,
    delivered: u64,
}

impl Play<'_> {
    /// A thread asks for a task; returns whether there is one.
    fn begin(&mut self) -> bool {
        let has_task = self.agenda.has_task();
        let held: u64 = self.held.values().sum();
        let task = self.agenda.take(&self.made.layout);
        assert_eq!(task.is_some(), has_task);
        match &task {
            Some(Task::Decode(decoding)) => {
                let bunches = self.agenda.bunches;
                let is_for_front = decoding.segment.first_batch() <= bunches.last(bunches.of(self.delivered));
                assert!(held * ROW_BYTES < self.budget_bytes.max(1) || is_for_front, "{held} rows are held");
                for rows in decoded(self.made, &decoding.segment) {
                    (rows.start..rows.end).for_each(|row| self.times[usize::try_from(row).unwrap()] += 1);
                }
                for (batch, rows) in rows_of(&decoding.segment) {
                    *self.held.entry(batch).or_default() += rows;
                }
            }
            Some(Task::End(batch, _, shape, _)) => {
                assert_eq!(self.held[batch], shape.distinct, "all rows are there when a batch is ended");
                let bunch = self.agenda.bunches.of(self.delivered);
                assert!((bunch..=self.delivered + ENDED_AHEAD).contains(batch));
            }
            None => return false,
        }
        self.begun.extend(task);
        true
    }

    /// A thread finishes a task; of a segment it may have left the last pieces.
    fn end(&mut self) {
        let at = self.dice.below(self.begun.len() as u64);
        match self.begun.swap_remove(usize::try_from(at).unwrap()) {
            Task::End(batch, ..) => self.agenda.note_ended(batch),
            Task::Decode(decoding) => {
                let mut rows = rows_of(&decoding.segment);
                let mut left = None;
                if let Places::Pieces(pieces) = &decoding.segment.places {
                    let done = usize::try_from(1 + self.dice.below(pieces.len() as u64)).unwrap();
                    let later = Segment {
                        group: decoding.segment.group,
                        places: Places::Pieces(pieces[done..].to_vec()),
                    };
                    for (batch, count) in rows.drain(done..) {
                        *self.held.get_mut(&batch).unwrap() -= count;
                    }
                    if done < pieces.len() {
                        for rows in decoded(self.made, &later) {
                            (rows.start..rows.end)
                                .for_each(|row| self.times[usize::try_from(row).unwrap()] -= 1);
                        }
                        left = Some(later);
                    }
                }
                self.agenda.note_decoded(&decoding, Ok(Filled { rows, left, ..Filled::default() }));
            }
        }
    }

    /// The consumer asks for its batch; returns whether the pass is over.
    fn ask(&mut self) -> bool {
        let has_front = self.agenda.has_front();
        match self.agenda.take_front(&self.made.layout) {
            Some(Ok(Front::End)) => return true,
            Some(Ok(Front::Batch(batch, _) | Front::OfBunch(batch, ..))) => {
                assert!(has_front);
                assert_eq!(batch, self.delivered, "batches come in order");
                // A bunch goes with its first batch.
                if self.agenda.bunches.of(batch) == batch {
                    let (shape, _) = shape_of(&self.agenda.pass, &self.agenda.bunches, batch, 0);
                    assert_eq!(self.held.remove(&batch), Some(shape.distinct));
                }
                self.delivered += 1;
            }
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
        false
    }

    fn play(mut self) {
        loop {
            match self.dice.below(4) {
                0 if !self.begun.is_empty() => self.end(),
                1 => {
                    if self.ask() {
                        break;
                    }
                }
                _ => {
                    let has_begun = self.begin();
                    let is_stuck = !has_begun && self.begun.is_empty() && !self.agenda.has_front();
                    let is_over = self.delivered == self.agenda.pass.batches();
                    assert!(!is_stuck || is_over, "nobody has anything to do, and the pass is not over");
                }
            }
        }
        assert!(self.begun.is_empty() && self.held.is_empty());
        let times = self.times.iter().all(|times| (1..=self.most_times).contains(times));
        assert!(times, "each row is decoded, and at most {} times", self.most_times);
        assert!(!self.agenda.has_task());
        assert_eq!((self.agenda.filling.bytes(), self.agenda.decoding_bytes), (0, 0));
    }
}

#[test]
fn whatever_threads_do_when_all_is_taken_once_and_batches_come_in_order_within_the_budget() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let groups: Vec<usize> =
            (0..=dice.below(6)).map(|_| usize::try_from(dice.below(60)).unwrap()).collect();
        let made = Made::new(&[&groups[..], &[40]].concat());
        let lanes = 1 + dice.below(3);
        let cut = Cut::new(lanes, 1, 1 + dice.below(6)).unwrap();
        let window_rows = (dice.below(2) == 1).then(|| 8 + dice.below(60));
        let budget_bytes = [0, 100, 2000, 4000, 1 << 20][usize::try_from(dice.below(5)).unwrap()];
        let agenda = agenda(&made, cut, window_rows, budget_bytes);
        let times = vec![0; usize::try_from(made.manifest.num_rows()).unwrap()];
        let most_times = window_rows.map_or(1, |_| u32::try_from(lanes).unwrap());
        let (begun, held) = (Vec::new(), BTreeMap::new());
        let play =
            Play { made: &made, agenda, budget_bytes, dice, begun, times, most_times, held, delivered: 0 };
        let play = std::panic::AssertUnwindSafe(|| play.play());
        let found = std::panic::catch_unwind(play);
        assert!(
            found.is_ok(),
            "seed {seed}: {groups:?}, {cut:?}, window {window_rows:?}, {budget_bytes} bytes"
        );
    }
}
