//! A server whose futures are in groups and whose runtime has counters:
//!
//! ```text
//! cargo run --example groups_and_counters
//! ```
//!
//! Three tenants send requests. Each request is a future in the group of its tenant, and one of
//! them keeps its worker busy for too long. The session reports this poll as an alert, with a
//! profile of that time. A child process that tokio starts joins the session.

use std::process::Stdio;
use std::time::Duration;

use profiler_core::groups::{Group, GroupKind, InGroups, Probes};
use profiler_parent::{AlertRules, AlertTarget, EvidenceOptions, Session};
use profiler_tokio::{ProfileFuture, RuntimeRules};
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

fn main() -> anyhow::Result<()> {
    // The role of the child. In the parent: `Status::NoParent`, and no effect.
    if let profiler_child::Status::Off(error) = profiler_child::init() {
        eprintln!("the child is not profiled: {error}"); // it runs on
    }
    if std::env::args().nth(1).as_deref() == Some("child") {
        return run_child();
    }
    std::fs::create_dir_all("evidence")?;
    let session = Session::builder().name("server").start()?;
    let _measured = session.monitor(Probes::ALL);
    let rules = AlertRules::default().threshold_of_kind("task", Some(Duration::from_millis(20)));
    let alerts = session.alerts(rules, EvidenceOptions::in_directory("evidence"))?;
    alerts.add(AlertTarget::All, "the terminal", |alerts| {
        alerts
            .iter()
            .for_each(|alert| println!("slow: {}", alert.group));
    })?;

    let mut builder = Builder::new_multi_thread();
    let runtime = RuntimeRules::named("server").build(builder.worker_threads(2).enable_all())?;
    runtime.block_on(serve(&session))?;

    std::thread::sleep(Duration::from_millis(1500)); // the last alerts are collected for a second
    for group in session.groups().merged() {
        let (runs, wall_ns) = (group.totals.ticks, group.totals.wall_ns);
        println!(
            "{:10} {:20} {runs:5} polls {wall_ns:12} ns",
            group.kind.name(),
            group.name
        );
    }
    session.capture().save("groups_and_counters.json.gz")?;
    println!("groups_and_counters.json.gz: open it with `profiler view`");
    Ok(())
}

/// Handles requests of all tenants, and runs a child process.
async fn serve(session: &Session) -> anyhow::Result<()> {
    let mut child = Command::new(std::env::current_exe()?);
    session.prepare(child.arg("child").stdin(Stdio::null()).as_std_mut())?;
    let child = child.spawn()?;
    let mut requests = JoinSet::new();
    for tenant in TENANTS {
        let group = Group::register(GroupKind::Tenant, tenant);
        for number in 0..20 {
            requests.spawn(request(number).in_group(&group).profiled(tenant));
        }
    }
    while requests.join_next().await.is_some() {}
    child.wait_with_output().await?;
    Ok(())
}

/// One request: waits, computes, and uses the blocking pool.
async fn request(number: u64) {
    sleep(Duration::from_millis(10 * number)).await;
    compute(1 + number % 3);
    if number == 13 {
        compute(40); // keeps the other tasks of the worker waiting
    }
    let _ = spawn_blocking(|| std::thread::sleep(Duration::from_millis(5))).await;
}

/// Uses the processor for about this many milliseconds.
fn compute(milliseconds: u64) {
    for number in 0..milliseconds * 1_000_000 {
        std::hint::black_box(number);
    }
}

/// The child: a program with a runtime of its own.
fn run_child() -> anyhow::Result<()> {
    let mut builder = Builder::new_current_thread();
    let runtime = RuntimeRules::named("child").build(builder.enable_all())?;
    runtime.block_on(request(3).profiled("work of the child"));
    Ok(())
}
