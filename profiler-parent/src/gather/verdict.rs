//! The verdict of a profile on each process: how its data came into the profile, or why it did not.
//!
//! Decided by the capture, written into `processes` and `profileGatheringLog`, shown to the user.
//! Invariant: every process of the session has a [`Verdict`].

use std::fmt;
use std::process::ExitStatus;

use serde::Serialize;

use super::crash_text::CrashText;
use super::panic_text::PanicText;

/// How a process came into the profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// From the process itself, or from the memory of a process that is running or has exited.
    Complete,
    /// From its memory, which the parent read completely.
    Recovered {
        /// Why the process did not deliver it.
        why: Why,
    },
    /// From its memory, which could be read only in part.
    Partial {
        /// Why data is missing.
        why: Why,
    },
    /// Not in the profile.
    Missing {
        /// The reason.
        why: Why,
    },
}

/// What kept a process from delivering its part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Why {
    /// A signal about an error of its own ended it: an invalid access, `abort`.
    Crashed {
        /// The signal, such as `signal 11 (SIGSEGV)`.
        status: String,
    },
    /// Another signal ended it: Ctrl-C, a closed terminal or pipe, `kill`, a limit.
    Stopped {
        /// The signal, such as `signal 2 (SIGINT)`.
        status: String,
    },
    /// It exited with an exit code.
    Exited {
        /// Its exit code.
        status: i32,
    },
    /// It exited in order, but its exit code is not known: it was not a child of this process, and
    /// the system did not tell.
    ExitedUnseen,
    /// It executes another program (`exec`), whose data is that of another process.
    Executed,
    /// It goes on and records itself: it was observed until it called the profiler. What it records
    /// since then is that of another process.
    RecordsItself,
    /// It ended in an unknown way.
    Gone,
    /// It was alive, but its part made no progress.
    Frozen,
    /// Its part made progress, but was not finished in time.
    Late,
    /// It answered with an error, or with invalid data.
    Refused {
        /// The error.
        message: String,
    },
    /// It is still running; its memory was read without asking it.
    Running,
    /// It was started but never connected to the parent: usually, it does not call
    /// `profiler_child::init()`.
    NeverConnected,
    /// All of its data was older than what the memory limit or the duration window keeps.
    Expired,
    /// All that it recorded was dropped at once, for example because there was no room for it. The
    /// counts of the process have the reasons.
    AllDropped,
    /// It exited without having recorded anything.
    RecordedNothing,
    /// It runs without profiling.
    Unprofiled {
        /// The reason.
        message: String,
    },
    /// Another session records it: a process below this session has started a session of its own.
    RecordedElsewhere {
        /// The number of the process that has the other session.
        session: u32,
    },
    /// It has died of a panic, or right after one. The documentation of `profiler-panic` has the
    /// rule.
    Panicked {
        /// How the process ended.
        ended: Box<Self>,
        /// Whether the panic is known to have ended it. Otherwise, its thread has recorded nothing
        /// after the panic.
        is_cause: bool,
        /// The panic.
        panic: PanicText,
    },
    /// A signal about an error of its own ended it, and `profiler-crash` has recorded the crash.
    CrashRecorded {
        /// How the process ended.
        ended: Box<Self>,
        /// The latest crash.
        crash: CrashText,
    },
    /// Its memory cannot be read.
    Unreadable {
        /// The error.
        message: String,
    },
}

impl Verdict {
    /// Whether the profile contains data of the process.
    pub const fn is_present(&self) -> bool {
        !matches!(self, Self::Missing { .. })
    }

    /// The reason for missing or recovered data, if any.
    pub const fn why(&self) -> Option<&Why> {
        match self {
            Self::Complete => None,
            Self::Recovered { why } | Self::Partial { why } | Self::Missing { why } => Some(why),
        }
    }
}

impl Why {
    /// Whether the process exited with an exit code, not by a signal, or executes another program,
    /// so that its memory holds everything that it recorded.
    pub const fn is_orderly(&self) -> bool {
        matches!(
            self,
            Self::Exited { .. } | Self::ExitedUnseen | Self::Executed | Self::RecordsItself
        )
    }

