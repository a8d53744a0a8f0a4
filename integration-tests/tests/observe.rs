//! Observed timelines: rows T1 to T10, with real processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use integration_tests::counting::allocations_of;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::{pool_descriptors, thread_names};
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::session::{self, TestSession};
use profiler_core::ids::ByteLimit;
use profiler_parent::core::marker::schema::{Format, MarkerSchema};
use profiler_parent::core::marker::{
    MarkerOptions, ProfilerMarker, SpanOptions, add_text_marker, add_untyped_marker, category,
};
use profiler_parent::observe::{
    Batch, Filter, NoBatch, ObservedMarker, Observer, ObserverOptions, SessionNs, Shape,
};
use profiler_parent::{marker, scope, span};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// A period that is never over.
const NEVER: Duration = Duration::from_secs(3600);
/// A period at which tests need not wait long.
const OFTEN: Duration = Duration::from_millis(20);

/// What an observer was told until now.
#[derive(Default)]
struct Told {
    markers: Vec<ObservedMarker>,
    batches: Vec<Batch>,
}

impl Told {
    /// Takes batches until something holds of what was told.
    fn until(&mut self, observer: &Observer, holds: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let watch = Stopwatch::start();
        while !holds(self) {
            ensure!(watch.elapsed() < LONG, "only this was told: {}", self.names());
            self.take(observer, Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Takes a batch, if one arrives in time.
    fn take(&mut self, observer: &Observer, timeout: Duration) -> anyhow::Result<()> {
        match observer.next(timeout) {
            Ok(batch) => {
                self.markers.extend(batch.markers.iter().cloned());
                self.batches.push(batch);
            }
            Err(NoBatch::Timeout) => {}
            Err(error) => bail!("{error}: {}", self.names()),
        }
        Ok(())
    }

    fn names(&self) -> String {
        format!("{:#?}", self.markers.iter().map(|one| &one.name).collect::<Vec<_>>())
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ObservedMarker> {
        self.markers.iter().filter(move |marker| *marker.name == *name)
    }

    fn count(&self, name: &str) -> usize {
        self.named(name).count()
    }

    fn last(&self) -> anyhow::Result<&Batch> {
        self.batches.last().context("no batch")
    }
}

fn often(session: &TestSession, filter: Filter) -> anyhow::Result<Observer> {
    Ok(session.observe_with(filter, ObserverOptions::default().period(OFTEN))?)
}

fn start() -> anyhow::Result<TestSession> {
    session::start(|builder| builder)
}

/// Something by which a test knows that everything before it was told.
fn sentinel() {
    marker!("sentinel", &category::TEST);
}

#[test]
fn t1_markers_allocate_nothing_whether_anybody_records_or_not() -> anyhow::Result<()> {
    own_process!();
    let record = || {
        for _ in 0..5 {
            marker!("free", &category::TEST);
            let _scope = scope!("free scope", &category::TEST);
            let _span = span!("free span", &category::TEST);
        }
    };
    {
        assert_eq!(allocations_of(record), 0, "nobody records");
    }
    let session = start()?;
    record();
    // Where no chunk was ready the slow way may allocate.
    let least = |rounds| (0..rounds).map(|_| allocations_of(record)).min();
    assert_eq!(least(20), Some(0), "recorded and not observed");
    let _observer = often(&session, Filter::default())?;
    assert_eq!(least(20), Some(0), "recorded and observed");
    Ok(())
}

#[test]
fn t2_an_observer_of_a_group_sees_its_own_and_what_is_global_of_all_processes() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let (a, all) = (often(&session, Filter::default().group("a"))?, often(&session, Filter::default())?);
    for line in ["inside a 3", "inside b 5", "inside * 2", "point", "inside a 1"] {
        child.ask(line)?;
    }
    {
        let _global = span!("over", &category::TEST, SpanOptions::default().group("*"));
        sentinel();
    }
    let (mut of_a, mut of_all) = (Told::default(), Told::default());
    of_all.until(&all, |told| told.count("sentinel") == 1 && told.count("inside") == 11)?;
    of_a.until(&a, |told| told.count("sentinel") == 1 && told.count("inside") >= 6)?;
    assert_eq!((of_a.count("inside"), of_a.count("point"), of_a.count("unit of work")), (6, 0, 3));
    assert!(of_a.named("inside").all(|one| one.groups.iter().any(|group| matches!(&**group, "a" | "*"))));
    assert_eq!(of_all.count("point"), 1);
    Ok(())
}

#[test]
fn t3_nested_spans_pair_from_the_inside_and_texts_keep_timers_apart() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = often(&session, Filter::default())?;
    let at = |options: MarkerOptions, text: Option<&str>| match text {
        Some(text) => add_text_marker("timer", &category::TEST, options, text),
        None => add_untyped_marker("timer", &category::TEST, options),
    };
    let (begin, end) = (MarkerOptions::interval_start(), MarkerOptions::interval_end());
    at(begin, None);
    at(begin, Some("x"));
    at(begin, Some("y"));
    at(begin, None);
    at(end, None); // the inner one
    at(end, Some("x"));
    at(end, Some("y"));
    at(end, None);
    {
        let _outer = span!("nested", &category::TEST, "outer");
        let _inner = span!("nested", &category::TEST, "inner");
    }
    let mut told = Told::default();
    told.until(&observer, |told| told.count("timer") == 4 && told.count("nested") == 2)?;
    let text = |one: &ObservedMarker| {
        serde_json::to_value(&one.fields).ok()?[0]["value"].as_str().map(str::to_owned)
    };
    let mut starts: Vec<(SessionNs, Option<String>)> =
        told.named("timer").map(|one| (one.start, text(one))).collect();
    let ends: Vec<Option<String>> = told.named("timer").map(text).collect();
    starts.sort();
    let texts: Vec<Option<&str>> = starts.iter().map(|(_, text)| text.as_deref()).collect();
    assert_eq!(texts, [None, Some("x"), Some("y"), None]);
    assert_eq!(ends, [None, Some("x".to_owned()), Some("y".to_owned()), None]);
    let untexted: Vec<_> = told.named("timer").filter(|one| text(one).is_none()).collect();
    assert!(untexted[0].start > untexted[1].start && untexted[0].end < untexted[1].end, "from the inside");
    let [inner, outer] = told.named("nested").collect::<Vec<_>>()[..] else { bail!("not two") };
    assert_eq!((text(inner), text(outer)), (Some("inner".to_owned()), Some("outer".to_owned())));
    assert!(inner.start > outer.start && inner.end <= outer.end);
    assert_eq!(told.last()?.orphans, 0);
    Ok(())
}

#[test]
fn t4_a_long_span_is_told_once_with_its_start_and_shown_as_running_until_then() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("open-span early")?;
    let observer = often(&session, Filter::default())?;
    child.ask("open-span late")?;
    let mut told = Told::default();
    told.until(&observer, |told| told.batches.last().is_some_and(|batch| batch.running.len() == 2))?;
    let running = told.last()?.running.clone();
    let before: Vec<bool> = running.iter().map(|one| one.opened_before).collect();
    assert_eq!(before, [true, false]);
    for round in 1..=4 {
        std::thread::sleep(5 * OFTEN);
        child.ask("point")?;
        told.until(&observer, |told| told.count("point") == round)?;
        assert_eq!(told.last()?.running.len(), 2, "shown while it runs");
        assert_eq!(told.count("stays open"), 0);
    }
    child.ask("close-span")?;
    child.ask("close-span")?;
    told.until(&observer, |told| {
        told.count("stays open") == 2 && told.last().is_ok_and(|it| it.running.is_empty())
    })?;
    for (ended, shown) in told.named("stays open").collect::<Vec<_>>().into_iter().rev().zip(&running) {
        assert_eq!((ended.span, ended.opened_before), (shown.span, shown.opened_before));
        assert!(ended.start.0.abs_diff(shown.start.0) < 1_000_000, "the original start");
        assert!(ended.duration_ns() >= Some(4 * 5 * OFTEN.as_nanos() as u64));
    }
    Ok(())
}

#[test]
fn t5_spans_of_eight_threads_of_two_processes_come_once_each_with_thread_and_process() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut first = HelperProcess::spawn(&session, CHILD, "first", "init")?;
    let observer = often(&session, Filter::default().name("work"))?;
    let mut second = HelperProcess::spawn(&session, CHILD, "second", "init")?; // comes later
    first.tell("spans 8 20")?;
    second.ask("spans 8 20")?;
    first.line()?;
    let mut told = Told::default();
    told.until(&observer, |told| told.count("work") == 2 * 8 * 20 * 2)?;
    let mut threads: BTreeMap<(u32, String), usize> = BTreeMap::new();
    for one in told.named("work") {
        *threads.entry((one.origin.process.get(), one.origin.thread_name.to_string())).or_default() += 1;
    }
    assert_eq!((threads.len(), threads.values().all(|count| *count == 40)), (16, true), "{threads:?}");
    let spans: BTreeSet<_> = told.named("work").map(|one| one.span).collect();
    assert_eq!(spans.len(), 640);
    assert_eq!((told.last()?.orphans, told.last()?.missed, told.last()?.dropped), (0, 0, 0));
    Ok(())
}

