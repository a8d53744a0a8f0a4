//! Decides whether a process has died of a panic, or of a crash that it has recorded.
//!
//! Read once from the pool of a dead process, and asked for each verdict on the process. Deciding
//! is pure. The rule:
//!
//! 1. A panic whose hook had not returned, if the process ended by SIGABRT or with another exit
//!    code than 0: the hook has ended the process.
//! 2. The latest panic of the main thread, if the exit code is 101.
//! 3. A panic that the process cannot survive, if the process ended by SIGABRT: the program is
//!    compiled to abort at a panic, or the unwinding met a function that it may not leave.
//! 4. A panic whose thread has recorded nothing since and has not ended, if the process ended by
//!    SIGABRT. It is not known to be the cause, so the verdict says *after*.
//!
//! If the end is not known, 1, 3 and 4 apply, and 1 says *after*, too. If only the exit code is not
//! known, 1 applies, and 4 to the main thread.
//!
//! Otherwise the verdict mentions no panic: a panic that was caught is not the end of a process.
//! Of several panics that qualify in the same way, the earliest one is named if the process cannot
//! have survived it, because the others follow from it; otherwise the latest.
//!
//! If a signal about an error of the process itself has ended it, and no panic is known to be the
//! cause, the verdict names the latest crash that the process has recorded and that agrees with
//! that signal: it has the same one, or is a fault in memory before an abort, as the standard
//! library reports an overflow of the stack. If the end is not known and no panic is named, the
//! verdict says *after* the latest crash.

use profiler_core::internal::reader::{ByteSource, PanicInfo, PoolReader, Snapshot};
use profiler_gecko::model::CrashInfo;

use super::crash_text::CrashText;
use super::panic_text::PanicText;
use super::verdict::Why;

/// The exit code of a Rust program whose main thread has panicked.
const MAIN_PANICKED: i32 = 101;

/// What the pool of a dead process says about its panics and its crashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct PanicEvidence {
    panics: Vec<Suspect>,
    /// The earliest first.
    crashes: Vec<CrashText>,
}

/// A panic that may have ended the process.
#[derive(Clone, Debug)]
struct Suspect {
    text: PanicText,
    is_main: bool,
    in_hook: bool,
    ends_process: bool,
    is_latest_of_its_thread: bool,
}

/// How a process has ended, as far as panics are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Code(i32),
    Abort,
    /// It has called `exit`; the code is not known.
    UnknownCode,
    Unknown,
}

impl End {
    fn of(why: &Why) -> Option<Self> {
        match why {
            Why::Exited { status: 0 } => None,
            Why::Exited { status } => Some(Self::Code(*status)),
            Why::Crashed { .. } if why.is_abort() => Some(Self::Abort),
            Why::ExitedUnseen => Some(Self::UnknownCode),
            Why::Gone => Some(Self::Unknown),
            _ => None,
        }
    }
}

impl PanicEvidence {
    /// Reads a pool. A pool that cannot be read gives no evidence. Costs a few pages and the
    /// directory, and a snapshot and a chunk for each panic and for a crash if there are any.
    pub(crate) fn read<S: ByteSource>(reader: &PoolReader<S>) -> Self {
        let crashes = CrashInfo::all(reader).unwrap_or_default();
        Self {
            panics: suspects(reader),
            crashes: crashes.iter().map(CrashText::new).collect(),
        }
    }

    /// The reason for the end of the process: `why`, or the panic or crash that has led to it.
    pub(crate) fn explain(&self, why: Why) -> Why {
        let found = End::of(&why).and_then(|end| self.find(end));
        let crash = self.crashes.iter().rev().find(|crash| match found {
            Some((_, is_cause)) => !is_cause && agrees(crash, &why),
            None => why == Why::Gone || agrees(crash, &why),
        });
        match (crash, found) {
            (Some(crash), _) => Why::CrashRecorded {
                ended: Box::new(why),
                crash: crash.clone(),
            },
            (None, Some((suspect, is_cause))) => Why::Panicked {
                ended: Box::new(why),
                is_cause,
                panic: suspect.text.clone(),
            },
            (None, None) => why,
        }
    }

