//! Tests of observed spans: rows T3 to T6 of `docs/features.md`.
//!
//! Spans are paired, delivered once with their original start, shown as running until then, and
//! dropped when their thread ends. Points, details and long names are delivered correctly.

use anyhow::{Context, bail};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use profiler_parent::core::marker::{MarkerOptions, add_text_marker, add_untyped_marker, category};
use profiler_parent::observe::{Filter, ObservedMarker, SessionNs, Shape};
use profiler_parent::span;

use crate::observe_support::{CHILD, PERIOD, Received, observe, sentinel, start};

#[test]
fn t3_nested_spans_pair_from_the_inside_and_texts_keep_timers_apart() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = observe(&session, Filter::default())?;
    let record = |options: MarkerOptions, text: Option<&str>| match text {
        Some(text) => add_text_marker("timer", &category::TEST, options, text),
        None => add_untyped_marker("timer", &category::TEST, options),
    };
    let begin = MarkerOptions::interval_start();
    let end = MarkerOptions::interval_end();
    record(begin, None);
    record(begin, Some("x"));
    record(begin, Some("y"));
    record(begin, None);
    record(end, None); // ends the inner interval
    record(end, Some("x"));
    record(end, Some("y"));
    record(end, None);
    {
        let _outer = span!("nested", &category::TEST, "outer");
        let _inner = span!("nested", &category::TEST, "inner");
    }
    let mut received = Received::default();
    received.until(&observer, |received| {
        received.count("timer") == 4 && received.count("nested") == 2
    })?;
    let text = |marker: &ObservedMarker| {
        serde_json::to_value(&marker.fields).ok()?[0]["value"]
            .as_str()
            .map(str::to_owned)
    };
    let mut starts: Vec<(SessionNs, Option<String>)> = received
        .named("timer")
        .map(|marker| (marker.start, text(marker)))
        .collect();
    let ends: Vec<Option<String>> = received.named("timer").map(text).collect();
    starts.sort();
    let texts: Vec<Option<&str>> = starts.iter().map(|(_, text)| text.as_deref()).collect();
    assert_eq!(texts, [None, Some("x"), Some("y"), None]);
    assert_eq!(
        ends,
        [None, Some("x".to_owned()), Some("y".to_owned()), None]
    );
    let without_text: Vec<_> = received
        .named("timer")
        .filter(|marker| text(marker).is_none())
        .collect();
    assert!(
        without_text[0].start > without_text[1].start && without_text[0].end < without_text[1].end,
        "not paired from the inside"
    );
    let [inner, outer] = received.named("nested").collect::<Vec<_>>()[..] else {
        bail!("not two nested spans")
    };
    assert_eq!(
        (text(inner), text(outer)),
        (Some("inner".to_owned()), Some("outer".to_owned()))
    );
    assert!(inner.start > outer.start && inner.end <= outer.end);
    assert_eq!(received.last()?.orphans, 0);
    Ok(())
}

#[test]
fn t4_a_long_span_is_delivered_once_with_its_start_and_shown_as_running_until_then()
-> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("open-span early")?;
    let observer = observe(&session, Filter::default())?;
    child.ask("open-span late")?;
    let mut received = Received::default();
    received.until(&observer, |received| {
        received
            .batches
            .last()
            .is_some_and(|batch| batch.running.len() == 2)
    })?;
    let running = received.last()?.running.clone();
    let before: Vec<bool> = running.iter().map(|span| span.opened_before).collect();
    assert_eq!(before, [true, false]);
    for round in 1..=4 {
        std::thread::sleep(5 * PERIOD);
        child.ask("point")?;
        received.until(&observer, |received| received.count("point") == round)?;
        assert_eq!(
            received.last()?.running.len(),
            2,
            "an open span is not shown as running"
        );
        assert_eq!(received.count("stays open"), 0);
    }
    child.ask("close-span")?;
    child.ask("close-span")?;
    received.until(&observer, |received| {
        received.count("stays open") == 2
            && received.last().is_ok_and(|batch| batch.running.is_empty())
    })?;
    for (ended, shown) in received
        .named("stays open")
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .zip(&running)
    {
        assert_eq!(
            (ended.span, ended.opened_before),
            (shown.span, shown.opened_before)
        );
        assert!(
            ended.start.0.abs_diff(shown.start.0) < 1_000_000,
            "not the original start"
        );
        assert!(ended.duration_ns() >= Some(4 * 5 * PERIOD.as_nanos() as u64));
    }
    Ok(())
}

