//! The options of a session that a program starts because its environment asks for it.
//!
//! `MULTIPROCESS_PROFILER=out.json.gz,limit=64M,filter=worker,at=exit`: the file, then options in
//! any order. Users write the variable; `profiler-parent` reads it (`Session::from_env`).
//! Invariants: a value that is not understood as a whole is a typed error that names the wrong part
//! and what is accepted there, never a guess; the variable is ignored in a process with more rights
//! than its parent process.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::session::Features;
use profiler_core::thread::ThreadFilter;

use super::units;
use crate::sys;

/// The name of the environment variable with which a program starts a session.
pub const STARTUP_VARIABLE: &str = "MULTIPROCESS_PROFILER";

/// Longest accepted value.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Stands for the number of the process in the name of the file.
const PROCESS_NUMBER: &[u8] = b"%p";

/// The options, for errors.
const OPTIONS: &str = "limit=SIZE, duration=SECONDS, interval=MILLISECONDS, feature=NAME, \
                       filter=THREAD and at=exit|signal|SECONDSs";

/// When the profile is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteAt {
    /// At the end of the session.
    #[default]
    Exit,
    /// At each `SIGUSR2`. A later profile replaces the one before, and recording goes on.
    Signal,
    /// Once, when the session has run for this time, or at its end if that is earlier. Recording
    /// then ends.
    After(Duration),
}

/// What the variable asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupOptions {
    file: PathBuf,
    /// The memory limit of the session.
    pub limit: Option<ByteLimit>,
    /// How much of the past is kept.
    pub duration: Option<Duration>,
    /// Time between two samples of a thread.
    pub interval: Option<Duration>,
    /// The features to record in addition to the usual ones.
    pub features: Features,
    /// The threads to record; empty for all.
    pub filters: Vec<String>,
    /// When the profile is written.
    pub write_at: WriteAt,
}

/// Why the variable cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartupError {
    /// The first part is not the name of a file.
    #[error(
        "{STARTUP_VARIABLE} begins with {found:?}: expected the file of the profile, such as \
         out.json.gz, and then options"
    )]
    NoFile {
        /// The first part.
        found: String,
    },
    /// A part is not an option.
    #[error("{STARTUP_VARIABLE} has the unknown part {part:?}: the options are {OPTIONS}")]
    UnknownOption {
        /// The part.
        part: String,
    },
    /// The value of an option is not understood.
    #[error("{STARTUP_VARIABLE} has {option}={value:?}: {expected}")]
    BadValue {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// An option that can be given once is there twice.
    #[error("{STARTUP_VARIABLE} has {option} more than once")]
    Twice {
        /// The option.
        option: &'static str,
    },
    /// The value has more than 16 KiB.
    #[error("{STARTUP_VARIABLE} is longer than {MAX_VALUE_BYTES} bytes")]
    TooLong,
}

impl StartupOptions {
    /// Parses the value of the variable.
    ///
    /// # Errors
    /// [`StartupError`].
    pub fn parse(value: &OsStr) -> Result<Self, StartupError> {
        let value = value.as_encoded_bytes();
        if value.len() > MAX_VALUE_BYTES {
            return Err(StartupError::TooLong);
        }
        let mut parts = value.split(|byte| *byte == b',');
        let file = parts.next().unwrap_or_default();
        let mut given = Given {
            options: Self::of_file(parse_file(file)?),
            write_at: None,
        };
        parts.try_for_each(|part| given.add(part))?;
        Ok(Self {
            write_at: given.write_at.unwrap_or_default(),
            ..given.options
        })
    }

    /// The defaults, with this file.
    fn of_file(file: PathBuf) -> Self {
        Self {
            file,
            limit: None,
            duration: None,
            interval: None,
            features: Features::NONE,
            filters: Vec::new(),
            write_at: WriteAt::default(),
        }
    }

    /// The file of the profile, with the number of this process in the place of `%p`.
    pub fn file_of(&self, process: ProcessId) -> PathBuf {
        with_number(&self.file, process).unwrap_or_else(|| self.file.clone())
    }
}

/// The options that were read so far.
struct Given {
    options: StartupOptions,
    write_at: Option<WriteAt>,
}

