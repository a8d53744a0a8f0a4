//! The counters of runtimes.

use std::future::pending;
use std::sync::mpsc;

use profiler_tokio::RuntimeRules;
use recorded_session::{RunningSession, counter};
use test_support::own_process;
use test_support::patience::until;
use tokio::runtime::Handle;
use tokio::task::yield_now;

use crate::support::{one_thread, two_workers};

/// Waits until a counter has this value.
fn becomes(name: &str, value: i64) {
    assert!(
        until(|| counter(name) == Some(value)),
        "{name} is {:?} and not {value}",
        counter(name)
    );
}

#[test]
fn alive_tasks_and_the_global_queue_are_counters_of_the_runtime() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = one_thread(&RuntimeRules::named("r"));
    // Nothing drives the runtime, so the tasks stay in its queue.
    let tasks = [(); 5].map(|()| runtime.spawn(pending::<()>()));
    becomes("r: alive tasks", 5);
    becomes("r: global queue", 5);
    runtime.block_on(yield_now());
    becomes("r: global queue", 0);
    tasks.iter().for_each(|task| task.abort());
    runtime.block_on(yield_now());
    becomes("r: alive tasks", 0);
}

#[test]
fn a_runtime_that_is_stuck_is_shown_with_its_busy_worker() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("stuck"));
    let (release, blocked) = mpsc::channel::<()>();
    let task = runtime.spawn(async move { blocked.recv().is_err() });
    let shares = || [0, 1].map(|worker| counter(&format!("stuck: worker {worker} busy")));
    let is_one_busy = || {
        let mut shares = shares();
        shares.sort_unstable();
        shares == [Some(0), Some(100)]
    };
    assert!(until(is_one_busy), "{:?}", shares());
    becomes("stuck: busy", 50);
    drop(release);
    assert!(runtime.block_on(task).unwrap());
    becomes("stuck: busy", 0);
}

#[test]
fn threads_of_the_blocking_pool_are_counted() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r"));
    let (release, blocked) = mpsc::channel::<()>();
    let waits = runtime.spawn_blocking(move || blocked.recv().is_err());
    becomes("r: blocking threads", 1);
    #[cfg(tokio_unstable)]
    becomes("r: idle blocking threads", 0);
    drop(release);
    assert!(runtime.block_on(waits).unwrap());
    #[cfg(tokio_unstable)]
    becomes("r: idle blocking threads", 1);
}

#[test]
fn runtimes_of_one_name_are_told_apart_and_a_dropped_one_goes_to_zero() {
    own_process!();
    let _session = RunningSession::start();
    let runtimes = [1, 2].map(|tasks| {
        let runtime = one_thread(&RuntimeRules::named("twin"));
        (0..tasks).for_each(|_| drop(runtime.spawn(pending::<()>())));
        runtime
    });
    becomes("twin: alive tasks", 1);
    becomes("twin 2: alive tasks", 2);
    let [first, second] = runtimes;
    drop(second);
    becomes("twin 2: alive tasks", 0);
    becomes("twin: alive tasks", 1);
    drop(first.into_inner());
    becomes("twin: alive tasks", 0);
}

#[test]
fn a_runtime_without_hooks_is_watched_by_its_handle_and_shown_in_each_session() {
    own_process!();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .name("plain")
        .build()
        .unwrap();
    runtime.block_on(async {
        let _watched = RuntimeRules::default().watch(&Handle::current());
        drop(tokio::spawn(pending::<()>()));
        for _ in 0..3 {
            let session = RunningSession::start();
            becomes("plain: alive tasks", 1);
            drop(session);
        }
    });
}

#[test]
fn parks_count_from_the_start_of_the_session() {
    own_process!();
    let runtime = two_workers(&RuntimeRules::named("r"));
    let wake = || runtime.block_on(async { tokio::spawn(yield_now()).await.unwrap() });
    (0..100).for_each(|_| wake());
    let _session = RunningSession::start();
    becomes("r: parks", 0);
    let parks = || {
        wake();
        counter("r: parks") > Some(0)
    };
    assert!(until(parks));
}

#[test]
fn runtimes_beyond_the_bound_run_and_are_counted() {
    own_process!();
    let _session = RunningSession::start();
    let rules = RuntimeRules::named("many");
    let runtimes: Vec<_> = (0..34).map(|_| one_thread(&rules)).collect();
    assert!(
        runtimes
            .iter()
            .all(|runtime| runtime.block_on(async { true }))
    );
    becomes("tokio: runtimes without counters", 2);
}

#[test]
#[cfg(tokio_unstable)]
fn polls_are_counted() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = one_thread(&RuntimeRules::named("r"));
    becomes("r: polls", 0);
    runtime.block_on(async {
        let spawn = || tokio::spawn(yield_now());
        for task in [(); 10].map(|()| spawn()) {
            task.await.unwrap();
        }
        // Parks, and publishes what it has counted.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    });
    becomes("r: polls", 20);
}

#[test]
fn the_thread_that_reads_exists_only_while_a_session_runs() {
    own_process!();
    let runtime = one_thread(&RuntimeRules::named("r"));
    let is_there = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |thread: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default()
        };
        threads
            .map(name)
            .any(|name| name.trim() == "profiler-tokio")
    };
    assert!(!is_there());
    let session = RunningSession::start();
    assert!(until(is_there));
    drop(session);
    assert!(until(|| !is_there()));
    let _session = RunningSession::start();
    assert!(until(is_there));
    drop(runtime);
    assert!(until(|| !is_there()));
}
