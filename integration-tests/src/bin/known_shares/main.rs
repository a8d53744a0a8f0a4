//! Samples four processes that do work with known shares, and captures them in both formats.
//!
//! ```text
//! cargo run --release -p integration-tests --bin known_shares -- DIRECTORY SECONDS
//! node integration-tests/viewer/shares.mjs DIRECTORY/processed.json.gz DIRECTORY/expect.json
//! node integration-tests/viewer/shares.mjs DIRECTORY/gecko.json.gz DIRECTORY/expect.json \
//!     target/release/profiler
//! ```
//!
//! `expect.json` lists the functions that the viewer must show, with their files and their shares
//! of the samples. The shares follow from the numbers of steps in [`work`]; they are not measured.

mod expect;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use profiler_core::ids::ByteLimit;
use profiler_parent::core::session::Features;
use profiler_parent::{Format, Session};

/// The argument that makes this program a worker. The path of the library follows it.
const WORK: &str = "--work";
const PROCESSES: usize = 4;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match &arguments[..] {
        [flag, library] if flag == WORK => {
            ensure!(
                matches!(profiler_child::init(), profiler_child::Status::Recording),
                "the child does not record"
            );
            work::work(Path::new(library))
        }
        [directory, seconds] => {
            let seconds = seconds
                .to_str()
                .and_then(|text| text.parse().ok())
                .context("how many seconds?")?;
            run(&PathBuf::from(directory), Duration::from_secs(seconds))
        }
        _ => bail!("usage: known_shares DIRECTORY SECONDS"),
    }
}

fn run(directory: &Path, time: Duration) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let library = compile(&directory.canonicalize()?)?;
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = Session::builder()
        .feature(features)
        .memory_limit(ByteLimit::new(128 << 20))
        .start()?;
    let mut children = Vec::new();
    for number in 0..PROCESSES {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORK).arg(&library).stdin(Stdio::null());
        children.push(session.spawn(&expect::process(number), command)?);
    }
    std::thread::sleep(time);
    let processed = session
        .capture()
        .save(directory.join("processed.json.gz"))?;
    session
        .capture()
        .format(Format::Gecko)
        .save(directory.join("gecko.json.gz"))?;
    for child in &mut children {
        child.kill()?;
    }
    println!(
        "{} processes in {}",
        processed.processes.len(),
        processed.path.display()
    );
    expect::write(directory, time)
}

fn compile(directory: &Path) -> Result<PathBuf> {
    let source = directory.join("tenths.c");
    let library = directory.join("libtenths.so");
    std::fs::write(&source, include_str!("tenths.c"))?;
    let flags = [
        "-O2",
        "-g",
        "-fomit-frame-pointer",
        "-shared",
        "-fPIC",
        "-o",
    ];
    let status = Command::new("cc")
        .args(flags)
        .arg(&library)
        .arg(&source)
        .status()
        .context("no C compiler")?;
    ensure!(status.success(), "the C part does not compile");
    Ok(library)
}
