//! Sends a request and returns the answer. Used by [`super::store`].
//!
//! Invariant: a connection that is not accepted, and an answer that does not begin or does not end,
//! are errors after a time.

use std::io::Read;
use std::time::Duration;

use ureq::Agent;

use super::request_error::request_error;

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a server may take to begin its answer: as long as ClickHouse's own clients wait.
const ANSWER: Duration = Duration::from_secs(300);
/// How long an answer may take from its beginning to its end.
pub(super) const BODY: Duration = Duration::from_secs(600);

/// The header `User-Agent` of the clients of `fleet` and `push`.
pub const USER_AGENT: &str = concat!("multiprocess-profiler/", env!("CARGO_PKG_VERSION"));

/// The answer to a request.
pub(super) struct HttpAnswer {
    /// The status.
    pub(super) status: u16,
    /// The content.
    pub(super) body: Box<dyn Read>,
}

/// Posts a body. `headers` are names and values. To read the answer fails after `body_time`.
pub(super) fn post(
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
    body_time: Duration,
) -> Result<HttpAnswer, String> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .max_redirects(0)
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_recv_body(Some(body_time))
        .user_agent(USER_AGENT)
        .build();
    let mut request = Agent::new_with_config(config).post(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send(body).map_err(|error| request_error(&error))?;
    Ok(HttpAnswer {
        status: answer.status().as_u16(),
        body: Box::new(answer.into_body().into_reader()),
    })
}
