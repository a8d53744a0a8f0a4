//! Tests of alerts with real processes: rows A1 to A5 of `docs/features.md`.
//!
//! They check which runs raise an alert, which listeners receive it, its order and its evidence,
//! and that a session can end while alerts are held. Unit tests in `profiler_parent::alerts` check
//! the rules with made-up times.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::reports::all_measure;
use integration_tests::session;
use profiler_parent::alerts::ListenerError;
use profiler_parent::core::groups::{Group, GroupKind, Probes};
use profiler_parent::core::marker::{MarkerOptions, category};
use profiler_parent::core::session::Features;
use profiler_parent::core::time::Timestamp;
use profiler_parent::{Alert, AlertRules, AlertTarget, Alerts, EvidenceOptions, marker};
use serde_json::Value;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// What alerts switch on in every process.
const PROBES: Probes = Probes::JANK.with(Probes::BLOCKING);
const BUFFERING: Duration = Duration::from_millis(300);
const RUN: Duration = Duration::from_millis(100);
/// Longer than any run takes, also on a busy machine.
const NEVER: Duration = Duration::from_secs(3600);

fn rules() -> AlertRules {
    AlertRules::default().buffering(BUFFERING)
}

/// Adds a listener for a target, and returns the end of the channel that receives its alerts.
fn listen(
    alerts: &Alerts,
    target: AlertTarget,
    name: &str,
) -> anyhow::Result<Receiver<Vec<Alert>>> {
    let (sender, receiver): (Sender<Vec<Alert>>, _) = channel();
    alerts.add(target, name, move |alerts| {
        drop(sender.send(alerts.to_vec()));
    })?;
    Ok(receiver)
}

/// Runs in the group of a plugin of this process, for this long.
fn run(plugin: &str, duration: Duration) {
    let _run = Group::register(GroupKind::Plugin, plugin).enter();
    std::thread::sleep(duration);
}

/// Waits for the next call of a listener, which must be for a single alert.
fn single_alert(receiver: &Receiver<Vec<Alert>>) -> anyhow::Result<Alert> {
    let mut alerts = receiver.recv_timeout(LONG).context("no alert")?;
    ensure!(alerts.len() == 1, "{alerts:?}");
    alerts.pop().context("an empty list of alerts")
}

/// Checks that no alert arrives within three buffering periods.
fn no_alert(receiver: &Receiver<Vec<Alert>>) -> anyhow::Result<()> {
    let more = receiver.recv_timeout(3 * BUFFERING);
    ensure!(more.is_err(), "{more:?}");
    Ok(())
}

#[test]
fn a1_a_slow_run_gives_exactly_one_alert_and_one_within_its_threshold_none() -> anyhow::Result<()> {
    own_process!();
    const THRESHOLD: Duration = Duration::from_millis(500);
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules().threshold(THRESHOLD), EvidenceOptions::none())?;
    let all = listen(&alerts, AlertTarget::All, "test")?;
    // A run that the machine delays beyond the threshold does not count as calm; another follows.
    let calm = (0..40).map(|number| format!("calm {number}")).find(|name| {
        let watch = Stopwatch::start();
        run(name, RUN);
        watch.elapsed() < THRESHOLD
    });
    let calm = calm.context("no run was within the threshold")?;
    run("a1", THRESHOLD + RUN);
    let mut received = Vec::new();
    while !received.iter().any(|alert: &Alert| alert.group == "a1") {
        received.extend(all.recv_timeout(LONG).context("no alert")?);
    }
    std::thread::sleep(3 * BUFFERING);
    received.extend(all.try_iter().flatten());
    let of = |group: &str| {
        received
            .iter()
            .filter(|alert| alert.group == group)
            .collect::<Vec<_>>()
    };
    let [alert] = of("a1")[..] else {
        anyhow::bail!("{received:?}")
    };
    assert_eq!(
        (alert.group.as_str(), alert.kind.as_str()),
        ("a1", "plugin")
    );
    assert!(alert.highest_ns >= 595_000_000, "{alert:?}");
    assert_eq!(
        (alert.process.get(), alert.process_name.as_str()),
        (std::process::id(), "parent")
    );
    assert!(alert.from < alert.to);
    ensure!(of(&calm).is_empty(), "{received:?}");
    Ok(())
}

#[test]
fn a2_slow_runs_are_collected_and_the_maximum_begins_anew() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(
        rules().buffering(Duration::from_secs(1)),
        EvidenceOptions::none(),
    )?;
    let all = listen(&alerts, AlertTarget::All, "test")?;
    run("a2", 4 * RUN);
    (0..3).for_each(|_| run("a2", RUN));
    let first = single_alert(&all)?;
    assert!(
        first.highest_ns >= 395_000_000 && lasted(&first) >= first.highest_ns,
        "{first:?}"
    );
    run("a2", RUN);
    // The next alert contains only later runs, although the machine may have prolonged them.
    let second = single_alert(&all)?;
    assert!(
        second.highest_ns >= 95_000_000 && second.to > first.to,
        "{first:?} {second:?}"
    );
    assert!(
        second.highest_ns <= lasted(&second),
        "the maximum did not start again: {first:?} {second:?}"
    );
    Ok(())
}

