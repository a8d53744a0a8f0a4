//! Hosts that do what samplers have hung and crashed on, sampled at 1 kHz: nothing happens to them.
//!
//! Each storm is a process of its own. `PROFILER_STORM_SECONDS` makes them longer than the short form.

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

fn weather(storm: &str) -> Result<()> {
    weather_in(storm, &[])
}

/// No waiting call ends with `EINTR`, whatever the system reports to the sampler about threads.
fn interrupted(scene: &str) -> Result<()> {
    weather_in("interrupted", &[scene])
}

fn weather_in(storm: &str, more: &[&str]) -> Result<()> {
    let seconds: u64 = match std::env::var("PROFILER_STORM_SECONDS") {
        Ok(seconds) => seconds.parse()?,
        Err(_) => 2,
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_storms"));
    let command =
        command.args([storm, &seconds.to_string()]).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let patience = Instant::now() + Duration::from_secs(seconds) + 3 * LONG;
    while child.try_wait()?.is_none() {
        if Instant::now() > patience {
            child.kill()?;
            anyhow::bail!("{storm} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output()?;
    let (said, complained) =
        (String::from_utf8(output.stdout)?, String::from_utf8_lossy(&output.stderr).into_owned());
    ensure!(output.status.success(), "{storm} ended with {}: {complained}", output.status);
    let line = said.lines().find(|line| line.starts_with("ok")).with_context(|| said.clone())?;
    println!("{storm}: {line}");
    Ok(())
}

macro_rules! storms {
    ($($test:ident: $storm:literal,)*) => {
        $(#[test] fn $test() -> Result<()> { weather($storm) })*
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
    a_program_s_own_handler_hears_all_of_its_own_signals_from_the_first_on: "signals",
    a_program_that_takes_the_handler_away_gets_no_more_than_what_is_on_its_way: "dispositions",
    what_the_system_says_of_urgent_data_is_heard_as_what_it_is: "urgent",
    guard_pages_within_a_mapping_are_not_read: "guarded_stacks",
    alternate_stacks_of_the_least_size_are_large_enough: "small_alternate_stacks",
    a_full_descriptor_table_is_told: "full_descriptor_table",
    a_library_that_is_loaded_again_and_again_is_defined_once: "reloads",
    a_thread_whose_alternate_stack_is_too_small_is_not_signalled: "too_small_alternate_stacks",
}

#[test]
fn no_thread_that_waits_is_interrupted() -> Result<()> {
    interrupted("plain")
}

#[test]
fn no_thread_that_waits_is_interrupted_in_a_process_that_became_another_user() -> Result<()> {
    interrupted("setuid")
}

#[test]
fn no_thread_that_waits_is_interrupted_in_a_process_that_may_not_be_dumped() -> Result<()> {
    interrupted("not_dumpable")
}

#[test]
fn no_thread_that_waits_is_interrupted_where_there_is_no_proc() -> Result<()> {
    interrupted("no_proc")
}

#[test]
fn no_thread_that_waits_is_interrupted_where_a_filter_refuses_to_open_files() -> Result<()> {
    interrupted("seccomp")
}
