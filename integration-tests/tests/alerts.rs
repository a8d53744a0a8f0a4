//! Alerts: rows A1 to A5 in real processes. The rules by themselves, on any clock: `profiler_parent::alerts`.

use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::patience::{LONG, until};
use integration_tests::puppet::Puppet;
use integration_tests::session::{self, TestSession};
use profiler_parent::alerts::ListenerError;
use profiler_parent::core::groups::{Group, GroupKind, Probes};
use profiler_parent::core::marker::{MarkerOptions, category};
use profiler_parent::core::time::Timestamp;
use profiler_parent::{Alert, AlertRules, Alerts, EvidenceOptions, Target, marker};
use serde_json::Value;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const BUFFERING: Duration = Duration::from_millis(300);
const RUN: Duration = Duration::from_millis(100);
/// No run takes so long, however busy the machine is.
const NEVER: Duration = Duration::from_secs(3600);

fn rules() -> AlertRules {
    AlertRules::default().buffering(BUFFERING)
}

/// Listens to a target from now on.
fn listen(alerts: &Alerts, target: Target, name: &str) -> anyhow::Result<Receiver<Vec<Alert>>> {
    let (told, hear): (Sender<Vec<Alert>>, _) = channel();
    alerts.add(target, name, move |alerts| drop(told.send(alerts.to_vec())))?;
    Ok(hear)
}

/// A run of a plugin of this process.
fn run(plugin: &str, duration: Duration) {
    let _run = Group::register(GroupKind::Plugin, plugin).enter();
    std::thread::sleep(duration);
}

/// Waits until everybody measures runs.
fn measured(session: &TestSession) -> anyhow::Result<()> {
    let all = || session.groups().processes.iter().all(|process| process.probes.contains(Probes::JANK));
    ensure!(until(all), "somebody does not measure");
    Ok(())
}

fn one(hear: &Receiver<Vec<Alert>>) -> anyhow::Result<Alert> {
    let mut told = hear.recv_timeout(LONG).context("no alert")?;
    ensure!(told.len() == 1, "{told:?}");
    told.pop().context("nothing")
}

fn nothing(hear: &Receiver<Vec<Alert>>) -> anyhow::Result<()> {
    let more = hear.recv_timeout(3 * BUFFERING);
    ensure!(more.is_err(), "{more:?}");
    Ok(())
}

#[test]
fn a1_a_slow_run_gives_exactly_one_alert_and_one_within_its_threshold_none() -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let rules = rules().threshold_of_group("calm", Some(NEVER));
    let alerts = session.alerts(rules, EvidenceOptions::none())?;
    let all = listen(&alerts, Target::All, "test")?;
    run("calm", RUN);
    run("a1", RUN);
    let alert = one(&all)?;
    assert_eq!((alert.group.as_str(), alert.kind.as_str()), ("a1", "plugin"));
    assert!(alert.highest_ns >= 95_000_000, "{alert:?}");
    assert_eq!((alert.process.get(), alert.process_name.as_str()), (std::process::id(), "parent"));
    assert!(alert.from < alert.to);
    nothing(&all)
}

#[test]
fn a2_slow_runs_are_collected_and_the_maximum_begins_anew() -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules().buffering(Duration::from_secs(1)), EvidenceOptions::none())?;
    let all = listen(&alerts, Target::All, "test")?;
    (0..4).for_each(|_| run("a2", RUN));
    let first = one(&all)?;
    assert!(first.highest_ns >= 95_000_000);
    // Later ones of the same burst belong to the next collection at most.
    while all.recv_timeout(Duration::from_secs(2)).is_ok() {}
    run("a2", Duration::from_millis(400));
    let second = one(&all)?;
    assert!(second.highest_ns >= 395_000_000 && second.from > first.to, "{first:?} {second:?}");
    nothing(&all)
}

#[test]
fn a3_listeners_hear_their_targets_from_when_they_come_until_they_go() -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules(), EvidenceOptions::none())?;
    let known = listen(&alerts, Target::Group("a3".into()), "test")?;
    let later = listen(&alerts, Target::Group("a3 later".into()), "test")?;
    let never = listen(&alerts, Target::Group("a3 never".into()), "test")?;
    let all = listen(&alerts, Target::All, "test")?;
    let again = alerts.add(Target::All, "test", |_| {});
    assert!(matches!(again, Err(ListenerError::Duplicate(..))));
    run("a3", RUN);
    assert_eq!((one(&known)?.group, one(&all)?.group), ("a3".to_owned(), "a3".to_owned()));
    run("a3 later", RUN);
    assert_eq!(one(&later)?.group, "a3 later");
    assert_eq!(one(&all)?.group, "a3 later");
    assert!(never.try_recv().is_err() && known.try_recv().is_err());
    alerts.remove(&Target::Group("a3".into()), "test")?;
    let unknown = alerts.remove(&Target::Group("a3".into()), "test");
    assert!(matches!(unknown, Err(ListenerError::Unknown(..))));
    run("a3", RUN);
    assert_eq!(one(&all)?.group, "a3");
    assert!(known.recv_timeout(LONG).is_err(), "it was removed");
    Ok(())
}