/// The time from the start of the first run that was too long to the end of the last one.
fn lasted(alert: &Alert) -> u64 {
    alert.to.0.abs_diff(alert.from.0)
}

#[test]
fn a3_listeners_hear_their_targets_from_when_they_come_until_they_go() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules(), EvidenceOptions::none())?;
    let known = listen(&alerts, AlertTarget::Group("a3".into()), "test")?;
    let later = listen(&alerts, AlertTarget::Group("a3 later".into()), "test")?;
    let never = listen(&alerts, AlertTarget::Group("a3 never".into()), "test")?;
    let all = listen(&alerts, AlertTarget::All, "test")?;
    let again = alerts.add(AlertTarget::All, "test", |_| {});
    assert!(matches!(again, Err(ListenerError::Duplicate(..))));
    run("a3", RUN);
    assert_eq!(
        (single_alert(&known)?.group, single_alert(&all)?.group),
        ("a3".to_owned(), "a3".to_owned())
    );
    run("a3 later", RUN);
    assert_eq!(single_alert(&later)?.group, "a3 later");
    assert_eq!(single_alert(&all)?.group, "a3 later");
    assert!(never.try_recv().is_err() && known.try_recv().is_err());
    alerts.remove(&AlertTarget::Group("a3".into()), "test")?;
    let unknown = alerts.remove(&AlertTarget::Group("a3".into()), "test");
    assert!(matches!(unknown, Err(ListenerError::Unknown(..))));
    run("a3", RUN);
    assert_eq!(single_alert(&all)?.group, "a3");
    assert!(known.recv_timeout(LONG).is_err(), "it was removed");
    Ok(())
}

#[test]
fn a4_a_slow_run_of_a_child_is_heard_with_its_process_also_of_a_child_that_comes_later()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut first = HelperProcess::spawn(&session, CHILD, "first", "init")?;
    let alerts = session.alerts(rules(), EvidenceOptions::none())?;
    let all = listen(&alerts, AlertTarget::Kind("plugin".into()), "test")?;
    let mut second = HelperProcess::spawn(&session, CHILD, "second", "init")?;
    assert!(all_measure(&session, PROBES));
    first.ask("slow a4 100")?;
    let shown = || serde_json::to_string(&session.groups()).unwrap_or_default();
    let alert = single_alert(&all).with_context(shown)?;
    assert_eq!(
        (alert.process.get(), alert.process_name.as_str()),
        (first.pid(), "first")
    );
    second.ask("slow a4 100")?;
    let alert = single_alert(&all)?;
    assert_eq!(
        (alert.process.get(), alert.process_name.as_str()),
        (second.pid(), "second")
    );
    Ok(())
}

#[test]
fn a5_the_most_janky_comes_first_and_has_a_profile_of_exactly_its_time() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let directory = tempfile::tempdir()?;
    let evidence = EvidenceOptions::in_directory(directory.path()).kept(1);
    let alerts = session.alerts(rules().buffering(Duration::from_secs(2)), evidence)?;
    let all = listen(&alerts, AlertTarget::All, "test")?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    assert!(all_measure(&session, PROBES));
    marker!("long before", &category::TEST);
    let less = Stopwatch::start();
    run("a5 less", RUN);
    let less = less.elapsed();
    child.ask("point")?; // before the worst run
    std::thread::sleep(Duration::from_millis(20));
    let began = Timestamp::now();
    {
        let _run = Group::register(GroupKind::Plugin, "a5 worst").enter();
        marker!("inside", &category::TEST);
        child.ask("mark 1")?;
        std::thread::sleep(2 * less + RUN);
        marker!(
            "through",
            &category::TEST,
            MarkerOptions::interval_until_now_from(began)
        );
    }
    std::thread::sleep(Duration::from_millis(20));
    marker!("after", &category::TEST);
    let mut received = all.recv_timeout(LONG)?;
    if received[0].group == "a5 less" && received.len() == 1 {
        // On a busy machine the period can end between the two runs.
        received = all.recv_timeout(LONG)?;
    }
    assert_eq!(received[0].group, "a5 worst");
    assert!(
        received
            .iter()
            .skip(1)
            .all(|alert| alert.group == "a5 less" && alert.highest_ns < received[0].highest_ns)
    );
    assert!(
        received[0].evidence_error.is_none()
            && received
                .iter()
                .skip(1)
                .all(|alert| alert.evidence.is_none())
    );
    let path = received[0].evidence.as_deref().context("no evidence")?;
    let names = marker_names(path)?;
    assert!(
        ["inside", "through", "numbered"]
            .iter()
            .all(|name| names.contains(&(*name).to_owned())),
        "{names:?}"
    );
    assert!(
        ["long before", "point", "after"]
            .iter()
            .all(|name| !names.contains(&(*name).to_owned())),
        "{names:?}"
    );
    shows_its_run(path, &received[0])?;
    run("a5 worst", RUN);
    let next = single_alert(&all)?;
    assert!(
        next.evidence.is_some_and(|path| path.exists()) && !path.exists(),
        "the oldest evidence is not removed"
    );
    Ok(())
}

