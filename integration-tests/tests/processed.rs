//! Tests of the processed format, the default output.
//!
//! The parent reads every pool itself and sends no request to a process, so a capture waits for no
//! child. Counts and verdicts are those of the Gecko format.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::marks::check_of;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch};
use integration_tests::profile::KILLED;
use integration_tests::reports::captured;
use integration_tests::session;
use integration_tests::tools::{self, json as read};
use profiler_core::ids::ByteLimit;
use profiler_parent::CaptureReport;
use serde_json::Value;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

fn threads<'a>(profile: &'a Value, process: &str) -> impl Iterator<Item = &'a Value> {
    let all = profile["threads"].as_array().into_iter().flatten();
    all.filter(move |thread| thread["processName"] == process)
}

/// The numbers of all numbered markers of a process, by thread.
fn numbers(profile: &Value, process: &str) -> anyhow::Result<BTreeMap<u64, Vec<u64>>> {
    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for data in threads(profile, process)
        .filter_map(|thread| thread["markers"]["data"].as_array())
        .flatten()
    {
        let (Some(thread), Some(sequence)) = (data["thread"].as_u64(), data["sequence"].as_u64())
        else {
            continue;
        };
        ensure!(
            data["check"] == check_of(u32::try_from(thread)?, sequence),
            "a torn marker: {data}"
        );
        numbers.entry(thread).or_default().push(sequence);
    }
    Ok(numbers)
}

/// The rows of the gathering log by process name: verdict, recorded, delivered.
fn rows(profile: &Value) -> anyhow::Result<BTreeMap<String, (String, u64, u64)>> {
    let log = profile["profileGatheringLog"]
        .as_object()
        .and_then(|log| log.values().next());
    let rows = log
        .and_then(|log| log["processes"].as_array())
        .context("no log")?;
    let row = |row: &Value| {
        let verdict = row["verdict"].as_str()?.to_owned();
        let counts = (row["recorded"].as_u64()?, row["delivered"].as_u64()?);
        Some((
            row["name"].as_str()?.to_owned(),
            (verdict, counts.0, counts.1),
        ))
    };
    rows.iter()
        .map(row)
        .collect::<Option<_>>()
        .context("a damaged row")
}

#[test]
fn killed_frozen_live_and_unconnected_children_are_captured_without_waiting() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helpers = ["alive", "frozen", "killed"]
        .map(|name| HelperProcess::spawn(&session, CHILD, name, "init").expect("a child"));
    HelperProcess::ask_all(&mut helpers, "hold 3 500")?;
    let mut silent = std::process::Command::new(CHILD);
    silent.arg("die-in-init");
    let mut silent = session.spawn("hasty", silent)?;
    silent.wait()?;
    let [_alive, frozen, killed] = &mut helpers;
    assert!(frozen.freeze());
    killed.child.kill()?;
    killed.child.wait()?;
    let watch = Stopwatch::start();
    let report = session
        .session()?
        .capture()
        .save(session.path("profile.json"))?;
    assert!(
        watch.elapsed() < LONG,
        "the capture waited for the frozen child"
    );
    let profile = read(&report.path)?;
    let rows = rows(&profile)?;
    for (name, expected) in [
        ("alive", "complete"),
        ("frozen", "complete"),
        ("killed", KILLED),
        ("hasty", KILLED),
    ] {
        let verdict = captured(&report, name).verdict.to_string();
        assert_eq!(verdict, expected, "{name}");
        let (logged, recorded, delivered) = &rows[name];
        assert_eq!((logged.as_str(), recorded), (expected, delivered), "{name}");
        if name != "hasty" {
            let numbers = numbers(&profile, name)?;
            assert_eq!(numbers.len(), 3, "{name}");
            assert!(
                numbers
                    .values()
                    .all(|numbers| numbers.iter().copied().eq(0..500)),
                "{name}"
            );
        }
    }
    let main = threads(&profile, "parent").find(|thread| thread["isMainThread"] == true);
    let shown = main
        .and_then(|main| main["markers"]["data"].as_array())
        .context("no main thread")?;
    let incomplete = shown
        .iter()
        .filter(|data| data["type"] == "IncompleteProcess");
    assert_eq!(incomplete.count(), 2);
    frozen.signal(libc::SIGCONT);
    Ok(())
}

