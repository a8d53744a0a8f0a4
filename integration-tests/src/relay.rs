//! An HTTP endpoint of a test: it passes requests on to a server of this machine, or fails in a
//! chosen way.
//!
//! Used by the tests `pushing*`. A fault applies to one request whose target contains a given text;
//! without a fault, the request is passed on, or accepted if there is no server behind the relay.
//! Connections are served one after the other, each for one request, and all requests are noted.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;

use crate::patience::until;

/// How a relay fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Resets the connection in the middle of the request.
    Reset,
    /// Passes the request on, and closes the connection instead of answering.
    StoreAndBreakOff,
    /// Answers with this status, and asks for another attempt after a second.
    Status(u16),
    /// Answers that the request is bad, and repeats the headers of the request.
    Echo,
    /// Says nothing until the client gives up.
    Silence,
    /// Refuses connections until [`Relay::listen_again`], beginning with this request.
    Refuse,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The client gets this status.
    Answered(u16),
    /// The server accepted it, and the client does not know.
    StoredUnanswered,
    /// No server accepted it.
    Failed,
}

/// A request that a relay has seen.
#[derive(Clone, Debug)]
pub struct RelayedRequest {
    /// The path and the query.
    pub target: String,
    /// All headers, a line each, as they were sent.
    pub head: String,
    /// The body, decompressed; empty if it was not read.
    pub body: Vec<u8>,
    /// What became of it.
    pub outcome: Outcome,
}

impl RelayedRequest {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The identifier that the pusher gives each body.
    pub fn key(&self) -> &str {
        self.header("idempotency-key").unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Seen {
    requests: Vec<RelayedRequest>,
    faults: VecDeque<Fault>,
    /// Faults apply to requests whose target contains this.
    faulty_target: String,
    refuses: bool,
}

/// A relay. It ends with the process of the test.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    reopen: Sender<()>,
}

impl Relay {
    /// A relay to the server at this port, or one that accepts everything.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start(server: Option<u16>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let (reopen, reopened) = channel();
        let seen = Arc::<Mutex<Seen>>::default();
        let service = Service {
            server,
            seen: Arc::clone(&seen),
            reopened,
        };
        std::thread::Builder::new().spawn(move || service.run(listener))?;
        Ok(Self {
            address,
            seen,
            reopen,
        })
    }

    /// The host and the port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next requests whose target contains `target` fail, one after the other, in these ways.
    pub fn fail(&self, target: &str, faults: &[Fault]) {
        let mut seen = lock(&self.seen);
        seen.faults.extend(faults);
        target.clone_into(&mut seen.faulty_target);
    }

    /// The number of faults that are still to come.
    pub fn faults_left(&self) -> usize {
        lock(&self.seen).faults.len()
    }

    /// Whether connections are refused.
    pub fn refuses(&self) -> bool {
        lock(&self.seen).refuses
    }

