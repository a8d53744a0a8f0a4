//! Records a panic: the note for the verdict, then the marker with its stack.
//!
//! Called by the panic hook, on the thread that panics, before the previous hook. Invariant: no
//! lock is waited for, so a thread may panic at any point: within an entry, within the profiler,
//! and while it ends.

use std::cell::Cell;
use std::panic::{Location, PanicHookInfo};

use profiler_core::internal::panic_note::{self, NotedPanic, PanicFacts};
use profiler_core::marker;
use profiler_core::marker::{MarkerOptions, MarkerStack};
use profiler_core::session;
use profiler_core::time::Timestamp;

use crate::message::{bounded, is_end_of_unwinding, message_of, place_of};
use crate::panic_marker::{PANICS, PanicMarker};

thread_local! {
    /// The latest panic of the thread.
    static LATEST: Cell<Option<NotedPanic>> = const { Cell::new(None) };
}

/// A panic whose hook runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedPanic(NotedPanic);

impl RecordedPanic {
    /// Notes that the hooks have run, and that the process goes on.
    pub(crate) fn hook_returned(self) {
        LATEST.set(self.0.hook_returned());
    }
}

/// Records a panic if a session runs.
pub(crate) fn record(info: &PanicHookInfo<'_>) -> Option<RecordedPanic> {
    if !session::is_active() {
        return None;
    }
    let at = Timestamp::now();
    let message = message_of(info);
    let thread = panic_note::thread_name();
    // First the note, which is short: it is there if the process ends while the stack is walked.
    let noted = note(at, message, info.location(), thread.as_deref());
    LATEST.set(noted);
    add_marker(at, message, info.location(), thread.as_deref());
    noted.map(RecordedPanic)
}

fn note(
    at: Timestamp,
    message: &str,
    location: Option<&Location<'_>>,
    thread: Option<&str>,
) -> Option<NotedPanic> {
    let file = location.map_or("", Location::file);
    let is_end = is_end_of_unwinding(message, file);
    // The verdict names the panic that cannot go on unwinding, and not the report of that.
    if is_end && let Some(first) = LATEST.get().and_then(NotedPanic::ends_process) {
        return Some(first);
    }
    panic_note::note(&PanicFacts {
        at,
        message,
        file,
        line: location.map_or(0, Location::line),
        column: location.map_or(0, Location::column),
        thread: thread.unwrap_or_default(),
        ends_process: is_end || cfg!(panic = "abort"),
    })
}

fn add_marker(at: Timestamp, message: &str, location: Option<&Location<'_>>, thread: Option<&str>) {
    let options = MarkerOptions::instant_at(at).with_stack(MarkerStack::Full);
    let payload = PanicMarker {
        message: &bounded(message),
        location: &location.map(place_of).unwrap_or_default(),
        thread,
    };
    marker!("Panic", &PANICS, options, &payload);
}