    /// Whether the process has aborted.
    pub(super) fn is_abort(&self) -> bool {
        matches!(self, Self::Crashed { status } if status.starts_with("signal 6 "))
    }

    /// The reason for a process that has ended with `status`; `None` if other code took the status.
    pub fn ended(status: Option<ExitStatus>) -> Self {
        let Some(ended) = status else {
            return Self::Gone;
        };
        match (ended.code(), signal_of(ended)) {
            (Some(status), _) => Self::Exited { status },
            (None, Some(status)) if is_crash(ended) => Self::Crashed { status },
            (None, Some(status)) => Self::Stopped { status },
            (None, None) => Self::Gone,
        }
    }
}

#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt;
    let number = status.signal()?;
    let dumped = if status.core_dumped() {
        ", core dumped"
    } else {
        ""
    };
    Some(match signal_name(number) {
        Some(name) => format!("signal {number} ({name}{dumped})"),
        None => format!("signal {number}"),
    })
}

/// Whether the signal is one that the system sends for an error of the process itself.
#[cfg(unix)]
fn is_crash(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    matches!(
        status.signal(),
        Some(
            libc::SIGILL
                | libc::SIGTRAP
                | libc::SIGABRT
                | libc::SIGBUS
                | libc::SIGFPE
                | libc::SIGSEGV
                | libc::SIGSYS
        )
    )
}