    /// Accepts connections again after [`Fault::Refuse`].
    ///
    /// # Errors
    /// When the address is not available any more.
    pub fn listen_again(&self) -> anyhow::Result<()> {
        self.reopen.send(())?;
        ensure!(until(|| !self.refuses()), "it does not listen again");
        Ok(())
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<RelayedRequest> {
        lock(&self.seen).requests.clone()
    }

    /// The number of requests so far.
    pub fn count(&self) -> usize {
        lock(&self.seen).requests.len()
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut pairs = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

/// The thread of a relay.
struct Service {
    server: Option<u16>,
    seen: Arc<Mutex<Seen>>,
    reopened: Receiver<()>,
}

/// A request whose body was not read yet.
struct Head {
    target: String,
    lines: String,
}

/// An answer that is not sent yet.
struct Answer {
    status: u16,
    /// Further headers.
    more: &'static str,
    text: Vec<u8>,
}

impl Service {
    fn run(&self, mut listener: TcpListener) {
        let Ok(address) = listener.local_addr() else {
            return;
        };
        loop {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            // A client that goes away meanwhile ends only its own connection.
            let fault = self.serve(stream).unwrap_or_default();
            if fault == Some(Fault::Refuse) {
                drop(listener);
                lock(&self.seen).refuses = true;
                if self.reopened.recv().is_err() {
                    return;
                }
                let mut bound = None;
                until(|| {
                    bound = TcpListener::bind(address).ok();
                    bound.is_some()
                });
                let Some(bound) = bound else { return };
                listener = bound;
                lock(&self.seen).refuses = false;
            }
        }
    }

    /// Serves one request. Returns how it failed.
    fn serve(&self, stream: TcpStream) -> anyhow::Result<Option<Fault>> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let head = read_head(&mut reader)?;
        let fault = {
            let mut seen = lock(&self.seen);
            let applies = head.target.contains(&seen.faulty_target);
            applies.then(|| seen.faults.pop_front()).flatten()
        };
        let mut request = RelayedRequest {
            target: head.target,
            head: head.lines,
            body: Vec::new(),
            outcome: Outcome::Failed,
        };
        let answer = self.act(fault, &mut request, reader);
        // Before the answer: the client may end at once, and a test then looks at the requests.
        lock(&self.seen).requests.push(request);
        if let Some(Answer { status, more, text }) = answer? {
            respond(&mut { stream }, status, more, &text)?;
        }
        Ok(fault)
    }

    fn act(
        &self,
        fault: Option<Fault>,
        request: &mut RelayedRequest,
        mut reader: BufReader<TcpStream>,
    ) -> anyhow::Result<Option<Answer>> {
        if let Some(Fault::Reset | Fault::Refuse) = fault {
            // A connection that is closed with data that was not read is reset.
            return Ok(None);
        }
        let length = request.header("content-length").context("no length")?;
        let mut sent = vec![0; length.parse()?];
        reader.read_exact(&mut sent)?;
        GzDecoder::new(&sent[..]).read_to_end(&mut request.body)?;
        let (status, more, text) = match fault {
            Some(Fault::Silence) => {
                reader.read_to_end(&mut Vec::new())?;
                return Ok(None);
            }
            Some(Fault::Status(status)) => (status, "Retry-After: 1\r\n", Vec::new()),
            Some(Fault::Echo) => (400, "", request.head.clone().into_bytes()),
            _ => {
                let (status, answer) = self.pass_on(request, &sent)?;
                if fault == Some(Fault::StoreAndBreakOff) {
                    ensure!(status == 200, "{}", String::from_utf8_lossy(&answer));
                    request.outcome = Outcome::StoredUnanswered;
                    return Ok(None);
                }
                (status, "", answer)
            }
        };
        request.outcome = Outcome::Answered(status);
        Ok(Some(Answer { status, more, text }))
    }

    /// The status and the text of the server. HTTP 1.0 has no chunks, so the answer ends with the
    /// connection.
    fn pass_on(&self, request: &RelayedRequest, body: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
        let Some(port) = self.server else {
            return Ok((200, Vec::new()));
        };
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        let mut head = format!("POST {} HTTP/1.0\r\n", request.target);
        for line in request.head.lines() {
            head.extend([line, "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let text = answer.split_off(end.context("no answer")? + 4);
        let head = String::from_utf8(answer)?;
        let status = head.split_ascii_whitespace().nth(1).context("no status")?;
        Ok((status.parse()?, text))
    }
}

fn read_head(reader: &mut impl BufRead) -> anyhow::Result<Head> {
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let target = first.split_ascii_whitespace().nth(1).context("no target")?;
    let mut lines = String::new();
    loop {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "the head has no end");
        if line.trim_end().is_empty() {
            return Ok(Head {
                target: target.to_owned(),
                lines,
            });
        }
        lines.extend([line.trim_end(), "\n"]);
    }
}

fn respond(stream: &mut TcpStream, status: u16, more: &str, text: &[u8]) -> anyhow::Result<()> {
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    Ok(stream.write_all(text)?)
}
