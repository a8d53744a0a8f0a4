//! Tests of a program that has its own handler for the sampler's signal.
//!
//! The handler keeps its flags: a read that the handler interrupts ends with `EINTR` or goes on as
//! it does without the profiler. The scenes are in `src/bin/host/own_signal.rs`.

#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::process::Command;

use integration_tests::{own_process, own_process_tests};

/// Runs the scene and checks what the interrupted read returns.
fn read_gives(order: &str, flags: &str, expected: &str) -> anyhow::Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_host"))
        .args(["own-signal", order, flags])
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complained}", output.status);
    assert_eq!(said.trim(), expected, "{order}, {flags}");
    Ok(())
}

own_process_tests! {
    a_read_that_a_program_s_handler_ends_still_ends_when_the_profiler_came_later:
        read_gives("handler-first", "no-restart", "eintr");
    a_read_that_a_program_s_handler_ends_still_ends_when_the_profiler_came_first:
        read_gives("profiler-first", "no-restart", "eintr");
}

#[test]
fn a_read_that_a_program_s_handler_restarts_goes_on() -> anyhow::Result<()> {
    own_process!();
    read_gives("handler-first", "restart", "data")?;
    read_gives("profiler-first", "restart", "data")
}
