//! A poll that takes long raises an alert.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use profiler_core::groups::{Group, GroupKind, InGroups, Probes, probes};
use profiler_parent::{Alert, AlertRules, AlertTarget, EvidenceOptions, Session};
use profiler_tokio::{ProfileFuture, RuntimeRules, TaskRules};
use test_support::own_process;
use test_support::patience::until;
use tokio::task::yield_now;

use crate::support::{spin, two_workers};

/// Runs `work` until an alert for a task comes; returns it.
fn alert_while(work: impl Fn()) -> Alert {
    let directory = tempfile::tempdir().unwrap();
    let session = Session::builder().start().unwrap();
    let rules = AlertRules::default().threshold_of_kind("task", Some(Duration::from_millis(20)));
    let evidence = EvidenceOptions::in_directory(directory.path());
    let alerts = session.alerts(rules, evidence).unwrap();
    let found: Arc<Mutex<Option<Alert>>> = Arc::default();
    let keep = Arc::clone(&found);
    let _added = alerts.add(AlertTarget::All, "the test", move |alerts| {
        let mut tasks = alerts.iter().filter(|alert| alert.kind == "task");
        *keep.lock().unwrap() = tasks.next().cloned();
    });
    let is_found = || {
        work();
        found.lock().unwrap().is_some()
    };
    assert!(until(is_found), "no alert");
    found.lock().unwrap().take().unwrap()
}

#[test]
fn a_long_poll_of_a_future_raises_an_alert_of_its_name() {
    own_process!();
    let runtime = two_workers(&RuntimeRules::named("r").tasks(None));
    let alert = alert_while(|| {
        runtime.block_on(
            async {
                yield_now().await;
                spin(30);
            }
            .profiled("slow task"),
        );
    });
    assert_eq!(alert.group, "slow task");
}

#[test]
#[cfg(tokio_unstable)]
fn a_long_poll_of_a_task_raises_an_alert_of_its_place_in_the_source() {
    own_process!();
    let runtime = two_workers(&RuntimeRules::named("r"));
    let alert = alert_while(|| runtime.block_on(runtime.spawn(async { spin(30) })).unwrap());
    assert!(alert.group.contains("tests/alerts.rs:"), "{}", alert.group);
}

#[test]
fn a_future_may_be_in_groups_of_the_program_and_without_one_of_its_own() {
    own_process!();
    let session = Session::builder().start().unwrap();
    let runtime = two_workers(&RuntimeRules::named("r").tasks(None));
    runtime.block_on(yield_now().profiled("not measured"));
    let _measured = session.monitor(Probes::JANK);
    assert!(until(|| probes() == Probes::JANK));
    let tenant = Group::register(GroupKind::Tenant, "acme");
    let rules = TaskRules::default().groups(false);
    let work = yield_now().in_group(&tenant).profiled_by("no group", rules);
    runtime.block_on(work);
    runtime.block_on(yield_now().in_group(&tenant).profiled("has a group"));
    let groups = session.groups().merged();
    let ticks = |name: &str| {
        let group = groups.iter().find(|group| group.name == name);
        group.map(|group| group.totals.ticks)
    };
    assert_eq!(ticks("acme"), Some(4));
    assert_eq!(ticks("has a group"), Some(2));
    assert_eq!([ticks("no group"), ticks("not measured")], [None; 2]);
}
