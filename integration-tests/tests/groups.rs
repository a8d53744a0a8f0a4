//! Tests of groups with real processes: rows P11 to P15 of `docs/features.md`.
//!
//! Probes reach all processes. Totals are read from live, frozen and dead processes, and agree with
//! the recorded profile.

use std::time::Duration;

use anyhow::Context;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::pool_descriptors;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::reports::all_measure;
use integration_tests::session;
use profiler_core::ids::ByteLimit;
use profiler_parent::groups::{GroupKind, GroupTotals, Probes, ProcessStanding, RowStatus};
use profiler_parent::{GroupsSnapshot, ProcessState, marker};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// The totals of a group in a process.
fn totals(
    snapshot: &GroupsSnapshot,
    process: &str,
    kind: GroupKind,
    name: &str,
) -> Option<GroupTotals> {
    Some(snapshot.process(process)?.group(kind, name)?.totals.clone())
}

#[test]
fn p11_a_probe_is_on_everywhere_until_its_last_user_drops_it() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut early = HelperProcess::spawn(&session, CHILD, "early", "init")?;
    let first = session.monitor(Probes::JANK);
    let second = session.monitor(Probes::JANK.with(Probes::CPU));
    assert!(all_measure(&session, Probes::JANK.with(Probes::CPU)));
    drop(second);
    assert!(
        all_measure(&session, Probes::JANK),
        "the first monitor still uses it"
    );
    let mut late = HelperProcess::spawn(&session, CHILD, "late", "init")?;
    assert!(
        all_measure(&session, Probes::JANK),
        "also in a process that is started later"
    );
    for helper in [&mut early, &mut late] {
        assert_eq!(helper.ask("probes")?, format!("ok {}", Probes::JANK.bits()));
        helper.ask("work-for plugin a 3 1000")?;
    }
    let snapshot = session.groups();
    for name in ["early", "late"] {
        let totals = totals(&snapshot, name, GroupKind::Plugin, "a").context("no such group")?;
        assert_eq!(
            (totals.ticks, totals.runs, totals.measured_ns),
            (3, 3, 0),
            "{name}"
        );
        assert!(totals.wall_ns >= 3_000_000);
    }
    drop(first);
    assert!(
        all_measure(&session, Probes::NONE),
        "a probe remains on in a process"
    );
    early.ask("work-for plugin a 2 0")?;
    let after = session.groups();
    let since = after.since(&snapshot);
    let added = totals(&since, "early", GroupKind::Plugin, "a").context("no such group")?;
    assert_eq!(
        (added.ticks, added.runs, added.wall_ns),
        (2, 0, 0),
        "ticks are not counted while all probes are off"
    );
    let third = session.monitor(Probes::BLOCKING);
    assert!(
        all_measure(&session, third.probes()),
        "the probe is not on again"
    );
    Ok(())
}

#[test]
fn p12_a_process_that_has_ended_keeps_its_final_totals_also_when_its_memory_is_gone()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(2 << 20)))?;
    let _monitor = session.monitor(Probes::ALL);
    session.groups();
    let descriptors = pool_descriptors();
    let mut helper = HelperProcess::spawn(&session, CHILD, "mortal", "init")?;
    assert!(all_measure(&session, Probes::ALL));
    helper.ask("work-for plugin a 5 2000")?;
    let alive = session.groups();
    helper.ask("work-for plugin a 2 2000")?;
    let last = session.groups();
    helper.end("kill 9")?;
    assert!(until(|| session
        .groups()
        .process("mortal")
        .map(|process| process.standing)
        == Some(ProcessStanding::Gone)));
    let dead = session.groups();
    let id = dead
        .process("mortal")
        .and_then(|it| it.group(GroupKind::Plugin, "a"))
        .context("no group")?
        .id;
    assert_eq!(
        dead.row(id),
        last.row(id),
        "not its final totals under the same identity"
    );
    let since = dead.since(&alive);
    let row = since.row(id).context("no difference")?;
    assert_eq!(
        (row.totals.ticks, row.totals.runs, row.status),
        (2, 2, RowStatus::Known)
    );
    assert!(row.totals.wall_ns >= 4_000_000 && row.totals.longest_ns >= 1_900_000);
    assert_eq!(row.last.as_ref().map(|last| last.ticks), Some(7));
    let is_empty = || {
        (0..2_000).for_each(|_| marker!("newer than all data of the dead process"));
        let all = session.processes();
        let dead = all.iter().find(|it| it.name == "mortal");
        dead.is_some_and(|it| it.true_bytes == 0 && matches!(it.state, ProcessState::Exited(_)))
    };
    assert!(until(is_empty), "its memory is not used for newer data");
    assert!(
        until(|| pool_descriptors() <= descriptors),
        "its pool is still open"
    );
    let after = session.groups();
    assert!(
        pool_descriptors() <= descriptors,
        "its pool was opened again"
    );
    assert_eq!(
        after.row(id).map(|row| &row.totals),
        dead.row(id).map(|row| &row.totals)
    );
    assert_eq!(
        after.process("mortal").map(|it| it.standing),
        Some(ProcessStanding::Gone)
    );
    Ok(())
}

