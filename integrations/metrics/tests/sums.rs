//! The sum in the profile is the sum of what the program has added, on any number of threads.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use metrics::{counter, gauge, histogram};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use recorded_session::RunningSession;
use test_support::own_process;

use crate::support::{start_alone, value};

/// What one thread adds: the label, and the amount.
type Steps = Vec<(u8, u32)>;

#[test]
fn the_sum_of_all_increments_is_in_the_profile() {
    own_process!();
    profiler_metrics::alone().install().unwrap();
    let threads =
        prop::collection::vec(prop::collection::vec((0_u8..3, any::<u32>()), 0..50), 1..5);
    let mut runner = TestRunner::new(Config::with_cases(64));
    let property = |threads: Vec<Steps>| {
        let _session = RunningSession::start();
        run(&threads);
        for label in 0..3 {
            let of_label = |step: &&(u8, u32)| step.0 == label;
            let steps = threads.iter().flatten().filter(of_label);
            let expected: i64 = steps.map(|step| i64::from(step.1)).sum();
            let values = [
                value(&format!("amounts{{label={label}}}")),
                value(&format!("level{{label={label}}}")),
                value(&format!("sizes_bytes{{label={label}}} sum")),
            ];
            prop_assert_eq!(values, [expected; 3]);
        }
        // The gauges go back, because they outlive the session.
        for (label, amount) in threads.iter().flatten() {
            gauge!("level", "label" => label.to_string()).decrement(*amount);
        }
        Ok(())
    };
    runner.run(&threads, property).unwrap();
}

fn run(threads: &[Steps]) {
    std::thread::scope(|scope| {
        for steps in threads {
            scope.spawn(move || {
                for (label, amount) in steps {
                    let label = label.to_string();
                    counter!("amounts", "label" => label.clone()).increment((*amount).into());
                    gauge!("level", "label" => label.clone()).increment(*amount);
                    histogram!("sizes_bytes", "label" => label).record(*amount);
                }
            });
        }
    });
}

/// Threads that change one gauge at the same time.
const THREADS: i64 = 3;

#[test]
fn a_gauge_that_threads_change_at_the_same_time_has_the_latest_value_in_the_end() {
    own_process!();
    let _session = start_alone();
    let (shared, together) = (gauge!("shared"), Barrier::new(THREADS.try_into().unwrap()));
    // A thread that fails would leave the others at the barrier.
    let wrong_rounds = AtomicU32::new(0);
    let many_changes = || {
        for round in 0..300 {
            together.wait();
            // A single change is the last one of its thread more often.
            (0..1 + round % 40).for_each(|_| shared.increment(2));
            if together.wait().is_leader() {
                let changes: i64 = (0..=round).map(|round| 1 + round % 40).sum();
                let is_wrong = value("shared") != 2 * changes * THREADS;
                wrong_rounds.fetch_add(is_wrong.into(), Ordering::SeqCst);
            }
            together.wait();
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS).for_each(|_| _ = scope.spawn(many_changes));
    });
    assert_eq!(wrong_rounds.load(Ordering::SeqCst), 0);
}
