//! The server of the metrics alone, for applications without the live page.
//!
//! Invariants: it listens on
//! loopback only, and ends with the session; a client without the token gets the same empty answer
//! for every path.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::{Method, StatusCode};

use super::answer::{METRICS, answer};
use super::scrapes::Scrapes;
use profiler_files::secret_file::{MetricsToken, TokenError};
use profiler_http::{
    Answered, Hosts, HttpServer, HttpService, NoListener, Reply, RequestHead, ServerOptions,
};
use profiler_http::{
    bearer, is_same, listen_on_loopback, method_not_allowed, not_found, put, status,
};
use profiler_parent::internal::session_metrics::SHOWN_PROBES;
use profiler_parent::{MetricsPage, Monitor, Session};

/// Headers of every answer: nothing is stored, and no page of another site can use it.
const HEADERS: [(&str, &str); 3] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// The reason why the metrics cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
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
    /// There is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The system cannot start a thread.
    #[error("cannot start the server of the metrics: {0}")]
    System(#[from] io::Error),
}

/// The running server of the metrics. It ends when this value is dropped or the session ends.
#[must_use = "the metrics are not served after this is dropped"]
pub struct MetricsServer {
    address: SocketAddr,
    token: MetricsToken,
    _server: HttpServer,
    _monitor: Monitor,
}

/// Omits the token.
impl fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl MetricsServer {
    /// Serves the metrics of a session at `/metrics` of this address of this machine (port 0: any
    /// free port), until the server is dropped or the session ends. Groups are measured meanwhile.
    /// A scraper sends the random [token](Self::token) of the server in the header `Authorization:
    /// Bearer TOKEN`.
    ///
    /// # Errors
    /// [`MetricsError`]; nothing is served then.
    pub fn start(session: &Session, address: SocketAddr) -> Result<Self, MetricsError> {
        Self::start_with(session, address, MetricsToken::generate()?)
    }

    /// Like [`MetricsServer::start`], with a token that does not change with the session:
    /// [`MetricsToken::of_file`].
    ///
    /// # Errors
    /// As [`MetricsServer::start`].
    pub fn start_with(
        session: &Session,
        address: SocketAddr,
        token: MetricsToken,
    ) -> Result<Self, MetricsError> {
        let scrapes = Scrapes::of(session);
        let monitor = session.monitor(SHOWN_PROBES);
        let session_end = session.end_receiver();
        let listening = listen_on_loopback(address).map_err(|error| match error {
            NoListener::NotLoopback => MetricsError::NotLoopback(address),
            NoListener::Refused(source) => MetricsError::Listen { address, source },
        });
        let (listener, address) = listening?;
        let service = MetricsService {
            token: token.clone(),
            hosts: Hosts::of(address),
            scrapes,
        };
        let options = ServerOptions {
            thread_name: "profiler-scrape",
            keep_alive: true,
            session_end,
        };
        Ok(Self {
            address,
            token,
            _server: HttpServer::start(listener, Arc::new(service), options)?,
            _monitor: monitor,
        })
    }

    /// The address that the server listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The token that a scraper must send.
    pub const fn token(&self) -> &MetricsToken {
        &self.token
    }

    /// The address of the metrics with the token in it, which is a secret: for a person, or for a
    /// scraper that can send no header. Prometheus shows the addresses that it scrapes, so let it
    /// send the token in a header.
    pub fn secret_url(&self) -> String {
        format!("http://{}/{}/{METRICS}", self.address, self.token.reveal())
    }
}

/// The service of the metrics.
struct MetricsService {
    token: MetricsToken,
    hosts: Hosts,
    scrapes: Scrapes,
}

impl MetricsService {
    /// The part of the path below the token; `None` if the request has no token.
    fn place<'a>(&self, request: &'a RequestHead) -> Option<&'a str> {
        let path = request.uri().path().strip_prefix('/')?;
        if bearer(request).is_some_and(|token| is_same(token, self.token.reveal())) {
            return Some(path);
        }
        let (secret, place) = path.split_once('/')?;
        is_same(secret, self.token.reveal()).then_some(place)
    }

    fn reply(&self, request: &RequestHead, place: Option<&str>) -> Reply {
        let mut response = match (place, request.method()) {
            _ if !self.hosts.accept(request) => status(StatusCode::FORBIDDEN),
            (Some(METRICS), &Method::GET | &Method::HEAD) => {
                return Reply::Work(answer(&self.scrapes, request, &HEADERS));
            }
            (Some(METRICS), _) => method_not_allowed("GET, HEAD"),
            _ => not_found(),
        };
        put(&mut response, &HEADERS);
        Reply::Now(response)
    }
}

impl HttpService for MetricsService {
    fn answer(&self, request: &RequestHead) -> Answered {
        let place = self.place(request);
        Answered {
            reply: self.reply(request, place),
            has_token: place.is_some(),
        }
    }

    fn tidy(&self) {
        MetricsPage::tidy(&self.scrapes);
    }
}
