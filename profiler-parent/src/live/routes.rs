//! The paths of the page, and the answers to them.
//!
//! Called by the server's thread for each request. The flame graph, the graph of waits and
//! the metrics for Prometheus are computed on a worker thread, because they take long; everything
//! else is answered at once.
//! Invariants: a client without the token gets the same empty answer for every path; a request
//! whose `Host` header contains a foreign host name is refused; pages of other sites can read only
//! profiles, each by a path with its own secret, which reveals nothing about the token.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::ACCEPT;
use hyper::{Method, Response, StatusCode};
use serde::Serialize;

use super::alerts::AlertLog;
use super::markers::Markers;
use super::metrics_page::{MetricsPage, MetricsText};
use super::processes::ProcessListing;
use super::profiles::{NotBegun, Profiles, Wanted};
use super::snapshot_cache::{LiveSnapshot, SessionRow, SnapshotCache};
use crate::session_time::SessionNs;
use profiler_flame::FlameGraph;
use profiler_http as http;
use profiler_http::{Answer, Answered, Hosts, HttpService, Query, Reply, RequestHead, Work};
use profiler_http::{bearer, is_same, json, method_not_allowed, not_found, put, status, with_type};

const PAGE: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/live.css");
const SCRIPT: &str = include_str!("page/live.js");
const FLAME_SCRIPT: &str = include_str!("page/flame.js");
const WAITS_SCRIPT: &str = include_str!("page/waits.js");

/// Headers of every answer: nothing is stored, nothing is loaded from elsewhere, and no other site
/// learns the address.
const HEADERS: [(&str, &str); 5] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];
/// The largest number of characters of the page's description of a profile.
const MAX_WORDS: usize = 200;

/// The path of the flame graph.
const FLAME: &str = "flame.json";
/// The path of the graph of waits.
const WAITS: &str = "waits.json";
/// The path of the metrics, below the token or with the token in a header.
const METRICS: &str = "metrics";

/// The service of the live page. See the head of this file.
pub(super) struct Routes {
    pub(super) token: String,
    pub(super) hosts: Hosts,
    pub(super) snapshots: SnapshotCache,
    pub(super) flame: Arc<FlameGraph>,
    pub(super) alerts: Arc<AlertLog>,
    pub(super) markers: Markers,
    pub(super) metrics: Option<Arc<dyn MetricsPage>>,
    pub(super) profiles: Profiles,
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Omits the token, which is a secret.
        f.debug_struct("Routes")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// The target of a path.
enum LiveResource<'a> {
    /// The part of the path after the token.
    Page(&'a str),
    /// A profile, by its path for pages of other sites.
    Profile(File),
}

impl HttpService for Routes {
    fn tidy(&self) {
        self.snapshots.tidy();
        self.markers.tidy(self.snapshots.now());
        if let Some(metrics) = &self.metrics {
            metrics.tidy();
        }
        self.flame.tidy(self.snapshots.now());
    }

