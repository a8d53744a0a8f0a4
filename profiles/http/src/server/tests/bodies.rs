//! A test of the server with a service whose work on a body takes long.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};

use crossbeam_channel::{Sender, bounded, never};
use test_support::patience::LONG;

use super::super::*;
use crate::RequestHead;

/// Connections with the token that the server keeps.
const KEPT: usize = 64;

/// Answers a POST when the test ends the work, and every other request at once, as to a client
/// without the token.
struct Slow {
    begun: Sender<()>,
    end: Receiver<()>,
}

impl HttpService for Slow {
    fn answer(&self, request: &RequestHead) -> Answered {
        if request.method() != hyper::Method::POST {
            return Answered {
                reply: Reply::Now(status(StatusCode::NOT_FOUND)),
                has_token: false,
            };
        }
        let begun = self.begun.clone();
        let end = self.end.clone();
        let work = move |_: Vec<u8>| {
            let _ = begun.send(());
            let _ = end.recv_timeout(LONG);
            status(StatusCode::OK)
        };
        Answered {
            reply: Reply::AfterBody(BodyWork {
                limit: 1,
                work: Box::new(work),
            }),
            has_token: true,
        }
    }
}

fn ask(address: SocketAddr, request: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Returns after the server has handled everything that arrived before.
fn round_trip(address: SocketAddr) {
    let mut answer = String::new();
    let mut stream = ask(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[test]
fn work_keeps_its_worker_after_its_connection_was_closed() {
    let (begun, has_begun) = bounded(WORKERS);
    let (ended, end) = bounded::<()>(0);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let options = ServerOptions {
        thread_name: "test-server",
        keep_alive: false,
        session_end: never(),
    };
    let service = Arc::new(Slow { begun, end });
    let server = HttpServer::start(listener, service, options).unwrap();
    let post =
        |length: usize| format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let mut working: Vec<_> = (0..WORKERS)
        .map(|_| ask(address, &(post(1) + "x")))
        .collect();
    for _ in 0..WORKERS {
        has_begun.recv_timeout(LONG).unwrap();
    }
    // With a worker, such a request is refused at once, because its body is too large.
    let waiting: Vec<_> = (0..KEPT).map(|_| ask(address, &post(2))).collect();
    // The server closes the oldest connections for the new ones. Their work goes on.
    for stream in &mut working {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer); // the server may reset it
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }
    for _ in 0..3 {
        round_trip(address);
    }
    for stream in &waiting {
        stream.set_nonblocking(true).unwrap();
        let answered = stream.peek(&mut [0]);
        assert_eq!(
            answered.map_err(|error| error.kind()),
            Err(ErrorKind::WouldBlock),
            "a worker was free during the work"
        );
    }
    drop(ended);
    for mut stream in waiting {
        stream.set_nonblocking(false).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
    drop(server);
}
