//! Tests of the server: work that takes long does not delay other requests, and is bounded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Sender, bounded};
use test_support::patience::{LONG, until};

use super::super::RequestHead;
use super::super::answer::with_type;
use super::super::workers::MAX_WAITING;
use super::*;

mod bodies;

/// Answers `/slow` on a worker once the gate is open, and everything else at once. The work of
/// `/panic` panics.
struct TestService {
    gate: Receiver<()>,
    asked: AtomicUsize,
    running: Arc<AtomicUsize>,
}

impl HttpService for TestService {
    fn answer(&self, request: &RequestHead) -> Answered {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let text = |text: &'static str| with_type(Answer::from(text), "text/plain");
        let reply = match request.uri().path() {
            "/slow" => {
                let (gate, running) = (self.gate.clone(), Arc::clone(&self.running));
                Reply::Work(Box::new(move || {
                    running.fetch_add(1, Ordering::Relaxed);
                    let _ = gate.recv();
                    text("slow")
                }))
            }
            "/panic" => Reply::Work(Box::new(|| -> Response<Answer> { panic!("on purpose") })),
            _ => Reply::Now(text("quick")),
        };
        Answered {
            reply,
            has_token: true,
        }
    }
}

struct Tester {
    service: Arc<TestService>,
    /// Dropping it opens the gate.
    gate: Option<Sender<()>>,
    address: SocketAddr,
    _session: Sender<()>,
    _server: HttpServer,
}

impl Tester {
    fn new() -> Self {
        let (gate, closed) = bounded(0);
        let (session, session_end) = bounded(0);
        let service = Arc::new(TestService {
            gate: closed,
            asked: AtomicUsize::new(0),
            running: Arc::default(),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let options = ServerOptions {
            thread_name: "test-http",
            keep_alive: true,
            session_end,
        };
        let server = HttpServer::start(listener, Arc::clone(&service), options).unwrap();
        Self {
            service,
            gate: Some(gate),
            address,
            _session: session,
            _server: server,
        }
    }

    /// Sends a request.
    fn send(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends requests for work that waits for the gate.
    fn send_slow(&self, count: usize) -> Vec<TcpStream> {
        (0..count).map(|_| self.send("/slow")).collect()
    }

    fn running(&self) -> usize {
        self.service.running.load(Ordering::Relaxed)
    }

    fn asked(&self) -> usize {
        self.service.asked.load(Ordering::Relaxed)
    }
}

/// The status of the answer.
fn answer(mut stream: TcpStream) -> u16 {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_request_is_answered_while_work_for_another_request_runs() {
    let mut tester = Tester::new();
    let slow = tester.send("/slow");
    assert!(until(|| tester.running() == 1), "the work does not begin");
    assert_eq!(answer(tester.send("/quick")), 200);
    tester.gate = None;
    assert_eq!(answer(slow), 200);
}

#[test]
fn work_beyond_the_limits_is_refused_and_all_other_work_is_done() {
    let mut tester = Tester::new();
    let mut slow = tester.send_slow(WORKERS);
    assert!(until(|| tester.running() == WORKERS), "not all workers run");
    slow.extend(tester.send_slow(MAX_WAITING));
    assert!(until(|| tester.asked() == WORKERS + MAX_WAITING));
    assert_eq!(answer(tester.send("/slow")), 503);
    assert_eq!(tester.running(), WORKERS, "too many run at once");
    assert_eq!(answer(tester.send("/quick")), 200);
    tester.gate = None;
    for stream in slow {
        assert_eq!(answer(stream), 200);
    }
    assert_eq!(answer(tester.send("/slow")), 200, "no room was given back");
}

#[test]
fn work_that_panics_is_answered_and_ends_no_worker() {
    let mut tester = Tester::new();
    tester.gate = None;
    for _ in 0..2 * WORKERS {
        assert_eq!(answer(tester.send("/panic")), 500);
    }
    assert_eq!(answer(tester.send("/slow")), 200);
}
