//! Metrics for Prometheus: what groups and processes have done since the start of a session, and
//! the memory of the session, as text.
//!
//! [`session_metrics`] reads them, for an application that answers scrapes with a server of its
//! own. [`MetricsServer`] serves them on loopback, and [`on_live_page`] adds them to the live page.
//! Invariants:
//!
//! - Nothing is read between requests, and nothing more than once a second. No process receives a
//!   message.
//! - A counter never falls while the session lives, also if processes end and are no longer listed.
//! - The number of series is bounded: at most 1,000 groups, 200 names of processes and 20
//!   destinations of pushers have series of their own, and all further ones are in the series whose
//!   labels are `other`.
//! - Equal numbers give equal text: rows are in the order of their labels.
//!
//! ```text
//! session: MetricsReading ──▶ Metrics ──▶ exposition ──▶ text
//!                                            ▲
//!                                    families: names, help
//! ```
//!
//! `docs/prometheus.md` lists the metrics.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod answer;
mod exposition;
mod families;
mod metrics;
mod pushed;
mod scrapes;
mod server;
mod text_format;

pub use metrics::Metrics;
pub use profiler_files::secret_file::{MetricsToken, TokenError};
pub use scrapes::{on_live_page, session_metrics};
pub use server::{MetricsError, MetricsServer};
pub use text_format::TextFormat;

#[cfg(test)]
mod tests;

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
