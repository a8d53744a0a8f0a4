//! One poll while it runs: its time, its label and its group.
//!
//! Used by the hooks, which keep it in a thread-local from the hook before the poll to the hook
//! after it, and by the wrapped futures, which keep it on the stack.

use std::cell::Cell;

use profiler_core::groups::{Entered, Probes, probes};
use profiler_core::label::LabelScope;
use profiler_core::time::Timestamp;

use crate::spawn_site::SpawnSite;
use crate::task_marks::{self, PollMark};
use crate::task_rules::TaskRules;
use crate::tick_rate::nanoseconds_between;

thread_local! {
    /// The span of the task that the thread polls; 0 for none.
    static CURRENT_SPAN: Cell<u64> = const { Cell::new(0) };
}

/// The span of the task that the calling thread polls; 0 if it polls none that is recorded.
#[inline]
pub(crate) fn current_span() -> u64 {
    CURRENT_SPAN.get()
}

/// A poll that has begun. When it is dropped, the label is closed and the group is left.
#[derive(Debug)]
pub(crate) struct TimedPoll {
    since: Timestamp,
    _span: SpanScope,
    _group: Option<Entered>,
    _label: PollLabel,
}

impl TimedPoll {
    /// Begins a poll of the task with this span. `address` is in the stack frame that the label
    /// belongs to.
    #[inline]
    pub(crate) fn begin(
        site: &'static SpawnSite,
        rules: &TaskRules,
        span: u64,
        address: u64,
    ) -> Self {
        let category = site.tasks.category().category();
        let label = LabelScope::open_at(&site.label, category, address);
        Self {
            _label: PollLabel(label),
            _span: SpanScope(CURRENT_SPAN.replace(span)),
            _group: is_measured(rules).then(|| site.group.enter()),
            since: Timestamp::now(),
        }
    }

    /// The time since it began.
    #[cfg(tokio_unstable)]
    pub(crate) fn nanoseconds_so_far(&self) -> u64 {
        nanoseconds_between(self.since, Timestamp::now())
    }

    /// Ends the poll, and records it if the rules say so. Returns its nanoseconds.
    #[inline]
    pub(crate) fn end(self, site: &SpawnSite, rules: &TaskRules, mark: PollMark) -> u64 {
        let (from, to) = (self.since, Timestamp::now());
        drop(self);
        let ns = nanoseconds_between(from, to);
        if rules.polls {
            task_marks::poll(site, mark, from, to);
        }
        if ns >= rules.long_poll_ns {
            task_marks::long_poll(site, mark, from, to);
        }
        ns
    }
}

/// Whether the poll is an iteration of a group. Without probes nothing but its number would be
/// known, which the end of the task says at a lower cost.
#[inline]
fn is_measured(rules: &TaskRules) -> bool {
    rules.groups && probes() != Probes::NONE
}

/// An open label. The label is closed when this is dropped.
#[derive(Debug)]
struct PollLabel(u32);

impl Drop for PollLabel {
    #[inline]
    fn drop(&mut self) {
        LabelScope::close(self.0);
    }
}

/// The span that was current before a poll. It is current again when this is dropped.
#[derive(Debug)]
struct SpanScope(u64);

impl Drop for SpanScope {
    #[inline]
    fn drop(&mut self) {
        CURRENT_SPAN.set(self.0);
    }
}
