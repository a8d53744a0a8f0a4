//! Runs the application, and reads its profiles.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;
use test_support::patience::until;

/// The variables of the profiler.
const VARIABLES: [&str; 4] = [
    "MULTIPROCESS_PROFILER",
    "MULTIPROCESS_PROFILER_CHILD",
    "MULTIPROCESS_PROFILER_SESSION",
    "MULTIPROCESS_PROFILER_VERBOSE",
];

/// A directory in which the application runs.
pub(crate) struct AppDirectory(TempDir);

impl AppDirectory {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The names of all files, sorted.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.0.path())?.flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    }

    /// The application with these words, and this value of `MULTIPROCESS_PROFILER`.
    pub(crate) fn command(&self, value: Option<&str>, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alone-application"));
        command
            .args(words.split_ascii_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        if let Some(value) = value {
            command.env("MULTIPROCESS_PROFILER", value);
        }
        command
    }

    /// Runs the application to its end, which must be in order. Returns the lines of its output.
    pub(crate) fn run(&self, value: Option<&str>, words: &str) -> anyhow::Result<Vec<String>> {
        let (lines, errors) = run(self.command(value, words))?;
        ensure!(errors.is_empty(), "{errors}");
        Ok(lines)
    }

    pub(crate) fn profile(&self, name: &str) -> anyhow::Result<Profile> {
        Profile::read(&self.path(name))
    }
}

/// Runs a command to its end, which must be in order. Returns the lines of its output, and its
/// standard error.
pub(crate) fn run(mut command: Command) -> anyhow::Result<(Vec<String>, String)> {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output()?;
    let errors = String::from_utf8(stderr)?;
    ensure!(status.success(), "{status}: {errors}");
    let lines = String::from_utf8(stdout)?;
    Ok((lines.lines().map(str::to_owned).collect(), errors))
}

/// The application while it runs. It is killed when this is dropped.
pub(crate) struct Application {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Application {
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        Ok(Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().context("no pipe")?),
            child,
        })
    }

    /// Its next line of output.
    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        ensure!(!line.is_empty(), "it has ended");
        Ok(line.trim_end().to_owned())
    }

    /// Lets it go on from the word `line`.
    pub(crate) fn go_on(&mut self) -> anyhow::Result<()> {
        let stdin = self.stdin.as_mut().context("no pipe")?;
        Ok(stdin.write_all(b"\n")?)
    }

    /// Sends it SIGUSR2.
    pub(crate) fn signal(&self) -> anyhow::Result<()> {
        let mut kill = Command::new("kill");
        kill.arg("-USR2").arg(self.child.id().to_string());
        ensure!(kill.status()?.success(), "not sent");
        Ok(())
    }

    /// Waits for its end, which must be in order.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        drop(self.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Waits until a file exists.
pub(crate) fn appears(file: &Path) -> anyhow::Result<()> {
    ensure!(until(|| file.exists()), "{} is missing", file.display());
    Ok(())
}

/// The texts of the markers of each process, by its number.
pub(crate) struct Profile(BTreeMap<String, Vec<String>>);

impl Profile {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let json: Value = serde_json::from_slice(&std::fs::read(path)?)?;
        let threads = json["threads"].as_array().context("no threads")?;
        let mut processes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for thread in threads {
            let pid = thread["pid"].as_str().context("no number")?.to_owned();
            let data = thread["markers"]["data"].as_array().context("no markers")?;
            let texts = data.iter().filter(|data| data["type"] == "Text");
            let texts = texts.filter_map(|data| data["name"].as_str().map(str::to_owned));
            processes.entry(pid).or_default().extend(texts);
        }
        Ok(Self(processes))
    }

    /// The number of processes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The texts of all processes, sorted.
    pub(crate) fn texts(&self) -> Vec<&str> {
        let mut texts: Vec<_> = self.0.values().flatten().map(String::as_str).collect();
        texts.sort_unstable();
        texts
    }
}