/// Checks that the evidence is about the time of its alert, and has a marker with the group's name
/// over the time of the slow run.
fn shows_its_run(path: &std::path::Path, alert: &Alert) -> anyhow::Result<()> {
    const MARGIN_MS: f64 = 1.0;
    let profile = read(path)?;
    let is_near = |value: &Value, ms: f64| value.as_f64().is_some_and(|is| (is - ms).abs() < 0.1);
    let [from, to] = [alert.from, alert.to].map(|at| at.0 as f64 / 1e6);
    let meta = &profile["meta"];
    ensure!(
        is_near(&meta["profilingStartTime"], from - MARGIN_MS)
            && is_near(&meta["profilingEndTime"], to + MARGIN_MS),
        "{from} to {to}: {} to {}",
        meta["profilingStartTime"],
        meta["profilingEndTime"]
    );
    let threads = profile["threads"].as_array().context("no threads")?;
    let mut found = 0;
    for thread in threads {
        let column = |name: &str| thread["markers"][name].as_array().into_iter().flatten();
        let rows = column("data")
            .zip(column("startTime"))
            .zip(column("endTime"));
        for ((data, start), end) in rows.filter(|((data, _), _)| data["type"] == "SlowRun") {
            ensure!(data["group"] == alert.group.as_str(), "{data}");
            ensure!(is_near(start, from) && is_near(end, to), "{start} to {end}");
            ensure!(thread["pid"] == alert.process.to_string(), "{thread}");
            found += 1;
        }
    }
    ensure!(
        found == 1 && alert.slow_runs.len() == 1,
        "{found}: {alert:?}"
    );
    let run_ms = (alert.to.0 - alert.from.0) as f64 / 1e6;
    let shown_ms = track_ms(&profile, alert)?;
    ensure!(shown_ms >= run_ms - 0.1, "{shown_ms} of {run_ms} ms");
    Ok(())
}

/// The time in the track of an alert's group.
fn track_ms(profile: &Value, alert: &Alert) -> anyhow::Result<f64> {
    let counters = profile["counters"].as_array().context("no counters")?;
    let process = alert.process.to_string();
    let track = format!("{} {}", alert.kind, alert.group);
    let is_its = |one: &&Value| one["name"] == track.as_str() && one["pid"] == process.as_str();
    let counter = counters.iter().find(is_its);
    let counter = counter.with_context(|| format!("no track: {counters:?}"))?;
    let changes = counter["samples"]["count"].as_array().context("no time")?;
    // Viewers ignore the first value.
    Ok(changes.iter().skip(1).filter_map(Value::as_f64).sum())
}

/// Reads a saved profile.
fn read(path: &std::path::Path) -> anyhow::Result<Value> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// The names of all markers in a saved profile.
fn marker_names(path: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let profile = read(path)?;
    let strings = profile["shared"]["stringArray"]
        .as_array()
        .context("no texts")?;
    let threads = profile["threads"].as_array().context("no threads")?;
    let numbers = threads
        .iter()
        .filter_map(|thread| thread["markers"]["name"].as_array())
        .flatten();
    let name = |number: &Value| {
        strings
            .get(usize::try_from(number.as_u64()?).ok()?)?
            .as_str()
            .map(str::to_owned)
    };
    Ok(numbers.filter_map(name).collect())
}

/// The times of all samples in a saved profile, in nanoseconds since the session's start, and
/// whether each sample has a stack.
fn samples(path: &std::path::Path) -> anyhow::Result<Vec<(f64, bool)>> {
    let profile = read(path)?;
    let mut all = Vec::new();
    for thread in profile["threads"].as_array().context("no threads")? {
        let column = |name: &str| {
            thread["samples"][name]
                .as_array()
                .map_or(&[][..], Vec::as_slice)
        };
        let mut time = 0.0;
        for (delta, stack) in column("timeDeltas").iter().zip(column("stack")) {
            time += delta.as_f64().context("no time")? * 1e6;
            all.push((time, !stack.is_null()));
        }
    }
    Ok(all)
}

