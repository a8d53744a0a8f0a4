//! The runtimes and the tasks of tokio, in the profiles of the profiler.
//!
//! Called by applications when they build a runtime, and around their futures. The profiler's
//! sessions are those of `profiler-parent` and `profiler-child`; this crate starts none.
//!
//! ```
//! use profiler_tokio::{ProfileFuture, RuntimeRules};
//! use tokio::runtime::Builder;
//!
//! let mut builder = Builder::new_multi_thread();
//! let runtime = RuntimeRules::named("server").build(builder.worker_threads(2).enable_all())?;
//! runtime.block_on(async {
//!     let request = async { /* … */ };
//!     let _ = tokio::spawn(request.profiled("request")).await;
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What is recorded
//! - The threads of a runtime have names: `server worker 0`, `server blocking 3`.
//! - A runtime has counters, which a thread of the profiler reads every 20 ms while a session runs,
//!   also if the runtime is stuck: alive tasks, the depth of the global queue, the busy share of
//!   each worker and of all, parks, and the threads of the blocking pool. With `tokio_unstable`
//!   also the depth of the local queues and of the queue of the blocking pool, idle blocking
//!   threads, steals, polls and overflows.
//! - A future that is [`profiled`](ProfileFuture::profiled) is an interval from its making to its
//!   drop. Its start is recorded at once, so a task that is open when its process is killed is in
//!   the profile. Its end has the number of its polls, the time in polls, the longest poll, its
//!   lifetime, and whether it was completed.
//! - With `tokio_unstable`, each task of a runtime is such an interval, from its spawn to its end,
//!   under the name of the place in the source that has spawned it, with the number of the task
//!   that has spawned it. tokio does not say how a task ended.
//! - While a thread polls a task, samples of the thread show the task as a frame.
//! - A poll of 10 ms or more is an interval "long poll" ([`TaskRules::long_poll`]). With
//!   [`TaskRules::polls`], each poll is an interval.
//! - While alerts or a monitor are active, each poll is an iteration of a group of the kind `Task`
//!   ([`TaskRules::groups`]), so that the alerts of `Session::alerts` report slow polls, with a
//!   profile of that time.
//!
//! # Processes
//! With the feature `process`, a `tokio::process::Command` starts a child of a session:
//! `command.spawn_in(&session, "worker 1")` (`SpawnInSession`). The child has this name in
//! profiles, `child.wait().await` returns its exit status, and the session knows how it has ended.
//! Without the feature, a process joins a session if its command was prepared:
//! `session.prepare(command.as_std_mut())`. It then has the name of its program. The processes of a
//! child of a session join without that, because they inherit the address of the session.
//!
//! # Costs
//! While no session runs: one load before a poll and at a spawn, a thread-local after a poll, two
//! loads at the end of a task; a wrapped future is larger by its record. No thread reads counters. While
//! one runs, a task costs two entries, and a poll two reads of the clock; an open task of a runtime
//! takes 64 bytes.
//!
//! # What is lost
//! At most 349,524 tasks of runtimes may be open, and fewer if some of them live long; further ones are
//! counted as dropped, unless they were spawned before the session. The tasks of more than 1024
//! places share one name. At most 32 runtimes with at most 64 different names have counters; a
//! counter has the number of the others.
//!
//! # Limitations
//! - A `LocalSet` calls no hooks, and `block_on` has no task: their futures are recorded if they
//!   are [`profiled`](ProfileFuture::profiled).
//! - A task is recorded by its hooks and by its wrapper, if it has both.
//! - A thread that has never parked as a worker is called `server thread 3`, because tokio starts
//!   workers and the threads of the blocking pool in the same way.
//! - A runtime of one thread publishes its busy time when it parks, so a long poll of it shows as
//!   busy time after it has ended.
//! - The hooks of a builder replace those that were set before: see [`RuntimeHooks`].

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(tokio_unstable)]
mod current_polls;
mod profiled_future;
mod runtime_counters;
mod runtime_hooks;
mod runtime_reader;
mod runtime_rules;
mod runtime_threads;
#[cfg(all(feature = "process", unix))]
mod session_child;
mod session_number;
mod spawn_site;
#[cfg(tokio_unstable)]
mod task_hooks;
mod task_marks;
mod task_number;
mod task_rules;
mod task_schema;
#[cfg(any(tokio_unstable, test))]
mod task_table;
mod tick_rate;
mod timed_poll;
mod watched_runtimes;
mod worker_load;

pub use profiled_future::{ProfileFuture, ProfiledFuture};
pub use runtime_hooks::RuntimeHooks;
pub use runtime_rules::{ProfiledRuntime, RuntimeRules, WatchedRuntime};
#[cfg(all(feature = "process", unix))]
pub use session_child::{SessionChild, SpawnInSession};
pub use task_rules::TaskRules;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