#[test]
fn t5_a_span_may_end_on_another_thread_and_belongs_to_the_first() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = often(&session, Filter::default().name("handed over"))?;
    let own = profiler_parent::core::thread::current();
    let span = span!("handed over", &category::TEST);
    std::thread::Builder::new().spawn(move || drop(span))?.join().ok();
    let mut told = Told::default();
    told.until(&observer, |told| told.count("handed over") == 1)?;
    assert_eq!(told.markers[0].origin.thread, own);
    Ok(())
}

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
    let observer = often(&session, Filter::default())?;
    marker!("sent", &category::IPC, MarkerOptions::default(), &Sent { flow: 4711 });
    child.ask("receive 4711")?;
    let mut told = Told::default();
    told.until(&observer, |told| told.count("sent") == 1 && told.count("received") == 1)?;
    let flow =
        |name| told.named(name).flat_map(|one| &one.flows).map(|flow| (flow.id.as_str(), flow.ends)).next();
    assert_eq!((flow("sent"), flow("received")), (Some(("1267", false)), Some(("1267", true))));
    Ok(())
}

#[test]
fn t6_a_point_ends_where_it_starts_and_details_come_with_their_span() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = often(&session, Filter::default())?;
    {
        let paint = span!("paint", &category::TEST);
        paint.detail("rectangle", "0 0 10 10");
        paint.detail("rectangle", "5 5 20 20");
        sentinel();
    }
    let mut told = Told::default();
    told.until(&observer, |told| told.count("paint") == 1 && told.count("sentinel") == 1)?;
    let point = told.named("sentinel").next().context("no point")?;
    assert_eq!((point.shape, point.end, point.duration_ns()), (Shape::Instant, Some(point.start), Some(0)));
    let paint = told.named("paint").next().context("no span")?;
    let details: Vec<&str> = paint.details.iter().map(|detail| detail.value.as_str()).collect();
    assert_eq!(details, ["0 0 10 10", "5 5 20 20"]);
    assert_eq!(told.count("rectangle"), 0, "not by themselves");
    Ok(())
}

