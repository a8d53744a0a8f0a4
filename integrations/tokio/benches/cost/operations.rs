//! The operations that are measured, and their measurement.
//!
//! Each operation is repeated in short rounds, and the fastest round counts: a round that was
//! interrupted says nothing about the operation.

use std::future::Future;

use profiler_tokio::ProfileFuture;
use test_support::patience::Stopwatch;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, yield_now};

use crate::subjects::Subject;

const ROUNDS: u32 = 300;
const TASKS: u32 = 200;
const POLLS: u32 = 1000;

/// The operations with their names and nanoseconds.
pub(crate) fn measure_all(subject: &Subject) -> Vec<(&'static str, f64)> {
    let [alone, worker] = [false, true].map(|has_worker| subject.runtime(has_worker));
    subject.begin();
    let is_wrapped = subject.is_wrapped;
    vec![
        ("task", task(alone.get(), is_wrapped)),
        ("task_on_worker", task(worker.get(), is_wrapped)),
        ("poll", poll(alone.get(), is_wrapped)),
    ]
}

/// A task from its spawn to its join, inside of another task.
fn task(runtime: &Runtime, is_wrapped: bool) -> f64 {
    let round = || async move {
        for _ in 0..TASKS {
            let _ = spawn(async {}, is_wrapped).await;
        }
    };
    nanoseconds(TASKS, || {
        let _ = runtime.block_on(runtime.spawn(round()));
    })
}

/// One poll of a task that yields each time.
fn poll(runtime: &Runtime, is_wrapped: bool) -> f64 {
    let round = || async {
        for _ in 0..POLLS {
            yield_now().await;
        }
    };
    nanoseconds(POLLS, || {
        let _ = runtime.block_on(async { spawn(round(), is_wrapped).await });
    })
}

fn spawn<F>(future: F, is_wrapped: bool) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    if is_wrapped {
        tokio::spawn(future.profiled("measured"))
    } else {
        tokio::spawn(future)
    }
}

/// The nanoseconds of one repetition in the fastest round.
fn nanoseconds(repetitions: u32, operation: impl Fn()) -> f64 {
    let round = || {
        let watch = Stopwatch::start();
        operation();
        watch.elapsed()
    };
    let fastest = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    fastest.as_secs_f64() * 1e9 / f64::from(repetitions)
}
