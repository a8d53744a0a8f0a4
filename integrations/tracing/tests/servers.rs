//! Programs that use `tracing` in their own ways: `#[instrument]`, tokio's tasks, and the crates
//! hyper and h2, whose own spans and events are recorded with those of the program.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use profiler_tracing::{RecordingRules, SpanFlow};
use test_support::own_process;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument, info, info_span, instrument};

use crate::support::{Phase, RunningSession, Seen, Value, beyond_filters, dropped, markers, named};

const CLIENTS: u64 = 8;
const REQUESTS: u64 = 50;
const FLOW: &str = "x-flow";

#[instrument(skip_all, fields(path = request.uri().path()))]
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let flow = request
        .headers()
        .get(FLOW)
        .and_then(|text| text.to_str().ok());
    flow.and_then(|text| text.parse().ok()).map(SpanFlow::end);
    tokio::task::yield_now().await;
    let length = request.uri().path().len();
    Ok(Response::new(Full::from(digest(length))))
}

#[instrument]
fn digest(length: usize) -> String {
    info!(length, "digested");
    length.to_string()
}

async fn serve(listener: TcpListener) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let connection = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

async fn connect(address: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let connection = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = connection.unwrap();
    tokio::spawn(connection);
    sender
}

#[instrument(skip(sender))]
async fn fetch(sender: &mut SendRequest<Empty<Bytes>>, path: String) -> Bytes {
    let mut request = Request::get(format!("http://localhost{path}"));
    if let Some(flow) = SpanFlow::begin() {
        request = request.header(FLOW, flow.to_string());
    }
    let request = request.body(Empty::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    answer.into_body().collect().await.unwrap().to_bytes()
}

async fn client(address: SocketAddr, number: u64) {
    let mut sender = connect(address).await;
    for request in 0..REQUESTS {
        let path = format!("/{number}/{request}");
        let length = path.len().to_string();
        assert_eq!(fetch(&mut sender, path).await, length);
    }
}

/// Runs a server and its clients until all requests are answered.
fn run_server() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener));
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            clients.spawn(client(address, number).instrument(info_span!("client", number)));
        }
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
    });
}

/// The number of markers of this name and phase.
fn count(all: &[Seen], name: &str, phase: Phase) -> u64 {
    let seen = all
        .iter()
        .filter(|seen| seen.name == name && seen.phase == phase);
    seen.count() as u64
}

#[test]
fn all_spans_of_a_server_under_load_are_recorded_with_their_parents_and_flows() {
    own_process!();
    let rules = RecordingRules::default()
        .max_level(LevelFilter::INFO)
        .polls(true);
    tracing::subscriber::set_global_default(rules.subscriber()).unwrap();
    let _session = RunningSession::start();
    run_server();
    let all = markers();
    assert_eq!(dropped(), 0);
    let requests = CLIENTS * REQUESTS;
    for (name, spans) in [
        ("client", CLIENTS),
        ("fetch", requests),
        ("answer", requests),
        ("digest", requests),
    ] {
        for phase in [Phase::Start, Phase::End] {
            assert_eq!(count(&all, name, phase), spans, "{name} {phase:?}");
        }
    }
    assert!(
        count(&all, "answer", Phase::Interval) >= 2 * requests,
        "it yields once"
    );
    assert_parents(&all, "digest", "answer");
    assert_parents(&all, "fetch", "client");
    let flows = |name| -> Vec<Option<Value>> {
        let ends = all.iter().filter(|seen| seen.name == name);
        let mut flows: Vec<_> = ends.map(|seen| seen.field("flow")).collect();
        flows.sort_by_key(|flow| format!("{flow:?}"));
        flows
    };
    assert_eq!(flows("sent").len() as u64, requests);
    assert_eq!(flows("sent"), flows("received"));
}

/// Asserts that each span of the name `child` has a parent of the name `parent`.
fn assert_parents(all: &[Seen], child: &str, parent: &str) {
    let starts = all.iter().filter(|seen| seen.phase == Phase::Start);
    let names: HashMap<u64, &str> = starts.map(|seen| (seen.number(), &*seen.name)).collect();
    let starts = all.iter().filter(|seen| seen.phase == Phase::Start);
    for start in starts.filter(|seen| seen.name == child) {
        let Some(Value::U64(number)) = start.field("parent") else {
            panic!("{start:?} has no parent");
        };
        assert_eq!(names.get(&number), Some(&parent), "{start:?}");
    }
}

#[test]
fn the_spans_and_events_of_other_crates_are_recorded_in_their_categories() {
    own_process!();
    let rules = RecordingRules::default().max_level(LevelFilter::TRACE);
    tracing::subscriber::set_global_default(rules.subscriber()).unwrap();
    let _session = RunningSession::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener));
        assert_eq!(
            fetch(&mut connect(address).await, "/one".to_owned()).await,
            "4"
        );
    });
    let all = markers();
    let of_h2 = |phase| {
        all.iter()
            .filter(|seen| seen.category == "h2" && seen.phase == phase)
            .count()
    };
    assert!(of_h2(Phase::Instant) > 0, "events of h2");
    assert!(of_h2(Phase::Start) > 0, "spans of h2");
    assert_eq!(
        of_h2(Phase::Start),
        of_h2(Phase::End),
        "all connections are closed"
    );
    assert_eq!(dropped(), 0);
}

#[test]
fn a_server_answers_as_before_when_a_session_starts_and_stops_under_load() {
    own_process!();
    let inner = tracing_subscriber::registry();
    tracing::subscriber::set_global_default(beyond_filters(inner)).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(run_server);
        while !server.is_finished() {
            drop(RunningSession::before_subscriber());
        }
        server.join().unwrap();
    });
    let _session = RunningSession::start();
    info_span!("after").in_scope(|| ());
    assert_eq!(named("after").len(), 2);
}