#[test]
fn t7_batches_keep_their_period_while_busy_and_none_comes_when_nothing_happens() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let watch = Stopwatch::start();
    let observer = session.observe(Filter::default())?;
    assert_eq!(observer.next(Duration::from_millis(500)), Err(NoBatch::Timeout), "nothing happened");
    let mut recorded = 0;
    let mut told = Told::default();
    // Until there are enough batches to show a period.
    while told.batches.len() < 4 {
        ensure!(watch.elapsed() < LONG, "no batch comes while it is busy");
        child.ask("point")?;
        recorded += 1;
        std::thread::sleep(Duration::from_millis(10));
        told.take(&observer, Duration::ZERO)?;
    }
    told.until(&observer, |told| told.count("point") == recorded)?;
    let most = watch.elapsed().as_millis() / 200 + 1;
    assert!((2..=most).contains(&(told.batches.len() as u128)), "{} of {most}", told.batches.len());
    assert!(told.batches.iter().zip(0..).all(|(batch, number)| batch.sequence == number));
    assert_eq!(observer.next(Duration::from_millis(700)), Err(NoBatch::Timeout), "nothing happens any more");
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
    let by_bytes = observe(ObserverOptions::default().batch_markers(usize::MAX).queue_bytes(100_000))?;
    (0..1_000).for_each(|_| marker!("many", &category::TEST));
    assert_eq!(by_number.next(LONG)?.markers.len(), 10);
    let bytes = by_bytes.next(LONG)?;
    assert!((11..1_000).contains(&bytes.markers.len()), "{}", bytes.markers.len());
    Ok(())
}

