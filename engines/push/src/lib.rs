//! Pushes what a session records to engines that people already run, continuously and within
//! bounds.
//!
//! Called by applications through [`Pusher::start`] and by
//! `profiler record --push`. The pusher lives in the parent. It reads the pools as a capture does,
//! so the recorded processes are not involved, and no endpoint can make them wait.
//!
//! ```text
//! pools ──capturing thread──▶ spool on disk ──sender thread──▶ encoder ──▶ bodies ──▶ endpoint
//!         every period: what    bounded; the    one per                    HTTP, gzip; retried
//!         was recorded since    oldest batch    destination                until accepted
//!         the previous batch    is lost first
//! ```
//!
//! A batch is an ordinary profile. It stays in the spool until all destinations have it, also when
//! this process dies: the next pusher with the same spool sends it. Invariants: memory and disk are
//! bounded, whatever the endpoints do; every entry is in one batch or counted as missed; every
//! batch is sent, rejected, lost or waits, for each destination; a body has the same identifier in
//! all attempts, and the same bytes, except that stacks which a store has are left out of it.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod attempts;
pub(crate) mod batch;
mod capturing;
mod clock;
mod dead_directories;
pub(crate) mod destination;
mod destination_series;
mod directory_lock;
mod encoders;
mod error;
mod files;
pub(crate) mod http_client;
#[cfg(test)]
mod metrics_tests;
mod options;
pub mod otlp_answer;
mod progress;
mod pusher;
mod queue;
mod report;
mod request;
mod sender;
#[cfg(test)]
mod series_tests;
mod spool;
mod spool_access;
mod spool_directory;
mod spool_state;
mod stored_stacks;
mod temporary_spool;
#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "tls"))]
mod tls_tests;

pub use destination::{PushDestination, PushEngine, Secret};
pub use error::PushError;
pub use files::{OtherDestinations, push_files, push_spool};
pub(crate) use options::PushIdentity;
pub use options::PushOptions;
pub use pusher::{PushCanceller, Pusher};
pub use report::{DestinationReport, PushReport, PushedAmount};

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
