//! Tasks that the hooks of a runtime record. Only with `tokio_unstable`.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use profiler_core::marker::{MarkerOptions, MarkerStack, add_untyped_marker, category};
use profiler_tokio::{RuntimeRules, TaskRules};
use recorded_session::{Phase, RunningSession, Seen, dropped, markers};
use test_support::own_process;
use test_support::patience::until;
use tokio::task::yield_now;

use crate::support::{count, named, one_thread, spin, two_workers};

/// The starts and ends of tasks that were spawned in this file.
fn tasks(phase: Phase) -> Vec<Seen> {
    let mut all = markers();
    all.retain(|seen| seen.phase == phase && seen.name.contains("tests/hooked_tasks.rs:"));
    all
}

/// The end of a task, once it is there: tokio calls its hook after the caller knows of it.
fn end_of(task: u64) -> Seen {
    let find = || {
        let mut ends = tasks(Phase::End).into_iter();
        ends.find(|end| end.number("task") == Some(task))
    };
    assert!(until(|| find().is_some()), "task {task} has no end");
    find().unwrap()
}

fn start_of(task: u64) -> Seen {
    let mut starts = tasks(Phase::Start).into_iter();
    starts
        .find(|start| start.number("task") == Some(task))
        .unwrap()
}

fn own_number() -> u64 {
    tokio::task::id().to_string().parse().unwrap()
}

#[test]
fn a_task_is_an_interval_with_the_times_of_its_polls_and_the_task_that_spawned_it() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r"));
    let outer = async {
        let inner = tokio::spawn(async {
            spin(3);
            yield_now().await;
            spin(1);
            own_number()
        });
        (own_number(), inner.await.unwrap())
    };
    let (outer, inner) = runtime.block_on(runtime.spawn(outer)).unwrap();
    let (start, end) = (start_of(inner), end_of(inner));
    assert_eq!(start.span(), end.span());
    assert_eq!(start.number("by"), Some(outer));
    assert_eq!(start.number("parent"), Some(start_of(outer).span()));
    assert_eq!(start_of(outer).number("by"), None);
    assert_eq!(end.number("polls"), Some(2), "the last poll is part of it");
    let [total, longest, lifetime] = ["inPolls", "longest", "lifetime"].map(|key| end.float(key));
    // The session's clock may differ a little from the one of `spin`.
    assert!(longest >= 2.9 && total >= 3.9 && total >= longest);
    assert!(lifetime >= total, "{lifetime} {total}");
    assert_eq!(dropped(), 0);
}

#[test]
fn tasks_that_are_aborted_that_panic_or_that_end_with_their_runtime_have_an_end() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r"));
    runtime.block_on(async {
        let aborted = tokio::spawn(pending::<()>());
        aborted.abort();
        assert!(aborted.await.unwrap_err().is_cancelled());
        let panics = async { std::panic::resume_unwind(Box::new("on purpose")) };
        let panicked: Result<(), _> = tokio::spawn(panics).await;
        assert!(panicked.unwrap_err().is_panic());
        drop(tokio::spawn(pending::<()>()));
    });
    drop(runtime);
    assert!(until(|| tasks(Phase::End).len() == 3));
    let mut spans = [Phase::Start, Phase::End]
        .map(|phase| tasks(phase).iter().map(Seen::span).collect::<Vec<_>>());
    spans.iter_mut().for_each(|spans| spans.sort_unstable());
    assert_eq!(spans[0], spans[1]);
}

#[test]
fn a_hundred_thousand_tasks_are_all_there_or_counted() {
    own_process!();
    const TASKS: usize = 100_000;
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r"));
    runtime.block_on(async {
        let (open, gate) = tokio::sync::watch::channel(false);
        let wait = |mut gate: tokio::sync::watch::Receiver<bool>| async move {
            let _ = gate.wait_for(|is_open| *is_open).await;
        };
        let all: Vec<_> = (0..TASKS)
            .map(|_| tokio::spawn(wait(gate.clone())))
            .collect();
        open.send(true).unwrap();
        for task in all {
            task.await.unwrap();
        }
    });
    drop(runtime);
    let lost = usize::try_from(dropped()).unwrap();
    let [starts, ends] =
        [Phase::Start, Phase::End].map(|phase| count(phase, "tests/hooked_tasks.rs:"));
    assert_eq!(starts + ends + lost, 2 * TASKS, "{starts} {ends} {lost}");
}