#[test]
fn both_formats_have_the_same_counts() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(4 << 20)))?;
    let mut calm = HelperProcess::spawn(&session, CHILD, "calm", "init")?;
    let mut crowded = HelperProcess::spawn(&session, CHILD, "crowded", "init")?;
    calm.ask("hold 2 100")?;
    crowded.ask("burst 3 60000")?; // more than the limit holds
    ensure!(session.all_pause(), "not paused");
    let counts = |report: &CaptureReport| -> Vec<_> {
        let row = |process: &profiler_parent::CapturedProcess| {
            (
                process.name.clone(),
                process.pid,
                process.threads,
                process.counts,
                process.verdict.clone(),
            )
        };
        report.processes.iter().map(row).collect()
    };
    let processed = || {
        anyhow::Ok(
            session
                .session()?
                .capture()
                .save(session.path("processed.json"))?,
        )
    };
    let gecko = || {
        anyhow::Ok(
            session
                .gecko_capture()?
                .save(session.path("gecko.json.gz"))?,
        )
    };
    // Entries are still evicted for a while after the last entry. The formats are compared when two
    // captures before and after have the same counts.
    let watch = Stopwatch::start();
    let (processed, gecko) = loop {
        let (before, between): (CaptureReport, CaptureReport) = (processed()?, gecko()?);
        let after: CaptureReport = processed()?;
        if counts(&before) == counts(&after) {
            break (after, between);
        }
        ensure!(watch.elapsed() < LONG, "the counts do not stop changing");
    };
    assert_eq!(counts(&processed), counts(&gecko));
    assert!(
        processed
            .processes
            .iter()
            .any(|process| process.counts.evicted > 0),
        "no entry was evicted, so the test shows nothing"
    );
    let said = [&processed.path, &gecko.path]
        .map(|path| tools::info(path).map(|info| info["processes"].clone()));
    let [first, second] = said.map(|rows| rows.map(without_times));
    assert_eq!(first?, second?, "`profiler info` shows different rows");
    Ok(())
}

/// Rows of processes without the times. The clock is compared with the system's clock at each
/// capture, so times of two captures may differ by nanoseconds.
fn without_times(mut rows: Value) -> Value {
    for row in rows.as_array_mut().into_iter().flatten() {
        for key in ["began_ms", "ended_ms"] {
            row.as_object_mut().and_then(|row| row.remove(key));
        }
    }
    rows
}

#[test]
fn a_dead_session_is_recovered_in_the_processed_format() -> anyhow::Result<()> {
    own_process!();
    let base = tools::private_directory()?;
    let session = session::start(|builder| builder.pool_directory(base.path()))?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    helper.ask("hold 2 100")?;
    let target = session.path("recovered.json");
    tools::recover(base.path(), &target, &[])?;
    let profile = read(&target)?;
    assert!(profile["meta"]["preprocessedProfileVersion"].is_u64());
    let numbers = numbers(&profile, "child")?;
    assert_eq!(numbers.len(), 2);
    assert!(
        numbers
            .values()
            .all(|numbers| numbers.iter().copied().eq(0..100))
    );
    assert_eq!(rows(&profile)?["child"].0, "recovered: still running");
    Ok(())
}

