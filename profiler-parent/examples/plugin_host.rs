//! Example: a host with three plugin processes that work for two tenants. The profiler finds the
//! slow plugin.
//!
//! ```text
//! cargo run --release -p profiler-parent --example plugin_host -- [SECONDS]
//! ```
//!
//! Every plugin is the same executable. Each of its requests belongs to the plugin and to a tenant.
//! The host reads the groups of all processes without a request to them, and prints which of them
//! are slow and why. It gets an alert if a request takes more than 64 ms, with a profile of that
//! time.

#![allow(clippy::disallowed_methods)] // `Instant` is the host's own clock

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use profiler_child::Status;
use profiler_parent::core::groups::{Group, GroupKind, Groups, Probes};
use profiler_parent::groups::GroupTotals;
use profiler_parent::{Alert, AlertRules, AlertTarget, EvidenceOptions, ProfiledChild, Session};

const PLUGINS: [&str; 3] = ["spell checker", "thumbnails", "ad blocker"];
const TENANTS: [&str; 2] = ["acme", "globex"];
const USAGE: &str = "usage: plugin_host [SECONDS]";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [role, plugin, seconds] if role == "plugin" => run_plugin(plugin, seconds.parse()?),
        [] => run_host(5),
        [seconds] if seconds.parse::<u64>().is_ok() => run_host(seconds.parse()?),
        [help] if help == "--help" || help == "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            // Not as an error, which would be printed with a backtrace.
            eprintln!("{USAGE}");
            std::process::exit(2)
        }
    }
}

// ---- the host ------------------------------------------------------------------------------

fn run_host(seconds: u64) -> Result<()> {
    std::fs::create_dir_all("evidence")?;
    let session = Session::builder().name("host").start()?;
    let _measured = session.monitor(Probes::ALL);
    let alerts = session.alerts(
        AlertRules::default(),
        EvidenceOptions::in_directory("evidence"),
    )?;
    alerts.add(AlertTarget::All, "the terminal", |alerts| {
        alerts.iter().for_each(say)
    })?;

    let mut plugins = PLUGINS
        .map(|name| start(&session, name, seconds))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    for plugin in &mut plugins {
        plugin.wait()?;
    }
    std::thread::sleep(Duration::from_millis(1500)); // the last alerts are collected for a second
    drop(alerts);
    show(&session);
    session.capture().save("plugin_host.json.gz")?;
    println!("\nwrote plugin_host.json.gz: all processes, the whole session");
    Ok(())
}

fn start(session: &Session, name: &str, seconds: u64) -> Result<ProfiledChild> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["plugin", name, &seconds.to_string()]);
    Ok(session.spawn(name, command)?)
}

fn say(alert: &Alert) {
    let Alert {
        kind,
        group,
        process_name,
        runs,
        highest_ns,
        ..
    } = alert;
    let none = alert
        .evidence_error
        .as_deref()
        .unwrap_or("that of the one above");
    let evidence = alert
        .evidence
        .as_deref()
        .map_or(none.into(), Path::to_string_lossy);
    println!(
        "alert: {kind} {group:?} in {process_name:?}: {runs} slow, up to {} ms; evidence: {evidence}",
        highest_ns / 1_000_000
    );
}

/// Prints the plugins and tenants. The ones with the highest share of slow requests are first.
fn show(session: &Session) {
    println!(
        "\n{:<8} {:<14} {:>8} {:>9} {:>9} {:>11} {:>9} {:>8}",
        "", "", "requests", "wall", "cpu", "blocking", "longest", "> 64 ms"
    );
    let mut groups = session.groups().merged();
    groups.retain(|group| matches!(group.kind, GroupKind::Plugin | GroupKind::Tenant));
    let slow = |totals: &GroupTotals| totals.durations[6] * 1_000_000 / totals.ticks.max(1);
    groups.sort_by_key(|group| std::cmp::Reverse((slow(&group.totals), group.totals.longest_ns)));
    for group in groups {
        let GroupTotals {
            ticks,
            wall_ns,
            cpu_ns,
            blocking_ns,
            longest_ns,
            durations,
            ..
        } = &group.totals;
        let ms = |ns: &u64| format!("{} ms", ns / 1_000_000);
        println!(
            "{:<8} {:<14} {ticks:>8} {:>9} {:>9} {:>11} {:>9} {:>8}",
            group.kind.name(),
            group.name,
            ms(wall_ns),
            ms(cpu_ns),
            ms(blocking_ns),
            ms(longest_ns),
            durations[6]
        );
    }
}

// ---- a plugin ------------------------------------------------------------------------------

fn run_plugin(name: &str, seconds: u64) -> Result<()> {
    if let Status::Off(error) = profiler_child::init() {
        eprintln!("{name} is not profiled: {error}"); // it runs on
    }
    let plugin = Group::register(GroupKind::Plugin, name);
    let tenants = TENANTS.map(|tenant| Group::register(GroupKind::Tenant, tenant));
    let end = Instant::now() + Duration::from_secs(seconds);
    for (number, tenant) in (0_u64..).zip(tenants.iter().cycle()) {
        if Instant::now() >= end {
            break;
        }
        let request = Groups::of([&plugin, tenant]).enter();
        serve(name, number);
        drop(request);
        std::thread::sleep(Duration::from_millis(4));
    }
    Ok(())
}

fn serve(plugin: &str, number: u64) {
    match plugin {
        "spell checker" => check_spelling(Duration::from_millis(2)),
        "thumbnails" => {
            let _waiting = profiler_child::core::blocking!("disk");
            std::thread::sleep(Duration::from_millis(6));
        }
        // From time to time, the ad blocker parses all its rules again.
        _ if number % 100 == 51 => parse_all_rules(Duration::from_millis(150)),
        _ => match_rules(Duration::from_millis(1)),
    }
}

#[inline(never)]
fn check_spelling(time: Duration) {
    work_for(time);
}

#[inline(never)]
fn match_rules(time: Duration) {
    work_for(time);
}

#[inline(never)]
fn parse_all_rules(time: Duration) {
    work_for(time);
}

fn work_for(time: Duration) {
    let end = Instant::now() + time;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    while Instant::now() < end {
        hash = (0..1000_u64).fold(hash, |hash, byte| {
            (hash ^ byte).wrapping_mul(0x100_0000_01b3)
        });
    }
    std::hint::black_box(hash);
}
