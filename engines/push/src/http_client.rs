//! Sends one request and returns the answer, whatever the endpoint does.
//!
//! Used by the sender, and by the command for its queries. Blocking; each request is bounded in
//! time, and each answer in length. Redirections are not followed, and a proxy of the environment
//! is not used, so a body is sent only to a configured address.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use ureq::Agent;
use ureq::http::{Request, Response};
#[cfg(feature = "tls")]
use ureq::tls::{RootCerts, TlsConfig};

use super::attempts::Answer;
use profiler_fleet::{RequestSecrets, USER_AGENT, request_error};

/// The time for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time for a request: a clock cannot add every duration.
const LONGEST_REQUEST: Duration = Duration::from_secs(24 * 3600);
/// The most bytes of an answer that are read.
const MAX_ANSWER: u64 = 64 << 10;
/// The most characters of an answer that are shown.
const MAX_SHOWN: usize = 200;
/// Level of compression. A low one saves processor time, because a body is sent once, and the
/// engine stores it in another form.
const GZIP_LEVEL: u32 = 4;

/// A request: always a POST.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PushRequest {
    pub(crate) url: String,
    pub(crate) content_type: &'static str,
    /// Further headers. Their values may be secrets, so they are not shown.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// What must not be shown if the endpoint repeats it.
    pub(crate) secrets: RequestSecrets,
}

impl fmt::Debug for PushRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("PushRequest")
            .field("url", &self.url)
            .field("content_type", &self.content_type)
            .field("headers", &headers)
            .finish()
    }
}

impl PushRequest {
    /// The beginning of an answer in one line, without the secrets of the request.
    pub(super) fn shown(&self, answer: &str) -> String {
        let answer = self.secrets.masked(answer);
        let line = answer.trim().chars().take(MAX_SHOWN);
        line.map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect()
    }
}

/// An attempt to send a body.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) answer: Answer,
    /// The bytes of the answer, at most 64 KiB.
    pub(crate) answered: Vec<u8>,
    /// The length of the compressed body.
    pub(crate) bytes: u64,
}

/// A client that makes a connection for each request. The program may close any descriptor between
/// two requests and use its number, so none is kept.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    agent: Agent,
    request_timeout: Duration,
}

impl HttpClient {
    /// A client whose requests take at most this time.
    pub(crate) fn new(request_timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_idle_connections(0)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(USER_AGENT);
        #[cfg(feature = "tls")]
        let config = config.tls_config(
            TlsConfig::builder()
                .root_certs(RootCerts::PlatformVerifier)
                .build(),
        );
        Self {
            agent: Agent::new_with_config(config.build()),
            request_timeout: request_timeout.min(LONGEST_REQUEST),
        }
    }

    /// Sends a body, compressed, within `time_left`.
    pub(crate) fn send(&self, request: &PushRequest, body: &[u8], time_left: Duration) -> Sent {
        let mut answered = Vec::new();
        match gzip(body) {
            Ok(compressed) => Sent {
                bytes: compressed.len() as u64,
                answer: self.send_compressed(request, compressed, time_left, &mut answered),
                answered,
            },
            Err(error) => Sent {
                bytes: 0,
                answer: Answer::Missing(error.to_string()),
                answered,
            },
        }
    }

    fn send_compressed(
        &self,
        request: &PushRequest,
        body: Vec<u8>,
        time_left: Duration,
        answered: &mut Vec<u8>,
    ) -> Answer {
        let built = request
            .headers
            .iter()
            .fold(Request::post(&request.url), |built, (name, value)| {
                built.header(*name, value)
            })
            .header("content-type", request.content_type)
            .header("content-encoding", "gzip")
            .body(body);
        let built = match built {
            Ok(built) => built,
            Err(error) => return Answer::NoRequest(error.to_string()),
        };
        let timed = self
            .agent
            .configure_request(built)
            .timeout_global(Some(self.request_timeout.min(time_left)))
            .build();
        match self.agent.run(timed) {
            Ok(response) => answer_of(response, request, answered),
            Err(error) => Answer::Missing(request_error(&error)),
        }
    }
}

fn gzip(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
    encoder.write_all(body)?;
    encoder.finish()
}

/// The answer in a response, whose bytes are put into `answered`.
fn answer_of(
    mut response: Response<ureq::Body>,
    request: &PushRequest,
    answered: &mut Vec<u8>,
) -> Answer {
    let status = response.status().as_u16();
    let after = response.headers().get("retry-after");
    let after = after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let read = response
        .body_mut()
        .with_config()
        .limit(MAX_ANSWER)
        .read_to_vec();
    match read {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            *answered = bytes;
            Answer::Status {
                status,
                retry_after: after.map(Duration::from_secs),
                text: request.shown(&text),
            }
        }
        // An endpoint that breaks off may have failed while it stored the body.
        Err(error) if (200..300).contains(&status) && !is_too_long(&error) => {
            Answer::Missing(request_error(&error))
        }
        Err(_) => Answer::Status {
            status,
            retry_after: after.map(Duration::from_secs),
            text: String::new(),
        },
    }
}

const fn is_too_long(error: &ureq::Error) -> bool {
    matches!(error, ureq::Error::BodyExceedsLimit(_))
}
