//! What `profiler record` shows while the program runs: a line with numbers about the tree of
//! processes, and messages about sessions below this one and about deadlocks.
//!
//! Both are on standard error, which is that of the program, too. So the line exists only if it is
//! asked for, and only on a terminal: what the program writes is on the same lines.

use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, scope};
use std::time::Duration;

use profiler_parent::{ByteLimit, ProfiledChild, Session, SessionSummary};

use super::nested::NestedSessions;
use crate::plain::plain;
use crate::progress::ProgressLine;

/// How often the line changes, and how often the thread looks for sessions below this one.
const TICK: Duration = Duration::from_secs(1);

/// Waits for the program to end. Meanwhile shows what happens in `line`, on a separate thread, and
/// removes it at the end.
pub(super) fn wait(
    session: &Session,
    child: &mut ProfiledChild,
    line: &ProgressLine,
) -> Option<ExitStatus> {
    scope(|scope| {
        let (end, ended) = channel::<()>();
        let thread = Builder::new().name("progress".to_owned());
        // If no thread can be started, nothing is shown.
        let _ = thread.spawn_scoped(scope, move || show(session, &ended, line));
        let status = child.wait().ok();
        drop(end);
        status
    })
}

fn show(session: &Session, ended: &Receiver<()>, line: &ProgressLine) {
    let mut nested = NestedSessions::default();
    let mut deadlocks = ReportedDeadlocks::default();
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if !nested.is_full() {
            say(line, nested.news(&session.processes()));
        }
        say(line, deadlocks.news(session));
        if line.is_visible() {
            line.show(&text(&session.summary(), session.memory_limit()));
        }
    }
    line.clear();
    let processes = session.processes();
    say(line, nested.news(&processes));
    say(line, nested.rest(&processes));
}

/// The deadlocks that were reported.
#[derive(Debug, Default)]
struct ReportedDeadlocks {
    count: usize,
}

impl ReportedDeadlocks {
    /// The messages about those that were found since the last call.
    fn news(&mut self, session: &Session) -> Vec<String> {
        let all = session.deadlocks();
        let new = all.get(self.count..).unwrap_or_default();
        self.count = all.len();
        let message = |deadlock| plain(&format!("deadlock: {deadlock}"));
        new.iter().map(message).collect()
    }
}

fn say(line: &ProgressLine, messages: impl IntoIterator<Item = String>) {
    for message in messages {
        line.say(&message);
    }
}

/// The text of the line.
fn text(summary: &SessionSummary, limit: ByteLimit) -> String {
    let SessionSummary {
        running,
        ended,
        unprofiled,
        held_bytes,
        recorded,
        lost,
        ..
    } = *summary;
    let noun = if running == 1 { "process" } else { "processes" };
    let if_any = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let not_recorded = if_any(unprofiled, "not recorded");
    let (held, limit) = (mebibytes(held_bytes), mebibytes(limit.get()));
    format!(
        "recording {running} {noun}, {ended} ended{not_recorded}; {held} of {limit} \
         MiB; {lost} of {recorded} entries lost"
    )
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_processes_the_memory_and_the_losses() {
        let mut summary = SessionSummary::default();
        (summary.running, summary.ended) = (3, 2);
        (summary.held_bytes, summary.recorded) = (3 << 19, 70);
        let limit = ByteLimit::new(128 << 20);
        assert_eq!(
            text(&summary, limit),
            "recording 3 processes, 2 ended; 1.5 of 128.0 MiB; 0 of 70 entries lost"
        );
        (summary.running, summary.unprofiled, summary.lost) = (1, 4, 7);
        assert_eq!(
            text(&summary, limit),
            "recording 1 process, 2 ended, 4 not recorded; 1.5 of 128.0 MiB; 7 of 70 entries lost"
        );
    }
}
