//! `profiler capture PID|ADDRESS`: a profile of a program that is being recorded.
//!
//! A number is that of a `record` command or of a process below it, which is asked at its socket
//! ([`crate::capture_socket`]). An address is that of a live page. Invariants: recording goes on;
//! the file has its name only when it is complete; a file that the user did not name is never
//! overwritten.

mod from_page;
mod from_record;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use profiler_files::output::ProfileFile;

use crate::capture_socket::Wanted;
use crate::console::say;
use crate::live_page::{LivePage, address};
use crate::output_name::OutputName;
use crate::plain::plain;
use crate::progress::ProgressLine;
use crate::signals::end_without_leftovers;
use crate::units;

/// The time that a profile shows if the user chooses none.
const LAST: Duration = Duration::from_secs(10);

/// Writes a profile of a program while it is recorded
///
/// TARGET is the process number of a running `profiler record`, or of a process below it; or the
/// address of a live page, as `profiler record --live` prints it and `Session::serve_live` returns
/// it. The profile has the last 10 seconds. Recording goes on. By number, only commands of the same
/// user can be reached, on Linux; nothing is sent to the program.
///
/// The address of a live page is a secret, and every user of the machine can read the arguments of
/// running commands. So pass it in the environment variable PROFILER_LIVE_URL, or as a line on
/// standard input with `-`.
#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// A process number, or the address of a live page; `-` reads it from standard input [default:
    /// the value of PROFILER_LIVE_URL]
    target: Option<String>,
    /// The profile to write; compressed if the name ends in .gz [default: capture.json.gz, or
    /// capture-2.json.gz and so on if that exists]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How much time the profile shows, such as 30s or 5m [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    last: Option<Duration>,
    /// Writes everything that the recording keeps
    #[arg(long, conflicts_with = "last")]
    all: bool,
}

/// What is asked for a profile.
enum Target {
    /// The `record` command of the process with this number.
    Process(u32),
    /// A live page.
    Page(LivePage),
}

impl Target {
    fn parse(text: &str) -> Result<Self> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            return match text.parse() {
                Ok(number) => Ok(Self::Process(number)),
                Err(_) => bail!("{text} is no process number"),
            };
        }
        LivePage::at(text).map(Self::Page)
    }

    /// Writes the profile to `file`.
    fn write(&self, wanted: Wanted, file: &mut ProfileFile) -> Result<()> {
        match self {
            Self::Process(pid) => from_record::write(*pid, wanted, file),
            Self::Page(page) => from_page::write(page, wanted, file),
        }
    }
}

pub(crate) fn run(options: &CaptureArgs) -> Result<()> {
    let target = Target::parse(&address(options.target.as_deref())?)?;
    let line = ProgressLine::new();
    end_without_leftovers(&line)?;
    line.show("waiting for the profile");
    let output = OutputName::of_profile(options.output.as_deref(), "capture");
    let written = output.write(|path| write(&target, options.wanted(), path));
    line.clear();
    let (path, bytes) = written?;
    let path = plain(&path.display().to_string());
    say(&format!("{path}: {bytes} bytes"));
    Ok(())
}

fn write(target: &Target, wanted: Wanted, path: &Path) -> Result<u64> {
    let mut file = ProfileFile::create_of_gzip(path)?;
    target.write(wanted, &mut file)?;
    Ok(file.commit()?)
}

impl CaptureArgs {
    fn wanted(&self) -> Wanted {
        match self.all {
            true => Wanted::All,
            false => Wanted::Last(self.last.unwrap_or(LAST)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_number_or_an_address() {
        assert!(matches!(Target::parse("4711"), Ok(Target::Process(4711))));
        let page = Target::parse("http://127.0.0.1:1/ab/");
        assert!(matches!(page, Ok(Target::Page(_))));
        for wrong in ["", "-1", "99999999999", "worker", "http://127.0.0.1:1/"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
