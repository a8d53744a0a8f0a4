//! Futures that are recorded as tasks are, on every executor and without `tokio_unstable`.
//!
//! Used by applications. The wrapper has what the table of open tasks has for the tasks of a
//! runtime, so nothing is looked up. Invariants: the interval begins when the wrapper is made, or
//! at the first poll in a session; it ends when the wrapper is dropped, after the future; a panic
//! passes through.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::session_number::{follow_sessions, session_number};
use crate::spawn_site::{SiteKey, SpawnSite, site_of};
use crate::task_marks::{self, PollTimes, RecordedTask, TaskEnd};
use crate::task_number::current_task;
use crate::task_rules::{TaskRules, is_recording};
use crate::timed_poll::{TimedPoll, current_span};

/// Records futures.
///
/// ```
/// use profiler_tokio::ProfileFuture;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let sum = tokio::spawn(async { 1 + 2 }.profiled("add")).await?;
/// assert_eq!(sum, 3);
/// # Ok::<(), tokio::task::JoinError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ProfileFuture: Future + Sized {
    /// Records the future by the default rules, under this name: its interval from now until it is
    /// dropped, and the times of its polls. The name should be one of few.
    ///
    /// With the hooks of a runtime under `tokio_unstable`, the task that polls the future is
    /// recorded, too.
    #[track_caller]
    fn profiled(self, name: &'static str) -> ProfiledFuture<Self> {
        self.profiled_by(name, TaskRules::default())
    }

    /// Records the future by these rules.
    #[track_caller]
    fn profiled_by(self, name: &'static str, rules: TaskRules) -> ProfiledFuture<Self> {
        follow_sessions();
        let key = SiteKey {
            name: Some(name),
            location: Location::caller(),
        };
        ProfiledFuture {
            future: self,
            record: FutureRecord::new(key, rules),
        }
    }
}

impl<F: Future> ProfileFuture for F {}

pin_project! {
    /// A future that is recorded, see [`ProfileFuture::profiled`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ProfiledFuture<F> {
        #[pin]
        future: F,
        // Behind the future, so that the drop of the future is part of the interval.
        record: FutureRecord,
    }
}

impl<F: Future> Future for ProfiledFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !is_recording() {
            return this.future.poll(context);
        }
        let local = 0_u8;
        let address = std::ptr::from_ref(&local).addr() as u64;
        let mut poll = this.record.begin_poll(address);
        let polled = this.future.poll(context);
        poll.end = match polled {
            Poll::Ready(_) => TaskEnd::Completed,
            Poll::Pending => TaskEnd::Dropped,
        };
        polled
    }
}

/// What is known of a future while it exists.
#[derive(Debug)]
struct FutureRecord {
    key: SiteKey,
    rules: TaskRules,
    open: Option<OpenFuture>,
}

/// A future whose interval is open.
#[derive(Clone, Copy, Debug)]
struct OpenFuture {
    site: &'static SpawnSite,
    task: RecordedTask,
    times: PollTimes,
    end: TaskEnd,
    session: u32,
}

impl FutureRecord {
    #[inline]
    fn new(key: SiteKey, rules: TaskRules) -> Self {
        let begin = || {
            let task = RecordedTask::spawned_now(0, current_span(), current_task());
            OpenFuture::begin(key, task)
        };
        Self {
            key,
            rules,
            open: is_recording().then(begin),
        }
    }

    /// Begins a poll, and the interval if this session has not seen the future.
    fn begin_poll(&mut self, address: u64) -> FuturePoll<'_> {
        let Self { key, rules, open } = self;
        open.take_if(|open| open.session != session_number());
        let begin = || OpenFuture::begin(*key, RecordedTask::seen_late(0));
        let open = open.get_or_insert_with(begin);
        if open.task.task == 0 {
            open.task.task = current_task();
        }
        let timed = TimedPoll::begin(open.site, rules, open.task.span, address);
        FuturePoll {
            timed: Some(timed),
            rules,
            open,
            end: TaskEnd::Panicked,
        }
    }
}

impl OpenFuture {
    fn begin(key: SiteKey, task: RecordedTask) -> Self {
        let site = site_of(key);
        task_marks::begin(site, &task);
        Self {
            site,
            task,
            times: PollTimes::default(),
            end: TaskEnd::Dropped,
            session: session_number(),
        }
    }
}

impl Drop for FutureRecord {
    #[inline]
    fn drop(&mut self) {
        let Some(open) = &self.open else { return };
        if is_recording() && open.session == session_number() {
            task_marks::end(open.site, &open.task, &open.times, open.end);
        }
    }
}

/// A poll of a future while it runs. It also ends when the poll panics.
struct FuturePoll<'a> {
    timed: Option<TimedPoll>,
    rules: &'a TaskRules,
    open: &'a mut OpenFuture,
    /// How the future ends if it is not polled again.
    end: TaskEnd,
}

impl Drop for FuturePoll<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(timed) = self.timed.take() else {
            return;
        };
        let open = &mut *self.open;
        let ns = timed.end(open.site, self.rules, open.task.poll_mark());
        open.times = open.times.and(ns);
        open.end = self.end;
    }
}
