//! Metrics for Prometheus: what groups and processes have done since the start of the session, and
//! the memory of the session, as text.
//!
//! [`Session::metrics`](crate::Session::metrics) reads them, for an application that answers
//! scrapes with a server of its own. `Session::serve_metrics` (feature `prometheus`) serves them on
//! loopback, and the live page has them, too. Invariants:
//!
//! - Nothing is read between requests, and nothing more than once a second. No process receives a
//!   message.
//! - A counter never falls while the session lives, also if processes end and are no longer listed:
//!   the process table keeps their sums ([`crate::process_table::session_sums`]).
//! - The number of series is bounded: at most 1,000 groups, 200 names of processes and 20
//!   destinations of pushers have series of their own, and all further ones are in the series whose
//!   labels are `other`.
//! - Equal numbers give equal text: rows are in the order of their labels.
//!
//! ```text
//! pools ──▶ groups::SnapshotReader ──┐
//! pools ──▶ entry counts ────────────┤
//! process table: processes, sums ────┼─▶ reader: at most 1/s ──▶ Metrics ──▶ exposition ──▶ text
//! pushers: sums ─────────────────────┤                                         ▲
//! memory limit ──────────────────────┘                                         │
//!                                                                   families: names, help
//! ```
//!
//! `docs/prometheus.md` lists the metrics.

#[cfg(any(feature = "live", feature = "prometheus"))]
mod answer;
mod exposition;
mod families;
mod metrics;
mod pushed;
mod reader;
#[cfg(feature = "prometheus")]
mod server;
mod text_format;

#[cfg(feature = "prometheus")]
pub use crate::secret_file::{MetricsToken, TokenError};
#[cfg(feature = "live")]
pub(crate) use answer::{METRICS, answer};
pub use metrics::Metrics;
pub(crate) use reader::{MetricsReader, MetricsSources};
#[cfg(feature = "prometheus")]
pub use server::{MetricsError, MetricsServer};
pub use text_format::TextFormat;

#[cfg(test)]
mod tests;