#[test]
fn p13_no_number_of_a_busy_process_falls_in_a_thousand_snapshots() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _monitor = session.monitor(Probes::ALL);
    let mut helper = HelperProcess::spawn(&session, CHILD, "busy", "init")?;
    assert!(all_measure(&session, Probes::ALL));
    helper.ask("grind 4")?;
    let busy_group = |snapshot: &_| totals(snapshot, "busy", GroupKind::Plugin, "ground");
    let is_busy = || busy_group(&session.groups_within(LONG)).is_some_and(|totals| totals.runs > 0);
    assert!(until(is_busy), "the child enters no group");
    let mut before = session.groups_within(LONG);
    for _ in 0..1000 {
        let now = session.groups_within(LONG);
        for (_, row) in before.rows() {
            let later = now
                .row(row.id)
                .with_context(|| format!("{row:?} is lost: {now:?}"))?;
            let later = &later.totals;
            let fields = |t: &GroupTotals| {
                [
                    t.ticks,
                    t.runs,
                    t.wall_ns,
                    t.measured_ns,
                    t.cpu_ns,
                    t.nested,
                ]
            };
            let falls = fields(&row.totals)
                .iter()
                .zip(fields(later))
                .any(|(a, b)| *a > b);
            assert!(!falls, "{:?} {later:?}", row.totals);
            assert!(
                row.totals
                    .durations
                    .iter()
                    .zip(&later.durations)
                    .all(|(a, b)| a <= b)
            );
        }
        before = now;
    }
    helper.ask("rest")?;
    assert!(busy_group(&before).is_some_and(|totals| totals.runs > 0));
    Ok(())
}

#[test]
fn p14_a_frozen_child_is_read_and_named_and_one_without_a_pool_is_missing() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _monitor = session.monitor(Probes::JANK);
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    assert!(all_measure(&session, Probes::JANK));
    for (number, helper) in helpers.iter_mut().enumerate() {
        helper.ask(&format!("work-for plugin shared {} 100", number + 1))?;
    }
    assert!(helpers[1].freeze());
    helpers[3].ask("punch")?;
    let watch = Stopwatch::start();
    let snapshot = session.groups_within(LONG);
    assert!(
        watch.elapsed() < LONG,
        "the snapshot waited for the frozen child"
    );
    let names: Vec<&str> = snapshot
        .processes
        .iter()
        .map(|process| process.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["parent", "child-0", "child-1", "child-2"],
        "not each process once"
    );
    let missing: Vec<_> = snapshot
        .missing
        .iter()
        .map(|it| (it.name.as_str(), it.pid))
        .collect();
    assert_eq!(missing, [("child-3", helpers[3].child.id())]);
    for (number, standing) in [
        (0, ProcessStanding::Live),
        (1, ProcessStanding::Frozen),
        (2, ProcessStanding::Live),
    ] {
        let name = format!("child-{number}");
        assert_eq!(
            snapshot.process(&name).map(|it| it.standing),
            Some(standing),
            "{name}"
        );
        let totals =
            totals(&snapshot, &name, GroupKind::Plugin, "shared").context("no such group")?;
        assert_eq!(totals.ticks, number + 1, "{name}");
    }
    let merged = snapshot.merged();
    let shared = merged
        .iter()
        .find(|group| group.name == "shared")
        .context("not merged")?;
    assert_eq!((shared.totals.ticks, shared.members.len()), (6, 3));
    helpers[1].signal(libc::SIGCONT);
    Ok(())
}

