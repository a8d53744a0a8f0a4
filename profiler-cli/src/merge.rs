//! `profiler merge [NAME=]FILE... [-o OUT]`: several recordings as one profile on one time line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use profiler_merge::{HostShift, MergeInput, Merged, MergedHost, merge_with};

use crate::console::{say, tell};
use crate::output_name::OutputName;
use crate::plain::plain;
use crate::progress::ProgressLine;
use crate::signals::end_without_leftovers;

/// Merges recordings of several sessions or machines into one profile on one time line
///
/// Recordings of one boot of a machine are aligned by the clock of that boot, all others by their
/// wall clocks. The command and the profile state the uncertainty of each host.
/// A process is shown as NAME (HOST). All data of the recordings is kept. The command reads each
/// recording twice, and a recording need not fit into memory. Merged profiles can be merged again.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The recordings; NAME is the name of the host, instead of the one that the recording has
    #[arg(required = true, value_name = "[NAME=]FILE")]
    files: Vec<OsString>,
    /// The profile to write; compressed if the name ends in .gz [default: merged.json.gz, or
    /// merged-2.json.gz and so on if that exists]
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Moves a host by this number of milliseconds; a negative number moves it to an earlier time
    #[arg(long, value_name = "NAME=MS", allow_hyphen_values = true)]
    shift: Vec<ShiftArgument>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// A shift of one host.
#[derive(Clone, Debug)]
struct ShiftArgument(HostShift);

/// The largest shift: 30 years.
const MAX_MS: f64 = 1e12;

impl FromStr for ShiftArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected NAME=MS, such as web-1=-12.5".to_owned();
        let (host, ms) = text.rsplit_once('=').ok_or_else(wrong)?;
        let ms: f64 = ms.parse().map_err(|_| wrong())?;
        if host.is_empty() || !ms.is_finite() || ms.abs() > MAX_MS {
            return Err(wrong());
        }
        let host = host.to_owned();
        let ns = (ms * 1e6).round() as i64;
        Ok(Self(HostShift { host, ns }))
    }
}

/// A file, or NAME=FILE. A file that exists with this name is a file.
fn input(text: &OsStr) -> MergeInput {
    match split(text).filter(|_| !Path::new(text).exists()) {
        Some((name, file)) => MergeInput {
            path: PathBuf::from(file),
            name: Some(name.to_owned()),
        },
        None => MergeInput::new(text),
    }
}

/// The name and the file of NAME=FILE. The file may have any name, as for the other commands.
fn split(text: &OsStr) -> Option<(&str, &OsStr)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let name = str::from_utf8(bytes.get(..at)?).ok()?;
    let file = OsStr::from_bytes(bytes.get(at + 1..)?);
    (!name.is_empty() && !file.is_empty()).then_some((name, file))
}

pub(crate) fn run(options: &MergeArgs) -> Result<()> {
    let inputs: Vec<MergeInput> = options.files.iter().map(|file| input(file)).collect();
    let shifts = options.shift.iter().map(|shift| shift.0.clone());
    let shifts: Vec<HostShift> = shifts.collect();
    let line = ProgressLine::new();
    end_without_leftovers(&line)?;
    let shown = match inputs.as_slice() {
        [only] => only.path.clone(),
        several => PathBuf::from(format!("{} profiles", several.len())),
    };
    let output = OutputName::of_profile(options.output.as_deref(), "merged");
    let listener = line.listener(&shown);
    let merged = output.write(|path| merge_with(&inputs, &shifts, path, &listener));
    line.clear();
    let (path, mut merged) = merged?;
    merged.path = path;
    if options.json {
        say(&serde_json::to_string_pretty(&merged)?);
        return Ok(());
    }
    for warning in &merged.warnings {
        tell(&format!("profiler: {}", plain(warning)));
    }
    print(&merged);
    Ok(())
}

fn print(merged: &Merged) {
    lines(&merged.hosts).iter().for_each(|line| say(line));
    let counts = merged.counts;
    say(&format!(
        "\n{} threads, {} samples, {} markers",
        counts.threads, counts.samples, counts.markers
    ));
    let path = merged.path.display();
    say(&format!("wrote {path} ({} bytes)", merged.bytes));
}

/// The table of hosts.
fn lines(hosts: &[MergedHost]) -> Vec<String> {
    let rows = hosts.iter().map(|host| {
        let begins = format!("{:.3}", host.begins_ms);
        let moved = format!("{:+.3}", host.shifted_ms);
        let moved = if host.shifted_ms == 0.0 {
            "-".to_owned()
        } else {
            moved
        };
        (
            plain(&host.name),
            begins,
            moved,
            host.uncertainty.to_string(),
        )
    });
    let rows: Vec<_> = rows.collect();
    let names = rows.iter().map(|(name, ..)| name.chars().count());
    let width = names.max().unwrap_or(0).max("host".len());
    let head = format!(
        "{:<width$}  {:>14}  {:>12}  uncertainty",
        "host", "begins ms", "shift ms"
    );
    let line = |(name, begins, moved, uncertainty): &(String, String, String, String)| {
        format!(
            "{name:<width$}  {begins:>14}  {moved:>12}  {}",
            plain(uncertainty)
        )
    };
    std::iter::once(head).chain(rows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_have_a_name_before_it() {
        let input = |text: &str| input(OsStr::new(text));
        let named = input("web=profiles/a=b.json");
        assert_eq!(named.name.as_deref(), Some("web"));
        assert_eq!(named.path, Path::new("profiles/a=b.json"));
        for file in ["a.json", "=a.json", "a="] {
            assert_eq!(input(file), MergeInput::new(file));
        }
        let directory = tempfile::tempdir().unwrap();
        let existing = directory.path().join("a=b.json");
        std::fs::write(&existing, "").unwrap();
        let text = existing.to_str().unwrap();
        assert_eq!(input(text), MergeInput::new(text));
    }

    #[test]
    fn a_path_need_not_be_utf_8() {
        let file = OsStr::from_bytes(b"web-\xff.json");
        assert_eq!(input(file), MergeInput::new(file));
        let named = input(OsStr::from_bytes(b"web=\xff.json"));
        assert_eq!(named.name.as_deref(), Some("web"));
        assert_eq!(named.path.as_os_str().as_bytes(), b"\xff.json");
        let file = OsStr::from_bytes(b"\xff=b.json");
        assert_eq!(input(file), MergeInput::new(file));
    }

    #[test]
    fn a_move_has_a_host_and_milliseconds() {
        let shift: ShiftArgument = "a=b=-12.5".parse().unwrap();
        assert_eq!((shift.0.host.as_str(), shift.0.ns), ("a=b", -12_500_000));
        for wrong in ["a", "=1", "a=", "a=x", "a=inf", "a=1e13"] {
            assert!(wrong.parse::<ShiftArgument>().is_err(), "{wrong}");
        }
    }
}