#[test]
fn t8_an_observer_with_a_long_period_keeps_no_pool_of_the_dead_open() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(2 << 20)))?;
    let before = pool_descriptors();
    let options = ObserverOptions::default().period(NEVER);
    let observe =
        || session.observe_with(Filter::default().name("nothing"), options.batch_markers(usize::MAX));
    let _observer = observe()?;
    let mut children = HelperProcess::spawn_many(&session, CHILD, 4)?;
    children.iter_mut().try_for_each(|child| child.ask("mark 10").map(drop))?;
    drop(observe()?); // now all of them are read
    ensure!(pool_descriptors() > before, "it sees no pool");
    children.iter_mut().try_for_each(|child| child.end("kill 9").map(drop))?;
    let are_given_up = || {
        (0..2_000).for_each(|_| marker!("newer than all that the dead left"));
        session.processes().iter().all(|one| !one.name.starts_with("child") || one.true_bytes == 0)
    };
    ensure!(until(are_given_up), "the dead keep their place");
    ensure!(until(|| pool_descriptors() <= before), "{} are open, {before} before", pool_descriptors());
    Ok(())
}

#[test]
fn t7_who_does_not_read_loses_what_does_not_fit_and_is_told_how_much() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let options = ObserverOptions::default().period(OFTEN).batch_markers(100).queue_bytes(100_000);
    let slow = session.observe_with(Filter::default().name("numbered"), options)?;
    // Room for all markers: this thread may be held up while the reader thread delivers them.
    let options = ObserverOptions::default().period(OFTEN).queue_bytes(64 << 20);
    let quick = session.observe_with(Filter::default().name("numbered"), options)?;
    child.ask("record 2 10000")?;
    let mut all = Told::default();
    all.until(&quick, |told| told.count("numbered") == 20_000)?;
    let mut some = Told::default();
    let mut got = 0;
    // When it has taken all, the next batch says what was lost.
    let watch = Stopwatch::start();
    while watch.elapsed() < LONG {
        child.ask("mark 1")?;
        got += 1;
        let before = some.markers.len();
        let sum =
            |told: &Told| told.markers.len() as u64 + told.batches.last().map_or(0, |batch| batch.dropped);
        some.until(&slow, |told| told.markers.len() > before)?;
        if sum(&some) == 20_000 + got {
            break;
        }
    }
    let dropped = some.last()?.dropped;
    assert!(dropped > 0 && some.markers.len() < 20_000);
    assert_eq!(some.markers.len() as u64 + dropped, 20_000 + got);
    Ok(())
}

#[test]
fn t8_the_last_observer_takes_everything_along_and_no_end_is_orphaned() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let reads = || thread_names().iter().any(|name| name.starts_with("profiler-observ"));
    assert!(!reads());
    let before = pool_descriptors();
    let (first, second) = (often(&session, Filter::default())?, often(&session, Filter::default())?);
    let open = span!("left inside", &category::TEST);
    child.ask("point")?;
    let mut seen = Told::default();
    seen.until(&second, |told| told.count("point") == 1)?;
    let during = pool_descriptors();
    drop(first);
    assert!(until(reads));
    drop(second);
    assert!(until(|| !reads()), "the reader thread stays");
    let is_as_before = until(|| pool_descriptors() == before);
    assert!(is_as_before, "{before} pools open before, {during} with observers, {} now", pool_descriptors());
    let third = often(&session, Filter::default())?;
    drop(open);
    let mut told = Told::default();
    told.until(&third, |told| told.count("left inside") == 1)?;
    assert_eq!((told.markers[0].opened_before, told.last()?.orphans), (true, 0));
    Ok(())
}

#[test]
fn t8_a_session_ends_with_observers_and_tells_them_the_rest() -> anyhow::Result<()> {
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
    let beside = often(&session, Filter::default().name("delivered"))?;
    let forwarding = {
        let delivered = Arc::clone(&delivered);
        often(&session, Filter::default())?.forward(move |batch| {
            delivered.fetch_add(batch.markers.len() as u64, Ordering::Relaxed);
            marker!("delivered", &category::TEST);
        })?
    };
    sentinel();
    assert!(until(|| delivered.load(Ordering::Relaxed) > 0));
    assert_eq!(beside.next(10 * OFTEN), Err(NoBatch::Timeout));
    assert_eq!(delivered.load(Ordering::Relaxed), 1, "its own markers came back");
    drop(forwarding);
    Ok(())
}

