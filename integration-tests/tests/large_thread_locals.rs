//! Test of a program with a megabyte of static thread-locals, which the C library takes from the
//! stack of every thread.
//!
//! All threads of the profiler, in the parent and in a child, have enough stack in addition. The
//! program is `src/bin/large_thread_locals.rs`.

use std::process::Command;

use anyhow::{Result, ensure};
use integration_tests::own_process;

#[test]
fn threads_of_the_profiler_live_in_a_program_with_a_megabyte_of_static_thread_locals() -> Result<()>
{
    own_process!();
    let output = Command::new(env!("CARGO_BIN_EXE_large_thread_locals")).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "it ended with {}: {complained}",
        output.status
    );
    ensure!(said.starts_with("ok"), "{said}{complained}");
    println!("{said}");
    Ok(())
}
