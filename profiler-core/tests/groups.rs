//! Tests of performance groups in a real session of this process.
//!
//! This file contains the session of a test, and tests entries, times and futures. `loops` tests
//! custom and nested loops, `lifetimes` tests the ends of sessions, threads and processes.

mod lifetimes;
mod loops;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::support::{self, RunningSession};
use profiler_core::groups::{
    self, Group, GroupKind, Groups, InGroups, Probes, blocking, nested_loop,
};
use profiler_core::internal::reader::groups::{GroupReader, GroupTotals, PoolGroups};
use profiler_core::session::{self, SessionParams};
use profiler_core::{blocking, group};
use test_support::own_process;

/// The session of one test, and a reader of its groups.
struct Recording {
    reader: GroupReader<File>,
    _session: RunningSession,
}

impl Recording {
    fn start(probes: Probes) -> Self {
        groups::set_probes(probes);
        let session = RunningSession::start(SessionParams::default());
        Self {
            reader: GroupReader::open(session::pool_file().unwrap()).unwrap(),
            _session: session,
        }
    }

    fn all(&mut self) -> PoolGroups {
        self.reader.read().unwrap()
    }

    fn find(&mut self, kind: GroupKind, name: &str) -> Option<GroupTotals> {
        let all = self.all();
        let is_it = |row: &&_| {
            let row: &profiler_core::internal::reader::groups::GroupReading = row;
            row.definition.kind == kind && row.definition.name == name
        };
        all.groups.iter().find(is_it).map(|row| row.totals.clone())
    }

    fn totals(&mut self, kind: GroupKind, name: &str) -> GroupTotals {
        self.find(kind, name).unwrap_or_else(GroupTotals::nothing)
    }
}

/// Runs `body` on a thread with this name.
fn on_thread<T: Send>(name: &str, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(name.to_owned());
        builder.spawn_scoped(scope, body).unwrap().join().unwrap()
    })
}

/// Computes until the thread has used this much processor time.
fn spin(time: Duration) {
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let ns = || cpu().tv_sec * 1_000_000_000 + cpu().tv_nsec;
    let end = ns() + i64::try_from(time.as_nanos()).unwrap();
    while ns() < end {}
}

#[test]
fn p1_a_unit_of_work_counts_for_plugin_tenant_thread_and_process() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let tenant = Group::register(GroupKind::Tenant, "p1 tenant 7");
    on_thread("p1 worker", || {
        let _both = Groups::of([group!("plugin:p1 A"), &tenant]).enter();
        std::thread::sleep(Duration::from_millis(3));
    });
    let plugin = recording.totals(GroupKind::Plugin, "p1 A");
    assert_eq!((plugin.ticks, plugin.runs), (1, 1));
    assert!(
        plugin.wall_ns >= 3_000_000 && plugin.is_settled,
        "{plugin:?}"
    );
    for (kind, name) in [
        (GroupKind::Tenant, "p1 tenant 7"),
        (GroupKind::Thread, "p1 worker"),
    ] {
        assert_eq!(recording.totals(kind, name), plugin, "{name}");
    }
    let process = recording.totals(GroupKind::Process, "process");
    assert!(process.wall_ns >= plugin.wall_ns && process.cpu_ns >= plugin.cpu_ns);
}

#[test]
fn p3_entries_are_counted_on_all_threads_with_all_probes_off() {
    own_process!();
    let mut recording = Recording::start(Probes::NONE);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| drop(group!("plugin:p3").enter())));
        }
    });
    // Adds the ticks that were kept until the cell existed.
    drop(group!("plugin:p3").enter());
    let totals = recording.totals(GroupKind::Plugin, "p3");
    assert_eq!((totals.ticks, totals.wall_ns, totals.runs), (40_001, 0, 0));
}

#[test]
fn p4_processor_time_is_not_wall_time() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    {
        let _sleeps = group!("p4 sleeps").enter();
        std::thread::sleep(Duration::from_millis(200));
    }
    {
        let _spins = group!("p4 spins").enter();
        spin(Duration::from_millis(200));
    }
    let sleeps = recording.totals(GroupKind::Component, "p4 sleeps");
    assert!(
        sleeps.wall_ns >= 199_900_000 && sleeps.cpu_ns < 10_000_000,
        "{sleeps:?}"
    );
    assert!(sleeps.off_cpu_ns > 180_000_000);
    let spins = recording.totals(GroupKind::Component, "p4 spins");
    assert!(
        (190_000_000..220_000_000).contains(&spins.cpu_ns),
        "{spins:?}"
    );
}

