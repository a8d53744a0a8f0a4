//! Wrapped futures: on all runtimes, in all builds.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use profiler_core::marker::{MarkerOptions, MarkerStack, add_untyped_marker, category};
use profiler_tokio::{ProfileFuture, RuntimeRules, TaskRules};
use recorded_session::{Phase, RunningSession, dropped};
use test_support::own_process;
use test_support::patience::until;
use tokio::task::{LocalSet, yield_now};

use crate::support::{named, one_thread, spin, start_and_end, two_workers};

#[test]
fn a_future_is_an_interval_with_the_times_of_its_polls() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r").tasks(None));
    let work = async {
        spin(3);
        yield_now().await;
        spin(1);
    };
    runtime
        .block_on(runtime.spawn(work.profiled("work")))
        .unwrap();
    let [start, end] = start_and_end("work");
    assert_eq!(start.field("polls"), None);
    assert_eq!(end.number("polls"), Some(2));
    let [total, longest, lifetime] = ["inPolls", "longest", "lifetime"].map(|key| end.float(key));
    // The session's clock may differ a little from the one of `spin`.
    assert!(longest >= 2.9 && total >= 3.9 && total >= longest);
    assert!(lifetime >= total, "{lifetime} {total}");
    assert_eq!(end.text("end").as_deref(), Some("completed"));
    assert_eq!(dropped(), 0);
}

#[test]
fn a_future_has_the_number_of_its_task_and_of_the_one_that_made_it() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r").tasks(None));
    let outer = async {
        let inner = tokio::spawn(async { tokio::task::id().to_string() }.profiled("inner"));
        (tokio::task::id().to_string(), inner.await.unwrap())
    };
    let (outer, inner) = runtime
        .block_on(runtime.spawn(outer.profiled("outer")))
        .unwrap();
    let [start, end] = start_and_end("inner");
    let text = |number: Option<u64>| number.unwrap().to_string();
    assert_eq!(text(end.number("task")), inner);
    assert_eq!(text(start.number("by")), outer);
    assert_eq!(text(start_and_end("outer")[1].number("task")), outer);
    let outer_span = start_and_end("outer")[0].span();
    assert_eq!(start.number("parent"), Some(outer_span));
    assert_eq!(start_and_end("outer")[0].number("parent"), None);
}

#[test]
fn an_end_says_whether_the_future_was_completed() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = two_workers(&RuntimeRules::named("r").tasks(None));
    runtime.block_on(async {
        let aborted = tokio::spawn(pending::<()>().profiled("aborted"));
        yield_now().await;
        aborted.abort();
        assert!(aborted.await.unwrap_err().is_cancelled());
        let panics = async { std::panic::resume_unwind(Box::new("on purpose")) };
        let panicked: Result<(), _> = tokio::spawn(panics.profiled("panicked")).await;
        assert!(panicked.unwrap_err().is_panic());
    });
    let end = |name| start_and_end(name)[1].text("end").unwrap();
    assert_eq!(end("aborted"), "dropped before it was complete");
    assert_eq!(end("panicked"), "panicked");
}

#[test]
fn futures_of_a_local_set_and_of_block_on_are_recorded() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = one_thread(&RuntimeRules::named("r"));
    let local = LocalSet::new();
    let body = async {
        let inside = tokio::task::spawn_local(yield_now().profiled("local"));
        inside.await.unwrap();
    };
    local.block_on(&runtime, body.profiled("outside"));
    assert_eq!(start_and_end("local")[1].number("polls"), Some(2));
    assert!(start_and_end("outside")[1].number("polls") >= Some(2));
}

#[test]
fn futures_of_several_runtimes_are_recorded_when_the_runtimes_are_dropped() {
    own_process!();
    let _session = RunningSession::start();
    let runtimes = ["first", "second"].map(|name| two_workers(&RuntimeRules::named(name)));
    for runtime in &runtimes {
        drop(runtime.spawn(pending::<()>().profiled("never complete")));
    }
    drop(runtimes);
    let all = named("never complete");
    let ends: Vec<_> = all.iter().filter(|seen| seen.phase == Phase::End).collect();
    assert_eq!((all.len(), ends.len()), (4, 2));
    assert_ne!(ends[0].span(), ends[1].span());
}

