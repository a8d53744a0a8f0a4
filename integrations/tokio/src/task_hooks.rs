//! What the hooks of a runtime do for its tasks.
//!
//! Called by [`crate::RuntimeHooks`], and only compiled with `tokio_unstable`. tokio calls the
//! hooks of one task in this order: spawn, then before and after each poll, and the end inside of
//! the last poll, or without a poll if the task is dropped. Only the call after a poll may come
//! late: another worker may already poll the task, or have ended it. The end of a task comes without a spawn
//! for the tasks of the blocking pool, and before the spawn if the runtime has shut down.
//!
//! Costs while no session runs: one load before a poll and at a spawn, a thread-local after a poll,
//! and two loads at the end.

use std::cell::Cell;

use profiler_core::internal::runtime_site::count_without_site;
use tokio::runtime::TaskMeta;

use crate::current_polls::{self, CurrentPoll};
use crate::session_number::session_number;
use crate::spawn_site::{SiteKey, SpawnSite, site_of};
use crate::task_marks::{self, PollMark, RecordedTask, TaskEnd};
use crate::task_number::{current_task, number_of};
use crate::task_rules::{TaskRules, is_recording};
use crate::task_table::{OPEN_TASKS, TaskPlace};
use crate::timed_poll::{TimedPoll, current_span};

thread_local! {
    /// The latest task that has ended on this thread without having been spawned.
    static ENDED_UNSPAWNED: Cell<u64> = const { Cell::new(0) };
}

/// A task was spawned, on the thread that spawned it, before its first poll.
#[inline]
pub(crate) fn spawned(meta: &TaskMeta<'_>) {
    if is_recording() {
        record_spawn(meta);
    }
}

#[inline(never)]
fn record_spawn(meta: &TaskMeta<'_>) {
    let number = number_of(meta.id());
    if ENDED_UNSPAWNED.get() == number {
        return; // the runtime has shut down, and the task never runs
    }
    let task = RecordedTask::spawned_now(number, current_span(), current_task());
    if open(&task, site(meta)).is_none() {
        count_without_site();
    }
}

/// Begins the interval of a task, if there is a place for it.
fn open(task: &RecordedTask, site: &SpawnSite) -> Option<&'static TaskPlace> {
    let place = OPEN_TASKS.insert(task, session_number())?;
    task_marks::begin(site, task);
    Some(place)
}

/// A poll begins while a session runs. `address` is in the stack frame of the hook.
#[inline(never)]
pub(crate) fn before_poll(meta: &TaskMeta<'_>, rules: &TaskRules, address: u64) {
    current_polls::push(|| {
        let number = number_of(meta.id());
        let site = site(meta);
        let place = place_of(number, site);
        let span = place.map_or(0, |place| place.task(number).span);
        CurrentPoll {
            mark: PollMark { span, task: number },
            place,
            site,
            timed: TimedPoll::begin(site, rules, span, address),
        }
    });
}

/// The place of a task. The interval of a task that this session has not seen begins now.
#[inline]
fn place_of(number: u64, site: &SpawnSite) -> Option<&'static TaskPlace> {
    match OPEN_TASKS.find(number) {
        Some(place) if place.session() == session_number() => Some(place),
        known => see_late(number, site, known),
    }
}

#[cold]
fn see_late(
    number: u64,
    site: &SpawnSite,
    known: Option<&'static TaskPlace>,
) -> Option<&'static TaskPlace> {
    let task = RecordedTask::seen_late(number);
    let Some(place) = known else {
        // Without a place, the task was counted when it was spawned, and not at each poll.
        return open(&task, site);
    };
    place.fill(&task, session_number());
    task_marks::begin(site, &task);
    Some(place)
}

/// A poll has ended.
#[inline]
pub(crate) fn after_poll(meta: &TaskMeta<'_>, rules: &TaskRules) {
    let Some(poll) = current_polls::pop(number_of(meta.id())) else {
        return;
    };
    let ns = poll.timed.end(poll.site, rules, poll.mark);
    if let Some(place) = poll.place {
        place.add_poll(poll.mark.task, ns);
    }
}

/// A task has ended.
#[inline]
pub(crate) fn terminated(meta: &TaskMeta<'_>) {
    if is_recording() || !OPEN_TASKS.is_empty() {
        record_end(meta);
    }
}

#[inline(never)]
fn record_end(meta: &TaskMeta<'_>) {
    let number = number_of(meta.id());
    let Some(place) = OPEN_TASKS.find(number) else {
        ENDED_UNSPAWNED.set(number);
        return;
    };
    let last_poll_ns = current_polls::end_task(number);
    let is_of_session = place.session() == session_number();
    let (task, times) = (place.task(number), place.times());
    OPEN_TASKS.remove(place);
    if is_of_session && is_recording() {
        let times = last_poll_ns.map_or(times, |ns| times.and(ns));
        task_marks::end(site(meta), &task, &times, TaskEnd::Unknown);
    }
}

/// The site at which a task was spawned.
#[inline]
fn site(meta: &TaskMeta<'_>) -> &'static SpawnSite {
    site_of(SiteKey {
        name: None,
        location: meta.spawned_at(),
    })
}
