//! The live page: shows in a browser which groups are slow now, and serves the same data as JSON
//! for programs.
//!
//! [`Session::serve_live`](crate::Session::serve_live) starts one thread with a small web server on
//! loopback; `profiler record --live` and `profiler top` use it. Except for the alerts, processes
//! are read only on request: a request reads the pools of all processes, at most once a second
//! ([`snapshot_cache`]), and the timeline is observed only while the page shows it ([`markers`]).
//! Invariants:
//!
//! - The server listens on loopback only, and ends with the session.
//! - A client without the token (128 random bits in the address) learns nothing. The page does not
//!   pass the token on, not even to the viewer, which gets a profile by a path with a separate
//!   secret.
//! - A page of another site cannot reach the server under its own host name: the `Host` header is
//!   checked.
//! - All kept data is bounded. Requests to the server send no message to a child process. Starting
//!   and ending the page switches probes on and off in all processes.
//!
//! ```text
//! browser, profiler top ──▶ profiler_http: one thread ──▶ routes: token, paths
//!                                                  ├─▶ snapshot_cache: at most 1/s ──▶ pools
//!                                                  ├─▶ groups, processes, counters: rows of it
//!                                                  ├─▶ profiler_flame, on a worker and two threads
//!                                                  ├─▶ alerts: the latest    markers: an observer
//!                                                  └─▶ profiles: a thread per capture ──▶ files
//! ```
//!
//! # Paths
//! All are below `http://ADDRESS/TOKEN/`. Times are in nanoseconds; points in time are counted from
//! the session's start.
//!
//! | path | content |
//! |---|---|
//! | `GET` (no further path), `live.css`, `live.js`, `flame.js`, `waits.js` | the page |
//! | `GET live.json` | `session`, `groups`, `processes`, `counters`, `alerts`, `profiles` at once |
//! | `GET session.json` | time, memory limit, memory in use, deadlocks |
//! | `GET groups.json` | groups merged over processes |
//! | `GET processes.json` | processes |
//! | `GET counters.json` | counters summed over all processes, with their recent values |
//! | `GET flame.json` | the flame graph of all processes, and the table of their functions |
//! | `GET waits.json` | for whom the threads of each process wait, and for how long |
//! | `GET alerts.json` | the latest alerts |
//! | `GET markers.json` | observed markers, at most 500 and 1 MiB; further ones are counted |
//! | `GET profiles.json` | profiles captured from the page |
//! | `GET profiles/NAME` | the file of such a profile |
//! | `GET metrics` | the metrics for Prometheus, as text, if the [options](LiveOptions::metrics) have them |
//! | `POST capture` | starts a capture; answers with the number of the profile in the list |
//!
//! Parameters; `live.json` accepts those of its parts:
//!
//! - `groups.json`: `window=start` or `10s`; `sort=` a column (`wall`, `cpu`, `off-cpu`,
//!   `blocking`, `ticks`, `runs`, `p50`, `p99`, `longest`, `janky`, `processes`, `kind`,
//!   `name`); `order=desc` or `asc`; `top=` a number or `all`; `kind=`; `find=` a part of the name;
//!   `open=` the key of a row that shall include its `members`, one per process; may be repeated.
//! - `processes.json`: `psort=` a column (`order`, `name`, `pid`, `state`, `memory`, `resident`,
//!   `cpu`, `rate`, `lost`); `porder=`; `ptop=`.
//! - `flame.json`: `window=10s`, `60s` or `start`; `time=on-cpu`, `off-cpu` or `all`; `process=`
//!   the key of a process (all processes are listed anyway), and `thread=` the system's number of
//!   one of its threads; `group=` kind, colon and name; `inverted=1`; `compare=1` adds the time in
//!   the window before; `find=` a part of the name of a function or its file; `path=` the `id`s
//!   of the functions from the root to the node to show, joined by dots; `nodes=` and `rows=` the
//!   largest numbers of nodes and of functions; `sort=` a column of the functions (`self`, `total`,
//!   `change`, `name`); `order=`.
//! - `waits.json`: `window=10s`, `60s` or `start`.
//! - `alerts.json`: `alert=` a number: only later alerts.
//! - `markers.json`: `after=` a number: only later markers; `name=`, `process=`, `thread=`
//!   (patterns); `category=`, `group=` (names); `min_ms=`.
//! - `capture`: `from=` and `to=` for a range; `last_ms=` for the last milliseconds; `alert=` for
//!   the time of an alert; without these, everything is captured; `what=` a description of the
//!   content, for the list.
//!
//! A scraper may send the token in the header `Authorization: Bearer TOKEN` instead, with the path
//! `/metrics`, because it may show the paths that it scrapes.
//!
//! The `link` of a profile is a second path of the same file, on this server but not below the
//! token, which pages of other sites may read.

mod alerts;
mod counters;
mod flame_sources;
mod groups;
mod markers;
mod metrics_page;
mod processes;
mod profiles;
mod routes;
mod snapshot_cache;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use profiler_sys::new_secret;

use crate::alerts::{AlertRules, AlertTarget, Alerts, AlertsError, EvidenceOptions};
use crate::capture::CaptureSources;
use crate::controller::MemoryLimit;
use crate::groups::{Monitor, SnapshotReader};
use crate::observe::ObserverRegistry;
use crate::process_table::ProcessTable;
use alerts::AlertLog;
use flame_sources::SampledSession;
use markers::Markers;
pub use metrics_page::{MetricsPage, MetricsText};
use profiler_flame::FlameGraph;
use profiler_http::{Hosts, HttpServer, NoListener, ServerOptions, listen_on_loopback};
use profiles::Profiles;
use routes::Routes;
use snapshot_cache::SnapshotCache;

