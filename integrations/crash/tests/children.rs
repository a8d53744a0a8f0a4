//! Children that crash: this test program, which runs the test of the same name as the child.

use std::ffi::CStr;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio, exit};

use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ChunkBuffer, PoolReader};
use profiler_core::marker::{MarkerOptions, MarkerStack, category};
use profiler_core::{marker, session};
use profiler_parent::Session;
use serde_json::Value;
use test_support::{own_process, patience};

/// The role of a child whose crash is recorded.
const RECORDED: &str = "recorded";
/// The role of a child without the handlers.
const PLAIN: &str = "plain";

/// What is known of a child after its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) verdict: String,
    pub(crate) profile: Value,
    /// The calls that a handler has noted in [`CALLS_FILE`], a byte each.
    pub(crate) calls: usize,
}

/// The file in which a handler notes its calls.
pub(crate) const CALLS_FILE: &CStr = c"calls";

/// Runs the calling test once more as a child that crashes by `crash`, without the handlers and
/// with them, and checks that both children end in the same way. `prepare` is called before the
/// handlers are installed. Returns what the profile knows of the second child.
pub(crate) fn crashed(prepare: impl FnOnce(), crash: impl FnOnce()) -> Ended {
    if let Some(role) = own_process::role() {
        run(role == RECORDED, prepare, crash);
    }
    let plain = ended(PLAIN);
    assert!(!plain.verdict.contains(": SIG"), "{}", plain.verdict);
    let recorded = ended(RECORDED);
    assert_eq!(recorded.status, plain.status, "{}", recorded.verdict);
    recorded
}

/// Like [`crashed`], but starts each child up to ten times until `is_right` accepts its status. Any
/// other status must be `SIGSEGV`, by which an earlier crash may end the process.
pub(crate) fn crashed_unless_killed(
    prepare: impl FnOnce(),
    crash: impl FnOnce(),
    is_right: fn(ExitStatus) -> bool,
) -> Ended {
    if let Some(role) = own_process::role() {
        run(role == RECORDED, prepare, crash);
    }
    let [_, recorded] = [PLAIN, RECORDED].map(|role| {
        let mut all = (0..10).map(|_| ended(role));
        let right = all.find(|ended| {
            let is_right = is_right(ended.status);
            let is_killed = ended.signal() == Some(libc::SIGSEGV);
            assert!(is_right || is_killed, "{role}: {}", ended.verdict);
            is_right
        });
        right.unwrap_or_else(|| panic!("{role}: no run had the expected status"))
    });
    recorded
}

/// Runs the calling test once more as a child with the handlers that ends by `body`.
pub(crate) fn ran(body: impl FnOnce()) -> Ended {
    if own_process::role().is_some() {
        run(true, || {}, body);
    }
    ended(RECORDED)
}

/// Is the child.
fn run(is_recorded: bool, prepare: impl FnOnce(), crash: impl FnOnce()) -> ! {
    profiler_child::init();
    prepare();
    if is_recorded {
        profiler_crash::install().unwrap();
    }
    marker!("begins");
    if is_recorded {
        wait_for_stacks();
    }
    crash();
    exit(0)
}

/// Waits until stacks have names: the files of a process are not known in its first moments.
pub(crate) fn wait_for_stacks() {
    let reader = PoolReader::open(session::pool_file().unwrap()).unwrap();
    let has_stack = || {
        let options = MarkerOptions::default().with_stack(MarkerStack::Full);
        marker!("ready", &category::TEST, options);
        let snapshot = reader.snapshot().unwrap();
        let mut buffer = ChunkBuffer::default();
        snapshot.chunks().any(|chunk| {
            let entries = reader.read_chunk(chunk, &mut buffer).unwrap();
            let mut entries = entries.into_iter().flatten();
            entries.any(|entry| matches!(entry, Entry::Marker(marker) if marker.stack.len() > 2))
        })
    };
    assert!(patience::until(has_stack), "no marker has a stack");
}

fn ended(role: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let session = Session::builder().start().unwrap();
    let mut command = own_process::child(role);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.current_dir(directory.path()); // for a core dump
    let mut child = session.spawn("child", command).unwrap();
    let status = child.wait().unwrap();
    let report = session.capture().save(&path).unwrap();
    let row = report.processes.iter().find(|row| row.name == "child");
    let text = std::fs::read_to_string(path).unwrap();
    let calls = directory.path().join(CALLS_FILE.to_str().unwrap());
    let calls = std::fs::read(calls).map_or(0, |bytes| bytes.len());
    Ended {
        status,
        verdict: row.unwrap().verdict.to_string(),
        profile: serde_json::from_str(&text).unwrap(),
        calls,
    }
}

impl Ended {
    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// All markers of crashes.
    pub(crate) fn crashes(&self) -> Vec<CrashSeen> {
        crashes(&self.profile)
    }

    /// The only crash.
    pub(crate) fn crash(&self) -> CrashSeen {
        let mut all = self.crashes();
        assert_eq!(all.len(), 1, "{} {all:?}", self.verdict);
        all.remove(0)
    }
}

/// A crash in a profile.
#[derive(Debug)]
pub(crate) struct CrashSeen {
    pub(crate) pid: String,
    pub(crate) thread: String,
    pub(crate) signal: String,
    pub(crate) reason: String,
    pub(crate) address: String,
    pub(crate) registers: String,
    /// The innermost function first.
    pub(crate) stack: Vec<String>,
}

impl CrashSeen {
    /// Whether a function with this name is on the stack.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.stack.iter().any(|function| function.contains(name))
    }
}

/// The crashes in a profile in the processed format.
pub(crate) fn crashes(profile: &Value) -> Vec<CrashSeen> {
    let threads = profile["threads"].as_array().unwrap();
    let mut found = Vec::new();
    for thread in threads {
        let payloads = thread["markers"]["data"].as_array().unwrap();
        for payload in payloads.iter().filter(|data| data["type"] == "Crash") {
            let text = |key: &str| payload[key].as_str().unwrap_or_default().to_owned();
            // The schema of the type has the same name, and no signal.
            found.push(CrashSeen {
                pid: plain(&thread["pid"]),
                thread: plain(&thread["name"]),
                signal: text("signal"),
                reason: text("reason"),
                address: text("address"),
                registers: text("registers"),
                stack: stack(profile, &payload["cause"]["stack"]),
            });
        }
    }
    found
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The functions of a stack, the innermost first.
pub(crate) fn stack(profile: &Value, stack: &Value) -> Vec<String> {
    let shared = &profile["shared"];
    let strings = &shared["stringArray"];
    let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
    let mut next = index(stack);
    let mut names = Vec::new();
    while let Some(row) = next {
        let frame = index(&shared["stackTable"]["frame"][row]).unwrap();
        let func = index(&shared["frameTable"]["func"][frame]).unwrap();
        let name = index(&shared["funcTable"]["name"][func]).unwrap();
        names.push(strings[name].as_str().unwrap().to_owned());
        next = caller(&shared["stackTable"], row);
    }
    names
}

/// The row of the caller, in either form of the table.
fn caller(table: &Value, row: usize) -> Option<usize> {
    let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
    if table["prefix"].is_array() {
        return index(&table["prefix"][row]);
    }
    let offset = index(&table["prefixOffset"][row]).filter(|offset| *offset > 0)?;
    row.checked_sub(offset)
}
