//! Tests of host threads with the smallest stacks that the C library allows.
//!
//! They record every kind of entry. A separate program, `src/bin/small_stacks.rs`, runs them,
//! because an overflow ends the process.

#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration_tests::own_process;
use integration_tests::small_stacks::{Kind, fixture};

/// `PTHREAD_STACK_MIN` on x86-64.
const SMALLEST: usize = 16 * 1024;
/// The most stack bytes that an entry may use. The C library uses a part of the smallest stack, and
/// a signal needs some KiB.
const MAX_USED: usize = 8 * 1024;
const PLENTY: usize = 256 * 1024;

/// The output of the program; an error if it does not end successfully.
fn run(words: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_small_stacks"))
        .args(words)
        .output()?;
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{words:?} ended with {}: {complained}",
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn numbers(said: &str) -> Result<Vec<usize>> {
    said.split_ascii_whitespace()
        .map(|word| word.parse().with_context(|| said.to_owned()))
        .collect()
}

#[test]
fn recording_of_every_kind_works_on_the_smallest_stack_while_it_is_sampled() -> Result<()> {
    own_process!();
    for kind in Kind::ALL {
        for bytes in [SMALLEST, fixture::ENOUGH_TO_WALK] {
            let said = run(&["crowd", kind.name(), &bytes.to_string(), "200", "20"])?;
            print!("{}: {said}", kind.name());
        }
    }
    Ok(())
}

#[test]
fn no_kind_of_recording_takes_more_than_8_kib_of_a_stack() -> Result<()> {
    own_process!();
    for kind in Kind::ALL {
        let said = run(&["painted", kind.name()])?;
        print!("{}: {said}", kind.name());
        let used = numbers(&said)?;
        let own = used.iter().skip(1).step_by(2);
        ensure!(
            own.clone().count() == 4 && own.clone().all(|bytes| *bytes <= MAX_USED),
            "{said}"
        );
    }
    Ok(())
}

#[test]
fn a_stack_is_left_out_where_little_of_the_threads_own_is_left() -> Result<()> {
    own_process!();
    for kind in Kind::ALL.into_iter().filter(|kind| kind.has_stack()) {
        let said = run(&["depths", kind.name(), &PLENTY.to_string()])?;
        print!("{}: {said}", kind.name());
        let [entries, with_stack] = numbers(&said)?[..] else {
            anyhow::bail!(said)
        };
        ensure!(with_stack > 0 && with_stack < entries, "{said}");
    }
    Ok(())
}