#[test]
fn a5_evidence_has_the_samples_of_exactly_its_time() -> anyhow::Result<()> {
    own_process!();
    const MARGIN: f64 = 1e6;
    /// Profiles contain deltas of times with few decimals.
    const ROUNDING: f64 = 1e5;
    let session =
        session::start(|builder| builder.features(Features::STACK_WALK.with(Features::CPU)))?;
    let directory = tempfile::tempdir()?;
    let alerts = session.alerts(rules(), EvidenceOptions::in_directory(directory.path()))?;
    let all = listen(&alerts, AlertTarget::All, "test")?;
    let watch = Stopwatch::start();
    let mut has_stacks = false;
    // On a busy machine the sampler may take no sample during a run.
    while !has_stacks {
        ensure!(watch.elapsed() < LONG, "no run has a sample with a stack");
        work(2 * RUN);
        {
            let _run = Group::register(GroupKind::Plugin, "a5 works").enter();
            work(2 * RUN);
        }
        work(2 * RUN);
        let alert = single_alert(&all)?;
        let path = alert
            .evidence
            .with_context(|| format!("{:?}", alert.evidence_error))?;
        let from = alert.from.0 as f64 - MARGIN - ROUNDING;
        let to = alert.to.0 as f64 + MARGIN + ROUNDING;
        let samples = samples(&path)?;
        let outside: Vec<_> = samples
            .iter()
            .filter(|(time, _)| !(from..=to).contains(time))
            .collect();
        ensure!(outside.is_empty(), "{from} to {to}: {outside:?}");
        has_stacks = samples.iter().any(|(_, has_stack)| *has_stack);
    }
    Ok(())
}

/// Uses the processor for this long.
fn work(duration: Duration) {
    let watch = Stopwatch::start();
    while watch.elapsed() < duration {
        std::hint::black_box((0..1_000_u64).sum::<u64>());
    }
}

#[test]
fn a5_withheld_alerts_are_counted() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules().warm_up(NEVER), EvidenceOptions::none())?;
    let all = listen(&alerts, AlertTarget::All, "test")?;
    run("a5 warm", RUN);
    ensure!(
        until(|| alerts.withheld().warm_up == 1),
        "{:?}",
        alerts.withheld()
    );
    no_alert(&all)
}

#[test]
fn a5_checks_continue_while_a_callback_is_slow() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules().repeat(NEVER), EvidenceOptions::none())?;
    let (sender, receiver) = channel();
    let (release, released) = channel::<()>();
    alerts.add(AlertTarget::All, "slow", move |alerts| {
        drop(sender.send(alerts.to_vec()));
        let _ = released.recv_timeout(2 * LONG);
    })?;
    run("a5 held up", RUN);
    single_alert(&receiver)?;
    run("a5 held up", 6 * RUN);
    ensure!(
        until(|| alerts.withheld().repeat >= 1),
        "no check takes place: {:?}",
        alerts.withheld()
    );
    drop(release);
    Ok(())
}

#[test]
fn a5_the_directory_is_made_for_its_owner_and_no_evidence_is_written_over_another()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let directory = session.path("made/here");
    let mut paths = Vec::new();
    for _ in 0..2 {
        let alerts = session.alerts(rules(), EvidenceOptions::in_directory(&directory))?;
        let all = listen(&alerts, AlertTarget::Group("a5 again".into()), "test")?;
        run("a5 again", RUN);
        let alert = single_alert(&all)?;
        paths.push(
            alert
                .evidence
                .with_context(|| format!("{:?}", alert.evidence_error))?,
        );
    }
    assert!(
        paths[0] != paths[1] && paths.iter().all(|path| path.exists()),
        "{paths:?}"
    );
    let mode = std::fs::metadata(&directory)?.permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    Ok(())
}

#[test]
fn a_session_that_ends_before_its_alerts_are_dropped_keeps_no_thread_and_no_pool()
-> anyhow::Result<()> {
    own_process!();
    let before = own::pool_descriptors();
    let mut session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules().buffering(NEVER), EvidenceOptions::none())?;
    let all = listen(&alerts, AlertTarget::All, "test")?;
    run("never told", RUN);
    session.end();
    let is_ours =
        |name: &String| name.starts_with("profiler-alerts") || name.starts_with("profiler-tell");
    ensure!(
        until(|| !own::thread_names().iter().any(is_ours)),
        "a thread of the alerts remains"
    );
    ensure!(
        until(|| own::pool_descriptors() <= before),
        "a pool remains open"
    );
    assert_eq!(
        all.try_recv(),
        Err(TryRecvError::Empty),
        "an alert was delivered before its period was over"
    );
    drop(alerts);
    assert_eq!(
        all.try_recv(),
        Err(TryRecvError::Disconnected),
        "the callback was not dropped"
    );
    Ok(())
}
