//! Groups: the cost of an entry while no session runs and while one runs, and the cost of a
//! snapshot of all groups.
//!
//! `groups.enter_exit.ratio` is the time to enter and leave an active group inside another one,
//! with all probes on, relative to one bare read of the clock. `groups.iteration.*.ns` also
//! includes the end of an iteration, which reads the thread's processor clock twice and writes into
//! the cells of three groups. It is measured with all probes (`all`), without the processor clock
//! (`jank`), and without any clock (`ticks`).
//!
//! `trace.set_ns` is the time to begin to work for a trace and to end it, while a session runs, and
//! `trace.marker_ns` that of a scope with one marker in it, which states the trace.

use anyhow::{Context, Result, ensure};
use profiler_core::groups::{self, Group, GroupKind, Probes, custom_loop};
use profiler_core::marker;
use profiler_core::trace::TraceScope;
use profiler_parent::groups::ProcessStanding;

use crate::recording::Recording;
use crate::workers;
use integration_tests::counting::allocations_of;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{clock_read_ns, median, median_ratio, ns_each, ns_of};

const ROUNDS: usize = 201;
const BATCH: u32 = 2_000;
const PROCESSES: usize = 200;
/// Groups per process, in addition to the groups of its thread and of the process itself.
const GROUPS_EACH: u64 = 5;
const SNAPSHOTS: usize = 25;

static MEASURED: Group = Group::new(GroupKind::Plugin, "measured");
static REQUEST: Group = Group::new(GroupKind::Request, "around");

/// All figures of groups.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let off: Vec<f64> = (0..ROUNDS).map(|_| enter_exit_ns()).collect();
    report.put(Figure::new("groups.off.ns", median(&off), "ns").promised(Promise::AtMost(1.0)));
    enter_exit(report)?;
    traces(report)?;
    snapshots(report)
}

fn enter_exit_ns() -> f64 {
    ns_each(BATCH, || drop(MEASURED.enter()))
}

fn enter_exit(report: &mut Report) -> Result<()> {
    let _recording = Recording::start(64 << 20)?;
    let mut entries = Vec::new();
    let mut reads = Vec::new();
    groups::set_probes(Probes::ALL);
    let mut turns = custom_loop();
    let around = REQUEST.enter();
    for _ in 0..ROUNDS {
        entries.push(enter_exit_ns());
        reads.push(clock_read_ns(BATCH));
        turns.turn();
    }
    let allocations = allocations_of(|| {
        enter_exit_ns();
        turns.turn();
    });
    drop(around);
    drop(turns);
    let ratio = median_ratio(&entries, &reads);
    report.put(
        Figure::new("groups.enter_exit.ratio", ratio, "x clock read")
            .promised(Promise::AtMost(3.0)),
    );
    report.put(Figure::new("groups.enter_exit.ns", median(&entries), "ns"));
    let allocations = Figure::new("groups.allocations", allocations as f64, "per 2000 entries");
    report.put(allocations.promised(Promise::AtMost(0.0)));
    for (name, probes) in [
        ("all", Probes::ALL),
        ("jank", Probes::JANK),
        ("ticks", Probes::NONE),
    ] {
        groups::set_probes(probes);
        let iterations: Vec<f64> = (0..ROUNDS).map(|_| enter_exit_ns()).collect();
        report.put(Figure::new(
            format!("groups.iteration.{name}.ns"),
            median(&iterations),
            "ns",
        ));
    }
    groups::set_probes(Probes::NONE);
    Ok(())
}

fn traces(report: &mut Report) -> Result<()> {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
    let scope = || drop(TraceScope::enter(trace));
    let off: Vec<f64> = (0..ROUNDS).map(|_| ns_each(BATCH, scope)).collect();
    report.put(Figure::new("trace.set_ns.off", median(&off), "ns"));
    let _recording = Recording::start(64 << 20)?;
    marker!("joins the session");
    let set: Vec<f64> = (0..ROUNDS).map(|_| ns_each(BATCH, scope)).collect();
    report.put(Figure::new("trace.set_ns", median(&set), "ns"));
    let with_marker = || {
        let _scope = TraceScope::enter(trace);
        marker!("in a trace");
    };
    let marked: Vec<f64> = (0..ROUNDS).map(|_| ns_each(100, with_marker)).collect();
    report.put(Figure::new("trace.marker_ns", median(&marked), "ns"));
    let allocations = allocations_of(|| {
        let _ = ns_each(BATCH, scope);
    });
    let allocations = Figure::new("trace.allocations", allocations as f64, "per 2000 changes");
    report.put(allocations.promised(Promise::AtMost(0.0)));
    Ok(())
}

/// In a child: enters `groups` groups.
pub(crate) fn enter_some(groups: u64) {
    for number in 0..groups {
        let group = Group::register(GroupKind::Plugin, &format!("plugin {number}"));
        drop(group.enter());
    }
    println!("entered");
}

fn snapshots(report: &mut Report) -> Result<()> {
    let session = workers::quiet_session(256 << 20)?;
    let _monitor = session.monitor(Probes::JANK);
    let mut workers = workers::start_all(&session, PROCESSES, "child", "groups", |_| GROUPS_EACH)?;
    let snapshot = session.groups();
    let rows = snapshot.rows().count();
    ensure!(
        snapshot.processes.len() == PROCESSES + 1 && snapshot.missing.is_empty(),
        "not all were read"
    );
    ensure!(
        rows >= PROCESSES * GROUPS_EACH as usize,
        "{rows} groups were read"
    );
    let merged = snapshot.merged().len();
    ensure!(
        merged <= rows
            && snapshot
                .processes
                .iter()
                .all(|it| it.standing == ProcessStanding::Live),
        "{merged}"
    );
    let took: Vec<f64> = (0..SNAPSHOTS)
        .map(|_| ns_of(|| drop(session.groups())) / 1e6)
        .collect();
    report.put(Figure::new(
        "groups.snapshot_ms.procs_200",
        median(&took),
        "ms",
    ));
    report.put(Figure::new("groups.snapshot.rows", rows as f64, "groups"));
    for worker in &mut workers {
        worker.child.kill().context("cannot end a child")?;
    }
    Ok(())
}