impl Given {
    fn add(&mut self, part: &[u8]) -> Result<(), StartupError> {
        let text = std::str::from_utf8(part).map_err(|_| unknown(part))?;
        let (name, value) = text.split_once('=').ok_or_else(|| unknown(part))?;
        let (value, options) = (value.trim(), &mut self.options);
        match name.trim() {
            "limit" => {
                let limit = parsed("limit", value, units::size)?;
                once("limit", &mut options.limit, ByteLimit::new(limit))
            }
            "duration" => {
                let duration = parsed("duration", value, seconds)?;
                once("duration", &mut options.duration, duration)
            }
            "interval" => {
                let interval = parsed("interval", value, milliseconds)?;
                once("interval", &mut options.interval, interval)
            }
            "at" => once("at", &mut self.write_at, write_at(value)?),
            "feature" => {
                options.features = options.features.with(feature(value)?);
                Ok(())
            }
            "filter" => {
                options.filters.push(filter(value)?);
                Ok(())
            }
            _ => Err(unknown(part)),
        }
    }
}

/// Sets an option that can be given once.
fn once<T>(option: &'static str, place: &mut Option<T>, value: T) -> Result<(), StartupError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(StartupError::Twice { option }),
    }
}

fn unknown(part: &[u8]) -> StartupError {
    let part = String::from_utf8_lossy(part).into_owned();
    StartupError::UnknownOption { part }
}

fn parsed<T>(
    option: &'static str,
    value: &str,
    parse: impl FnOnce(&str) -> Result<T, &'static str>,
) -> Result<T, StartupError> {
    parse(value).map_err(|expected| bad_value(option, value, expected))
}

fn bad_value(option: &'static str, value: &str, expected: impl Into<String>) -> StartupError {
    StartupError::BadValue {
        option,
        value: value.to_owned(),
        expected: expected.into(),
    }
}

/// Seconds, with or without their unit.
fn seconds(text: &str) -> Result<Duration, &'static str> {
    units::seconds(text.strip_suffix('s').unwrap_or(text))
}

/// Milliseconds, with or without their unit.
fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    units::milliseconds(text.strip_suffix("ms").unwrap_or(text))
}

fn write_at(value: &str) -> Result<WriteAt, StartupError> {
    let expected = "expected exit, signal, or a time such as 10s";
    match value {
        "exit" => Ok(WriteAt::Exit),
        "signal" => Ok(WriteAt::Signal),
        time => match time.strip_suffix('s').map(units::seconds) {
            Some(Ok(time)) => Ok(WriteAt::After(time)),
            Some(Err(_)) | None => Err(bad_value("at", value, expected)),
        },
    }
}

fn feature(name: &str) -> Result<Features, StartupError> {
    Features::from_name(name).ok_or_else(|| {
        let all: Vec<_> = Features::all().flat_map(Features::names).collect();
        bad_value(
            "feature",
            name,
            format!("the features are {}", all.join(", ")),
        )
    })
}

fn filter(text: &str) -> Result<String, StartupError> {
    match ThreadFilter::why_nonsense(text) {
        None => Ok(text.to_owned()),
        Some(why) => Err(bad_value("filter", text, why)),
    }
}

/// The file. An option in its place is an error: the file was forgotten.
fn parse_file(bytes: &[u8]) -> Result<PathBuf, StartupError> {
    let no_file = || StartupError::NoFile {
        found: String::from_utf8_lossy(bytes).into_owned(),
    };
    let names = ["limit", "duration", "interval", "feature", "filter", "at"];
    let is_option = names.iter().any(|name| {
        let rest = bytes.strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.starts_with(b"="))
    });
    if bytes.is_empty() || bytes.contains(&0) || is_option {
        return Err(no_file());
    }
    sys::path_from_bytes(bytes.to_vec()).ok_or_else(no_file)
}

