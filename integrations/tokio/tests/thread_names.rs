//! The names of the threads of runtimes, and their hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
use profiler_tokio::RuntimeRules;
use recorded_session::RunningSession;
use test_support::own_process;
use test_support::patience::until;
use tokio::runtime::Builder;

use crate::support::{one_thread, thread_names, two_workers};

/// Records something, so that the thread is in the profile.
fn mark() {
    add_untyped_marker("here", &category::TEST, MarkerOptions::default());
}

fn is_named(name: &str) -> bool {
    thread_names().iter().any(|known| known == name)
}

#[test]
fn workers_are_named_after_their_runtime_and_their_index() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("server"));
    // Each worker parks sooner or later, and both get tasks.
    let both = || {
        runtime.block_on(async { tokio::spawn(async { mark() }).await.unwrap() });
        is_named("server worker 0") && is_named("server worker 1")
    };
    assert!(until(both), "{:?}", thread_names());
}

#[test]
fn threads_of_the_blocking_pool_are_named_and_the_thread_of_block_on_keeps_its_name() {
    own_process!();
    let _session = RunningSession::start();
    profiler_core::thread::register("the host's");
    mark();
    let runtime = one_thread(&RuntimeRules::named("small"));
    runtime.block_on(async {
        tokio::task::spawn_blocking(mark).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(1)).await; // parks
    });
    assert!(is_named("small blocking 0"), "{:?}", thread_names());
    assert!(is_named("the host's"));
}

#[test]
fn hooks_of_the_program_may_call_those_of_the_profiler() {
    own_process!();
    let _session = RunningSession::start();
    let hooks = RuntimeRules::named("shared").hooks();
    let calls = Arc::new(AtomicUsize::new(0));
    let mut builder = Builder::new_current_thread();
    hooks.install(&mut builder);
    let counted = Arc::clone(&calls);
    builder.on_thread_start(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        hooks.thread_start();
    });
    let runtime = builder.build().unwrap();
    runtime.block_on(runtime.spawn_blocking(mark)).unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(is_named("shared blocking 0"), "{:?}", thread_names());
}

#[test]
fn a_thread_that_starts_after_another_has_stopped_gets_its_name() {
    own_process!();
    let _session = RunningSession::start();
    let hooks = RuntimeRules::named("pool").hooks();
    let stopped = Arc::new(AtomicUsize::new(0));
    let mut builder = Builder::new_current_thread();
    hooks.install(&mut builder);
    let counted = Arc::clone(&stopped);
    builder.on_thread_stop(move || {
        hooks.thread_stop();
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let keep_alive = std::time::Duration::from_millis(1);
    let runtime = builder.thread_keep_alive(keep_alive).build().unwrap();
    for round in 1..=3 {
        runtime.block_on(runtime.spawn_blocking(mark)).unwrap();
        assert!(until(|| stopped.load(Ordering::SeqCst) == round));
    }
    assert!(is_named("pool blocking 0"), "{:?}", thread_names());
    assert!(!is_named("pool blocking 1"), "{:?}", thread_names());
}

#[test]
fn a_thread_of_one_runtime_that_drives_another_one_keeps_its_name() {
    own_process!();
    let _session = RunningSession::start();
    let outer = one_thread(&RuntimeRules::named("outer"));
    let drive_inner = || {
        mark();
        let inner = two_workers(&RuntimeRules::named("inner"));
        inner.block_on(tokio::time::sleep(std::time::Duration::from_millis(1)));
        let inner = one_thread(&RuntimeRules::named("inner"));
        inner.block_on(tokio::time::sleep(std::time::Duration::from_millis(1)));
        mark();
    };
    outer.block_on(outer.spawn_blocking(drive_inner)).unwrap();
    assert!(is_named("outer blocking 0"), "{:?}", thread_names());
}
