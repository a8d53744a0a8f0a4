//! Tests of the metrics with a real Prometheus, and with its tool. Skipped without them.

use profiler_prometheus::session_metrics;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::installed::found_or_skip;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use profiler_prometheus::MetricsServer;
use profiler_prometheus::TextFormat;
use serde_json::Value;

use crate::live_support::{CHILD, LOOPBACK, ask, start};

/// A Prometheus that scrapes one server. Killed when dropped.
struct Prometheus {
    process: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Prometheus {
    fn scraping(server: &MetricsServer) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let token = directory.path().join("token");
        fs::write(&token, server.token().reveal())?;
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600))?;
        fs::write(
            directory.path().join("prometheus.yml"),
            format!(
                "global: {{scrape_interval: 1s}}\n\
                 scrape_configs:\n\
                 - job_name: profiler\n  \
                   authorization: {{credentials_file: {}}}\n  \
                   static_configs: [{{targets: ['{}']}}]\n",
                token.display(),
                server.address()
            ),
        )?;
        let mut process = Command::new("nice");
        process.args(["-n", "19", "prometheus", "--config.file=prometheus.yml"]);
        process.args([
            "--web.listen-address=127.0.0.1:0",
            "--storage.tsdb.path=data",
        ]);
        process.current_dir(directory.path());
        let mut process = process
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let log = BufReader::new(process.stderr.take().context("no pipe")?);
        let mut lines = log.lines().map_while(Result::ok);
        let listening = lines.find(|line| line.contains("Listening on"));
        let address = listening
            .as_deref()
            .and_then(|line| line.rsplit("address=").next());
        let address = address.context("it does not listen")?.parse()?;
        // It must not wait for a full pipe.
        std::thread::Builder::new().spawn(move || lines.for_each(drop))?;
        let prometheus = Self {
            process,
            address,
            _directory: directory,
        };
        // It answers with 503 until it has opened its storage.
        let host = address.to_string();
        let is_ready = || ask(address, "GET", "/-/ready", &host).is_ok_and(|it| it.status == 200);
        ensure!(until(is_ready), "Prometheus is not ready");
        Ok(prometheus)
    }

    fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = ask(self.address, "GET", path, &self.address.to_string())?;
        let is_chunked = answer
            .head
            .to_lowercase()
            .contains("transfer-encoding: chunked");
        let body = if is_chunked {
            unchunked(&answer.body)?
        } else {
            answer.body
        };
        let text = String::from_utf8(body)?;
        ensure!(answer.status == 200, "{path}: {}{text}", answer.head);
        Ok(serde_json::from_str(&text)?)
    }

    /// The only value of a query, once it is `wanted`.
    fn until(&self, query: &str, wanted: impl Fn(f64) -> bool) -> anyhow::Result<f64> {
        let escape = |byte| format!("%{byte:02x}");
        let escaped: String = query.bytes().map(escape).collect();
        let watch = Stopwatch::start();
        loop {
            let answer = self.get(&format!("/api/v1/query?query={escaped}"))?;
            let values = answer["data"]["result"].as_array().context("no result")?;
            ensure!(values.len() <= 1, "{query}: {answer}");
            let value = values.first().and_then(|one| one["value"][1].as_str());
            let value = value.and_then(|value| value.parse::<f64>().ok());
            if let Some(value) = value.filter(|value| wanted(*value)) {
                return Ok(value);
            }
            ensure!(watch.elapsed() < LONG, "{query}: {answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The content of a body in pieces, each after a line with its length.
fn unchunked(mut body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n");
        let (line, rest) = body.split_at(end.context("no length")?);
        let length = usize::from_str_radix(std::str::from_utf8(line)?, 16)?;
        if length == 0 {
            return Ok(content);
        }
        let piece = rest.get(2..2 + length).context("a piece is cut")?;
        content.extend_from_slice(piece);
        body = rest.get(4 + length..).context("no end")?;
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn prometheus_scrapes_the_metrics_and_answers_queries_about_groups() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("prometheus")? {
        return Ok(());
    }
    let session = start()?;
    let server = MetricsServer::start(&session, LOOPBACK.into())?;
    let prometheus = Prometheus::scraping(&server)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "work\"er", "init")?;
    assert!(until(
        || !matches!(child.ask("probes"), Ok(probes) if probes == "ok 0")
    ));
    child.ask("work-for plugin checker 6 1500")?;
    child.ask("work-for plugin checker 1 70000")?;
    let group = r#"{process="work\"er",kind="plugin",group="checker"}"#;
    prometheus.until("up", |up| up == 1.0)?;
    let entries = format!("profiler_group_entries_total{group}");
    prometheus.until(&entries, |entries| entries == 7.0)?;
    let p99 = format!(
        "histogram_quantile(0.99, sum by (le) (profiler_group_run_duration_seconds_bucket{group}))"
    );
    let p99 = prometheus.until(&p99, |seconds| !seconds.is_nan())?;
    assert!((0.064..=0.512).contains(&p99), "{p99}");
    let slow = format!(
        "sum(profiler_group_run_duration_seconds_count{group}) - \
         sum(profiler_group_run_duration_seconds_bucket{{group=\"checker\",le=\"0.064\"}})"
    );
    assert!(prometheus.until(&slow, |_| true)? >= 1.0);
    child.end("kill 9")?;
    let killed = r#"sum(profiler_process_ends_total{how="killed"})"#;
    prometheus.until(killed, |ends| ends == 1.0)?;
    prometheus.until(&entries, |entries| entries == 7.0)?;
    let mut targets = serde_json::Value::Null;
    let is_scraped = || {
        targets = prometheus.get("/api/v1/targets").unwrap_or_default();
        targets["data"]["activeTargets"][0]["lastError"] == ""
    };
    assert!(until(is_scraped), "{targets}");
    assert!(!targets.to_string().contains(server.token().reveal()));
    Ok(())
}

#[test]
fn promtool_has_no_complaint_about_the_metrics() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("promtool")? {
        return Ok(());
    }
    let session = start()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "a \\ \"child\"\n", "init")?;
    child.ask("work-for plugin checker 6 0")?;
    let text = session_metrics(&session).text(TextFormat::Prometheus);
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut promtool = promtool
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = promtool.stdin.take().context("no pipe")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    let output = promtool.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    Ok(())
}

#[test]
fn promtool_accepts_the_configuration_and_the_rules_of_the_document() -> anyhow::Result<()> {
    if !found_or_skip("promtool")? {
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = fs::read_to_string(root.join("docs/prometheus.md"))?;
    let blocks = document.split("```yaml\n").skip(1);
    let blocks: Vec<&str> = blocks
        .filter_map(|block| block.split("```").next())
        .collect();
    let directory = tempfile::tempdir()?;
    let mut checked = Vec::new();
    for block in blocks {
        let what = if block.starts_with("groups:") {
            "rules"
        } else {
            "config"
        };
        // The file with the token is one that exists here.
        let token = directory.path().join("token");
        fs::write(&token, "")?;
        let block = block.replace("/etc/prometheus/profiler.token", &token.to_string_lossy());
        let file = directory.path().join("block.yml");
        fs::write(&file, block)?;
        let output = Command::new("promtool")
            .args(["check", what])
            .arg(&file)
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "{what}: {}",
            String::from_utf8_lossy(&said)
        );
        checked.push(what);
    }
    assert_eq!(checked, ["config", "rules"]);
    Ok(())
}
