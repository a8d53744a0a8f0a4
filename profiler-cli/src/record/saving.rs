//! Writes the profile at the end of a recording, in another directory if the one that the user
//! wants has no room or is gone.
//!
//! Invariant: a recording is lost only if no directory takes it, and then each error is told.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use profiler_parent::{CaptureReport, Session};

use super::RecordArgs;
use crate::output_name::OutputName;
use crate::plain::plain;
use crate::progress::ProgressLine;

/// Directories that nearly every system has.
const DIRECTORIES: [&str; 2] = ["/var/tmp", "/tmp"];
/// The variables that name directories of the user.
const VARIABLES: [&str; 2] = ["HOME", "XDG_RUNTIME_DIR"];
/// In memory, which a full disk does not concern.
const MEMORY: &str = "/dev/shm";

/// A written profile.
pub(super) struct Saved {
    pub(super) report: CaptureReport,
    /// The message about its place, if it is not where the user wants it.
    pub(super) is_elsewhere: Option<String>,
}

/// Writes the profile.
///
/// # Errors
/// That of the file that the user wants, with those of the other places.
pub(super) fn save(options: &RecordArgs, session: &Session, output: &OutputName) -> Result<Saved> {
    let line = ProgressLine::new();
    let write = |output: &OutputName| {
        let written = output.write(|path| options.capture(session, path, &line));
        written.map(at)
    };
    let target = output.now();
    let error = match write(output) {
        Ok(report) => {
            return Ok(Saved {
                report,
                is_elsewhere: None,
            });
        }
        Err(error) => error,
    };
    let mut errors = vec![crate::console::sentence(&error)];
    for directory in other_directories() {
        match write(&OutputName::kept_in(&directory, &target)) {
            Ok(report) => {
                let message = message(&errors, &report.path, &target);
                return Ok(Saved {
                    report,
                    is_elsewhere: Some(message),
                });
            }
            Err(error) => errors.push(crate::console::sentence(&error)),
        }
    }
    Err(anyhow!("{}", errors.join("; ")))
}

/// The report of a profile that has got its name.
fn at((path, mut report): (PathBuf, CaptureReport)) -> CaptureReport {
    report.path = path;
    report
}

fn other_directories() -> impl Iterator<Item = PathBuf> {
    let all = std::env::var_os("TMPDIR")
        .into_iter()
        .chain(DIRECTORIES.map(OsString::from))
        .chain(VARIABLES.into_iter().filter_map(std::env::var_os))
        .chain([OsString::from(MEMORY)]);
    all.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// What is wrong, where the profile is, and how it gets to its place.
fn message(errors: &[String], path: &Path, target: &Path) -> String {
    let error = errors.first().map_or("", String::as_str);
    // The present directory may have been removed.
    let target = std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
    let (kept, wanted) = (quoted(path), quoted(&target));
    format!(
        "{}. The profile is complete, in {kept}. When {} can be written, run `mv {kept} {wanted}`",
        plain(error),
        target.parent().map_or(wanted.clone(), quoted),
    )
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,@%".contains(byte);
    let text = path.display().to_string();
    match path.as_os_str().as_bytes().iter().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        for text in ["/a/b.json.gz", "/a b", "it's $HOME", "*"] {
            let word = quoted(Path::new(text));
            let echo = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {word}")])
                .output();
            assert_eq!(String::from_utf8(echo.unwrap().stdout).unwrap(), text);
        }
    }
}