#[test]
fn a4_a_slow_run_of_a_child_is_heard_with_its_process_also_of_a_child_that_comes_later() -> anyhow::Result<()>
{
    let session = session::start(|builder| builder)?;
    let mut first = Puppet::spawn(&session, CHILD, "first", "init")?;
    let alerts = session.alerts(rules(), EvidenceOptions::none())?;
    let all = listen(&alerts, Target::Kind("plugin".into()), "test")?;
    let mut second = Puppet::spawn(&session, CHILD, "second", "init")?;
    measured(&session)?;
    first.ask("slow a4 100")?;
    let shown = || serde_json::to_string(&session.groups()).unwrap_or_default();
    let alert = one(&all).with_context(shown)?;
    assert_eq!((alert.process.get(), alert.process_name.as_str()), (first.pid(), "first"));
    second.ask("slow a4 100")?;
    let alert = one(&all)?;
    assert_eq!((alert.process.get(), alert.process_name.as_str()), (second.pid(), "second"));
    Ok(())
}

#[test]
fn a5_the_most_janky_comes_first_and_has_a_profile_of_exactly_its_time() -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let directory = tempfile::tempdir()?;
    let evidence = EvidenceOptions::in_directory(directory.path()).kept(1);
    let alerts = session.alerts(rules().buffering(Duration::from_secs(2)), evidence)?;
    let all = listen(&alerts, Target::All, "test")?;
    let mut child = Puppet::spawn(&session, CHILD, "child", "init")?;
    measured(&session)?;
    marker!("long before", &category::TEST);
    run("a5 less", RUN);
    child.ask("point")?; // before the worst
    std::thread::sleep(Duration::from_millis(20));
    let began = Timestamp::now();
    {
        let _run = Group::register(GroupKind::Plugin, "a5 worst").enter();
        marker!("inside", &category::TEST);
        child.ask("mark 1")?;
        std::thread::sleep(3 * RUN);
        marker!("through", &category::TEST, MarkerOptions::interval_until_now_from(began));
    }
    std::thread::sleep(Duration::from_millis(20));
    marker!("after", &category::TEST);
    let told = all.recv_timeout(LONG)?;
    let groups: Vec<&str> = told.iter().map(|alert| alert.group.as_str()).collect();
    assert_eq!(groups, ["a5 worst", "a5 less"]);
    assert!(told[0].highest_ns > told[1].highest_ns);
    assert_eq!((told[0].evidence_error.as_deref(), told[1].evidence.as_deref()), (None, None));
    let path = told[0].evidence.as_deref().context("no evidence")?;
    let names = marker_names(path)?;
    assert!(
        ["inside", "through", "numbered"].iter().all(|name| names.contains(&(*name).to_owned())),
        "{names:?}"
    );
    assert!(
        ["long before", "point", "after"].iter().all(|name| !names.contains(&(*name).to_owned())),
        "{names:?}"
    );
    run("a5 worst", RUN);
    let next = one(&all)?;
    assert!(next.evidence.is_some_and(|path| path.exists()) && !path.exists(), "the oldest goes");
    Ok(())
}

/// Names of all markers of a saved profile.
fn marker_names(path: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut text)?;
    let profile: Value = serde_json::from_slice(&text)?;
    let strings = profile["shared"]["stringArray"].as_array().context("no texts")?;
    let threads = profile["threads"].as_array().context("no threads")?;
    let numbers = threads.iter().filter_map(|thread| thread["markers"]["name"].as_array()).flatten();
    let name =
        |number: &Value| strings.get(usize::try_from(number.as_u64()?).ok()?)?.as_str().map(str::to_owned);
    Ok(numbers.filter_map(name).collect())
}

#[test]
fn a5_withheld_alerts_are_counted() -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules().warm_up(NEVER), EvidenceOptions::none())?;
    let all = listen(&alerts, Target::All, "test")?;
    run("a5 warm", RUN);
    ensure!(until(|| alerts.withheld().warm_up == 1), "{:?}", alerts.withheld());
    nothing(&all)
}

#[test]
fn a_session_ends_with_alerts_that_are_still_held() -> anyhow::Result<()> {
    let mut session = session::start(|builder| builder)?;
    let alerts = session.alerts(rules(), EvidenceOptions::none())?;
    let all = listen(&alerts, Target::All, "test")?;
    session.end();
    let threads =
        || integration_tests::own::thread_names().iter().any(|name| name.starts_with("profiler-alerts"));
    ensure!(until(|| !threads()), "the thread stays");
    drop(alerts);
    assert!(all.try_recv().is_err());
    Ok(())
}
