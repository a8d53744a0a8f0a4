//! The metrics of a session: for the application's own server, or with a server of their own.

#[cfg(feature = "prometheus")]
use std::sync::Arc;

use super::Session;
use crate::prometheus::Metrics;
#[cfg(feature = "prometheus")]
use crate::prometheus::{MetricsError, MetricsServer, MetricsToken};

impl Session {
    /// The metrics of all processes and groups since the start of the session, for Prometheus. An
    /// application that has a server of its own answers scrapes with their
    /// [text](Metrics::text). Times of groups need a [monitor](Self::monitor).
    ///
    /// Reads all pools at most once a second, and sends no message to a process.
    /// `docs/prometheus.md` lists the metrics and their cost.
    pub fn metrics(&self) -> Metrics {
        self.metrics.read()
    }

    /// Serves the metrics at `/metrics` of this address of this machine (port 0: any free port),
    /// until the server is dropped or the session ends. Groups are measured meanwhile. A scraper
    /// sends the random [token](MetricsServer::token) of the server in the header `Authorization:
    /// Bearer TOKEN`.
    ///
    /// # Errors
    /// [`MetricsError`]; nothing is served then.
    #[cfg(feature = "prometheus")]
    pub fn serve_metrics(
        &self,
        address: std::net::SocketAddr,
    ) -> Result<MetricsServer, MetricsError> {
        self.serve_metrics_with(address, MetricsToken::generate()?)
    }

    /// Like [`Session::serve_metrics`], with a token that does not change with the session:
    /// [`MetricsToken::of_file`].
    ///
    /// # Errors
    /// As [`Session::serve_metrics`].
    #[cfg(feature = "prometheus")]
    pub fn serve_metrics_with(
        &self,
        address: std::net::SocketAddr,
        token: MetricsToken,
    ) -> Result<MetricsServer, MetricsError> {
        let reader = Arc::clone(&self.metrics);
        let monitor = self.monitor(crate::groups::SHOWN_PROBES);
        MetricsServer::start(address, token, reader, self.end.receiver(), monitor)
    }
}
