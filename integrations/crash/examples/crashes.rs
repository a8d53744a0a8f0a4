//! A program that crashes, and a profile that says where: `cargo run --example crashes`.
//!
//! The parent starts this program once more as its child. The child reads from an address without
//! memory. The profile `crashes.json.gz` has the stack, and the verdict names the address.

use std::process::{Command, Stdio};

use anyhow::Context;
use profiler_parent::Session;

const CHILD: &str = "child";

fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        profiler_child::init();
        profiler_crash::install()?;
        read_header(16);
    }
    let session = Session::builder().start()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).stderr(Stdio::null());
    let mut child = session.spawn("child", command)?;
    child.wait()?;
    let report = session.capture().save("crashes.json.gz")?;
    let row = report.processes.iter().find(|row| row.name == "child");
    println!("child is {}", row.context("no child")?.verdict);
    println!("crashes.json.gz: open it with `profiler view` or at https://profiler.firefox.com");
    Ok(())
}

/// Reads from an address without memory.
#[allow(unsafe_code)]
#[inline(never)]
fn read_header(address: usize) {
    // SAFETY: none: it crashes, as the example is to show.
    let header = unsafe { (address as *const u64).read_volatile() };
    println!("{header}");
}
