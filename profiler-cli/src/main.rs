//! The `profiler` command: records programs, and shows, converts, merges and recovers their
//! profiles.
//!
//! One module per subcommand. Invariants: an error is one line on standard error and exit code 2;
//! the command writes only the file that it is asked to write.

mod agent;
mod at_start;
mod capture;
mod capture_socket;
mod columns;
mod console;
mod crash_row;
mod diff;
mod export;
mod fleet;
mod import;
mod info;
mod live_page;
mod merge;
mod output_name;
mod plain;
mod preload;
mod process_row;
mod process_table;
mod process_tree;
mod profile;
mod progress;
mod push;
mod record;
mod recover;
mod redirect;
mod remarks;
mod report;
mod signals;
mod top;
mod units;
mod view;
mod waits;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

/// Records programs, and shows, converts, merges and recovers their profiles
#[derive(Debug, Parser)]
#[command(name = "profiler", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(Box<record::RecordArgs>),
    Capture(capture::CaptureArgs),
    View(view::ViewArgs),
    Info(info::InfoArgs),
    Waits(waits::WaitsArgs),
    Diff(diff::DiffArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Push(push::PushArgs),
    Merge(merge::MergeArgs),
    Fleet(fleet::FleetArgs),
    Recover(recover::RecoverArgs),
    Top(top::TopArgs),
    Agent(agent::AgentArgs),
}

fn main() -> ExitCode {
    let ended = match CommandLine::try_parse() {
        Ok(line) => run(&line.command),
        Err(stop) => Ok(explain(&stop)),
    };
    let code = ended.unwrap_or_else(|error| fail(&console::sentence(&error)));
    match console::output_error() {
        Some(error) => fail(&format!("cannot write to standard output: {error}")),
        None => code,
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Record(options) => record::run(options),
        Command::Capture(options) => capture::run(options).map(done),
        Command::View(options) => view::run(options).map(done),
        Command::Info(options) => info::run(options).map(done),
        Command::Waits(options) => waits::run(options).map(done),
        Command::Diff(options) => diff::run(options),
        Command::Export(options) => export::run(options).map(done),
        Command::Import(options) => import::run(options).map(done),
        Command::Push(options) => {
            push::run(options).map(|is_complete| ExitCode::from(u8::from(!is_complete)))
        }
        Command::Merge(options) => merge::run(options).map(done),
        Command::Fleet(options) => fleet::run(options).map(done),
        Command::Recover(options) => recover::run(options).map(done),
        Command::Top(options) => top::run(options).map(done),
        Command::Agent(options) => agent::run(options).map(done),
    }
}

/// Prints the help if it was requested, otherwise one line with the error.
fn explain(stop: &clap::Error) -> ExitCode {
    let is_answer = matches!(
        stop.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if is_answer {
        console::say(stop.to_string().trim_end());
        return ExitCode::SUCCESS;
    }
    if stop.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return fail("no subcommand; `profiler --help` lists them");
    }
    fail(&one_line(&stop.to_string()))
}

/// The error of a wrong argument, which may continue in a list. Omits the usage and the hints after
/// it.
fn one_line(text: &str) -> String {
    let is_hint = |line: &str| {
        ["Usage:", "For more information", "tip:"]
            .iter()
            .any(|hint| line.starts_with(hint))
    };
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !is_hint(line));
    let line = lines
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

fn fail(why: &str) -> ExitCode {
    console::tell(&format!(
        "profiler: {}",
        plain::plain(&why.replace('\n', " "))
    ));
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_wrong_argument_is_one_line_without_hints() {
        let text = "error: unexpected argument '-1' found\n\n  tip: to pass '-1' as a value, use '-- -1'\n\nUsage: profiler";
        assert_eq!(one_line(text), "unexpected argument '-1' found");
        let text = "error: invalid value 'x' for '--to <FORMAT>'\n  [possible values: a, b]\n\nFor more information, try '--help'.";
        assert_eq!(
            one_line(text),
            "invalid value 'x' for '--to <FORMAT>' [possible values: a, b]"
        );
    }
}