#[test]
fn t10_every_batch_says_when_its_session_began_and_processes_align() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let observer = often(&session, Filter::default())?;
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
    let mut told = Told::default();
    told.until(&observer, |told| ["before", "point", "after"].iter().all(|name| told.count(name) == 20))?;
    let clock = told.last()?.clock;
    assert!(told.batches.iter().all(|batch| batch.clock.start_unix == clock.start_unix));
    let epoch = i64::try_from(clock.start_monotonic.0)?;
    let wall = std::time::UNIX_EPOCH + Duration::from_nanos(clock.start_unix.0);
    assert!(wall.elapsed()? < LONG * 10, "the wall time is not now");
    let times = |name| told.named(name).map(|one| one.start.0).collect::<Vec<_>>();
    let (before, points, after) = (times("before"), times("point"), times("after"));
    let slack = 1_000_000;
    for (round, (from, to)) in bounds.into_iter().enumerate() {
        assert!(before[round] <= points[round] + slack && points[round] <= after[round] + slack);
        assert!((from - slack..=to + slack).contains(&(epoch + points[round])), "not on the machine's clock");
    }
    Ok(())
}

#[test]
fn the_last_entries_of_a_killed_process_come_and_its_open_spans_are_unfinished() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = often(&session, Filter::default())?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("open-span for ever")?;
    child.ask("mark 500")?;
    child.end("kill")?;
    let mut told = Told::default();
    told.until(&observer, |told| told.count("numbered") == 500 && told.count("stays open") == 1)?;
    let open = told.named("stays open").next().context("no span")?;
    assert_eq!((open.unfinished, open.end), (true, None));
    told.until(&observer, |told| told.last().is_ok_and(|batch| batch.running.is_empty()))?;
    Ok(())
}

#[test]
fn a_name_is_told_up_to_a_kilobyte_also_of_a_span_that_runs() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = often(&session, Filter::default())?;
    let long = format!("é{}", "long ".repeat(20_000));
    add_untyped_marker(&long, &category::TEST, MarkerOptions::interval_start());
    add_untyped_marker(&long, &category::TEST, MarkerOptions::default());
    let mut told = Told::default();
    told.until(&observer, |told| !told.markers.is_empty() && !told.batches[0].running.is_empty())?;
    for one in [&told.markers[0], &told.batches[0].running[0]] {
        assert!(
            long.starts_with(&*one.name) && (1_000..=1_024).contains(&one.name.len()),
            "{}",
            one.name.len()
        );
        assert!(one.cut, "and that is said");
    }
    add_untyped_marker(&long, &category::TEST, MarkerOptions::interval_end());
    told.until(&observer, |told| told.markers.len() == 2)?;
    assert_eq!((told.markers[1].shape, told.last()?.orphans), (Shape::Span, 0), "it is paired all the same");
    Ok(())
}

#[test]
fn what_a_thread_left_open_goes_when_it_has_ended() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = often(&session, Filter::default())?;
    let leaves = || add_untyped_marker("left open", &category::TEST, MarkerOptions::interval_start());
    add_untyped_marker("own", &category::TEST, MarkerOptions::interval_start());
    std::thread::Builder::new().spawn(leaves)?.join().ok();
    let mut told = Told::default();
    told.until(&observer, |told| told.batches.iter().any(|batch| batch.running.len() == 2))?;
    told.until(&observer, |told| told.last().is_ok_and(|batch| batch.running.len() == 1))?;
    assert_eq!((&*told.last()?.running[0].name, told.last()?.orphans), ("own", 1));
    Ok(())
}

#[test]
fn what_a_batch_is_made_of_serialises() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let observer = often(&session, Filter::default())?;
    sentinel();
    let batch = observer.next(LONG)?;
    let json = serde_json::to_value(&batch)?;
    assert_eq!(json["markers"][0]["name"], "sentinel");
    assert_eq!(json["markers"][0]["shape"], "instant");
    assert_eq!(json["markers"][0]["process"], std::process::id());
    let filter: Filter = serde_json::from_str(r#"{"name": "a*", "min_duration_ns": 5}"#)?;
    assert_eq!(filter, Filter::default().name("a*").min_duration(Duration::from_nanos(5)));
    Ok(())
}
