//! The `profiler` command: what can be done with profiles and pools without a session.
//!
//! One module per subcommand. Invariants: an error is one line on standard error and exit code 2;
//! nothing is changed but the file that was asked for.

mod info;
mod profile;
mod recover;
mod report;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// Recovers and describes recordings of the multi-process profiler.
#[derive(Debug, Parser)]
#[command(name = "profiler", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Recover(recover::Options),
    Info(info::Options),
}

fn main() -> ExitCode {
    let ended = match Options::try_parse() {
        Ok(Options { command: Command::Recover(options) }) => recover::run(&options),
        Ok(Options { command: Command::Info(options) }) => info::run(&options),
        Err(stop) => return explain(&stop),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&sentence(&error)),
    }
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
