//! Models of the waits: shuttle runs a pipeline in thousands of orders of its threads. No wait has a time limit there, so
//! that a wake-up which is lost is a deadlock.

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

use super::*;
use crate::resume::lanes::Cut;
use crate::test_files::{ALONE, Made};

/// How many orders each model tries.
const ORDERS: usize = 500;

const FOR_EVER: Duration = Duration::MAX;

/// Threads, the budget in bytes, and the rows of a window, if the order is shuffled. The budgets have room for nothing but
/// the front batch, for some batches, and for all.
const KINDS: [(usize, u64, Option<u64>); 6] =
    [(1, 0, None), (2, 0, None), (2, 3000, None), (3, 1 << 20, None), (2, 0, Some(40)), (3, 3000, Some(40))];

/// Tries a model in many orders: of any kind, and of those in which few threads are stopped at a bad moment.
fn in_many_orders(model: impl Fn() + Send + Sync + Clone + 'static) {
    fn run(scheduler: impl Scheduler + 'static, model: impl Fn() + Send + Sync + 'static) {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        // What ends the waits of a thread is kept by the system's thread, which all threads of a model share.
        Runner::new(scheduler, config).run(move || stopped_by(None, &model));
    }
    run(RandomScheduler::new(ORDERS), model.clone());
    run(PctScheduler::new(3, ORDERS), model);
}

fn pipeline(made: &Made, (threads, budget_bytes, window_rows): (usize, u64, Option<u64>)) -> ThreadPool {
    let (order, pass) = made.pass(Cut::new(1, 1, 10).unwrap(), window_rows);
    let sources = Arc::new(Sources::one(Arc::clone(&made.manifest), made.layout.clone()));
    ThreadPool::new(sources, PassOrder::of_rows(order), pass, ALONE, threads, budget_bytes).unwrap()
}

/// The rows of at most so many batches, or the error of the one that failed.
fn read(pipeline: &mut ThreadPool, mut batches: usize) -> Result<usize> {
    let mut rows = 0;
    while batches > 0 {
        match pipeline.poll(FOR_EVER)? {
            Polled::Batch(batch) => (rows, batches) = (rows + batch.rows, batches - 1),
            Polled::Pending => {}
            Polled::End => break,
        }
    }
    Ok(rows)
}

#[test]
fn a_pass_ends_in_any_order_of_its_threads() {
    let made = Arc::new(Made::new(&[20, 7, 0, 33]));
    for kind in KINDS {
        let made = Arc::clone(&made);
        in_many_orders(move || assert_eq!(read(&mut pipeline(&made, kind), usize::MAX), Ok(60)));
    }
}

#[test]
fn a_pipeline_is_dropped_at_any_moment() {
    let made = Arc::new(Made::new(&[20, 7, 0, 33]));
    for kind in KINDS {
        let made = Arc::clone(&made);
        in_many_orders(move || {
            let batches = thread_rng().gen_range(0..5);
            let mut pipeline = pipeline(&made, kind);
            pipeline.start().unwrap();
            assert_eq!(read(&mut pipeline, batches), Ok(10 * batches));
        });
    }
}

#[test]
fn a_failure_is_delivered_in_any_order_of_the_threads() {
    let made = Arc::new(Made::new(&[20, 7, 0, 33]));
    std::fs::remove_file(&made.path).unwrap();
    for kind in KINDS {
        let made = Arc::clone(&made);
        in_many_orders(move || assert!(read(&mut pipeline(&made, kind), usize::MAX).is_err()));
    }
}