    fn answer(&self, request: &RequestHead) -> Answered {
        let place = self.place(request);
        let has_token = place.is_ok();
        let work = |work| Answered {
            reply: Reply::Work(work),
            has_token,
        };
        let mut response = match place {
            Ok(LiveResource::Page(FLAME)) if is_reading(request.method()) => {
                return work(self.flame(request));
            }
            Ok(LiveResource::Page(WAITS)) if is_reading(request.method()) => {
                return work(self.waits(request));
            }
            Ok(LiveResource::Page(METRICS)) if is_reading(request.method()) => {
                match &self.metrics {
                    Some(page) => return work(metrics(page, request)),
                    None => not_found(),
                }
            }
            Ok(LiveResource::Page(place)) => self.serve(place, request),
            Ok(LiveResource::Profile(file)) => for_any_page(file, request),
            Err(refusal) => status(refusal),
        };
        put(&mut response, &HEADERS);
        Answered {
            reply: Reply::Now(response),
            has_token,
        }
    }
}

/// Writes the metrics in the format that the request asks for.
fn metrics(page: &Arc<dyn MetricsPage>, request: &RequestHead) -> Work {
    let page = Arc::clone(page);
    let accepted = request.headers().get_all(ACCEPT).iter();
    let accepted: Vec<&str> = accepted.filter_map(|value| value.to_str().ok()).collect();
    let accepted = accepted.join(",");
    Box::new(move || {
        let MetricsText { content_type, text } = page.text(&accepted);
        let mut response = with_type(text.into_bytes().into(), content_type);
        put(&mut response, &HEADERS);
        response
    })
}

impl Routes {
    fn place<'a>(&self, request: &'a RequestHead) -> Result<LiveResource<'a>, StatusCode> {
        if !self.hosts.accept(request) {
            return Err(StatusCode::FORBIDDEN);
        }
        let path = request.uri().path().strip_prefix('/');
        if path == Some(METRICS) && bearer(request).is_some_and(|token| is_same(token, &self.token))
        {
            return Ok(LiveResource::Page(METRICS));
        }
        let below = path.and_then(|path| path.split_once('/'));
        let (secret, place) = below.ok_or(StatusCode::NOT_FOUND)?;
        if is_same(secret, &self.token) {
            return Ok(LiveResource::Page(place));
        }
        self.profiles
            .shared(secret, place)
            .map(LiveResource::Profile)
            .ok_or(StatusCode::NOT_FOUND)
    }

    fn serve(&self, place: &str, request: &RequestHead) -> Response<Answer> {
        let query = query_of(request);
        match (request.method(), place) {
            (&Method::POST, "capture") => self.capture(&query),
            (_, "capture") => method_not_allowed("POST"),
            (method, _) if is_reading(method) => self.get(place, &query),
            _ => method_not_allowed("GET, HEAD"),
        }
    }

    /// Computes the flame graph.
    fn flame(&self, request: &RequestHead) -> Work {
        let flame = Arc::clone(&self.flame);
        let query = query_of(request);
        Box::new(move || {
            let mut response = match flame.view(&query) {
                Ok(view) => json(&view),
                Err(_) => status(StatusCode::SERVICE_UNAVAILABLE),
            };
            put(&mut response, &HEADERS);
            response
        })
    }

    /// Computes the graph of waits.
    fn waits(&self, request: &RequestHead) -> Work {
        let flame = Arc::clone(&self.flame);
        let query = query_of(request);
        Box::new(move || {
            let mut response = match flame.waits(&query) {
                Ok(graph) => json(&graph),
                Err(_) => status(StatusCode::SERVICE_UNAVAILABLE),
            };
            put(&mut response, &HEADERS);
            response
        })
    }

    fn get(&self, place: &str, query: &Query) -> Response<Answer> {
        match place {
            "" => file(PAGE, "text/html; charset=utf-8"),
            "live.css" => file(STYLE, "text/css; charset=utf-8"),
            "live.js" => file(SCRIPT, "text/javascript; charset=utf-8"),
            "waits.js" => file(WAITS_SCRIPT, "text/javascript; charset=utf-8"),
            "flame.js" => file(FLAME_SCRIPT, "text/javascript; charset=utf-8"),
            "live.json" => self.everything(query),
            "session.json" => json(&self.snapshots.latest().session),
            "groups.json" => self.snapshots.latest().groups(query, |table| json(table)),
            "processes.json" => json(&ProcessListing::new(
                &self.snapshots.latest().processes,
                query,
            )),
            "counters.json" => json(&self.snapshots.latest().counters),
            "alerts.json" => json(&self.alerts.after(query.number("alert").unwrap_or(0))),
            "profiles.json" => json(&self.profiles.all()),
            "markers.json" => match self.markers.view(query, self.snapshots.now()) {
                Ok(view) => json(&view),
                Err(_) => status(StatusCode::SERVICE_UNAVAILABLE),
            },
            _ => place
                .strip_prefix("profiles/")
                .map_or_else(not_found, |name| self.profile(name)),
        }
    }

    fn everything(&self, query: &Query) -> Response<Answer> {
        #[derive(Serialize)]
        struct Everything<'a, G, A, P> {
            session: &'a SessionRow,
            groups: G,
            processes: ProcessListing<'a>,
            counters: &'a [super::counters::CounterRow],
            alerts: A,
            profiles: P,
        }
        let snapshot: &LiveSnapshot = &self.snapshots.latest();
        let alerts = self.alerts.after(query.number("alert").unwrap_or(0));
        let profiles = self.profiles.all();
        snapshot.groups(query, |groups| {
            json(&Everything {
                session: &snapshot.session,
                groups,
                processes: ProcessListing::new(&snapshot.processes, query),
                counters: &snapshot.counters,
                alerts,
                profiles,
            })
        })
    }

    fn profile(&self, name: &str) -> Response<Answer> {
        self.profiles
            .open(name)
            .and_then(attachment)
            .unwrap_or_else(not_found)
    }

    fn capture(&self, query: &Query) -> Response<Answer> {
        #[derive(Serialize)]
        struct Begun {
            number: u64,
        }
        let Some(wanted) = self.wanted(query) else {
            return not_found();
        };
        let what: String = query
            .get("what")
            .unwrap_or_default()
            .chars()
            .take(MAX_WORDS)
            .collect();
        match self.profiles.begin(wanted, what) {
            Ok(number) => {
                let mut response = json(&Begun { number });
                *response.status_mut() = StatusCode::ACCEPTED;
                response
            }
            Err(NotBegun::Busy) => status(StatusCode::CONFLICT),
            Err(NotBegun::System) => status(StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    /// The requested content of a profile; `None` for the time of an alert that is not kept any
    /// more.
    fn wanted(&self, query: &Query) -> Option<Wanted> {
        if let Some(number) = query.get("alert") {
            let alert = self.alerts.get(number.parse().ok()?)?;
            let range = Wanted::Range(alert.from, alert.to);
            return Some(
                alert
                    .evidence
                    .filter(|file| file.exists())
                    .map_or(range, Wanted::File),
            );
        }
        let from = query.number("from");
        let to = query.number("to");
        let last = query.number("last_ms").map(Duration::from_millis);
        Some(match (from, to, last) {
            (Some(from), Some(to), _) => Wanted::Range(SessionNs(from), SessionNs(to)),
            (_, _, Some(last)) => Wanted::Last(last),
            _ => Wanted::All,
        })
    }
}

fn query_of(request: &RequestHead) -> Query {
    Query::parse(request.uri().query().unwrap_or_default())
}

/// Whether a request only reads.
fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// A profile as a file to download.
fn attachment(file: File) -> Option<Response<Answer>> {
    let mut response = http::of_file(Arc::new(file), "application/gzip")?;
    put(&mut response, &[("content-disposition", "attachment")]);
    Some(response)
}

/// A profile by its own path, for the viewer's page.
fn for_any_page(file: File, request: &RequestHead) -> Response<Answer> {
    const METHODS: &str = "GET, HEAD, OPTIONS";
    http::for_any_origin(match *request.method() {
        Method::GET | Method::HEAD => attachment(file).unwrap_or_else(not_found),
        Method::OPTIONS => http::preflight(request, METHODS),
        _ => method_not_allowed(METHODS),
    })
}

fn file(text: &'static str, kind: &'static str) -> Response<Answer> {
    with_type(Answer::from(text), kind)
}