#[test]
fn p10_fine_groups_are_nothing_until_somebody_wants_them() {
    own_process!();
    static FINE: Group = Group::fine(GroupKind::Component, "p10 fine");
    let mut recording = Recording::start(Probes::JANK);
    (0..5).for_each(|_| drop(FINE.enter()));
    assert!(recording.find(GroupKind::Component, "p10 fine").is_none());
    assert_eq!(recording.totals(GroupKind::Process, "process").ticks, 0);
    groups::set_probes(Probes::JANK.with(Probes::FINE));
    (0..3).for_each(|_| drop(FINE.enter()));
    assert_eq!(recording.totals(GroupKind::Component, "p10 fine").ticks, 3);
    groups::set_probes(Probes::JANK);
    drop(FINE.enter());
    assert!(
        recording.find(GroupKind::Component, "p10 fine").is_none(),
        "inactive again"
    );
    groups::set_probes(Probes::FINE);
    assert_eq!(recording.totals(GroupKind::Component, "p10 fine").ticks, 3);
}

#[test]
fn p13_no_number_falls_in_a_thousand_snapshots_under_load() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::Relaxed);
    let work = || {
        let _all = Groups::of([group!("plugin:p13"), group!("tenant:p13")]).enter();
        drop(group!("p13 inner").enter());
    };
    // Several threads that use a group for the first time do not wait for each other: a run that
    // finds the registry or the pool locked is counted, but not timed.
    work();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        while recording.totals(GroupKind::Plugin, "p13").runs <= 1 {
            std::thread::yield_now(); // until one of the threads has run
        }
        let mut before: Vec<GroupTotals> = Vec::new();
        for _ in 0..1000 {
            let now: Vec<GroupTotals> = recording
                .all()
                .groups
                .into_iter()
                .map(|row| row.totals)
                .collect();
            for (before, now) in before.iter().zip(&now) {
                assert_not_less(before, now);
            }
            assert!(now.len() >= before.len());
            before = now;
        }
        STOP.store(true, Ordering::Relaxed);
    });
    let plugin = recording.totals(GroupKind::Plugin, "p13");
    let tenant = recording.totals(GroupKind::Tenant, "p13");
    assert!(plugin.is_settled && plugin.runs > 0);
    assert_eq!(
        (plugin.ticks, plugin.runs, plugin.wall_ns),
        (tenant.ticks, tenant.runs, tenant.wall_ns)
    );
    assert_eq!(plugin.histogram.total(), plugin.runs);
}

fn assert_not_less(before: &GroupTotals, now: &GroupTotals) {
    // The pattern names all fields, so a new field must be added here.
    let fields = |t: &GroupTotals| {
        let GroupTotals {
            ticks,
            runs,
            wall_ns,
            measured_ns,
            cpu_ns,
            off_cpu_ns: _, // a difference, below
            blocking_ns,
            discarded,
            moved,
            nested,
            durations: _, // element by element, below
            histogram: _,
            longest_ns,
            peaks: _, // only of the last seconds, so they may fall
            is_settled: _,
        } = t;
        let times = [wall_ns, measured_ns, cpu_ns, blocking_ns, longest_ns];
        [ticks, runs, discarded, moved, nested]
            .into_iter()
            .chain(times)
            .copied()
            .collect::<Vec<u64>>()
    };
    assert!(
        fields(before).iter().zip(fields(now)).all(|(a, b)| *a <= b),
        "{before:?} {now:?}"
    );
    let are_settled = before.is_settled && now.is_settled;
    assert!(
        !are_settled || before.off_cpu_ns <= now.off_cpu_ns,
        "{before:?} {now:?}"
    );
    assert!(
        before
            .durations
            .iter()
            .zip(&now.durations)
            .all(|(a, b)| a <= b)
    );
    let later: BTreeMap<u64, u64> = now.histogram.counts().collect();
    let falls = |(place, count)| later.get(&place).is_none_or(|later| *later < count);
    assert!(!before.histogram.counts().any(falls), "{before:?} {now:?}");
}

