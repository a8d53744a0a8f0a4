//! Properties of the live page for any bytes that are sent to it: its answers are well-formed and
//! in time, a client without the token gets no data, and the next client is served.
//!
//! Used by `foreign_requests` and the fuzz target `live_request`. In requests, `@T` stands for the
//! token and `@H` for the host, which differ in every run.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use profiler_parent::ByteLimit;
use profiler_parent::core::session::Features;
use profiler_parent::{LiveOptions, LiveServer, Session};
use profiler_prometheus::on_live_page;

/// A time-out much longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum number of answer bytes per byte of the input. Each answer needs a request of several
/// bytes.
const MAX_BYTES_PER_BYTE: usize = 64 * 1024;

/// A live page, and the session that it shows.
pub(crate) struct Asked {
    live: LiveServer,
    _session: Session,
    token: String,
    /// Whether a request may have made the page show the token.
    has_stored_token: Cell<bool>,
}

/// An answer of the page.
struct Answer<'a> {
    status: u16,
    head: &'a str,
    body: &'a [u8],
}

impl Asked {
    pub(crate) fn new() -> Self {
        let builder = Session::builder()
            .features(Features::NONE)
            .memory_limit(ByteLimit::new(8 << 20));
        let session = builder.start().expect("a session");
        let options = on_live_page(&session, LiveOptions::default().alerts(None));
        let live = session
            .serve_live_with(([127, 0, 0, 1], 0).into(), options)
            .expect("a page");
        let token = live
            .url()
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .expect("a token")
            .to_owned();
        Self {
            live,
            _session: session,
            token,
            has_stored_token: Cell::new(false),
        }
    }

    /// Sends an input and checks the answers. Returns the status of the first answer.
    pub(crate) fn check(&self, input: &[u8]) -> Option<u16> {
        let request = self.request(input);
        let answers = self.send(&request);
        assert!(
            answers.len() <= 4096 + input.len() * MAX_BYTES_PER_BYTE,
            "{} bytes of answers",
            answers.len()
        );
        let has_token = contains(&request, self.token.as_bytes());
        if self.has_token_outside_a_path(&request) {
            self.has_stored_token.set(true);
        }
        // The answer to a HEAD has a length and no body.
        let has_bodies = !contains(input, b"HEAD");
        let mut remaining = answers.as_slice();
        let mut first = None;
        while !remaining.is_empty() {
            let (answer, after) = split(remaining, has_bodies);
            self.check_answer(&answer, has_token);
            first = first.or(Some(answer.status));
            remaining = if has_bodies { after } else { &[] };
        }
        first
    }

    /// Whether the request has the token anywhere but at the beginning of a path. The page keeps
    /// the text of a capture (`what`) and shows it, with a token that the client wrote into it.
    fn has_token_outside_a_path(&self, request: &[u8]) -> bool {
        let in_path = format!(" /{}", self.token);
        count(request, self.token.as_bytes()) > count(request, in_path.as_bytes())
    }

    /// Checks that a valid request is served.
    pub(crate) fn check_serves(&self) {
        assert_eq!(
            self.check(b"GET /@T/session.json HTTP/1.1\r\nHost: @H\r\nConnection: close\r\n\r\n"),
            Some(200)
        );
    }

    /// The request of an input: `@T` and `@H` are replaced.
    fn request(&self, input: &[u8]) -> Vec<u8> {
        let host = self.live.address().to_string();
        let mut request = Vec::with_capacity(input.len() + 64);
        let mut remaining = input;
        while let Some((byte, after)) = remaining.split_first() {
            let (part, after): (&[u8], _) = match (byte, after.first()) {
                (b'@', Some(b'T')) => (self.token.as_bytes(), &after[1..]),
                (b'@', Some(b'H')) => (host.as_bytes(), &after[1..]),
                _ => (&remaining[..1], after),
            };
            request.extend_from_slice(part);
            remaining = after;
        }
        request
    }

    /// Sends a request. Returns all bytes until the end of the connection.
    fn send(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.live.address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
        stream.set_write_timeout(Some(PATIENCE)).expect("a bound");
        // The page may close the connection before it has read the whole request.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answers = Vec::new();
        match stream.read_to_end(&mut answers) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => answers.clear(),
            read => drop(read.expect("an answer in time")),
        }
        answers
    }

    fn check_answer(&self, answer: &Answer<'_>, has_token: bool) {
        let Answer { status, head, body } = answer;
        assert!(
            !head.contains(&self.token),
            "the head contains the token: {head}"
        );
        assert!(
            self.has_stored_token.get() || !contains(body, self.token.as_bytes()),
            "the answer contains the token: {head}{}",
            String::from_utf8_lossy(body)
        );
        assert!((200..506).contains(status), "{head}");
        if !has_token {
            assert!(*status >= 400 && body.is_empty(), "{head}");
        }
        if *status < 300 {
            for header in ["no-store", "nosniff", "no-referrer", "default-src 'none'"] {
                assert!(head.contains(header), "{head}");
            }
            let is_json = head.contains("application/json") && !body.is_empty();
            assert!(
                !is_json || serde_json::from_slice::<serde_json::Value>(body).is_ok(),
                "{head}"
            );
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    count(text, part) > 0
}

fn count(text: &[u8], part: &[u8]) -> usize {
    text.windows(part.len())
        .filter(|window| *window == part)
        .count()
}

/// Splits the first answer from the bytes after it.
fn split(answers: &[u8], has_body: bool) -> (Answer<'_>, &[u8]) {
    let end = answers
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("a whole head")
        + 4;
    let head = std::str::from_utf8(&answers[..end]).expect("a head of text");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status");
    let lines = || head.lines().map(str::to_ascii_lowercase);
    let length =
        lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let length = if has_body { length.unwrap_or(0) } else { 0 };
    let (body, after) = answers[end..]
        .split_at_checked(length)
        .expect("a body of the announced length");
    (Answer { status, head, body }, after)
}
