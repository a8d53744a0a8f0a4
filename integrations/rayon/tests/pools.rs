//! Pools: the names of their workers, and the program's own handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use profiler_core::marker;
use profiler_parent::Session;
use profiler_rayon::{JobContext, PoolProfile};
use rayon::ThreadPoolBuilder;
use test_support::own_process;
use test_support::patience::until;

use crate::support::pool;

/// The names of the threads in a profile of this session, sorted.
fn threads_in_profile(session: &Session) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    session.capture().save(&path).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&text).unwrap();
    let threads = profile["threads"].as_array().unwrap().iter();
    let mut names: Vec<String> = threads
        .map(|thread| thread["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn assert_has(names: &[String], expected: &[&str]) {
    for name in expected {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
}

#[test]
fn workers_are_in_the_profile_with_the_name_of_their_pool() {
    own_process!();
    let early = pool("early", 2);
    let session = Session::builder().start().unwrap();
    let late = pool("late", 2);
    for pool in [&early, &late] {
        pool.broadcast(|_| marker!("here"));
    }
    let expected = [
        "early worker 0",
        "early worker 1",
        "late worker 0",
        "late worker 1",
    ];
    assert_has(&threads_in_profile(&session), &expected);
}

#[test]
fn workers_of_the_global_pool_are_in_the_profile() {
    own_process!();
    let profile = PoolProfile::new("global");
    let build = || profile.build_global(ThreadPoolBuilder::new().num_threads(2));
    build().unwrap();
    assert!(build().is_err(), "rayon builds the global pool once");
    let session = Session::builder().start().unwrap();
    rayon::broadcast(|_| marker!("here"));
    let expected = ["global worker 0", "global worker 1"];
    assert_has(&threads_in_profile(&session), &expected);
}

#[test]
fn the_handlers_and_thread_names_of_the_program_stay() {
    let [started, ended] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let count = |counter: &Arc<AtomicUsize>| {
        let counter = Arc::clone(counter);
        move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    };
    let builder = ThreadPoolBuilder::new()
        .num_threads(2)
        .start_handler(count(&started))
        .exit_handler(count(&ended))
        .thread_name(|index| format!("own {index}"));
    let pool = PoolProfile::new("handled").build(builder).unwrap();
    let names = pool.broadcast(|_| thread::current().name().map(str::to_owned));
    assert_eq!(names, ["own 0", "own 1"].map(|name| Some(name.to_owned())));
    drop(pool);
    assert!(until(|| ended.load(Ordering::SeqCst) == 2));
    assert_eq!(started.load(Ordering::SeqCst), 2);
}

#[test]
fn threads_without_names_get_those_of_the_profile() {
    let pool = pool("zero\0byte", 1);
    let names = pool.broadcast(|_| thread::current().name().map(str::to_owned));
    assert_eq!(names, [Some("zero byte worker 0".to_owned())]);
}

#[test]
fn a_spawn_handler_of_the_program_runs_workers_with_their_names() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let profile = PoolProfile::new("handed");
    let pool = ThreadPoolBuilder::new()
        .num_threads(1)
        .spawn_handler(|worker| {
            let profile = profile.clone();
            let run = move || profile.run_worker(worker);
            thread::Builder::new().spawn(run).map(drop)
        })
        .build()
        .unwrap();
    pool.install(|| marker!("here"));
    assert_has(&threads_in_profile(&session), &["handed worker 0"]);
}

#[test]
fn a_worker_without_a_job_has_an_empty_context() {
    own_process!();
    let _session = Session::builder().start().unwrap();
    let groups = pool("idle", 1).install(|| JobContext::current().groups());
    assert_eq!(groups, 0);
}
