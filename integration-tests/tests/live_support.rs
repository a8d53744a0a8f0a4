//! Helpers of the tests `live_*`: a session with a live page, and a client that requests the page.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::http::{Answer, exchange};
use integration_tests::patience::{LONG, Stopwatch};
use integration_tests::session::{self, TestSession};
use profiler_parent::LiveOptions;
use profiler_parent::LiveServer;
use profiler_prometheus::on_live_page;
use serde_json::Value;

pub(crate) const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// The loopback address, with any free port.
pub(crate) const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// Sends a request with this `Host` on a new connection.
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    host: &str,
) -> anyhow::Result<Answer> {
    ask_with(address, method, path, &[("Host", host)])
}

/// Sends a request with these headers on a new connection.
pub(crate) fn ask_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> anyhow::Result<Answer> {
    let headers = headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    Answer::parse(exchange(address, request.as_bytes())?)
}

/// The address of a live page, as a client knows it.
pub(crate) struct Page {
    pub(crate) address: SocketAddr,
    /// `/TOKEN/`.
    pub(crate) path: String,
}

impl Page {
    /// Parses the URL of a live page.
    pub(crate) fn parse(url: &str) -> anyhow::Result<Self> {
        let (host, path) = url
            .strip_prefix("http://")
            .and_then(|address| address.split_once('/'))
            .context("no url")?;
        Ok(Self {
            address: host.parse()?,
            path: format!("/{path}"),
        })
    }

    /// Requests a path below the token.
    pub(crate) fn ask(&self, method: &str, path: &str) -> anyhow::Result<Answer> {
        ask(
            self.address,
            method,
            &format!("{}{path}", self.path),
            &self.address.to_string(),
        )
    }

    /// Requests JSON below the token.
    pub(crate) fn json(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.ask("GET", path)?;
        ensure!(answer.status == 200, "{path}: {}", answer.head);
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Requests JSON until a condition on it holds.
    pub(crate) fn until(
        &self,
        path: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<Value> {
        let watch = Stopwatch::start();
        loop {
            let found = self.json(path)?;
            if holds(&found) {
                return Ok(found);
            }
            ensure!(watch.elapsed() < LONG, "{path} returns only {found:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Serves the live page of a session.
pub(crate) fn serve(session: &TestSession) -> anyhow::Result<(LiveServer, Page)> {
    let live = session.serve_live_with(
        LOOPBACK.into(),
        on_live_page(session, LiveOptions::default()),
    )?;
    let page = Page::parse(&live.url())?;
    Ok((live, page))
}

/// The rows of a table.
pub(crate) fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().map_or(&[], Vec::as_slice)
}

/// The row with this name.
pub(crate) fn row<'a>(table: &'a Value, name: &str) -> Option<&'a Value> {
    rows(table).iter().find(|row| row["name"] == name)
}

/// The names of all rows, in order.
pub(crate) fn names(table: &Value) -> Vec<&str> {
    rows(table)
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect()
}

/// Starts a session with default options.
pub(crate) fn start() -> anyhow::Result<TestSession> {
    session::start(|builder| builder)
}
