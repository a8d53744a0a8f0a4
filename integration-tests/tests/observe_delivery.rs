//! Tests of the delivery of batches to observers: rows T1 and T7 to T9 of `docs/features.md`.
//!
//! They check the cost of recording while observed, the period and size of batches, the loss of a
//! slow observer, the end of observers and of their session, and that the delivery does not observe
//! itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::counting::allocations_of;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::{pool_descriptors, thread_names};
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::session;
use profiler_core::ids::ByteLimit;
use profiler_parent::core::marker::category;
use profiler_parent::observe::{Filter, NoBatch, ObserverOptions};
use profiler_parent::{marker, scope, span};

use crate::observe_support::{CHILD, PERIOD, Received, observe, sentinel, start};

/// A period that is never over.
const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn t1_markers_allocate_nothing_with_and_without_a_session() -> anyhow::Result<()> {
    own_process!();
    let record = || {
        for _ in 0..5 {
            marker!("free", &category::TEST);
            let _scope = scope!("free scope", &category::TEST);
            let _span = span!("free span", &category::TEST);
        }
    };
    assert_eq!(allocations_of(record), 0, "without a session");
    let session = start()?;
    record();
    // If no chunk is ready, recording takes the slow path, which may allocate.
    let least = |rounds| (0..rounds).map(|_| allocations_of(record)).min();
    assert_eq!(least(20), Some(0), "recorded and not observed");
    let _observer = observe(&session, Filter::default())?;
    assert_eq!(least(20), Some(0), "recorded and observed");
    Ok(())
}

#[test]
fn t7_batches_keep_their_period_while_busy_and_none_comes_when_nothing_happens()
-> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let watch = Stopwatch::start();
    let observer = session.observe(Filter::default())?;
    assert_eq!(
        observer.next(Duration::from_millis(500)),
        Err(NoBatch::Timeout),
        "a batch arrives although nothing was recorded"
    );
    let mut recorded = 0;
    let mut received = Received::default();
    // Four batches are enough to show the period.
    while received.batches.len() < 4 {
        ensure!(
            watch.elapsed() < LONG,
            "no batch arrives while the child records"
        );
        child.ask("point")?;
        recorded += 1;
        std::thread::sleep(Duration::from_millis(10));
        received.take(&observer, Duration::ZERO)?;
    }
    received.until(&observer, |received| received.count("point") == recorded)?;
    let most = watch.elapsed().as_millis() / 200 + 1;
    assert!(
        (2..=most).contains(&(received.batches.len() as u128)),
        "{} of {most}",
        received.batches.len()
    );
    assert!(
        received
            .batches
            .iter()
            .zip(0..)
            .all(|(batch, number)| batch.sequence == number)
    );
    assert_eq!(
        observer.next(Duration::from_millis(700)),
        Err(NoBatch::Timeout),
        "a batch arrives although nothing is recorded any more"
    );
    Ok(())
}

#[test]
fn t7_a_batch_that_is_large_enough_does_not_wait_for_its_period() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observe = |options: ObserverOptions| {
        session.observe_with(Filter::default().name("many"), options.period(NEVER))
    };
    let by_number = observe(ObserverOptions::default().batch_markers(10))?;
    let by_bytes = observe(
        ObserverOptions::default()
            .batch_markers(usize::MAX)
            .queue_bytes(100_000),
    )?;
    (0..1_000).for_each(|_| marker!("many", &category::TEST));
    assert_eq!(by_number.next(LONG)?.markers.len(), 10);
    let bytes = by_bytes.next(LONG)?;
    assert!(
        (11..1_000).contains(&bytes.markers.len()),
        "{}",
        bytes.markers.len()
    );
    Ok(())
}

#[test]
fn t7_a_slow_observer_loses_what_does_not_fit_and_the_loss_is_counted() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let options = ObserverOptions::default()
        .period(PERIOD)
        .batch_markers(100)
        .queue_bytes(100_000);
    let slow = session.observe_with(Filter::default().name("numbered"), options)?;
    // Large enough for all markers, because this thread may be delayed while the reader thread
    // delivers them.
    let options = ObserverOptions::default()
        .period(PERIOD)
        .queue_bytes(64 << 20);
    let quick = session.observe_with(Filter::default().name("numbered"), options)?;
    child.ask("record 2 10000")?;
    let mut all = Received::default();
    all.until(&quick, |received| received.count("numbered") == 20_000)?;
    let mut some = Received::default();
    let mut added = 0;
    // A batch that arrives after the queue was emptied contains the number of lost markers.
    let watch = Stopwatch::start();
    while watch.elapsed() < LONG {
        child.ask("mark 1")?;
        added += 1;
        let before = some.markers.len();
        let sum = |received: &Received| {
            received.markers.len() as u64 + received.batches.last().map_or(0, |batch| batch.dropped)
        };
        some.until(&slow, |received| received.markers.len() > before)?;
        if sum(&some) == 20_000 + added {
            break;
        }
    }
    let dropped = some.last()?.dropped;
    assert!(dropped > 0 && some.markers.len() < 20_000);
    assert_eq!(some.markers.len() as u64 + dropped, 20_000 + added);
    Ok(())
}

