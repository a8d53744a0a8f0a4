//! Tests of local programs that hold connections without the token.
//!
//! The live page and `profiler view` still answer every request of clients with the token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, ensure};
use integration_tests::http::exchange;
use integration_tests::own_process;
use integration_tests::page;
use integration_tests::patience::LONG;
use integration_tests::session;
use integration_tests::slow_clients::SlowClients;
use profiler_view::{NoSymbols, Server};

/// More connections than either server holds without the token.
const SLOW: usize = 80;
const REQUESTS: usize = 40;
const PROFILE: &str =
    r#"{"meta":{"version":31,"interval":1},"libs":[],"threads":[],"processes":[]}"#;

/// The status of the next answer on a connection that stays open.
fn next_answer(stream: &mut BufReader<TcpStream>) -> anyhow::Result<u16> {
    let mut first = String::new();
    let mut line = String::new();
    let mut length = 0;
    ensure!(stream.read_line(&mut first)? > 0, "closed");
    while line != "\r\n" {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "closed in the head");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(first.split(' ').nth(1).context("no status")?.parse()?)
}

#[test]
fn every_request_with_the_token_is_answered_beside_slow_clients() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let live = session.serve_live(([127, 0, 0, 1], 0).into())?;
    let kept = TcpStream::connect(live.address())?;
    kept.set_read_timeout(Some(LONG))?;
    let mut kept = BufReader::new(kept);
    let path = live
        .url()
        .splitn(4, '/')
        .nth(3)
        .context("no path")?
        .to_owned();
    let request = format!(
        "GET /{path}session.json HTTP/1.1\r\nHost: {}\r\n\r\n",
        live.address()
    );
    write!(kept.get_mut(), "{request}")?;
    assert_eq!(next_answer(&mut kept)?, 200);
    let slow = SlowClients::connect(live.address(), SLOW)?;
    for number in 0..REQUESTS {
        page::ask(&live, "GET", ["", "live.json", "session.json"][number % 3])?;
        write!(kept.get_mut(), "{request}")?;
        assert_eq!(
            next_answer(&mut kept)?,
            200,
            "on a connection that existed before"
        );
    }
    drop(slow);
    Ok(())
}

#[test]
fn every_request_to_a_viewed_profile_is_answered_beside_slow_clients() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("profile.json");
    std::fs::write(&file, PROFILE)?;
    let server = Server::start(&file, 0, Box::new(NoSymbols))?;
    let path = server
        .base()
        .splitn(4, '/')
        .nth(3)
        .context("no path")?
        .to_owned();
    let slow = SlowClients::connect(server.address(), SLOW)?;
    for _ in 0..REQUESTS {
        let host = server.address();
        let request = format!("GET /{path}/profile.json HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = String::from_utf8(exchange(host, request.as_bytes())?)?;
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(PROFILE),
            "{answer}"
        );
    }
    drop(slow);
    Ok(())
}
