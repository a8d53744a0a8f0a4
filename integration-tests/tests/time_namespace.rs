//! Tests of a child in a time namespace, as in a container, whose clocks show other times.
//!
//! Its markers and groups are on the time line of the parent, with either clock.
//!
//! The tests need the right to create a namespace. Without it, and on systems without such
//! namespaces, they print so and check nothing.

#![cfg(all(target_os = "linux", not(profiler_portable)))]
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use integration_tests::helper_process::{self, HelperProcess};
use integration_tests::pairs;
use integration_tests::patience::Stopwatch;
use integration_tests::profile::Profile;
use integration_tests::reports::all_measure;
use integration_tests::session::{self, TestSession};
use integration_tests::{own_process, own_process_tests};
use profiler_parent::SessionBuilder;
use profiler_parent::core::time::ClockKind;
use profiler_parent::groups::{GroupKind, Probes};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const ROUNDS: u64 = 200;
/// 20 days for CLOCK_MONOTONIC, 10 for CLOCK_BOOTTIME.
const OFFSETS: &str = "monotonic 1728000 0\nboottime 864000 0\n";

/// Makes the program run in a separate time namespace.
fn in_namespace(mut command: Command) -> Command {
    let enter = || {
        // SAFETY: the call affects only the clocks of the program after the `exec` that follows.
        if unsafe { libc::unshare(libc::CLONE_NEWTIME) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        std::fs::write("/proc/self/timens_offsets", OFFSETS)
    };
    // SAFETY: the closure makes a few system calls, takes no lock and does not allocate; the fork
    // calls `exec` next.
    unsafe { command.pre_exec(enter) };
    command
}

/// Whether this system can run programs in a time namespace. Prints if it cannot.
fn is_possible() -> bool {
    let link = |mut command: Command| -> Option<Vec<u8>> {
        let output = command.arg("/proc/self/ns/time").output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let outside = link(Command::new("readlink"));
    let inside = link(in_namespace(Command::new("readlink")));
    let is_possible = outside.is_some() && inside.is_some() && outside != inside;
    if !is_possible {
        println!("not checked: no time namespace can be made here");
    }
    is_possible
}

/// Starts a session with a child `away` in a time namespace.
fn start(
    build: impl FnOnce(SessionBuilder) -> SessionBuilder,
) -> anyhow::Result<(TestSession, HelperProcess)> {
    let session = session::start(build)?;
    let child = HelperProcess::spawn_by(
        &session,
        "away",
        in_namespace(helper_process::command(CHILD, "init")),
    )?;
    assert_eq!(child.status, "Recording");
    Ok((session, child))
}

own_process_tests! {
    markers_of_a_child_in_a_time_namespace_are_in_order_with_those_of_the_parent:
        markers_are_in_order(|builder| builder);
    markers_of_a_child_in_a_time_namespace_are_in_order_with_the_fallback_clock:
        markers_are_in_order(|builder| builder.clock(ClockKind::Monotonic));
}

/// The parent and the child in the namespace send each other numbers in turn, so their markers must
/// alternate in the profile.
fn markers_are_in_order(
    build: impl FnOnce(SessionBuilder) -> SessionBuilder,
) -> anyhow::Result<()> {
    if !is_possible() {
        return Ok(());
    }
    let (session, mut child) = start(build)?;
    let [there, back] = pairs::make_pipes(["down", "up"].map(|name| session.path(name)))?;
    child.tell(&format!(
        "pong {} {} 20 {ROUNDS}",
        there.display(),
        back.display()
    ))?;
    pairs::ping(&there, &back, 20, ROUNDS)?;
    assert_eq!(child.line()?, "ok");
    for (_, profile) in session.capture_both()? {
        alternate(&profile)?;
    }
    Ok(())
}

/// Checks that the markers of the parent and the child alternate.
fn alternate(profile: &Profile) -> anyhow::Result<()> {
    let times = |process: &str, name: &str| -> anyhow::Result<Vec<f64>> {
        let process = if process == "parent" {
            profile.parent()
        } else {
            profile.process(process)?
        };
        Ok(process.named(name).map(|mark| mark.time).collect())
    };
    let sent = times("parent", "send")?;
    let heard = times("away", "receive")?;
    let answered = times("away", "send")?;
    let back = times("parent", "receive")?;
    assert_eq!(
        [sent.len(), heard.len(), answered.len(), back.len()],
        [ROUNDS as usize; 4]
    );
    for round in 0..ROUNDS as usize {
        let times = [sent[round], heard[round], answered[round], back[round]];
        assert!(times.is_sorted(), "round {round}: {times:?}");
    }
    Ok(())
}

#[test]
fn groups_of_a_child_in_a_time_namespace_have_the_time_that_passed() -> anyhow::Result<()> {
    own_process!();
    if !is_possible() {
        return Ok(());
    }
    let watch = Stopwatch::start();
    let (session, mut child) = start(|builder| builder)?;
    let _monitor = session.monitor(Probes::ALL);
    assert!(all_measure(&session, Probes::ALL));
    child.ask("work-for plugin a 5 20000")?;
    let snapshot = session.groups();
    let away = snapshot.process("away").context("no such process")?;
    let totals = &away
        .group(GroupKind::Plugin, "a")
        .context("no such group")?
        .totals;
    let passed = u64::try_from(watch.elapsed().as_nanos())?;
    assert!(
        totals.wall_ns >= 100_000_000 && totals.wall_ns <= passed,
        "{} of {passed}",
        totals.wall_ns
    );
    assert!(
        totals.longest_ns >= 20_000_000 && totals.longest_ns <= passed,
        "{totals:?}"
    );
    Ok(())
}
