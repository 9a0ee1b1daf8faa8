//! Tests that threads wake the consumer that waits for them: without that it would wait for hours.

use std::sync::mpsc;

use super::*;
use crate::resume::lanes::Cut;
use crate::test_files::{ALONE, Made};

const HOURS: Duration = Duration::from_secs(10_000);
/// After this time, a consumer that was not woken counts as never woken.
const LONG: Duration = Duration::from_secs(30);

fn pipeline(made: &Made, threads: usize, budget_bytes: u64, window_rows: Option<u64>) -> ThreadPool {
    let (order, pass) = made.pass(Cut::new(1, 1, 10).unwrap(), window_rows);
    let sources = Arc::new(Sources::one(Arc::clone(&made.manifest), made.layout.clone()));
    ThreadPool::new(sources, PassOrder::of_rows(order), pass, ALONE, threads, budget_bytes).unwrap()
}

/// Wakes every waiter at the end, also if a test fails: the threads are joined.
struct Waking<'a>(&'a Condvar);

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        self.0.notify_all();
    }
}

/// Whether a waiting consumer is woken by what a thread does, which `deed` does here.
fn is_notified(work: &Work, deed: impl FnOnce()) -> bool {
    let (begins, has_begun) = mpsc::channel();
    let (tells, notified) = mpsc::channel();
    std::thread::scope(|scope| {
        let consumer = || {
            let state = work.state();
            begins.send(()).unwrap();
            drop(work.ready.wait_timeout(state, HOURS));
            tells.send(()).unwrap();
        };
        Builder::new().spawn_scoped(scope, consumer).unwrap();
        has_begun.recv().unwrap();
        // It releases the state as it begins to wait.
        drop(work.state());
        let _waking = Waking(&work.ready);
        deed();
        notified.recv_timeout(LONG).is_ok()
    })
}

fn take(work: &Work) -> Option<Task> {
    work.take(&mut work.state())
}

#[test]
fn the_consumer_is_notified_of_a_front_batch_that_it_may_end() {
    let made = Made::new(&[10, 10]);
    let pipeline = pipeline(&made, 1, 1 << 20, None);
    let task = take(&pipeline.work).unwrap();
    assert!(matches!(task, Task::Decode(_)));
    assert!(is_notified(&pipeline.work, || pipeline.work.perform(&task, 0)));
}

#[test]
fn the_consumer_is_notified_of_a_front_batch_that_was_ended() {
    let made = Made::new(&[10, 10]);
    let pipeline = pipeline(&made, 1, 1 << 20, None);
    pipeline.work.perform(&take(&pipeline.work).unwrap(), 0);
    let task = take(&pipeline.work).unwrap();
    assert!(matches!(task, Task::End(0, ..)));
    assert!(is_notified(&pipeline.work, || pipeline.work.perform(&task, 0)));
}

#[test]
fn the_consumer_is_notified_of_a_failure() {
    let made = Made::new(&[10, 10]);
    let pipeline = pipeline(&made, 1, 1 << 20, None);
    std::fs::remove_file(&made.path).unwrap();
    let task = take(&pipeline.work).unwrap();
    assert!(is_notified(&pipeline.work, || pipeline.work.perform(&task, 0)));
}

#[test]
fn the_consumer_is_notified_of_what_is_there_by_a_thread_that_finds_nothing_to_do() {
    let made = Made::new(&[10, 10]);
    let pipeline = pipeline(&made, 1, 0, None);
    pipeline.work.perform(&take(&pipeline.work).unwrap(), 0);
    pipeline.work.perform(&take(&pipeline.work).unwrap(), 0);
    assert!(is_notified(&pipeline.work, || assert!(take(&pipeline.work).is_none())));
}

#[test]
fn a_pass_ends_though_the_consumer_never_looks_for_itself() {
    for (threads, budget_bytes, window_rows) in
        [(1, 0, None), (2, 3000, None), (4, 1 << 20, None), (2, 0, Some(40)), (2, 1 << 20, Some(40))]
    {
        let (tells, notified) = mpsc::channel();
        let consumer = move || {
            let made = Made::new(&[100, 7, 93, 0, 400]);
            let mut pipeline = pipeline(&made, threads, budget_bytes, window_rows);
            let mut rows = 0;
            loop {
                match pipeline.poll(HOURS).unwrap() {
                    Polled::Batch(batch) => rows += batch.rows,
                    Polled::Pending => {}
                    Polled::End => break,
                }
            }
            tells.send(rows).unwrap();
        };
        Builder::new().spawn(consumer).unwrap();
        assert_eq!(
            notified.recv_timeout(LONG),
            Ok(600),
            "{threads} threads, {budget_bytes} bytes, {window_rows:?}"
        );
    }
}
