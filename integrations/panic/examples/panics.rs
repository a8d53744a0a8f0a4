//! A program that dies of a panic, and a profile that says so: `cargo run --example panics`.
//!
//! The parent starts this program once more as its child. A worker of the child panics and is
//! caught; then the main thread panics. The profile `panics.json.gz` has both markers with their
//! stacks, and the verdict names the second panic.

use std::process::{Command, Stdio};

use anyhow::Context;
use profiler_parent::Session;

const CHILD: &str = "child";

fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some(CHILD) {
        fall_over();
    }
    let session = Session::builder().start()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CHILD).stderr(Stdio::null());
    let mut child = session.spawn("child", command)?;
    child.wait()?;
    let report = session.capture().save("panics.json.gz")?;
    let row = report.processes.iter().find(|row| row.name == "child");
    println!("child is {}", row.context("no child")?.verdict);
    println!("panics.json.gz: open it with `profiler view` or at https://profiler.firefox.com");
    Ok(())
}

/// Records two panics; the second one ends the program.
fn fall_over() {
    if let profiler_child::Status::Off(error) = profiler_child::init() {
        eprintln!("the child is not profiled: {error}"); // it runs on
    }
    profiler_panic::install();
    let worker = std::thread::Builder::new().name("worker".to_owned());
    let worker = worker.spawn(|| parse("seven"));
    let caught = worker.expect("a thread").join().is_err();
    let numbers = [1, 2, 3];
    let index = numbers.len() + usize::from(caught);
    println!("{}", numbers[index]);
}

fn parse(text: &str) -> i32 {
    text.parse().expect("a number")
}