/// A thread that sleeps for 2,500 ticks has a few samples, whose total weight is the time of at
/// least 1,000 ticks.
#[test]
fn weights_of_a_sleeping_thread_add_up_to_its_waiting_time() -> anyhow::Result<()> {
    own_process!();
    use profiler_parent::core::session::{Features, sampling_stats};
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = session::start(|builder| builder.features(features))?;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let sleeper = std::thread::Builder::new()
        .name("rests".to_owned())
        .spawn(move || released.recv())?;
    let ticks = || sampling_stats().map_or(0, |stats| stats.ticks);
    let begun = ticks();
    ensure!(integration_tests::patience::until(|| ticks() > begun + 2500));
    let path = session.path("rests.json");
    session.session()?.capture().save(&path)?;
    drop(release);
    let _ = sleeper.join();
    let profile = read(&path)?;
    let thread = threads(&profile, "parent")
        .find(|thread| thread["name"] == "rests")
        .context("no thread")?;
    let weights = thread["samples"]["weight"]
        .as_array()
        .context("no weights")?;
    let sum_ms: f64 = weights.iter().filter_map(Value::as_f64).sum();
    let interval_ms = profile["meta"]["interval"]
        .as_f64()
        .context("no interval")?;
    ensure!(weights.len() < 100, "{} samples", weights.len());
    ensure!(
        sum_ms >= 1000.0 * interval_ms && thread["samples"]["weightType"] == "tracing-ms",
        "{weights:?}"
    );
    Ok(())
}

/// The end of the last sample of a thread, its time from the first sample on, and the weight of its
/// samples. Times are in milliseconds.
fn shown(thread: &Value) -> Option<(f64, f64, f64)> {
    let deltas = thread["samples"]["timeDeltas"].as_array()?;
    let first = deltas.first()?.as_f64()?;
    let last: f64 = deltas.iter().filter_map(Value::as_f64).sum();
    let weights = thread["samples"]["weight"].as_array()?;
    let weight: f64 = weights.iter().filter_map(Value::as_f64).sum();
    Some((last, last - first, weight))
}

/// The time of the last marker of a process.
fn last_marker(profile: &Value, process: &str) -> f64 {
    let times = threads(profile, process)
        .filter_map(|thread| thread["markers"]["startTime"].as_array())
        .flatten();
    times.filter_map(Value::as_f64).fold(0.0, f64::max)
}

fn waits_to_the_end(profile: &Value) -> anyhow::Result<()> {
    let thread = threads(profile, "child")
        .find(|thread| thread["name"] == "worker-0")
        .context("no thread")?;
    let (end, length, weight) = shown(thread).context("no samples")?;
    let marker = last_marker(profile, "child");
    ensure!(end >= marker, "its wait ends at {end}, before {marker}");
    ensure!(weight >= length * 0.8, "{weight} ms in {length} ms");
    Ok(())
}

/// The sampler records a wait when it begins, and then nothing for minutes.
#[test]
fn the_waits_of_a_killed_child_are_shown_up_to_its_end() -> anyhow::Result<()> {
    own_process!();
    use profiler_parent::core::session::Features;
    let base = tools::private_directory()?;
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = session::start(|b| b.features(features).pool_directory(base.path()))?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    helper.ask("hold 1 10")?; // its thread then waits
    let target = session.path("waits.json");
    let capture = || -> anyhow::Result<Value> {
        session.session()?.capture().save(&target)?;
        read(&target)
    };
    // The wait is known, and has lasted for a second.
    let has_waited = || {
        let profile = capture().unwrap_or_default();
        let worker = threads(&profile, "child").find(|thread| thread["name"] == "worker-0");
        worker
            .and_then(shown)
            .is_some_and(|(_, length, _)| length > 1000.0)
    };
    ensure!(integration_tests::patience::until(has_waited));
    helper.ask("mark 1")?;
    helper.signal(libc::SIGKILL);
    let _ = helper.child.wait();
    let profile = capture()?;
    assert_eq!(rows(&profile)?["child"].0, KILLED);
    waits_to_the_end(&profile)?;
    tools::recover(base.path(), &target, &[])?;
    let recovered = read(&target)?;
    assert_eq!(
        rows(&recovered)?["child"].0,
        "recovered: ended, with unknown status"
    );
    waits_to_the_end(&recovered)
}
