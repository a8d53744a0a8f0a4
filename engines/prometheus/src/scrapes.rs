//! The metrics of one session: read on request, for all that serve them.
//!
//! Used by the server, by the live page and by applications. The readings of a session are shared.

use std::sync::Arc;

use profiler_parent::internal::session_metrics::MetricsReader;
use profiler_parent::{LiveOptions, MetricsPage, MetricsText, Session};

use super::metrics::Metrics;
use super::text_format::TextFormat;

/// The metrics of all processes and groups since the start of the session, for Prometheus. An
/// application that has a server of its own answers scrapes with their [text](Metrics::text).
/// Times of groups need a [monitor](Session::monitor).
///
/// Reads all pools at most once a second, and sends no message to a process. `docs/prometheus.md`
/// lists the metrics and their cost.
pub fn session_metrics(session: &Session) -> Metrics {
    Scrapes::of(session).read()
}

/// Adds the metrics of the session to its live page, at the path `metrics`.
pub fn on_live_page(session: &Session, options: LiveOptions) -> LiveOptions {
    options.metrics(Arc::new(Scrapes::of(session)))
}

/// Answers scrapes.
#[derive(Clone, Debug)]
pub(crate) struct Scrapes(Arc<MetricsReader>);

impl Scrapes {
    /// The scrapes of a session.
    pub(crate) fn of(session: &Session) -> Self {
        Self(session.metrics_reader())
    }

    fn read(&self) -> Metrics {
        let (reading, cost) = self.0.read();
        Metrics { reading, cost }
    }

    /// The text for a scrape. The time that writing it takes is in later ones.
    pub(crate) fn text_in(&self, format: TextFormat) -> String {
        let metrics = self.read();
        let start_ns = self.0.now();
        let text = metrics.text(format);
        self.0.add_writing_time(start_ns);
        text
    }
}

impl MetricsPage for Scrapes {
    fn text(&self, accepted: &str) -> MetricsText {
        let format = TextFormat::accepted(accepted);
        MetricsText {
            content_type: format.content_type(),
            text: self.text_in(format),
        }
    }

    fn tidy(&self) {
        self.0.tidy();
    }
}
