//! What a task becomes in the recording: its start, its end, and its polls.
//!
//! Used by the hooks and by the wrapped futures. The start of a task is written at once, so a task
//! that is open when its process is killed is in the profile. Everything here does nothing while no
//! session runs.

use std::sync::LazyLock;

use profiler_core::internal::payload::PayloadError;
use profiler_core::internal::runtime_site::{FieldWriter, RuntimeSite};
use profiler_core::internal::span_number::{draw_span_number, options_of_span};
use profiler_core::marker::{MarkerOptions, MarkerTiming};
use profiler_core::time::Timestamp;

use crate::spawn_site::{SpawnSite, tokio_category};
use crate::task_schema::long_poll_schema;
use crate::tick_rate::nanoseconds_between;

/// Longest name in a marker, in bytes.
const MAX_OF_NAME: usize = 256;

static LONG_POLLS: LazyLock<RuntimeSite> =
    LazyLock::new(|| RuntimeSite::new("long poll", tokio_category(), long_poll_schema()));

/// A task, as its start and its end describe it. Zero stands for a number that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordedTask {
    /// The number of its span.
    pub(crate) span: u64,
    /// The number that tokio gave it.
    pub(crate) task: u64,
    /// The span of the task that spawned it.
    pub(crate) parent: u64,
    /// The number of the task that spawned it.
    pub(crate) by: u64,
    /// When it was spawned; zero if that was before the session.
    pub(crate) spawned: Timestamp,
}

impl RecordedTask {
    /// A task that is spawned now.
    #[inline]
    pub(crate) fn spawned_now(task: u64, parent: u64, by: u64) -> Self {
        Self {
            span: draw_span_number(),
            task,
            parent,
            by,
            spawned: Timestamp::now(),
        }
    }

    /// A task that the session has not seen before.
    pub(crate) fn seen_late(task: u64) -> Self {
        Self {
            span: draw_span_number(),
            task,
            parent: 0,
            by: 0,
            spawned: Timestamp::ZERO,
        }
    }

    /// The mark of one of its polls.
    #[inline]
    pub(crate) const fn poll_mark(&self) -> PollMark {
        PollMark {
            span: self.span,
            task: self.task,
        }
    }
}

/// The times of a task's polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PollTimes {
    pub(crate) polls: u64,
    pub(crate) total_ns: u64,
    pub(crate) longest_ns: u64,
}

impl PollTimes {
    /// These times and one more poll.
    #[inline]
    pub(crate) fn and(self, poll_ns: u64) -> Self {
        Self {
            polls: self.polls.saturating_add(1),
            total_ns: self.total_ns.saturating_add(poll_ns),
            longest_ns: self.longest_ns.max(poll_ns),
        }
    }
}

/// How a task ended, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskEnd {
    /// tokio does not tell it to its hooks.
    #[cfg(tokio_unstable)]
    Unknown,
    Completed,
    /// Dropped before it was complete: aborted, or with its runtime.
    Dropped,
    Panicked,
}

impl TaskEnd {
    const fn name(self) -> Option<&'static str> {
        match self {
            #[cfg(tokio_unstable)]
            Self::Unknown => None,
            Self::Completed => Some("completed"),
            Self::Dropped => Some("dropped before it was complete"),
            Self::Panicked => Some("panicked"),
        }
    }
}

/// Begins the interval of a task.
#[inline]
pub(crate) fn begin(site: &SpawnSite, task: &RecordedTask) {
    let note = (task.spawned == Timestamp::ZERO).then_some("spawned before it was recorded");
    site.tasks.add(MarkerOptions::interval_start(), |out| {
        write_numbers(out, task)?;
        optional_text(out, note)?;
        (0..5).try_for_each(|_| out.none())
    });
}

/// Ends the interval of a task, on any thread.
#[inline]
pub(crate) fn end(site: &SpawnSite, task: &RecordedTask, times: &PollTimes, how: TaskEnd) {
    let options = options_of_span(task.span, MarkerTiming::IntervalEnd);
    let is_whole = task.spawned != Timestamp::ZERO;
    let lifetime = is_whole.then(|| nanoseconds_between(task.spawned, Timestamp::now()));
    site.tasks.add(options, |out| {
        write_numbers(out, task)?;
        out.none()?;
        out.u64(times.polls)?;
        out.f64(milliseconds(times.total_ns))?;
        out.f64(milliseconds(times.longest_ns))?;
        match lifetime {
            Some(ns) => out.f64(milliseconds(ns))?,
            None => out.none()?,
        }
        optional_text(out, how.name())
    });
}

/// What the marker of a poll says about its task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollMark {
    pub(crate) span: u64,
    pub(crate) task: u64,
}

/// Records a poll.
#[inline(never)]
pub(crate) fn poll(site: &SpawnSite, mark: PollMark, from: Timestamp, to: Timestamp) {
    site.polls.add(MarkerOptions::interval(from, to), |out| {
        out.u64(mark.span)?;
        optional_number(out, mark.task)
    });
}

/// Records a poll that took long.
#[cold]
pub(crate) fn long_poll(site: &SpawnSite, mark: PollMark, from: Timestamp, to: Timestamp) {
    LONG_POLLS.add(MarkerOptions::interval(from, to), |out| {
        out.u64(mark.span)?;
        optional_number(out, mark.task)?;
        out.text(site.name, MAX_OF_NAME)
    });
}

fn write_numbers(out: &mut FieldWriter<'_>, task: &RecordedTask) -> Result<(), PayloadError> {
    out.u64(task.span)?;
    optional_number(out, task.task)?;
    optional_number(out, task.parent)?;
    optional_number(out, task.by)
}

fn optional_number(out: &mut FieldWriter<'_>, number: u64) -> Result<(), PayloadError> {
    match number {
        0 => out.none(),
        number => out.u64(number),
    }
}

fn optional_text(out: &mut FieldWriter<'_>, text: Option<&str>) -> Result<(), PayloadError> {
    match text {
        None => out.none(),
        Some(text) => out.text(text, MAX_OF_NAME),
    }
}

#[allow(clippy::cast_precision_loss)] // a viewer shows fewer digits
fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}
