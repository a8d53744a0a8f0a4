//! An endpoint in a process of its own that accepts every request, so that its work is not counted
//! as that of the parent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use anyhow::{Context, Result};

use crate::roles::{Role, role};

const SINK: &str = "sink";

/// The roles of this group.
pub(crate) const ROLES: &[(&str, Role)] = &[(SINK, play)];

/// The running endpoint. It ends when it is dropped.
pub(super) struct Sink {
    process: Child,
    /// Host and port.
    pub(super) address: String,
}

impl Sink {
    pub(super) fn start() -> Result<Self> {
        let mut command = role(SINK)?;
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut address)?;
        Ok(Self {
            process,
            address: address.trim().to_owned(),
        })
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Accepts requests until the standard input is closed.
fn play(_: &[String]) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    crate::workers::until_closed(&address);
    for stream in listener.incoming() {
        let stream = stream?;
        // A client that goes away ends only its own connection.
        std::thread::Builder::new().spawn(move || drop(accept_all(&stream)))?;
    }
    Ok(())
}

/// Answers the requests of a connection.
fn accept_all(stream: &TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim_end().is_empty() {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        let mut answer = stream;
        answer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
