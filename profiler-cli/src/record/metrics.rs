//! `profiler record --metrics`: serves the metrics of the recording for Prometheus.
//!
//! Invariant: the token is not in an argument. It is in a file that the user names, or in the link
//! that the command prints.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use profiler_parent::Session;
use profiler_prometheus::{MetricsServer, MetricsToken};

use crate::console::tell;
use crate::plain::plain;
use crate::units;

/// The options about metrics.
#[derive(Debug, Args)]
pub(super) struct MetricsArgs {
    /// Serves the metrics of the recording for Prometheus, at /metrics of this address of this
    /// machine, and prints their link; port 0 is any free port, and a port alone is a port of
    /// 127.0.0.1
    #[arg(long = "metrics", value_name = "ADDR", value_parser = units::address)]
    address: Option<SocketAddr>,
    /// The file with the token that a scraper must send (`credentials_file` of Prometheus); made
    /// with a random token if it does not exist [default: a token in the link]
    #[arg(long = "metrics-token", value_name = "FILE", requires = "address")]
    token_file: Option<PathBuf>,
}

impl MetricsArgs {
    /// Serves the metrics until the returned value is dropped, and prints where, if that was asked
    /// for.
    pub(super) fn serve(&self, session: &Session) -> Result<Option<MetricsServer>> {
        let Some(address) = self.address else {
            return Ok(None);
        };
        let Some(file) = &self.token_file else {
            let server = MetricsServer::start(session, address)?;
            tell(&format!("profiler: metrics at {}", server.secret_url()));
            return Ok(Some(server));
        };
        let server = MetricsServer::start_with(session, address, MetricsToken::of_file(file)?)?;
        tell(&format!(
            "profiler: metrics at http://{}/metrics, for clients with the token in {}",
            server.address(),
            plain(&file.display().to_string())
        ));
        Ok(Some(server))
    }
}
