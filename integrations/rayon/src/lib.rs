//! The workers and jobs of the crate rayon, in the profiles of the profiler.
//!
//! Called by applications, which build their pools with a [`PoolProfile`], and run their jobs in a
//! [`JobContext`]. The profiler's sessions are those of `profiler-parent` and `profiler-child`;
//! this crate starts none.
//!
//! ```
//! use profiler_core::group;
//! use profiler_rayon::{JobContext, PoolProfile, job_site};
//! use rayon::ThreadPoolBuilder;
//! use rayon::prelude::*;
//!
//! let pool = PoolProfile::new("images").build(ThreadPoolBuilder::new())?;
//! let context = JobContext::of([group!("tenant:acme")])
//!     .named(job_site!("resize"))
//!     .intervals();
//! let images = vec![0_u8; 1000];
//! context.install(&pool, || {
//!     let chunks = images.par_chunks(100);
//!     chunks.for_each(|chunk| context.run(|| drop(chunk.to_vec())));
//! });
//! # Ok::<(), rayon::ThreadPoolBuildError>(())
//! ```
//!
//! # What is recorded
//! - The workers of a pool are named "POOL worker N".
//! - A job that runs in a context counts for the groups of the context, and for the group of its
//!   pool. Each job is one run of each group. It counts for no other group, and its groups count no
//!   other job, also if a worker that waits executes it on top of another job.
//! - The name of a context is a frame in the samples of its jobs. A job on top of a job of another
//!   context is below a frame "job inside another job".
//! - With [`JobContext::intervals`], each job is an interval with the number of its parent span. A
//!   flow connects the jobs of a context with the place where they come from.
//! - With the feature `tracing`, a context carries the current span of `tracing`. Without it, enter
//!   the span in the job:
//!
//! ```
//! use profiler_rayon::JobContext;
//!
//! let span = tracing::info_span!("request");
//! let (context, inside) = (JobContext::current(), span.clone());
//! let job = context.bind(move || inside.in_scope(|| tracing::info!("in the request")));
//! # job();
//! ```
//!
//! # Costs
//! While no session runs, a job in a context costs one load. While one runs, it costs about as much
//! as entering and leaving its groups: run chunks of items in a context, not items. This crate
//! allocates nothing per job.
//!
//! # Limitations
//! - rayon has no hooks for jobs ([rayon-rs/rayon#915]). So a job that does not run in a context is
//!   not recorded. On top of a job that waits, it counts for the groups of that job, and
//!   [`JobContext::current`] in it is the context of that job.
//! - More than seven jobs on top of each other: only the groups of their contexts are left and
//!   entered again, so that the interrupted jobs have several runs. Groups that the program itself
//!   has entered in the seventh job or in a deeper one also count the jobs on top. A program that
//!   calls [`nested_loop`](profiler_core::groups::nested_loop) in its jobs reaches this depth
//!   earlier, and beyond it the groups of the interrupted job count, too.
//! - Labels cannot be paused. The samples of a job on top of another show the frames of both, as
//!   the native stack does, with "job inside another job" between them.
//! - A job that is running when a session starts is not recorded.
//! - A context has at most [`MAX_GROUPS`] groups.
//! - rayon's own pool, which it builds at the first use if the program builds none, has workers
//!   without names. [`PoolProfile::build_global`] must come before.
//!
//! [rayon-rs/rayon#915]: https://github.com/rayon-rs/rayon/issues/915

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod carried;
mod context;
mod job_marks;
mod job_site;
mod job_stack;
mod pool;
mod running_job;
mod scope;

pub use carried::MAX_GROUPS;
pub use context::{JobContext, TooManyGroupsError};
pub use job_site::JobSite;
pub use pool::PoolProfile;
pub use scope::JobScope;

/// For the macros of this crate.
#[doc(hidden)]
pub use profiler_core as __core;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
