//! Tests of hosts that constantly do what other samplers have hung or crashed on, sampled at 1 kHz.
//!
//! No host is harmed. Each storm is a separate process, the program `src/bin/storms`, which checks
//! its own results. A storm lasts two seconds, or as many as `PROFILER_STORM_SECONDS` says.

#![allow(clippy::disallowed_methods)] // deadlines of its own
#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use integration_tests::patience::LONG;

/// Runs a storm, which must end with `ok`.
fn run_storm(storm: &str) -> Result<()> {
    run_storm_with(storm, &[])
}

/// Checks that no waiting call ends with `EINTR`. The scene determines what the system reports to
/// the sampler about threads.
fn no_wait_is_interrupted(scene: &str) -> Result<()> {
    run_storm_with("interrupted", &[scene])
}

fn run_storm_with(storm: &str, arguments: &[&str]) -> Result<()> {
    let seconds: u64 = match std::env::var("PROFILER_STORM_SECONDS") {
        Ok(seconds) => seconds.parse()?,
        Err(_) => 2,
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_storms"));
    let command = command
        .args([storm, &seconds.to_string()])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let deadline = Instant::now() + Duration::from_secs(seconds) + 3 * LONG;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            anyhow::bail!("{storm} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8(output.stdout)?;
    let complained = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "{storm} ended with {}: {complained}",
        output.status
    );
    let line = said
        .lines()
        .find(|line| line.starts_with("ok"))
        .with_context(|| said.clone())?;
    println!("{storm}: {line}");
    Ok(())
}

macro_rules! storms {
    ($($test:ident: $storm:literal,)*) => {
        $(#[test] fn $test() -> Result<()> { run_storm($storm) })*
    };
}

storms! {
    a_thread_in_the_allocator_is_sampled_without_harm: "malloc",
    libraries_may_come_and_go: "dlopen",
    unwinding_panics_are_sampled_without_harm: "panic",
    threads_may_start_and_end_at_any_time: "threads",
    a_process_that_forks_all_the_time_is_sampled_and_its_children_are_not: "fork",
    children_that_share_our_memory_are_not_harmed: "vfork",
    children_that_become_other_programs_are_not_harmed: "exec",
    a_process_that_becomes_another_program_is_not_harmed: "reexec",
    sleepers_are_left_alone: "sleepers",
    a_program_s_own_handler_receives_all_of_its_signals_from_the_first_on: "signals",
    a_program_that_replaces_the_handler_receives_only_pending_signals: "dispositions",
    signals_of_urgent_data_keep_their_origin: "urgent",
    guard_pages_within_a_mapping_are_not_read: "guarded_stacks",
    a_thread_that_fills_the_smallest_stack_is_not_signalled: "nearly_full_stacks",
    alternate_stacks_of_the_least_size_are_large_enough: "small_alternate_stacks",
    a_full_descriptor_table_is_told: "full_descriptor_table",
    a_library_that_is_loaded_again_and_again_is_defined_once: "reloads",
    a_thread_whose_alternate_stack_is_too_small_is_not_signalled: "too_small_alternate_stacks",
}

#[test]
fn no_thread_that_waits_is_interrupted() -> Result<()> {
    no_wait_is_interrupted("plain")
}

#[test]
fn no_thread_that_waits_is_interrupted_in_a_process_that_became_another_user() -> Result<()> {
    no_wait_is_interrupted("setuid")
}

#[test]
fn no_thread_that_waits_is_interrupted_in_a_process_that_may_not_be_dumped() -> Result<()> {
    no_wait_is_interrupted("not_dumpable")
}

#[test]
fn no_thread_that_waits_is_interrupted_where_there_is_no_proc() -> Result<()> {
    no_wait_is_interrupted("no_proc")
}

#[test]
fn no_thread_that_waits_is_interrupted_where_a_filter_refuses_to_open_files() -> Result<()> {
    no_wait_is_interrupted("seccomp")
}

/// The tracer is `src/bin/tracer.rs`.
fn a_debugger_may_stop_all_threads(source: &str) -> Result<()> {
    assert!(std::path::Path::new(env!("CARGO_BIN_EXE_tracer")).exists());
    run_storm_with("traced", &[source])
}

#[test]
fn a_process_that_a_debugger_stops_again_and_again_is_sampled_on_by_timers() -> Result<()> {
    a_debugger_may_stop_all_threads("timer")
}

#[test]
fn a_process_that_a_debugger_stops_again_and_again_is_sampled_on_by_signals() -> Result<()> {
    a_debugger_may_stop_all_threads("signal")
}
