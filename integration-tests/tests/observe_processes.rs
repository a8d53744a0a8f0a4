//! Tests of the timelines of several observed processes: rows T2, T5 and T10 of `docs/features.md`.
//!
//! An observer receives the entries of all processes that its filter accepts, each with its thread
//! and process, on one clock. It also receives the last entries of a killed process.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::LONG;
use profiler_parent::core::marker::schema::{Format, MarkerSchema};
use profiler_parent::core::marker::{MarkerOptions, ProfilerMarker, SpanOptions, category};
use profiler_parent::observe::Filter;
use profiler_parent::{marker, span};

use crate::observe_support::{CHILD, Received, observe, sentinel, start};

#[test]
fn t2_an_observer_of_a_group_receives_its_entries_and_global_entries_of_all_processes()
-> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let a = observe(&session, Filter::default().group("a"))?;
    let all = observe(&session, Filter::default())?;
    for line in [
        "inside a 3",
        "inside b 5",
        "inside * 2",
        "point",
        "inside a 1",
    ] {
        child.ask(line)?;
    }
    {
        let _global = span!("over", &category::TEST, SpanOptions::default().group("*"));
        sentinel();
    }
    let mut of_a = Received::default();
    let mut of_all = Received::default();
    of_all.until(&all, |received| {
        received.count("sentinel") == 1 && received.count("inside") == 11
    })?;
    of_a.until(&a, |received| {
        received.count("sentinel") == 1 && received.count("inside") >= 6
    })?;
    assert_eq!(
        (
            of_a.count("inside"),
            of_a.count("point"),
            of_a.count("unit of work")
        ),
        (6, 0, 3)
    );
    assert!(of_a.named("inside").all(|marker| {
        marker
            .groups
            .iter()
            .any(|group| matches!(&**group, "a" | "*"))
    }));
    assert_eq!(of_all.count("point"), 1);
    Ok(())
}

#[test]
fn t5_spans_of_eight_threads_of_two_processes_are_delivered_once_with_thread_and_process()
-> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut first = HelperProcess::spawn(&session, CHILD, "first", "init")?;
    let observer = observe(&session, Filter::default().name("work"))?;
    // Starts after the observer.
    let mut second = HelperProcess::spawn(&session, CHILD, "second", "init")?;
    first.tell("spans 8 20")?;
    second.ask("spans 8 20")?;
    first.line()?;
    let mut received = Received::default();
    received.until(&observer, |received| {
        received.count("work") == 2 * 8 * 20 * 2
    })?;
    let mut threads: BTreeMap<(u32, String), usize> = BTreeMap::new();
    for span in received.named("work") {
        *threads
            .entry((
                span.origin.process.get(),
                span.origin.thread_name.to_string(),
            ))
            .or_default() += 1;
    }
    assert_eq!(
        (threads.len(), threads.values().all(|count| *count == 40)),
        (16, true),
        "{threads:?}"
    );
    let spans: BTreeSet<_> = received.named("work").map(|span| span.span).collect();
    assert_eq!(spans.len(), 640);
    assert_eq!(
        (
            received.last()?.orphans,
            received.last()?.missed,
            received.last()?.dropped
        ),
        (0, 0, 0)
    );
    Ok(())
}

/// The payload of a marker in which a flow begins.
#[derive(serde::Serialize)]
struct Sent {
    flow: u64,
}

impl ProfilerMarker for Sent {
    const TYPE_NAME: &'static str = "Sent";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Sent").key_format("flow", Format::FlowId)
    }
}

#[test]
fn t5_a_flow_has_one_number_in_both_processes() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let observer = observe(&session, Filter::default())?;
    marker!(
        "sent",
        &category::IPC,
        MarkerOptions::default(),
        &Sent { flow: 4711 }
    );
    child.ask("receive 4711")?;
    let mut received = Received::default();
    received.until(&observer, |received| {
        received.count("sent") == 1 && received.count("received") == 1
    })?;
    let flow = |name| {
        received
            .named(name)
            .flat_map(|marker| &marker.flows)
            .map(|flow| (flow.id.as_str(), flow.ends))
            .next()
    };
    assert_eq!(
        (flow("sent"), flow("received")),
        (
            Some(("0000000000001267", false)),
            Some(("0000000000001267", true))
        )
    );
    Ok(())
}

#[test]
fn t10_every_batch_says_when_its_session_began_and_processes_align() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let observer = observe(&session, Filter::default())?;
    let monotonic = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    let mut bounds = Vec::new();
    for _ in 0..20 {
        let before = monotonic();
        marker!("before", &category::TEST);
        child.ask("point")?;
        marker!("after", &category::TEST);
        bounds.push((before, monotonic()));
    }
    let mut received = Received::default();
    received.until(&observer, |received| {
        ["before", "point", "after"]
            .iter()
            .all(|name| received.count(name) == 20)
    })?;
    let clock = received.last()?.clock;
    assert!(
        received
            .batches
            .iter()
            .all(|batch| batch.clock.start_unix == clock.start_unix)
    );
    let epoch = i64::try_from(clock.start_monotonic.0)?;
    let wall = std::time::UNIX_EPOCH + Duration::from_nanos(clock.start_unix.0);
    assert!(
        wall.elapsed()? < LONG * 10,
        "the wall time of the start is wrong"
    );
    let times = |name| {
        received
            .named(name)
            .map(|marker| marker.start.0)
            .collect::<Vec<_>>()
    };
    let before = times("before");
    let points = times("point");
    let after = times("after");
    let slack = 1_000_000;
    for (round, (from, to)) in bounds.into_iter().enumerate() {
        assert!(before[round] <= points[round] + slack && points[round] <= after[round] + slack);
        assert!(
            (from - slack..=to + slack).contains(&(epoch + points[round])),
            "not on the machine's clock"
        );
    }
    Ok(())
}

#[test]
fn the_last_entries_of_a_killed_process_are_delivered_and_its_open_spans_are_unfinished()
-> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = observe(&session, Filter::default())?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("open-span unfinished")?;
    child.ask("mark 500")?;
    child.end("kill")?;
    let mut received = Received::default();
    received.until(&observer, |received| {
        received.count("numbered") == 500 && received.count("stays open") == 1
    })?;
    let open = received.named("stays open").next().context("no span")?;
    assert_eq!((open.unfinished, open.end), (true, None));
    received.until(&observer, |received| {
        received.last().is_ok_and(|batch| batch.running.is_empty())
    })?;
    Ok(())
}
