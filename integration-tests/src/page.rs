//! HTTP requests to the live page, as a program of its user sends them.
//!
//! Used by the tests `hostile_symbols` and `slow_clients`, and by figures.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, ensure};
use profiler_parent::LiveServer;

use crate::patience::LONG;

/// Requests a path below the token on a new connection, and returns the body of the answer.
///
/// # Errors
/// When there is no answer, or an answer with an error status.
pub fn ask(live: &LiveServer, method: &str, target: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(live.address())?;
    stream.set_read_timeout(Some(LONG))?;
    let url = live.url();
    let path = url.splitn(4, '/').nth(3).context("no path")?;
    let host = live.address();
    // In one piece: the page does not wait long for the rest of a request.
    let request =
        format!("{method} /{path}{target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .context("no head")?;
    let head = String::from_utf8_lossy(answer.get(..end).unwrap_or_default()).into_owned();
    ensure!(head.starts_with("HTTP/1.1 20"), "{head}");
    Ok(answer.split_off(end + 4))
}