#[test]
fn p15_waiting_in_a_guard_is_blocking_time() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    {
        let _works = group!("plugin:p15").enter();
        let _waits = blocking!("p15 database");
        std::thread::sleep(Duration::from_millis(100));
    }
    for (kind, name) in [
        (GroupKind::Plugin, "p15"),
        (GroupKind::Blocking, "p15 database"),
    ] {
        let totals = recording.totals(kind, name);
        assert!(
            totals.blocking_ns >= 99_900_000 && totals.cpu_ns < 10_000_000,
            "{name}: {totals:?}"
        );
    }
    groups::set_probes(Probes::JANK);
    drop(blocking(&Group::register(
        GroupKind::Blocking,
        "p15 database",
    )));
    assert_eq!(
        recording.totals(GroupKind::Blocking, "p15 database").ticks,
        2,
        "without the probe, only a tick"
    );
}

#[test]
fn every_poll_of_a_future_is_one_entry() {
    own_process!();
    struct Thrice(u32);
    impl Future for Thrice {
        type Output = u32;
        fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
            self.0 += 1;
            if self.0 == 3 {
                Poll::Ready(self.0)
            } else {
                Poll::Pending
            }
        }
    }
    let mut recording = Recording::start(Probes::JANK);
    let tenant = Group::register(GroupKind::Tenant, "polled");
    let mut future = pin!(Thrice(0).in_group(group!("task:polled")).in_group(&tenant));
    let mut context = Context::from_waker(Waker::noop());
    let polls = (1..).find(|_| future.as_mut().poll(&mut context).is_ready());
    assert_eq!(polls, Some(3));
    for kind in [GroupKind::Task, GroupKind::Tenant] {
        let totals = recording.totals(kind, "polled");
        assert_eq!((totals.ticks, totals.runs), (3, 3), "{kind}");
    }
}

#[test]
fn p15_a_wait_whose_guard_is_dropped_in_a_nested_loop_ends() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    {
        let _outer = group!("p15 outer").enter();
        let waits = blocking!("p15 crossed");
        let nested = nested_loop();
        drop(waits);
        drop(nested);
    }
    {
        let _after = group!("p15 after").enter();
        spin(Duration::from_millis(50));
    }
    let after = recording.totals(GroupKind::Component, "p15 after");
    assert_eq!(after.blocking_ns, 0, "{after:?}");
    assert!(after.cpu_ns >= 49_000_000, "{after:?}");
}

#[test]
fn p15_a_wait_for_an_entered_group_is_blocking_time() {
    own_process!();
    let mut recording = Recording::start(Probes::ALL);
    let store = Group::register(GroupKind::Component, "p15 store");
    {
        let _works = store.enter();
        let _waits = blocking(&store);
        std::thread::sleep(Duration::from_millis(20));
    }
    let totals = recording.totals(GroupKind::Component, "p15 store");
    assert!(
        totals.blocking_ns >= 19_900_000 && totals.ticks == 1,
        "{totals:?}"
    );
}

#[test]
fn p2_a_thread_leaves_a_group_with_its_last_guard() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    let first = group!("p2 held").enter();
    let second = group!("p2 held").enter();
    drop(first);
    std::thread::sleep(Duration::from_millis(20));
    drop(second);
    let totals = recording.totals(GroupKind::Component, "p2 held");
    assert!(
        totals.wall_ns >= 19_900_000 && totals.ticks == 1,
        "{totals:?}"
    );
}

#[test]
fn the_profile_has_the_same_numbers_as_a_counter() {
    own_process!();
    let mut recording = Recording::start(Probes::JANK);
    for _ in 0..50 {
        let _in = group!("plugin:tracked").enter();
        std::thread::sleep(Duration::from_micros(50));
    }
    let totals = recording.totals(GroupKind::Plugin, "tracked");
    let snapshot = support::snapshot();
    let track = snapshot
        .counters
        .iter()
        .find(|counter| counter.definition.name == "plugin tracked")
        .unwrap();
    assert_eq!(
        (track.value.unsigned_abs(), track.number),
        (totals.wall_ns, totals.ticks)
    );
    assert_eq!((totals.ticks, totals.runs), (50, 50));
}
