//! The messages that describe tracks, processes and threads (`TrackDescriptor`, `ProcessTree`).
//!
//! Used by all parts of [`super`] that have tracks.

use super::super::proto::Message;
use super::tracks::TrackId;

/// Fields of `TrackDescriptor`.
const UUID: u64 = 1;
const NAME: u64 = 2;
const PROCESS: u64 = 3;
const THREAD: u64 = 4;
const PARENT: u64 = 5;
const COUNTER: u64 = 8;
const DESCRIPTION: u64 = 14;

/// Fields of `ProcessDescriptor`.
mod process {
    pub(super) const PID: u64 = 1;
    pub(super) const COMMAND_LINE: u64 = 2;
    pub(super) const NAME: u64 = 6;
    pub(super) const STARTED: u64 = 7;
    pub(super) const LABELS: u64 = 8;
}

/// Fields of `ThreadDescriptor`.
mod thread {
    pub(super) const PID: u64 = 1;
    pub(super) const TID: u64 = 2;
    pub(super) const NAME: u64 = 5;
}

/// Fields of `ProcessTree`, and of its `Process`.
mod tree {
    pub(super) const PROCESSES: u64 = 1;
    pub(super) const PID: u64 = 1;
    pub(super) const PARENT: u64 = 2;
    pub(super) const COMMAND_LINE: u64 = 3;
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About<'a> {
    pub(super) name: &'a str,
    pub(super) parent: Option<u32>,
    pub(super) command_line: Option<&'a str>,
    /// When it began, on the trace's clock.
    pub(super) started: Option<u64>,
    /// Shown beside the name.
    pub(super) label: Option<&'a str>,
}

/// The message `ProcessTree` with one process.
pub(super) fn process_tree(number: u32, about: &About<'_>) -> Message {
    let mut row = Message::default();
    row.number(tree::PID, u64::from(number));
    row.number(tree::PARENT, about.parent.map_or(0, u64::from));
    // Perfetto takes the first word as the name.
    row.bytes(tree::COMMAND_LINE, about.name.as_bytes());
    let mut body = Message::default();
    body.message(tree::PROCESSES, &row);
    body
}

/// The track of a process.
pub(super) fn process(track: TrackId, number: u32, about: &About<'_>) -> Message {
    let mut message = Message::default();
    message.number(process::PID, u64::from(number));
    if let Some(words) = about.command_line {
        message.bytes(process::COMMAND_LINE, words.as_bytes());
    }
    message.bytes(process::NAME, about.name.as_bytes());
    message.number(process::STARTED, about.started.unwrap_or(0));
    if let Some(label) = about.label {
        message.bytes(process::LABELS, label.as_bytes());
    }
    let mut body = Message::default();
    body.number(UUID, track.0);
    body.message(PROCESS, &message);
    body
}

/// The track of a thread.
pub(super) fn thread(track: TrackId, parent: TrackId, [pid, tid]: [u32; 2], name: &str) -> Message {
    let mut message = Message::default();
    message.number(thread::PID, u64::from(pid));
    message.number(thread::TID, u64::from(tid));
    message.bytes(thread::NAME, name.as_bytes());
    let mut body = Message::default();
    body.number(UUID, track.0);
    body.number(PARENT, parent.0);
    body.message(THREAD, &message);
    body
}

/// A further track, or a group of tracks.
pub(super) fn named(track: TrackId, parent: TrackId, name: &str) -> Message {
    let mut body = Message::default();
    body.number(UUID, track.0);
    body.number(PARENT, parent.0);
    body.bytes(NAME, name.as_bytes());
    body
}

/// The track of a counter. `counter` is its `CounterDescriptor`; the description may be empty.
pub(super) fn counter(
    track: TrackId,
    parent: TrackId,
    [name, description]: [&str; 2],
    counter: &Message,
) -> Message {
    let mut body = named(track, parent, name);
    body.message(COUNTER, counter);
    if !description.is_empty() {
        body.bytes(DESCRIPTION, description.as_bytes());
    }
    body
}