/// The reason why the page cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// Other machines could reach the address.
    #[error("{0} is not a loopback address: use 127.0.0.1 or [::1]")]
    NotLoopback(SocketAddr),
    /// The port is in use, or not permitted.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The system returned no random bytes.
    #[error("no random bytes: {0}")]
    Token(#[source] io::Error),
    /// The alerts of the page cannot be started.
    #[error(transparent)]
    Alerts(#[from] AlertsError),
    /// The system cannot start a thread.
    #[error("cannot start the live page: {0}")]
    System(#[from] io::Error),
}

/// Options of the live page.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they are given to Session::serve_live_with"]
pub struct LiveOptions {
    rules: Option<AlertRules>,
    evidence: EvidenceOptions,
    metrics: Option<Arc<dyn MetricsPage>>,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            rules: Some(AlertRules::default()),
            evidence: EvidenceOptions::none(),
            metrics: None,
        }
    }
}

impl LiveOptions {
    /// Shows alerts by these rules; `None` for no alerts, which saves reading all groups five times
    /// a second.
    pub fn alerts(mut self, rules: Option<AlertRules>) -> Self {
        self.rules = rules;
        self
    }

    /// Writes evidence when an alert is raised. By default, evidence is written on request of the
    /// page, as long as the data is kept.
    pub fn evidence(mut self, evidence: EvidenceOptions) -> Self {
        self.evidence = evidence;
        self
    }

    /// Shows metrics at the path `metrics`. `profiler_prometheus::on_live_page` passes those for
    /// Prometheus.
    pub fn metrics(mut self, page: Arc<dyn MetricsPage>) -> Self {
        self.metrics = Some(page);
        self
    }

    /// The page of the metrics.
    pub(crate) fn metrics_page(&self) -> Option<Arc<dyn MetricsPage>> {
        self.metrics.clone()
    }

    /// Starts the alerts of the page with `start`, if it shows alerts, and keeps the latest of
    /// them.
    ///
    /// # Errors
    /// The error of `start`.
    pub(crate) fn start_alerts(
        self,
        start: impl FnOnce(AlertRules, EvidenceOptions) -> Result<Alerts, AlertsError>,
    ) -> Result<(Arc<AlertLog>, Option<Alerts>), AlertsError> {
        let alert_log = Arc::<AlertLog>::default();
        let Some(rules) = self.rules else {
            return Ok((alert_log, None));
        };
        let alerts = start(rules, self.evidence)?;
        let log = Arc::clone(&alert_log);
        // These are the first listeners, so there is no duplicate.
        let _ = alerts.add(AlertTarget::All, "live", move |alerts| log.add(alerts));
        Ok((alert_log, Some(alerts)))
    }
}

/// The data that the page shows.
#[derive(Debug)]
pub(crate) struct LiveSources {
    pub(crate) processes: Arc<ProcessTable>,
    pub(crate) limit: Arc<MemoryLimit>,
    pub(crate) groups: Arc<SnapshotReader>,
    pub(crate) captures: Arc<CaptureSources>,
    pub(crate) observers: ObserverRegistry,
    pub(crate) metrics: Option<Arc<dyn MetricsPage>>,
    /// Disconnected when the session ends.
    pub(crate) session_end: Receiver<()>,
}

/// The running live page. The page ends when this value is dropped or the session ends. Dropping
/// the value removes the profiles that were captured from the page.
#[must_use = "the page is gone when this is dropped"]
pub struct LiveServer {
    address: SocketAddr,
    token: String,
    _server: HttpServer,
    _alerts: Option<Alerts>,
    _monitor: Monitor,
}

/// Omits the token, which grants full access.
impl std::fmt::Debug for LiveServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl LiveServer {
    pub(crate) fn start(
        address: SocketAddr,
        sources: LiveSources,
        alert_log: Arc<AlertLog>,
        alerts: Option<Alerts>,
        monitor: Monitor,
    ) -> Result<Self, LiveError> {
        let listening = listen_on_loopback(address).map_err(|error| match error {
            NoListener::NotLoopback => LiveError::NotLoopback(address),
            NoListener::Refused(source) => LiveError::Listen { address, source },
        });
        let (listener, address) = listening?;
        let token = new_secret().map_err(LiveError::Token)?;
        let LiveSources {
            processes,
            limit,
            groups,
            captures,
            observers,
            metrics,
            session_end,
        } = sources;
        let sampled = SampledSession {
            processes: Arc::clone(&processes),
            groups: Arc::clone(&groups),
        };
        let flame = Arc::new(FlameGraph::new(Arc::new(sampled), captures.symbols.clone()));
        let routes = Routes {
            token: token.clone(),
            hosts: Hosts::of(address),
            snapshots: SnapshotCache::new(processes, limit, groups),
            flame,
            alerts: alert_log,
            markers: Markers::new(observers),
            metrics,
            profiles: Profiles::new(captures)?,
        };
        let options = ServerOptions {
            thread_name: "profiler-live",
            keep_alive: true,
            session_end,
        };
        let server = HttpServer::start(listener, Arc::new(routes), options)?;
        Ok(Self {
            address,
            token,
            _server: server,
            _alerts: alerts,
            _monitor: monitor,
        })
    }

    /// The address that the server listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The page's address, with a slash at the end. It is a secret of the user: every program that
    /// has it can read the page and capture profiles.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }
}
