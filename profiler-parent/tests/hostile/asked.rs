//! What holds for any bytes that are sent to the live page: they are answered, by well-formed answers, in time; who does not
//! say the token gets nothing; the next who asks is served.
//!
//! In requests `@T` stands for the token and `@H` for the host, which are others in every run.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use profiler_parent::ByteLimit;
use profiler_parent::core::session::Features;
use profiler_parent::{LiveOptions, LiveServer, Session};

/// Far more than an answer takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of all answers to an input: each begins with a request of several bytes.
const MOST_BYTES_PER_BYTE: usize = 64 * 1024;

/// A page to be asked, with the session that it shows.
pub(crate) struct Asked {
    live: LiveServer,
    _session: Session,
    token: String,
}

/// An answer.
struct Answer<'a> {
    status: u16,
    head: &'a str,
    body: &'a [u8],
}

impl Asked {
    pub(crate) fn new() -> Self {
        let builder = Session::builder().features(Features::NONE).memory_limit(ByteLimit::new(8 << 20));
        let session = builder.start().expect("a session");
        let options = LiveOptions::default().alerts(None);
        let live = session.serve_live_with(([127, 0, 0, 1], 0).into(), options).expect("a page");
        let token = live.url().trim_end_matches('/').rsplit('/').next().expect("a token").to_owned();
        Self { live, _session: session, token }
    }

    /// Sends bytes; gives the status of the first answer.
    pub(crate) fn check(&self, input: &[u8]) -> Option<u16> {
        let request = self.request(input);
        let said = self.send(&request);
        assert!(said.len() <= 4096 + input.len() * MOST_BYTES_PER_BYTE, "{} bytes of answers", said.len());
        let knows = contains(&request, self.token.as_bytes());
        // The answer to a HEAD has a length and no body.
        let has_bodies = !contains(input, b"HEAD");
        let (mut rest, mut first) = (said.as_slice(), None);
        while !rest.is_empty() {
            let (answer, after) = split(rest, has_bodies);
            self.check_answer(&answer, knows);
            first = first.or(Some(answer.status));
            rest = if has_bodies { after } else { &[] };
        }
        first
    }

    /// Whoever asks properly is served.
    pub(crate) fn check_serves(&self) {
        assert_eq!(
            self.check(b"GET /@T/session.json HTTP/1.1\r\nHost: @H\r\nConnection: close\r\n\r\n"),
            Some(200)
        );
    }

    fn request(&self, input: &[u8]) -> Vec<u8> {
        let host = self.live.address().to_string();
        let mut request = Vec::with_capacity(input.len() + 64);
        let mut rest = input;
        while let Some((byte, after)) = rest.split_first() {
            let (put, after): (&[u8], _) = match (byte, after.first()) {
                (b'@', Some(b'T')) => (self.token.as_bytes(), &after[1..]),
                (b'@', Some(b'H')) => (host.as_bytes(), &after[1..]),
                _ => (&rest[..1], after),
            };
            request.extend_from_slice(put);
            rest = after;
        }
        request
    }

    /// Gives all that is answered until the connection ends.
    fn send(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.live.address()).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
        stream.set_write_timeout(Some(PATIENCE)).expect("a bound");
        // It may hang up before it has heard all.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        match stream.read_to_end(&mut said) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => said.clear(),
            read => drop(read.expect("an answer in time")),
        }
        said
    }

    fn check_answer(&self, answer: &Answer<'_>, knows: bool) {
        let Answer { status, head, body } = answer;
        assert!(!head.contains(&self.token) && !contains(body, self.token.as_bytes()), "it tells its secret");
        assert!((200..506).contains(status), "{head}");
        if !knows {
            assert!(*status >= 400 && body.is_empty(), "{head}");
        }
        if *status < 300 {
            for header in ["no-store", "nosniff", "no-referrer", "default-src 'none'"] {
                assert!(head.contains(header), "{head}");
            }
            let is_json = head.contains("application/json") && !body.is_empty();
            assert!(!is_json || serde_json::from_slice::<serde_json::Value>(body).is_ok(), "{head}");
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The first answer, and what stands behind it.
fn split(said: &[u8], has_body: bool) -> (Answer<'_>, &[u8]) {
    let end = said.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
    let head = std::str::from_utf8(&said[..end]).expect("a head of text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let lines = || head.lines().map(str::to_ascii_lowercase);
    let length = lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    let length = if has_body { length.unwrap_or(0) } else { 0 };
    let (body, after) = said[end..].split_at_checked(length).expect("as long as it says");
    (Answer { status, head, body }, after)
}