/// The path with the number in each place of [`PROCESS_NUMBER`].
fn with_number(path: &Path, process: ProcessId) -> Option<PathBuf> {
    let number = process.to_string();
    let mut rest = path.as_os_str().as_encoded_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((first, others)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(PROCESS_NUMBER) {
            bytes.extend_from_slice(number.as_bytes());
            rest = after;
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    sys::path_from_bytes(bytes)
}

/// The value of the variable; `None` if it is not set or empty, or if this process has more rights
/// than its parent process (`AT_SECURE`) and so must not obey its environment.
fn value() -> Option<OsString> {
    if sys::has_raised_rights() {
        return None;
    }
    std::env::var_os(STARTUP_VARIABLE).filter(|value| !value.is_empty())
}

/// Whether the environment asks for a session, perhaps with a value that is not understood.
pub fn asks_for_startup() -> bool {
    value().is_some()
}

/// Reads the variable, and leaves it in place. `None` if the environment asks for no session.
///
/// # Errors
/// [`StartupError`].
pub fn startup_options() -> Result<Option<StartupOptions>, StartupError> {
    value()
        .map(|value| StartupOptions::parse(&value))
        .transpose()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(value: &str) -> Result<StartupOptions, StartupError> {
        StartupOptions::parse(OsStr::new(value))
    }

    #[test]
    fn a_file_alone_has_the_defaults() {
        let options = parse("out.json.gz").unwrap();
        assert_eq!(options, StartupOptions::of_file("out.json.gz".into()));
        assert_eq!(options.write_at, WriteAt::Exit);
    }

    #[test]
    fn every_option_is_read() {
        let options = parse(
            "/tmp/a b=1.json,limit=64M,duration=30s,interval=2ms,feature=nativeallocations,\
             feature=nostacksampling,filter=main, filter=pid:7 ,at=2.5s",
        );
        let features = Features::NATIVE_ALLOCATIONS.with(Features::NO_SAMPLING);
        let expected = StartupOptions {
            limit: Some(ByteLimit::mib(64)),
            duration: Some(Duration::from_secs(30)),
            interval: Some(Duration::from_millis(2)),
            features,
            filters: vec!["main".to_owned(), "pid:7".to_owned()],
            write_at: WriteAt::After(Duration::from_millis(2500)),
            ..StartupOptions::of_file("/tmp/a b=1.json".into())
        };
        assert_eq!(options.unwrap(), expected);
        for (value, write_at) in [
            ("a,at=exit", WriteAt::Exit),
            ("a,at=signal", WriteAt::Signal),
        ] {
            assert_eq!(parse(value).unwrap().write_at, write_at);
        }
        let plain = parse("a,duration=30,interval=2").unwrap();
        assert_eq!(plain.duration, Some(Duration::from_secs(30)));
        assert_eq!(plain.interval, Some(Duration::from_millis(2)));
    }

    #[test]
    fn an_error_names_the_wrong_part_and_what_is_accepted() {
        for (value, part, accepted) in [
            ("limit=64M", "limit=64M", "out.json.gz"),
            ("at=10s,out.json", "at=10s", "out.json.gz"),
            (",limit=64M", "\"\"", "out.json.gz"),
            ("a,b", "\"b\"", "limit=SIZE"),
            ("a,", "\"\"", "limit=SIZE"),
            ("a,Limit=64M", "Limit=64M", "limit=SIZE"),
            ("a,limit=64X", "64X", "K, M, G or T"),
            ("a,limit=", "limit", "a number"),
            ("a,interval=0", "interval", "above 0"),
            ("a,interval=6000", "6000", "0.01 and 5000"),
            ("a,duration=x", "duration", "a number"),
            ("a,filter=", "filter", "empty"),
            ("a,filter=pid:x", "pid:x", "number of a process"),
            ("a,feature=everything", "everything", "stackwalk"),
            ("a,at=never", "never", "exit, signal"),
            ("a,at=10", "\"10\"", "10s"),
            ("a,at=0s", "0s", "10s"),
            ("a,at=exit,at=exit", "at", "more than once"),
            ("a,limit=1M,limit=1M", "limit", "more than once"),
        ] {
            let error = parse(value).expect_err(value).to_string();
            assert!(error.starts_with(STARTUP_VARIABLE), "{error}");
            assert!(error.contains(part) && error.contains(accepted), "{error}");
        }
        let long = "a".repeat(MAX_VALUE_BYTES + 1);
        assert_eq!(parse(&long), Err(StartupError::TooLong));
    }

    #[test]
    fn the_number_of_the_process_is_in_the_name_of_the_file() {
        let file = |value| parse(value).unwrap().file_of(ProcessId::new(42));
        assert_eq!(file("a-%p/%p%p.json"), Path::new("a-42/4242.json"));
        assert_eq!(file("100%.json"), Path::new("100%.json"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_may_have_a_name_that_is_no_text_but_options_are_text() {
        use std::os::unix::ffi::OsStrExt;
        let parse = |bytes| StartupOptions::parse(OsStr::from_bytes(bytes));
        let file = parse(b"\xff%p.json,at=signal").unwrap();
        let file = file.file_of(ProcessId::new(1));
        assert_eq!(file.as_os_str().as_bytes(), b"\xff1.json");
        let error = parse(b"a,filter=\xff").unwrap_err();
        assert!(matches!(error, StartupError::UnknownOption { .. }));
    }

    proptest! {
        #[test]
        fn no_value_makes_the_parser_panic(value in ".{0,100}", option in "[a-z]{2,8}=.{0,20}") {
            let _ = parse(&value);
            let _ = parse(&format!("a,{option},{value}"));
        }
    }
}