    /// The panic that the rule names, and whether it is known to be the cause.
    fn find(&self, end: End) -> Option<(&Suspect, bool)> {
        let in_hook = self.panics.iter().find(|one| one.in_hook);
        if let Some(suspect) = in_hook {
            let is_failure = matches!(end, End::Code(_) | End::Abort);
            return Some((suspect, is_failure || suspect.ends_process));
        }
        let cause = match end {
            End::Code(MAIN_PANICKED) => self.latest(|one| one.is_main),
            End::Abort | End::Unknown => self.panics.iter().find(|one| one.ends_process),
            End::Code(_) | End::UnknownCode => None,
        };
        let before = || match end {
            End::Abort | End::Unknown => self.latest(|one| one.is_latest_of_its_thread),
            End::UnknownCode => self.latest(|one| one.is_main && one.is_latest_of_its_thread),
            End::Code(_) => None,
        };
        let cause = cause.map(|one| (one, true));
        cause.or_else(|| before().map(|one| (one, false)))
    }

    fn latest(&self, is_meant: impl Fn(&Suspect) -> bool) -> Option<&Suspect> {
        self.panics.iter().rev().find(|one| is_meant(one))
    }
}

/// Whether a process that was ended in this way has died of this crash.
fn agrees(crash: &CrashText, why: &Why) -> bool {
    let Why::Crashed { status } = why else {
        return false;
    };
    let mut words = status.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_fault = matches!(crash.signal.as_str(), "SIGSEGV" | "SIGBUS");
    words.any(|word| word == crash.signal) || (is_fault && why.is_abort())
}

/// The panics that may have ended the process.
fn suspects<S: ByteSource>(reader: &PoolReader<S>) -> Vec<Suspect> {
    let panics = reader.panics().unwrap_or_default();
    if panics.is_empty() {
        return Vec::new();
    }
    let snapshot = reader.snapshot().ok();
    let suspect = |panic| Suspect::new(panic, reader, snapshot.as_ref());
    panics.iter().map(suspect).collect()
}