#[test]
fn tasks_of_several_runtimes_of_both_kinds_are_recorded() {
    own_process!();
    let _session = RunningSession::start();
    let rules = RuntimeRules::named("r");
    let runtimes = [two_workers(&rules), one_thread(&rules), two_workers(&rules)];
    let numbers = [0, 1, 2].map(|index| {
        let runtime = &runtimes[index];
        runtime
            .block_on(runtime.spawn(async { own_number() }))
            .unwrap()
    });
    numbers.into_iter().for_each(|task| _ = end_of(task));
}

#[test]
fn a_poll_inside_of_another_is_recorded_as_its_own() {
    own_process!();
    let _session = RunningSession::start();
    let outer = two_workers(&RuntimeRules::named("outer"));
    let task = async {
        let nested = || {
            let inner = one_thread(&RuntimeRules::named("inner"));
            inner
                .block_on(inner.spawn(async {
                    spin(2);
                    own_number()
                }))
                .unwrap()
        };
        let inner = tokio::task::block_in_place(nested);
        (own_number(), inner)
    };
    let (outer, inner) = outer.block_on(outer.spawn(task)).unwrap();
    let (outer, inner) = (end_of(outer), end_of(inner));
    assert_eq!(inner.number("by"), outer.number("task"));
    assert!(outer.float("longest") >= inner.float("longest"));
    assert_eq!(
        (outer.number("polls"), inner.number("polls")),
        (Some(1), Some(1))
    );
}

#[test]
fn long_polls_and_polls_are_intervals_of_the_task() {
    own_process!();
    let _session = RunningSession::start();
    let tasks = TaskRules::default()
        .polls(true)
        .long_poll(Some(Duration::from_millis(2)));
    let runtime = one_thread(&RuntimeRules::named("r").tasks(tasks));
    let work = async {
        yield_now().await;
        spin(2);
        own_number()
    };
    let task = runtime.block_on(runtime.spawn(work)).unwrap();
    let span = start_of(task).span();
    let of_task = |name: &str| {
        let polls = named(name).into_iter();
        let of_task = |seen: &Seen| seen.phase == Phase::Interval && seen.span() == span;
        polls.filter(of_task).count()
    };
    let name = start_of(task).name;
    assert!(until(|| of_task(&name) == 2), "{}", of_task(&name));
    assert!(matches!(of_task("long poll"), 1 | 2));
    assert_eq!(named("long poll")[0].text("of"), Some(name));
}

#[test]
fn a_stack_shows_the_task_that_the_thread_polls() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = one_thread(&RuntimeRules::named("r"));
    let options = MarkerOptions::default().with_stack(MarkerStack::Labels);
    let mark = move |name| add_untyped_marker(name, &category::TEST, options);
    runtime.block_on(async {
        tokio::spawn(async move { mark("inside") }).await.unwrap();
        mark("outside");
    });
    let labels = &named("inside")[0].stack;
    assert_eq!(labels, &[tasks(Phase::Start)[0].name.clone()]);
    assert!(named("outside")[0].stack.is_empty());
}

static IS_DONE: AtomicBool = AtomicBool::new(false);

#[test]
fn a_task_that_is_older_than_the_session_begins_at_its_first_poll_in_it() {
    own_process!();
    let runtime = one_thread(&RuntimeRules::named("r"));
    let older = runtime.spawn(async {
        while !IS_DONE.load(Ordering::SeqCst) {
            yield_now().await;
        }
        own_number()
    });
    runtime.block_on(yield_now());
    let begins = || {
        runtime.block_on(yield_now());
        !tasks(Phase::Start).is_empty()
    };
    let note = || tasks(Phase::Start)[0].text("note");
    let first = RunningSession::start();
    assert!(until(begins));
    assert_eq!(note().as_deref(), Some("spawned before it was recorded"));
    drop(first);
    runtime.block_on(yield_now());
    let _second = RunningSession::start();
    assert!(until(begins));
    assert_eq!(note().as_deref(), Some("spawned before it was recorded"));
    IS_DONE.store(true, Ordering::SeqCst);
    let number = runtime.block_on(older).unwrap();
    assert_eq!(end_of(number).field("lifetime"), None);
}

#[test]
fn tasks_of_the_blocking_pool_and_of_a_runtime_that_has_shut_down_leave_nothing_open() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r"));
    runtime.block_on(runtime.spawn_blocking(|| ())).unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    drop(handle.spawn(async { unreachable!("the runtime has shut down") }));
    assert!(tasks(Phase::Start).is_empty() && tasks(Phase::End).is_empty());
}

#[test]
fn tasks_are_not_recorded_if_the_rules_say_so() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r").tasks(None));
    runtime.block_on(runtime.spawn(async {})).unwrap();
    drop(runtime);
    assert!(tasks(Phase::Start).is_empty());
}
