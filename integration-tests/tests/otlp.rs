//! Requests of OTLP that the command exports: the decoder of the Python package
//! `opentelemetry-proto` reads them, and a real agent (`rotel`) accepts them over HTTP.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::http::exchange;
use integration_tests::installed::{found_or_skip, skip};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::{session, tools};
use profiler_core::counter::Counter;
use profiler_core::marker::SpanOptions;
use profiler_core::session::{Features, sampling_stats};
use profiler_core::{category, span};
use serde_json::Value;

const DECODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/decode_otlp.py");
const SIGNALS: [&str; 3] = ["otlp-traces", "otlp-metrics", "otlp-profiles"];

/// Records spans, a counter and samples of this process. Returns the files of the signals, and the
/// directory that contains them.
fn recorded() -> anyhow::Result<(Vec<PathBuf>, tempfile::TempDir)> {
    let directory = tempfile::tempdir()?;
    let features = Features::STACK_WALK.with(Features::CPU);
    let test = session::start(|builder| builder.features(features).name("shop"))?;
    static JOBS: Counter = Counter::new("jobs", "Queue", "Jobs that wait");
    let outer = span!(
        "order",
        &category::TEST,
        SpanOptions::default().label("7").group("tenants")
    );
    {
        let _inner = span!("pay", &category::TEST);
        JOBS.add(3);
        let ticks = || sampling_stats().map_or(0, |stats| stats.ticks);
        let begun = ticks();
        // The thread works, because samples come from a timer on its processor time.
        ensure!(until(|| std::hint::black_box(
            (0..100_000_u64).sum::<u64>()
        ) > 0
            && ticks() > begun + 20));
    }
    drop(outer);
    let profile = directory.path().join("profile.json.gz");
    test.session()?.capture().save(&profile)?;
    let files = exported(&profile, directory.path())?;
    Ok((files, directory))
}

/// Exports a profile to the signals. Returns their files.
fn exported(profile: &Path, directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for signal in SIGNALS {
        let file = directory.join(format!("{signal}.pb"));
        let (from, to) = (profile.to_string_lossy(), file.to_string_lossy());
        tools::succeed(&["export", &from, "--to", signal, "-o", &to])?;
        files.push(file);
    }
    Ok(files)
}

/// The output of a program for Python, or what Python says against it.
fn python(arguments: &[&str]) -> anyhow::Result<Result<String, String>> {
    let output = Command::new("python3").args(arguments).output()?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    Ok(if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    })
}

#[test]
fn x12_another_decoder_reads_what_the_command_exports() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("python3")? {
        return Ok(());
    }
    let module = "import opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2";
    if python(&["-c", module])?.is_err() {
        return skip("opentelemetry-proto", "Python has no package of this name");
    }
    let (files, _directory) = recorded()?;
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    let arguments: Vec<&str> = [DECODE]
        .into_iter()
        .chain(names.iter().map(|name| &**name))
        .collect();
    let read = python(&arguments)?.map_err(anyhow::Error::msg)?;
    let read: Value = serde_json::from_str(&read)?;
    assert_eq!(read["services"], serde_json::json!(["shop"]));
    let span = |name: &str| {
        let all = read["spans"].as_array().map_or(&[][..], Vec::as_slice);
        all.iter()
            .find(|span| span["name"] == name)
            .with_context(|| format!("no {name}: {read}"))
    };
    let (order, pay) = (span("order")?, span("pay")?);
    assert_eq!(
        (&pay["parent"], &pay["trace"]),
        (&order["id"], &order["trace"])
    );
    assert_eq!(order["attributes"]["group"], "tenants");
    for metric in [
        "profiler.counter",
        "profiler.entries.recorded",
        "profiler.entries.lost",
    ] {
        let names = read["metrics"].as_array().context("no metrics")?;
        ensure!(
            names.iter().any(|name| name == metric),
            "no {metric}: {read}"
        );
    }
    ensure!(read["totals"]["wall"].as_u64() > Some(0), "{read}");
    ensure!(
        read["linked"].as_u64() > Some(0),
        "no sample within a span: {read}"
    );
    Ok(())
}

/// A running agent; it is killed at the end.
pub(crate) struct Agent {
    process: Child,
    http: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address that no program uses.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

impl Agent {
    /// Starts the agent and waits until it takes connections. It prints what it receives to a file.
    pub(crate) fn start(program: &str, log: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (http, grpc) = (free_address()?, free_address()?);
        let mut command = Command::new("nice");
        command.args(["-n", "19", program, "start", "--exporter", "blackhole"]);
        command.args(["--debug-log", "traces", "--debug-log", "metrics"]);
        command.args(["--debug-log-verbosity", "detailed"]);
        command.args(["--otlp-http-endpoint", &http.to_string()]);
        command.args(["--otlp-grpc-endpoint", &grpc.to_string()]);
        command.arg("--pid-file").arg(directory.path().join("pid"));
        let log = std::fs::File::create(log)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut agent = Self {
            process: command.spawn()?,
            http,
            _directory: directory,
        };
        let mut has_ended = false;
        let is_up = until(|| {
            has_ended = agent
                .process
                .try_wait()
                .is_ok_and(|status| status.is_some());
            has_ended || TcpStream::connect(http).is_ok()
        });
        ensure!(is_up && !has_ended, "the agent does not take connections");
        Ok(agent)
    }

    /// Where it takes OTLP over HTTP.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.http
    }

    /// Posts a request, and returns the status line of the answer.
    fn post(&self, path: &str, body: &[u8]) -> anyhow::Result<String> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let answer = exchange(self.http, &[head.as_bytes(), body].concat())?;
        let answer = String::from_utf8_lossy(&answer);
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    }
}

/// The agent's program: in the search path, or in its Python package.
pub(crate) fn agent_program() -> anyhow::Result<Option<String>> {
    let in_package =
        "import os, rotel; print(os.path.join(os.path.dirname(rotel.__file__), 'rotel-agent'))";
    let found = match python(&["-c", in_package]) {
        Ok(Ok(path)) if Path::new(&path).is_file() => Some(path),
        _ => None,
    };
    if found.is_none() {
        skip("rotel", "Python has no package of this name")?;
    }
    Ok(found)
}

#[test]
fn x12_a_real_agent_accepts_traces_and_metrics() -> anyhow::Result<()> {
    own_process!();
    let Some(program) = agent_program()? else {
        return Ok(());
    };
    let (files, directory) = recorded()?;
    let log = directory.path().join("log");
    let agent = Agent::start(&program, &log)?;
    for (file, path) in files.iter().zip(["/v1/traces", "/v1/metrics"]) {
        let status = agent.post(path, &std::fs::read(file)?)?;
        ensure!(status == "HTTP/1.1 200 OK", "{path}: {status}");
    }
    let has = |text: &str| std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text));
    for text in [
        "Name           : order",
        "Name           : pay",
        "profiler.entries.recorded",
    ] {
        ensure!(
            until(|| has(text)),
            "the agent did not see {text}: {:?}",
            std::fs::read_to_string(&log)
        );
    }
    Ok(())
}
