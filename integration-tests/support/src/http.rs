//! A client for the HTTP servers of the workspace: each request has its own connection.

use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};

use anyhow::{Context, ensure};

use crate::patience::LONG;

/// What a server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The first line and the headers, with the empty line at their end.
    pub head: String,
    /// The bytes after the head.
    pub body: Vec<u8>,
}

impl Answer {
    /// Parses the bytes of a connection until its end.
    ///
    /// # Errors
    /// When they are not an answer.
    pub fn parse(mut bytes: Vec<u8>) -> anyhow::Result<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.context("no head")?;
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes)?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(Self { status, head, body })
    }

    /// Returns the value of the first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = headers.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// Returns the body of an answer with the status 200, as text.
    ///
    /// # Errors
    /// When the status is another one, or the body is not text.
    pub fn text(self) -> anyhow::Result<String> {
        ensure!(self.status == 200, "{}", self.head);
        Ok(String::from_utf8(self.body)?)
    }
}

/// Sends these bytes on a new connection. Returns all bytes until the end of the connection.
///
/// # Errors
/// When there is no connection, or it fails.
pub fn exchange(address: impl ToSocketAddrs, request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// Requests `path`, which begins with a slash, with HTTP 1.0: then the answer ends with the
/// connection. `headers` are whole lines, each with its end.
///
/// # Errors
/// When there is no answer.
pub fn get(
    address: impl ToSocketAddrs + Display,
    path: &str,
    headers: &str,
) -> anyhow::Result<Answer> {
    let request =
        format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n");
    Answer::parse(exchange(address, request.as_bytes())?)
}