impl Suspect {
    fn new<S: ByteSource>(
        panic: &PanicInfo,
        reader: &PoolReader<S>,
        snapshot: Option<&Snapshot>,
    ) -> Self {
        let is_latest = |snapshot| reader.is_latest_of_its_thread(panic, snapshot);
        Self {
            text: PanicText::new(panic),
            is_main: panic.is_main,
            in_hook: panic.hook_returned.is_none(),
            ends_process: panic.ends_process,
            is_latest_of_its_thread: snapshot.is_some_and(is_latest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic in a thread that went on afterwards.
    fn caught(thread: &str) -> Suspect {
        let panic = PanicText {
            thread: thread.to_owned(),
            location: "src/x.rs:3:5".to_owned(),
            message: "message".to_owned(),
        };
        Suspect {
            text: panic,
            is_main: thread == "main",
            in_hook: false,
            ends_process: false,
            is_latest_of_its_thread: false,
        }
    }

    fn explained(suspects: &[Suspect], why: Why) -> String {
        let evidence = PanicEvidence {
            panics: suspects.to_vec(),
            crashes: Vec::new(),
        };
        evidence.explain(why).to_string()
    }

    fn crashed(status: &str) -> Why {
        let status = status.to_owned();
        Why::Crashed { status }
    }

    const ABORTED: &str = "signal 6 (SIGABRT, core dumped)";

    #[test]
    fn exit_code_101_is_that_of_a_panic_of_the_main_thread() {
        let all = [caught("main"), caught("worker")];
        assert_eq!(
            explained(&all, Why::Exited { status: 101 }),
            "exited with code 101: main panicked at src/x.rs:3:5: message"
        );
        let told = explained(&all[1..], Why::Exited { status: 101 });
        assert_eq!(told, "exited with code 101");
        assert_eq!(
            explained(&all, Why::Exited { status: 1 }),
            "exited with code 1"
        );
    }

    #[test]
    fn a_caught_panic_changes_no_verdict() {
        let all = [caught("main"), caught("worker")];
        let ends = [
            Why::Exited { status: 0 },
            crashed(ABORTED),
            crashed("signal 11 (SIGSEGV)"),
            Why::Gone,
            Why::ExitedUnseen,
            Why::Running,
            Why::Executed,
        ];
        for why in ends {
            assert_eq!(explained(&all, why.clone()), why.to_string());
        }
    }

    #[test]
    fn an_abort_without_doubt_is_that_of_the_panic() {
        let told = "crashed with signal 6 (SIGABRT, core dumped): worker panicked at \
                    src/x.rs:3:5: message";
        let mut in_hook = caught("worker");
        in_hook.in_hook = true;
        assert_eq!(explained(&[in_hook.clone()], crashed(ABORTED)), told);
        let mut ends_process = caught("worker");
        ends_process.ends_process = true;
        assert_eq!(
            explained(&[caught("main"), ends_process], crashed(ABORTED)),
            told
        );
        let told = explained(&[caught("main"), in_hook], Why::Exited { status: 101 });
        assert_eq!(
            told,
            "exited with code 101: worker panicked at src/x.rs:3:5: message"
        );
    }

    #[test]
    fn an_abort_right_after_a_panic_is_said_to_be_after_it() {
        let mut latest = caught("");
        latest.is_latest_of_its_thread = true;
        let all = [latest, caught("main")];
        assert_eq!(
            explained(&all, crashed(ABORTED)),
            "crashed with signal 6 (SIGABRT, core dumped) after a thread panicked at \
             src/x.rs:3:5: message"
        );
        assert_eq!(
            explained(&all, Why::Gone),
            "ended, with unknown status, after a thread panicked at src/x.rs:3:5: message"
        );
        let killed = crashed("signal 9 (SIGKILL)");
        assert_eq!(explained(&all, killed), "crashed with signal 9 (SIGKILL)");
    }

    #[test]
    fn a_recorded_crash_is_named_only_if_a_crash_has_ended_the_process() {
        let evidence = PanicEvidence {
            panics: vec![caught("main")],
            crashes: vec![CrashText {
                thread: "worker".to_owned(),
                signal: "SIGSEGV".to_owned(),
                reason: "address not mapped".to_owned(),
                address: "0x10".to_owned(),
            }],
        };
        let told = "worker: SIGSEGV: address not mapped, at 0x10";
        let explained = |why| evidence.explain(why).to_string();
        assert_eq!(
            explained(crashed("signal 11 (SIGSEGV)")),
            format!("crashed with signal 11 (SIGSEGV): {told}")
        );
        assert_eq!(
            explained(Why::Gone),
            format!("ended, with unknown status, after {told}")
        );
        assert_eq!(
            explained(Why::Exited { status: 101 }),
            "exited with code 101: main panicked at src/x.rs:3:5: message"
        );
        assert_eq!(explained(Why::Exited { status: 1 }), "exited with code 1");
    }

    #[test]
    fn a_crash_is_named_only_if_it_agrees_with_the_signal_and_before_an_uncertain_panic() {
        let crash = |signal: &str| CrashText {
            thread: "worker".to_owned(),
            signal: signal.to_owned(),
            reason: String::new(),
            address: String::new(),
        };
        let mut latest = caught("main");
        latest.is_latest_of_its_thread = true;
        let explained = |signal: &str, why: Why| {
            let evidence = PanicEvidence {
                panics: vec![latest.clone()],
                crashes: vec![crash(signal), crash("SIGILL")],
            };
            matches!(evidence.explain(why), Why::CrashRecorded { .. })
        };
        assert!(explained("SIGSEGV", crashed("signal 11 (SIGSEGV)")));
        assert!(explained("SIGABRT", crashed(ABORTED)));
        assert!(explained("SIGSEGV", crashed(ABORTED)), "an overflow");
        assert!(!explained("SIGFPE", crashed(ABORTED)), "it was survived");
        assert!(!explained("SIGSEGV", crashed("signal 8 (SIGFPE)")));
        assert!(!explained("SIGSEGV", Why::Gone), "the panic was later");
    }

    #[test]
    fn of_two_panics_that_abort_the_first_is_the_cause() {
        let mut both = [caught("main"), caught("worker")];
        both.iter_mut().for_each(|one| one.ends_process = true);
        let told = explained(&both, crashed(ABORTED));
        assert!(told.contains("main panicked"), "{told}");
    }
}
