//! The metrics on the live page, which another crate writes.
//!
//! `profiler-prometheus` implements [`MetricsPage`]. Without one, the page has no path `metrics`.

use std::fmt;

/// Writes the metrics of a session for the live page.
#[doc(hidden)]
pub trait MetricsPage: fmt::Debug + Send + Sync {
    /// Writes the metrics as text. `accepted`, the value of the request's header `Accept`, decides
    /// the format. Called on a worker thread, because it may take long.
    fn text(&self, accepted: &str) -> MetricsText;

    /// Drops data that no client has requested for a while. Called every few seconds, and must
    /// return at once.
    fn tidy(&self) {}
}

/// Metrics as text.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsText {
    /// The type of the text, for the header `Content-Type`.
    pub content_type: &'static str,
    /// The text.
    pub text: String,
}
