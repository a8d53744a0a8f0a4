//! The `profiler` command: what can be done with programs, profiles and pools from a terminal.
//!
//! One module per subcommand. Invariants: an error is one line on standard error and exit code 2;
//! nothing is changed but the file that was asked for.

mod export;
mod import;
mod info;
mod profile;
mod record;
mod recover;
mod report;
mod signals;
mod top;
mod view;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// Records programs, shows and describes their profiles, and recovers them when everything has died.
#[derive(Debug, Parser)]
#[command(name = "profiler", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::Options),
    View(view::Options),
    Info(info::Options),
    Export(export::Options),
    Import(import::Options),
    Recover(recover::Options),
    Top(top::Options),
}

fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let ended = match Options::try_parse() {
        Ok(Options { command: Command::Record(options) }) => record::run(&options),
        Ok(Options { command: Command::View(options) }) => view::run(&options).map(done),
        Ok(Options { command: Command::Info(options) }) => info::run(&options).map(done),
        Ok(Options { command: Command::Export(options) }) => export::run(&options).map(done),
        Ok(Options { command: Command::Import(options) }) => import::run(&options).map(done),
        Ok(Options { command: Command::Recover(options) }) => recover::run(&options).map(done),
        Ok(Options { command: Command::Top(options) }) => top::run(&options).map(done),
        Err(stop) => return explain(&stop),
    };
    ended.unwrap_or_else(|error| fail(&sentence(&error)))
}

/// Help if it was asked for, else one line that says what is wrong.
fn explain(stop: &clap::Error) -> ExitCode {
    let is_answer = matches!(stop.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_answer {
        report::say(stop.to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    if stop.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return fail("what to do? `profiler --help` says what there is");
    }
    let text = stop.to_string();
    // What is wrong may go on below, as a list; the usage after it does not belong to one line.
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let line = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    fail(line.strip_prefix("error: ").unwrap_or(&line))
}

fn fail(why: &str) -> ExitCode {
    eprintln!("profiler: {}", why.replace('\n', " "));
    ExitCode::from(2)
}

/// An error with its causes, each said once: most of ours say their cause themselves.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |sentence, cause| {
        if sentence.ends_with(&cause) { sentence } else { format!("{sentence}: {cause}") }
    })
}
