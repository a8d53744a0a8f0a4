//! An endpoint on this machine that fails in a given way, and stores what it receives.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use flate2::read::GzDecoder;

use super::PushDestination;

/// What an endpoint does with a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Answers with this status.
    Answer(u16),
    /// Accepts, and says that it has refused three spans.
    RefuseSpans,
    /// Answers with this status, and asks for another attempt at once.
    AskAgain(u16),
    /// Reads the request and closes the connection.
    BreakOff,
    /// Reads the request and says nothing until the client gives up.
    BeSilent,
    /// Reads a part of the request and resets the connection.
    Reset,
    /// Answers with something that is not HTTP.
    Babble,
    /// Accepts, and answers without an end.
    TalkWithoutEnd,
}

/// One act for the first request, and another act for all later ones until the test clears the
/// list.
pub(super) fn then_without_end(first: Act, later: Act) -> Vec<Act> {
    let later = std::iter::repeat_n(later, 100_000);
    std::iter::once(first).chain(later).collect()
}

/// A request that an endpoint has read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) key: String,
    pub(super) body: String,
    pub(super) was_accepted: bool,
}

/// An endpoint on this machine.
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    pub(super) acts: Arc<Mutex<VecDeque<Act>>>,
    pub(super) connections: Arc<AtomicU64>,
    _thread: JoinHandle<()>,
}

impl Endpoint {
    /// An endpoint that does this, one act for each request, and then accepts everything.
    pub(super) fn new(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let acts = Arc::new(Mutex::new(acts.iter().copied().collect::<VecDeque<_>>()));
        let (all, script) = (Arc::clone(&received), Arc::clone(&acts));
        let connections = Arc::<AtomicU64>::default();
        let count = Arc::clone(&connections);
        let thread = std::thread::Builder::new().spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                count.fetch_add(1, Ordering::Relaxed);
                while serve(&stream, &all, &script) {}
            }
        });
        Self {
            address,
            received,
            acts,
            connections,
            _thread: thread.unwrap(),
        }
    }

    pub(super) fn destination(&self) -> PushDestination {
        PushDestination::parse(&format!("otlp+http://{}", self.address)).unwrap()
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The bodies that it has accepted, in their order.
    pub(super) fn accepted(&self) -> Vec<String> {
        let received = self.received();
        let accepted = received.into_iter().filter(|each| each.was_accepted);
        accepted.map(|each| each.body).collect()
    }
}

/// Reads a request and acts. Whether the connection goes on.
fn serve(stream: &TcpStream, all: &Mutex<Vec<Received>>, script: &Mutex<VecDeque<Act>>) -> bool {
    let mut reader = BufReader::new(stream);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(length) if length > 2 => headers.push(line.trim_end().to_ascii_lowercase()),
            Ok(2) => break,
            _ => return false,
        }
    }
    let header = |name: &str| {
        let mut values = headers.iter().filter_map(|line| line.strip_prefix(name));
        values
            .next()
            .map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    let act = script
        .lock()
        .unwrap()
        .pop_front()
        .unwrap_or(Act::Answer(200));
    if matches!(act, Act::Reset) {
        // Unread data makes the system reset the connection.
        return false;
    }
    let length = header("content-length").and_then(|value| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if reader.read_exact(&mut body).is_err() {
        return false;
    }
    let mut text = String::new();
    GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
    let was_accepted = matches!(
        act,
        Act::Answer(200) | Act::TalkWithoutEnd | Act::RefuseSpans
    );
    all.lock().unwrap().push(Received {
        key: header("idempotency-key").unwrap_or_default(),
        body: text,
        was_accepted,
    });
    respond(stream, act)
}

fn respond(mut stream: &TcpStream, act: Act) -> bool {
    let line = |status: u16, more: &str| {
        format!("HTTP/1.1 {status} Said\r\ncontent-length: 2\r\n{more}\r\nok")
    };
    match act {
        Act::Answer(status) => stream.write_all(line(status, "").as_bytes()).is_ok(),
        Act::RefuseSpans => {
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n\x0a\x0e\x08\x03\x12\x0aold s3cret";
            stream.write_all(answer).is_ok()
        }
        Act::AskAgain(status) => {
            let line = line(status, "retry-after: 0\r\n");
            stream.write_all(line.as_bytes()).is_ok()
        }
        Act::BreakOff | Act::Reset => false,
        Act::BeSilent => {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest); // until the client closes the connection
            false
        }
        Act::Babble => {
            let _ = stream.write_all(b"\x16\x03\x01 what is this?\r\n\r\n");
            false
        }
        Act::TalkWithoutEnd => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            let chunk = format!("4000\r\n{}\r\n", "blah".repeat(0x1000));
            while stream.write_all(chunk.as_bytes()).is_ok() {}
            false
        }
    }
}