#[cfg(not(unix))]
fn is_crash(_: ExitStatus) -> bool {
    false
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<String> {
    None
}

#[cfg(unix)]
const fn signal_name(number: i32) -> Option<&'static str> {
    Some(match number {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGVTALRM => "SIGVTALRM",
        libc::SIGPROF => "SIGPROF",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("complete"),
            Self::Recovered { why } => write!(f, "recovered: {why}"),
            Self::Partial { why } => write!(f, "partial: {why}"),
            Self::Missing { why } => write!(f, "missing: {why}"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed { status } => write!(f, "crashed with {status}"),
            Self::Stopped { status } => write!(f, "ended by {status}"),
            Self::Exited { status } => write!(f, "exited with code {status}"),
            Self::ExitedUnseen => f.write_str("exited, with unknown code"),
            Self::Executed => f.write_str("executes another program"),
            Self::RecordsItself => f.write_str("records itself"),
            Self::Gone => f.write_str("ended, with unknown status"),
            Self::Frozen => f.write_str("frozen: made no progress"),
            Self::Late => f.write_str("not finished at the deadline"),
            Self::Refused { message } => write!(f, "refused: {message}"),
            Self::Running => f.write_str("still running"),
            Self::NeverConnected => f.write_str("never connected"),
            Self::RecordedNothing => f.write_str("it recorded nothing"),
            Self::AllDropped => f.write_str("all that it recorded was dropped"),
            Self::Expired => f.write_str("all its data was older than what the session keeps"),
            Self::Unprofiled { message } => write!(f, "not profiled: {message}"),
            Self::RecordedElsewhere { session } => {
                write!(f, "recorded by another session, of process {session}")
            }
            Self::Panicked {
                ended,
                is_cause: true,
                panic,
            } => write!(f, "{ended}: {panic}"),
            Self::Panicked { ended, panic, .. } => match **ended {
                Self::Gone | Self::ExitedUnseen => write!(f, "{ended}, after {panic}"),
                _ => write!(f, "{ended} after {panic}"),
            },
            Self::CrashRecorded { ended, crash } => match **ended {
                Self::Gone => write!(f, "{ended}, after {crash}"),
                _ => write!(f, "{ended}: {crash}"),
            },
            Self::Unreadable { message } => write!(f, "memory unreadable: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn a_verdict_reads_as_a_sentence() {
        let crashed = Why::Crashed {
            status: "signal 11 (SIGSEGV)".into(),
        };
        let texts = [
            (Verdict::Complete, "complete"),
            (
                Verdict::Recovered { why: crashed },
                "recovered: crashed with signal 11 (SIGSEGV)",
            ),
            (
                Verdict::Partial { why: Why::Frozen },
                "partial: frozen: made no progress",
            ),
            (
                Verdict::Missing {
                    why: Why::NeverConnected,
                },
                "missing: never connected",
            ),
            (
                Verdict::Missing {
                    why: Why::RecordedElsewhere { session: 7 },
                },
                "missing: recorded by another session, of process 7",
            ),
        ];
        for (verdict, text) in texts {
            assert_eq!(verdict.to_string(), text);
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_an_error_of_the_process_itself_is_a_crash() {
        use std::os::unix::process::ExitStatusExt;
        let of = |raw| Why::ended(Some(ExitStatus::from_raw(raw))).to_string();
        assert_eq!(of(libc::SIGINT), "ended by signal 2 (SIGINT)");
        assert_eq!(of(libc::SIGTERM), "ended by signal 15 (SIGTERM)");
        assert_eq!(of(libc::SIGSEGV), "crashed with signal 11 (SIGSEGV)");
        assert_eq!(of(libc::SIGKILL), "ended by signal 9 (SIGKILL)");
        assert_eq!(of(libc::SIGPIPE), "ended by signal 13 (SIGPIPE)");
        assert_eq!(of(libc::SIGUSR1), "ended by signal 10 (SIGUSR1)");
        assert_eq!(of(3 << 8), "exited with code 3");
    }

    #[test]
    fn a_verdict_has_a_json_form() {
        assert_eq!(
            to_value(Verdict::Complete).unwrap(),
            json!({ "verdict": "complete" })
        );
        let why = Why::Refused {
            message: "no \"disk\"".into(),
        };
        assert_eq!(
            to_value(Verdict::Recovered { why }).unwrap(),
            json!({ "verdict": "recovered", "why": { "reason": "refused", "message": "no \"disk\"" } })
        );
        assert_eq!(
            to_value(Verdict::Missing {
                why: Why::NeverConnected
            })
            .unwrap(),
            json!({ "verdict": "missing", "why": { "reason": "never-connected" } })
        );
    }

    #[test]
    fn the_json_form_of_a_panic_has_its_parts() {
        let panic = PanicText {
            thread: "main".into(),
            location: "src/x.rs:3:5".into(),
            message: "no".into(),
        };
        let why = Why::Panicked {
            ended: Box::new(Why::Exited { status: 101 }),
            is_cause: true,
            panic,
        };
        let form = json!({
            "reason": "panicked",
            "ended": { "reason": "exited", "status": 101 },
            "is_cause": true,
            "panic": { "thread": "main", "location": "src/x.rs:3:5", "message": "no" },
        });
        assert_eq!(to_value(&why).unwrap(), form);
        assert!(!why.is_orderly());
    }

    #[test]
    fn only_a_missing_process_is_absent() {
        assert!(Verdict::Complete.is_present() && Verdict::Complete.why().is_none());
        assert!(Verdict::Partial { why: Why::Late }.is_present());
        assert!(!Verdict::Missing { why: Why::Gone }.is_present());
    }

    #[cfg(unix)]
    #[test]
    fn exits_crashes_and_unknown_ends_are_distinguished() {
        use std::os::unix::process::ExitStatusExt;
        let ended = |raw| Why::ended(Some(ExitStatus::from_raw(raw)));
        assert_eq!(ended(3 << 8), Why::Exited { status: 3 });
        assert_eq!(
            ended(9),
            Why::Stopped {
                status: "signal 9 (SIGKILL)".into()
            }
        );
        assert_eq!(
            ended(6 | 0x80),
            Why::Crashed {
                status: "signal 6 (SIGABRT, core dumped)".into()
            }
        );
        assert_eq!(
            ended(64),
            Why::Stopped {
                status: "signal 64".into()
            }
        );
        assert_eq!(Why::ended(None), Why::Gone);
    }
}
