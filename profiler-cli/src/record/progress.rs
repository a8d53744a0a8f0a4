//! The progress line of a recording.

use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, scope};
use std::time::Duration;

use profiler_parent::{ProcessState, ProfiledChild, Session};

use crate::progress::ProgressLine;

const EVERY: Duration = Duration::from_secs(1);

/// Waits for the program to end. Meanwhile shows a line on standard error, if that is a terminal.
pub(super) fn wait(session: &Session, child: &mut ProfiledChild) -> Option<ExitStatus> {
    scope(|scope| {
        let (end, ended) = channel::<()>();
        let line = ProgressLine::new();
        if line.is_visible() {
            // If no thread can be started, no line is shown.
            let _ = Builder::new()
                .name("progress".to_owned())
                .spawn_scoped(scope, move || show(session, &ended, &line));
        }
        let status = child.wait().ok();
        drop(end);
        status
    })
}

fn show(session: &Session, ended: &Receiver<()>, line: &ProgressLine) {
    while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        line.show(&text(session));
    }
    line.clear();
}

fn text(session: &Session) -> String {
    let processes = session.processes();
    let children = processes
        .iter()
        .filter(|process| process.state != ProcessState::Parent);
    let running = children
        .filter(|process| {
            !matches!(
                process.state,
                ProcessState::Exited(_) | ProcessState::Executed
            )
        })
        .count();
    let held: u64 = processes.iter().map(|process| process.true_bytes).sum();
    let held = mebibytes(held);
    let limit = mebibytes(session.memory_limit().get());
    let noun = if running == 1 { "process" } else { "processes" };
    format!(
        "recording {running} {noun}, {held} of {limit} MiB held, {} entries",
        session.recorded()
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