#[test]
fn t8_the_last_observer_ends_the_reader_thread_and_no_end_is_orphaned() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let reads = || {
        thread_names()
            .iter()
            .any(|name| name.starts_with("profiler-observ"))
    };
    assert!(!reads());
    let before = pool_descriptors();
    let first = observe(&session, Filter::default())?;
    let second = observe(&session, Filter::default())?;
    let open = span!("left inside", &category::TEST);
    child.ask("point")?;
    let mut seen = Received::default();
    seen.until(&second, |received| received.count("point") == 1)?;
    let during = pool_descriptors();
    drop(first);
    assert!(until(reads));
    drop(second);
    assert!(until(|| !reads()), "the reader thread remains");
    let is_as_before = until(|| pool_descriptors() == before);
    assert!(
        is_as_before,
        "{before} pools open before, {during} with observers, {} now",
        pool_descriptors()
    );
    let third = observe(&session, Filter::default())?;
    drop(open);
    let mut received = Received::default();
    received.until(&third, |received| received.count("left inside") == 1)?;
    assert_eq!(
        (received.markers[0].opened_before, received.last()?.orphans),
        (true, 0)
    );
    Ok(())
}

#[test]
fn t8_an_observer_with_a_long_period_keeps_no_pool_of_a_dead_process_open() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(2 << 20)))?;
    let before = pool_descriptors();
    let options = ObserverOptions::default().period(NEVER);
    let observe = || {
        session.observe_with(
            Filter::default().name("nothing"),
            options.batch_markers(usize::MAX),
        )
    };
    let _observer = observe()?;
    let mut children = HelperProcess::spawn_many(&session, CHILD, 4)?;
    HelperProcess::ask_all(&mut children, "mark 10")?;
    drop(observe()?); // all pools have been read now
    ensure!(pool_descriptors() > before, "it opened no pool");
    children
        .iter_mut()
        .try_for_each(|child| child.end("kill 9").map(drop))?;
    let are_evicted = || {
        (0..2_000).for_each(|_| marker!("newer than all data of the dead"));
        session
            .processes()
            .iter()
            .all(|process| !process.name.starts_with("child") || process.true_bytes == 0)
    };
    ensure!(until(are_evicted), "dead processes keep their memory");
    ensure!(
        until(|| pool_descriptors() <= before),
        "{} are open, {before} before",
        pool_descriptors()
    );
    Ok(())
}

#[test]
fn t8_a_session_that_ends_delivers_what_is_left_to_its_observers() -> anyhow::Result<()> {
    own_process!();
    let mut session = start()?;
    let observer = session.observe(Filter::default())?;
    let calls = Arc::new(AtomicU64::new(0));
    let forwarding = {
        let calls = Arc::clone(&calls);
        session.observe(Filter::default())?.forward(move |batch| {
            calls.fetch_add(batch.markers.len() as u64, Ordering::Relaxed);
        })?
    };
    sentinel();
    let watch = Stopwatch::start();
    session.end();
    assert!(watch.elapsed() < LONG);
    let last = observer.next(LONG)?;
    assert_eq!(&*last.markers.last().context("no marker")?.name, "sentinel");
    assert_eq!(observer.next(LONG), Err(NoBatch::SessionOver));
    assert!(until(|| calls.load(Ordering::Relaxed) > 0));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    drop(forwarding);
    Ok(())
}

#[test]
fn t9_what_the_delivery_records_is_not_delivered() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let delivered = Arc::new(AtomicU64::new(0));
    let other = observe(&session, Filter::default().name("delivered"))?;
    let forwarding = {
        let delivered = Arc::clone(&delivered);
        observe(&session, Filter::default())?.forward(move |batch| {
            delivered.fetch_add(batch.markers.len() as u64, Ordering::Relaxed);
            marker!("delivered", &category::TEST);
        })?
    };
    sentinel();
    assert!(until(|| delivered.load(Ordering::Relaxed) > 0));
    assert_eq!(other.next(10 * PERIOD), Err(NoBatch::Timeout));
    assert_eq!(
        delivered.load(Ordering::Relaxed),
        1,
        "markers of the delivery were delivered"
    );
    drop(forwarding);
    Ok(())
}

#[test]
fn a_batch_serialises_and_a_filter_deserialises() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = observe(&session, Filter::default())?;
    sentinel();
    let batch = observer.next(LONG)?;
    let json = serde_json::to_value(&batch)?;
    assert_eq!(json["markers"][0]["name"], "sentinel");
    assert_eq!(json["markers"][0]["shape"], "instant");
    assert_eq!(json["markers"][0]["process"], std::process::id());
    let filter: Filter = serde_json::from_str(r#"{"name": "a*", "min_duration_ns": 5}"#)?;
    assert_eq!(
        filter,
        Filter::default()
            .name("a*")
            .min_duration(Duration::from_nanos(5))
    );
    Ok(())
}