#[test]
fn p14_after_the_time_out_no_further_pool_is_read_and_the_others_are_named() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _puppets = HelperProcess::spawn_many(&session, CHILD, 2)?;
    let snapshot = session.groups_within(Duration::ZERO);
    assert_eq!(
        snapshot.processes.len() + snapshot.missing.len(),
        3,
        "a process is neither read nor named as missing"
    );
    assert!(
        snapshot
            .missing
            .iter()
            .all(|missing| missing.why == "the timeout had passed")
    );
    assert!(!snapshot.missing.is_empty());
    Ok(())
}

#[test]
fn p11_a_monitor_does_not_wait_for_a_frozen_child_which_obeys_when_it_goes_on() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder)?;
    let helper = HelperProcess::spawn(&session, CHILD, "sleeper", "init")?;
    assert!(helper.freeze());
    let watch = Stopwatch::start();
    let monitors: Vec<_> = (0..1000).map(|_| session.monitor(Probes::ALL)).collect();
    drop(monitors);
    let monitor = session.monitor(Probes::BLOCKING);
    assert!(
        watch.elapsed() < LONG,
        "a monitor waited for the frozen child"
    );
    helper.signal(libc::SIGCONT);
    assert!(
        all_measure(&session, monitor.probes()),
        "the child does not obey the latest request"
    );
    Ok(())
}

#[test]
fn p15_waiting_in_a_child_shows_as_blocking_and_not_as_processor_time() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _monitor = session.monitor(Probes::ALL);
    let mut helper = HelperProcess::spawn(&session, CHILD, "waiter", "init")?;
    assert!(all_measure(&session, Probes::ALL));
    helper.ask("wait-for plugin slow 100")?;
    let snapshot = session.groups();
    for (kind, name) in [
        (GroupKind::Plugin, "slow"),
        (GroupKind::Blocking, "database"),
    ] {
        let totals = totals(&snapshot, "waiter", kind, name).context("no such group")?;
        assert!(
            totals.blocking_ns >= 99_900_000 && totals.cpu_ns < 20_000_000,
            "{name}: {totals:?}"
        );
        assert!(
            totals.longest_ns >= 99_900_000 && totals.durations[6] == 1,
            "{name}: {totals:?}"
        );
    }
    let process = snapshot.process("waiter").context("no process")?;
    assert!(
        process
            .group(GroupKind::Process, "waiter")
            .is_some_and(|row| row.totals.wall_ns >= 99_900_000)
    );
    Ok(())
}

#[test]
fn a_child_in_a_sandbox_is_asked_for_wall_time_only() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _monitor = session.monitor(Probes::ALL);
    let mut helper = HelperProcess::spawn_untrusted(&session, CHILD, "child", "init")?;
    let wall_only = Probes::ALL.without(Probes::CPU);
    assert!(until(|| session
        .groups()
        .process("child")
        .is_some_and(|child| child.probes == wall_only)));
    helper.ask("sandbox")?;
    helper.ask("work-for plugin a 3 1000")?;
    let totals =
        totals(&session.groups(), "child", GroupKind::Plugin, "a").context("no such group")?;
    assert_eq!(
        (totals.ticks, totals.runs, totals.measured_ns, totals.cpu_ns),
        (3, 3, 0, 0)
    );
    assert!(totals.wall_ns >= 3_000_000);
    assert!(helper.end("exit 0")?.success(), "it does not end in order");
    Ok(())
}

#[test]
fn the_recording_and_the_live_view_agree() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _monitor = session.monitor(Probes::ALL);
    let mut helper = HelperProcess::spawn(&session, CHILD, "worker", "init")?;
    assert!(all_measure(&session, Probes::ALL));
    helper.ask("work-for plugin tracked 20 500")?;
    let live = totals(&session.groups(), "worker", GroupKind::Plugin, "tracked")
        .context("no such group")?;
    for (_, profile) in [session.capture()?, session.capture_gecko()?] {
        let track = profile.process("worker")?.counter("plugin tracked")?;
        let changes = track.changes.iter();
        // The profile has milliseconds.
        let nanoseconds: f64 = changes.clone().map(|row| (row.count * 1e6).round()).sum();
        let ticks: u64 = changes.map(|row| row.number).sum();
        assert_eq!(
            (nanoseconds, ticks),
            (live.wall_ns as f64, live.ticks),
            "the time or the number of entries differs"
        );
    }
    Ok(())
}
