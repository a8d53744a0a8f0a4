//! The command line: its options, and the requests that are refused before any work.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use clap::error::ErrorKind;
use profiler_files::output::ProfileFile;
use profiler_parent::core::session::SessionParams;

/// Indexes the words of all files below a directory with many processes, and profiles itself.
#[derive(Debug, Parser)]
#[command(name = "index_tree")]
pub(crate) struct Options {
    /// Directory to index; `.git`, `target`, `node_modules` and symbolic links are left out
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Number of worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,
    /// File for the profile; compressed if the name ends in .gz
    #[arg(long, value_name = "FILE", default_value = "profile.json.gz")]
    pub(crate) out: PathBuf,
    /// Bytes that the recordings of all processes together may hold
    #[arg(long, value_name = "BYTES", default_value_t = SessionParams::DEFAULT_LIMIT.get())]
    pub(crate) memory_limit: u64,
    /// Keeps what is recorded in files below this directory, for `profiler recover` if this process
    /// is killed
    #[arg(long, value_name = "DIR")]
    pub(crate) pools: Option<PathBuf>,
    /// Also writes the expected contents of the profile, for integration-tests/viewer/check.mjs
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,
    /// Works for a parent over standard input and output
    #[arg(long, hide = true)]
    worker: bool,
}

/// The task of this process.
#[derive(Debug)]
pub(crate) enum Command {
    /// Index a tree.
    Parent(Options),
    /// Work for the parent that started it.
    Worker,
}

/// A request that cannot be carried out. No work was begun.
#[derive(Debug)]
pub(crate) struct Refusal(String);

impl Refusal {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// The command line asks for help, or is wrong.
#[derive(Debug)]
pub(crate) struct Stop(clap::Error);

impl Stop {
    /// Prints the help if it was requested, otherwise one line with the error.
    pub(crate) fn explain(&self) -> ExitCode {
        if matches!(self.0.kind(), ErrorKind::DisplayHelp) {
            print!("{}", self.0);
            return ExitCode::SUCCESS;
        }
        let text = self.0.to_string();
        let line = text.lines().next().unwrap_or_default();
        eprintln!(
            "index_tree: {}",
            line.strip_prefix("error: ").unwrap_or(line)
        );
        ExitCode::from(2)
    }
}

/// Reads the command line.
pub(crate) fn read() -> Result<Command, Stop> {
    let options = Options::try_parse().map_err(Stop)?;
    Ok(if options.worker {
        Command::Worker
    } else {
        Command::Parent(options)
    })
}

impl Options {
    /// Refuses a directory that cannot be read, and files that could not be written at the end.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if let Err(error) = fs::read_dir(&self.dir) {
            return Err(Refusal(format!(
                "cannot read directory {}: {error}",
                self.dir.display()
            )));
        }
        for file in std::iter::once(&self.out).chain(&self.expect) {
            drop(ProfileFile::create(file).map_err(|error| Refusal(error.to_string()))?);
        }
        Ok(())
    }
}
