//! Programs that use `tracing` in their own ways: `#[instrument]`, tokio's tasks, and the crates
//! hyper and h2, whose own spans and events are recorded with those of the program.

use std::collections::{HashMap, HashSet};
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
use recorded_session::{Phase, RunningSession, Seen, Value, dropped, markers, named};
use test_support::own_process;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument, info, info_span, instrument};

use crate::support::{beyond_filters, start, start_with};

const CLIENTS: u64 = 8;
const REQUESTS: u64 = 50;
const FLOW: &str = "x-flow";

#[instrument(skip_all, fields(path = request.uri().path()))]
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let flow = request
        .headers()
        .get(FLOW)
        .and_then(|text| text.to_str().ok());
    if let Some(flow) = flow.and_then(|text| text.parse::<SpanFlow>().ok()) {
        flow.end();
    }
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
    let _session = start_with(rules.subscriber());
    run_server();
    let (all, lost) = (markers(), dropped());
    let requests = CLIENTS * REQUESTS;
    let spans = [
        ("client", CLIENTS),
        ("fetch", requests),
        ("answer", requests),
        ("digest", requests),
    ];
    for (name, spans) in spans {
        for phase in [Phase::Start, Phase::End] {
            let seen = count(&all, name, phase);
            assert!(
                seen <= spans && spans - seen <= lost,
                "{seen} {name} {phase:?}"
            );
        }
    }
    // Each yields once.
    assert!(count(&all, "answer", Phase::Interval) + lost >= 2 * requests);
    assert_parents(&all, "digest", "answer", lost);
    assert_parents(&all, "fetch", "client", lost);
    let flows = |name| -> HashSet<String> {
        let ends = all.iter().filter(|seen| seen.name == name);
        ends.map(|seen| format!("{:?}", seen.field("flow")))
            .collect()
    };
    let (sent, received) = (flows("sent"), flows("received"));
    assert!(sent.len() as u64 + lost >= requests);
    assert!(sent.symmetric_difference(&received).count() as u64 <= lost);
}

/// Asserts that all spans of the name `child`, except as many as were lost, have a parent of the
/// name `parent`.
fn assert_parents(all: &[Seen], child: &str, parent: &str, lost: u64) {
    let starts = || all.iter().filter(|seen| seen.phase == Phase::Start);
    let names: HashMap<u64, &str> = starts().map(|seen| (seen.span(), &*seen.name)).collect();
    let children = starts().filter(|seen| seen.name == child);
    let parents = children.map(|start| match start.field("parent") {
        Some(Value::U64(number)) => names.get(&number).copied(),
        _ => panic!("{start:?} has no parent"),
    });
    let (known, unknown): (Vec<_>, Vec<_>) = parents.partition(Option::is_some);
    assert!(known.iter().all(|name| *name == Some(parent)), "{known:?}");
    assert!(unknown.len() as u64 <= lost, "{unknown:?}");
}

#[test]
fn the_spans_and_events_of_other_crates_are_recorded_in_their_categories() {
    own_process!();
    let rules = RecordingRules::default().max_level(LevelFilter::TRACE);
    let _session = start_with(rules.subscriber());
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
    let open = of_h2(Phase::Start).abs_diff(of_h2(Phase::End)) as u64;
    assert!(open <= dropped(), "all connections are closed");
}

#[test]
fn a_server_answers_as_before_when_a_session_starts_and_stops_under_load() {
    own_process!();
    let inner = tracing_subscriber::registry();
    tracing::subscriber::set_global_default(beyond_filters(inner)).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(run_server);
        let mut sessions = 0;
        while !server.is_finished() || sessions < 3 {
            drop(RunningSession::start());
            sessions += 1;
        }
        server.join().unwrap();
    });
    let _session = start();
    info_span!("after").in_scope(|| ());
    assert_eq!(named("after").len(), 2);
}
