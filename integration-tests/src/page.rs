//! HTTP requests to the live page, as a program of its user sends them.
//!
//! Used by the tests `hostile_symbols` and `slow_clients`, and by figures.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};
use profiler_parent::LiveServer;

use crate::http::Answer;
use crate::patience::{LONG, Stopwatch};

/// A request that takes longer to send may be too late: the page closes a connection whose request
/// does not arrive within two seconds. On a busy machine a client may need more time. It then
/// connects again.
const SLOW: Duration = Duration::from_secs(1);

/// Requests a path below the token on a new connection, and returns the body of the answer.
///
/// # Errors
/// When there is no answer, or an answer with an error status.
pub fn ask(live: &LiveServer, method: &str, target: &str) -> anyhow::Result<Vec<u8>> {
    let watch = Stopwatch::start();
    loop {
        let exchange = ask_once(live, method, target)?;
        let is_too_late = exchange.answer.is_empty() && exchange.send_time > SLOW;
        if !is_too_late || watch.elapsed() > LONG {
            return body_of(exchange.answer);
        }
    }
}

/// A request and its answer.
struct Exchange {
    /// The time from the start of the connection to the end of the request.
    send_time: Duration,
    answer: Vec<u8>,
}

fn ask_once(live: &LiveServer, method: &str, target: &str) -> anyhow::Result<Exchange> {
    let url = live.url();
    let path = url.splitn(4, '/').nth(3).context("no path")?;
    let host = live.address();
    let request =
        format!("{method} /{path}{target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let watch = Stopwatch::start();
    let mut stream = TcpStream::connect(live.address())?;
    stream.set_read_timeout(Some(LONG))?;
    // In one piece: the page does not wait long for the rest of a request.
    stream.write_all(request.as_bytes())?;
    let send_time = watch.elapsed();
    let mut answer = Vec::new();
    let received = stream.read_to_end(&mut answer);
    if let Err(error) = received
        && (error.kind() != ErrorKind::ConnectionReset || !answer.is_empty())
    {
        return Err(error.into());
    }
    Ok(Exchange { send_time, answer })
}

fn body_of(answer: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let answer = Answer::parse(answer)?;
    ensure!(answer.head.starts_with("HTTP/1.1 20"), "{}", answer.head);
    Ok(answer.body)
}
