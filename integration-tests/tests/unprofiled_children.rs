//! Tests of children for which the profiler lacks something: they run, unprofiled, and the profile
//! says why.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use integration_tests::own_process::{child, role};
use integration_tests::own_process_tests;
use integration_tests::profile::Profile;
use profiler_parent::Session;

/// A value of `TMPDIR` below this directory.
type Place = fn(&Path) -> PathBuf;

fn missing(directory: &Path) -> PathBuf {
    directory.join("missing")
}

fn a_file(directory: &Path) -> PathBuf {
    let file = directory.join("file");
    std::fs::write(&file, "no directory").expect("the directory is writable");
    file
}

/// A directory with a path that is too long for the path of a socket in it.
fn too_long(directory: &Path) -> PathBuf {
    let long = directory.join("x".repeat(120));
    std::fs::create_dir(&long).expect("the directory is writable");
    long
}

/// A directory in which no file can be made.
fn not_writable(_: &Path) -> PathBuf {
    PathBuf::from("/proc")
}

/// In a process with a useless `TMPDIR`: starts a child, and captures into `directory`.
fn start_a_child(directory: &Path) -> Result<()> {
    let session = Session::builder().name("parent").start()?;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exit 7"]);
    let mut child = session.spawn("worker", command)?;
    ensure!(!child.is_profiled(), "it is profiled");
    ensure!(child.wait()?.code() == Some(7), "it did not run");
    // The Gecko format needs a temporary file for this process's own part.
    let path = directory.join("profile.json");
    session.capture().save(&path)?;
    let verdict = Profile::read(&path)?.verdict("worker")?;
    println!("{verdict}");
    let said = "missing: not profiled: cannot ";
    ensure!(verdict.contains(said), "{verdict}");
    Ok(())
}

fn a_child_runs(place: Place) -> Result<()> {
    if let Some(role) = role() {
        return start_a_child(Path::new(&role));
    }
    let directory = tempfile::tempdir()?;
    let mut process = child(directory.path());
    let output = process.env("TMPDIR", place(directory.path())).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}{complained}");
    let verdict = said.lines().find(|line| line.contains("not profiled"));
    println!("{}", verdict.context("no verdict")?);
    Ok(())
}

own_process_tests! {
    a_child_runs_if_tmpdir_is_missing: a_child_runs(missing);
    a_child_runs_if_tmpdir_is_a_file: a_child_runs(a_file);
    a_child_runs_if_tmpdir_is_too_long_for_a_socket: a_child_runs(too_long);
    a_child_runs_if_tmpdir_is_not_writable: a_child_runs(not_writable);
}