#[test]
fn a_long_poll_is_an_interval_and_a_short_one_is_not() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = one_thread(&RuntimeRules::named("r").tasks(None));
    let rules = TaskRules::default().long_poll(Some(Duration::from_millis(2)));
    let work = async {
        yield_now().await;
        spin(3);
    };
    runtime.block_on(work.profiled_by("slow", rules));
    let never = TaskRules::default().long_poll(None);
    runtime.block_on(async { spin(2) }.profiled_by("never", never));
    let long: Vec<_> = named("long poll")
        .into_iter()
        .filter(|seen| seen.text("of").as_deref() == Some("slow"))
        .collect();
    // The first poll may take long, too, if the machine is slow.
    assert!(matches!(long.len(), 1 | 2), "{long:?}");
    assert!(long.iter().all(|seen| seen.phase == Phase::Interval));
    assert_eq!(long[0].span(), start_and_end("slow")[0].span());
    assert!(
        named("long poll")
            .iter()
            .all(|seen| seen.text("of").as_deref() != Some("never"))
    );
}

#[test]
fn polls_are_intervals_if_the_rules_say_so() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = one_thread(&RuntimeRules::named("r").tasks(None));
    let rules = TaskRules::default().polls(true);
    runtime.block_on(yield_now().profiled_by("polled", rules));
    let polls: Vec<_> = named("polled")
        .into_iter()
        .filter(|seen| seen.phase == Phase::Interval)
        .collect();
    assert_eq!(polls.len(), 2);
    let span = start_and_end("polled")[0].span();
    assert!(polls.iter().all(|poll| poll.span() == span));
}

#[test]
fn a_stack_shows_the_future_that_the_thread_polls() {
    own_process!();
    let _session = RunningSession::start();
    let runtime = one_thread(&RuntimeRules::named("r").tasks(None));
    let options = MarkerOptions::default().with_stack(MarkerStack::Labels);
    let mark = async move { add_untyped_marker("inside", &category::TEST, options) };
    runtime.block_on(async { mark.profiled("inner").await }.profiled("outer"));
    add_untyped_marker("outside", &category::TEST, options);
    assert_eq!(named("inside")[0].stack, ["outer", "inner"]);
    assert!(named("outside")[0].stack.is_empty());
}

static IS_DONE: AtomicBool = AtomicBool::new(false);

async fn yield_until_done() {
    while !IS_DONE.load(Ordering::SeqCst) {
        yield_now().await;
    }
}

#[test]
fn a_future_that_is_older_than_the_session_begins_at_its_first_poll_in_it() {
    own_process!();
    let runtime = one_thread(&RuntimeRules::named("r").tasks(None));
    let older = runtime.spawn(yield_until_done().profiled("older"));
    runtime.block_on(yield_now());
    for _ in 0..2 {
        let session = RunningSession::start();
        let begins = || {
            runtime.block_on(yield_now());
            !named("older").is_empty()
        };
        assert!(until(begins));
        let note = named("older")[0].text("note");
        assert_eq!(note.as_deref(), Some("spawned before it was recorded"));
        drop(session);
        runtime.block_on(yield_now());
    }
    let _last = RunningSession::start();
    assert!(until(|| {
        runtime.block_on(yield_now());
        !named("older").is_empty()
    }));
    IS_DONE.store(true, Ordering::SeqCst);
    runtime.block_on(older).unwrap();
    let [_, end] = start_and_end("older");
    assert_eq!(end.field("lifetime"), None);
    assert!(end.number("polls") >= Some(1));
}

#[test]
fn a_future_costs_nothing_that_is_seen_without_a_session() {
    own_process!();
    let runtime = one_thread(&RuntimeRules::named("r"));
    assert_eq!(runtime.block_on(async { 3 }.profiled("unseen")), 3);
    let _session = RunningSession::start();
    assert!(named("unseen").is_empty());
}