#[test]
fn t5_a_span_may_end_on_another_thread_and_belongs_to_the_first() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = observe(&session, Filter::default().name("handed over"))?;
    let own = profiler_parent::core::thread::current();
    let span = span!("handed over", &category::TEST);
    std::thread::Builder::new()
        .spawn(move || drop(span))?
        .join()
        .ok();
    let mut received = Received::default();
    received.until(&observer, |received| received.count("handed over") == 1)?;
    assert_eq!(received.markers[0].origin.thread, own);
    Ok(())
}

#[test]
fn t6_a_point_ends_where_it_starts_and_details_come_with_their_span() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = observe(&session, Filter::default())?;
    {
        let paint = span!("paint", &category::TEST);
        paint.detail("rectangle", "0 0 10 10");
        paint.detail("rectangle", "5 5 20 20");
        sentinel();
    }
    let mut received = Received::default();
    received.until(&observer, |received| {
        received.count("paint") == 1 && received.count("sentinel") == 1
    })?;
    let point = received.named("sentinel").next().context("no point")?;
    assert_eq!(
        (point.shape, point.end, point.duration_ns()),
        (Shape::Instant, Some(point.start), Some(0))
    );
    let paint = received.named("paint").next().context("no span")?;
    let details: Vec<&str> = paint
        .details
        .iter()
        .map(|detail| detail.value.as_str())
        .collect();
    assert_eq!(details, ["0 0 10 10", "5 5 20 20"]);
    assert_eq!(
        received.count("rectangle"),
        0,
        "a detail is delivered as a marker"
    );
    Ok(())
}

#[test]
fn names_are_cut_at_a_kilobyte_also_those_of_running_spans() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = observe(&session, Filter::default())?;
    let long = format!("é{}", "long ".repeat(20_000));
    add_untyped_marker(&long, &category::TEST, MarkerOptions::interval_start());
    add_untyped_marker(&long, &category::TEST, MarkerOptions::default());
    let mut received = Received::default();
    received.until(&observer, |received| {
        !received.markers.is_empty() && !received.batches[0].running.is_empty()
    })?;
    for marker in [&received.markers[0], &received.batches[0].running[0]] {
        assert!(
            long.starts_with(&*marker.name) && (1_000..=1_024).contains(&marker.name.len()),
            "{}",
            marker.name.len()
        );
        assert!(marker.cut, "the marker does not tell that it was cut");
    }
    add_untyped_marker(&long, &category::TEST, MarkerOptions::interval_end());
    received.until(&observer, |received| received.markers.len() == 2)?;
    assert_eq!(
        (received.markers[1].shape, received.last()?.orphans),
        (Shape::Span, 0),
        "the interval is not paired by its full name"
    );
    Ok(())
}

#[test]
fn open_intervals_of_a_thread_are_dropped_when_it_ends() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = observe(&session, Filter::default())?;
    let leave_open = || {
        add_untyped_marker(
            "left open",
            &category::TEST,
            MarkerOptions::interval_start(),
        )
    };
    add_untyped_marker("own", &category::TEST, MarkerOptions::interval_start());
    std::thread::Builder::new().spawn(leave_open)?.join().ok();
    let mut received = Received::default();
    received.until(&observer, |received| {
        received
            .batches
            .iter()
            .any(|batch| batch.running.len() == 2)
    })?;
    received.until(&observer, |received| {
        received.last().is_ok_and(|batch| batch.running.len() == 1)
    })?;
    assert_eq!(
        (&*received.last()?.running[0].name, received.last()?.orphans),
        ("own", 1)
    );
    Ok(())
}
