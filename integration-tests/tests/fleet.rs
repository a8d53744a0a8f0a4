//! Tests of the store of a fleet: rows X13 to X15 of `docs/features.md`.
//!
//! A session of several processes is exported as rows of three hosts in two releases, and inserted
//! into a real cluster of two servers. The answers are compared with what `profiler info` says
//! about the same profile. The same statements are executed by a present-day engine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use integration_tests::clickhouse::Cluster;
use integration_tests::helper_process::HelperProcess;
use integration_tests::installed::skip;
use integration_tests::reports::all_measure;
use integration_tests::session::{self, TestSession};
use integration_tests::{own_process, tools};
use profiler_export::{Engine, FleetSchema, FleetTable};
use profiler_fleet::{FleetFilter, FleetQuery, Parameters, TimeRange, UnixMicros};
use profiler_parent::groups::Probes;
use serde_json::{Value, json};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// Hosts and the release that each of them runs.
const HOSTS: [(&str, &str); 3] = [("node-1", "1.0"), ("node-2", "2.0"), ("it's node-3", "2.0")];

/// A recording of two processes, of which one dies inside a span, and its rows for each host.
struct Scene {
    session: TestSession,
    profile: PathBuf,
}

impl Scene {
    fn record() -> anyhow::Result<Self> {
        let session = session::start(|builder| builder)?;
        let monitor = session.session()?.monitor(Probes::JANK);
        let mut shop = HelperProcess::spawn(session.session()?, CHILD, "shop", "init")?;
        let mut store = HelperProcess::spawn(session.session()?, CHILD, "store", "init")?;
        let measure = all_measure(session.session()?, Probes::JANK);
        ensure!(measure, "no process measures groups");
        shop.ask("sample-for basket parse 3000 500")?;
        shop.ask("sample render 1000 250")?;
        store.ask("sample-for disk read 2000 100")?;
        store.ask("sample parse 500 400")?;
        shop.ask("open-span checkout")?;
        shop.child.kill()?;
        shop.child.wait()?;
        let profile = session.path("profile.json.gz");
        session.session()?.capture().save(&profile)?;
        drop(monitor);
        Ok(Self { session, profile })
    }

    /// Exports the rows of one host. Returns the directory.
    fn rows(&self, host: &str, version: &str) -> anyhow::Result<PathBuf> {
        let to = self.session.path(&host.replace(['\'', ' '], "-"));
        let profile = self.profile.to_string_lossy();
        let out = to.to_string_lossy();
        let arguments: [&str; 12] = [
            "export",
            &profile,
            "--to",
            "clickhouse",
            "-o",
            &out,
            "--service",
            "shop",
            "--host",
            host,
            "--service-version",
            version,
        ];
        tools::succeed(&arguments)?;
        Ok(to)
    }

    /// A range of time around the recording.
    fn filter(&self) -> anyhow::Result<FleetFilter> {
        let mut text = String::new();
        GzDecoder::new(fs::File::open(&self.profile)?).read_to_string(&mut text)?;
        let profile: Value = serde_json::from_str(&text)?;
        let start = profile["meta"]["startTime"].as_f64().context("no start")? as u64;
        let micros = |seconds: u64| UnixMicros((start / 1000 + seconds) * 1_000_000);
        let range = TimeRange {
            from: UnixMicros(micros(0).0 - 60_000_000),
            to: micros(3600),
        };
        Ok(FleetFilter::within(range))
    }
}

/// The rows of a table in a directory that was exported.
fn table_rows(directory: &Path, table: FleetTable) -> anyhow::Result<Vec<u8>> {
    let file = fs::File::open(directory.join(format!("{}.ndjson.gz", table.name())))?;
    let mut rows = Vec::new();
    GzDecoder::new(file).read_to_end(&mut rows)?;
    Ok(rows)
}

fn all_parameters(filter: &FleetFilter) -> Parameters {
    filter
        .parameters(1000)
        .text("before", "1.0")
        .text("after", "2.0")
}

/// The number in a row, which old servers write as a text.
fn number(row: &Value, key: &str) -> anyhow::Result<f64> {
    let value = &row[key];
    let text = value
        .as_str()
        .map(str::to_owned)
        .unwrap_or_else(|| value.to_string());
    text.parse().with_context(|| format!("no {key} in {row}"))
}

fn find<'r>(rows: &'r [Value], key: &str, name: &str) -> anyhow::Result<&'r Value> {
    let mut rows = rows.iter();
    rows.find(|row| row[key] == name)
        .with_context(|| format!("no {name}"))
}

/// Compares the answers of an engine with what is known of the scene. Every host has the same rows.
fn check_answers(
    scene: &Scene,
    ask: &mut dyn FnMut(FleetQuery) -> anyhow::Result<Vec<Value>>,
) -> anyhow::Result<()> {
    let info = tools::info(&scene.profile)?;
    let hosts = HOSTS.len() as f64;
    let top = ask(FleetQuery::Top)?;
    let all_us = number(find(&top, "function", "(all)")?, "total_cpu_us")?;
    let all_ms = info["samples"]["all_ms"].as_f64().context("no sum")?;
    ensure!(
        (all_us / 1e3 - hosts * all_ms).abs() < 0.01 * hosts,
        "{all_us} µs, {all_ms} ms"
    );
    for known in info["samples"]["top"].as_array().context("no functions")? {
        let row = find(
            &top,
            "function",
            known["function"].as_str().unwrap_or_default(),
        )?;
        for (key, ms) in [("self_cpu_us", "self_ms"), ("total_cpu_us", "total_ms")] {
            let (us, ms) = (number(row, key)?, known[ms].as_f64().context("no time")?);
            ensure!(
                (us / 1e3 - hosts * ms).abs() < 0.01 * hosts,
                "{row}, {known}"
            );
        }
    }
    let flame = ask(FleetQuery::Flame)?;
    let sum = flame
        .iter()
        .map(|row| number(row, "cpu_us"))
        .sum::<anyhow::Result<f64>>()?;
    ensure!(
        sum == all_us,
        "{sum} µs in the flame graph, {all_us} µs in the functions"
    );
    let stack = flame
        .iter()
        .find(|row| row["path"] == json!(["main", "parse"]));
    ensure!(
        number(stack.context("no stack")?, "samples")? == 3500.0 * hosts,
        "{flame:?}"
    );
    let changes = ask(FleetQuery::Diff)?;
    for row in &changes {
        let same = (number(row, "self_before")? - number(row, "self_after")?).abs() < 1e-9;
        let twice = number(row, "samples_after")? == 2.0 * number(row, "samples_before")?;
        ensure!(same && twice, "both releases have the same work: {row}");
    }
    check_groups(&ask(FleetQuery::Groups)?)?;
    check_open_spans(&ask(FleetQuery::OpenSpans)?)
}

/// Every host has the run of each plugin.
fn check_groups(rows: &[Value]) -> anyhow::Result<()> {
    for (host, version) in HOSTS {
        for group in ["basket", "disk"] {
            let is_it = |row: &&Value| {
                let name = row["group_name"].as_str().unwrap_or_default();
                row["host"] == host && row["version"] == version && name.contains(group)
            };
            let row = rows
                .iter()
                .find(is_it)
                .with_context(|| format!("no {group}: {rows:?}"))?;
            ensure!(number(row, "all_runs")? == 1.0, "{row}");
            ensure!(number(row, "ns_per_run")? >= 2e6, "{row}");
        }
    }
    Ok(())
}

fn check_open_spans(rows: &[Value]) -> anyhow::Result<()> {
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        ensure!(
            row["process_name"] == "shop" && row["span_name"] == "stays open",
            "{row}"
        );
        ensure!(row["values"].to_string().contains("checkout"), "{row}");
        *hosts
            .entry(row["host"].as_str().unwrap_or_default())
            .or_default() += 1;
    }
    let expected: BTreeMap<&str, usize> = HOSTS.iter().map(|(host, _)| (*host, 1)).collect();
    ensure!(hosts == expected, "{rows:?}");
    Ok(())
}

#[test]
fn x13_batches_in_a_cluster_count_once_and_give_the_answers_of_the_profile() -> anyhow::Result<()> {
    own_process!();
    let Some(cluster) = Cluster::start()? else {
        return Ok(());
    };
    let scene = Scene::record()?;
    for (host, version) in HOSTS {
        let rows = scene.rows(host, version)?;
        // A sender that got no answer inserts the batch again.
        for table in FleetTable::ALL.into_iter().chain(FleetTable::ALL) {
            let rows = table_rows(&rows, table)?;
            if !rows.is_empty() {
                cluster.insert(table, &rows)?;
            }
        }
    }
    let filter = scene.filter()?;
    let parameters = all_parameters(&filter);
    check_answers(&scene, &mut |question| {
        let statement = parameters.fill(question.text())?;
        let answer = cluster.execute(&format!("{statement}\nFORMAT JSONEachRow"))?;
        Ok(answer
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?)
    })?;
    let rows = cluster.local_rows(FleetTable::Samples)?;
    ensure!(
        rows.iter().all(|count| *count > 0),
        "one server has all rows: {rows:?}"
    );
    check_commands(&scene, &cluster, &filter)?;
    check_halves(&cluster, &filter)
}

/// Runs a command of `profiler fleet`.
fn fleet(cluster: &Cluster, filter: &FleetFilter, words: &[&str]) -> anyhow::Result<String> {
    let seconds = |at: UnixMicros| (at.0 / 1_000_000).to_string();
    let address = cluster.address();
    let (since, until) = (seconds(filter.range.from), seconds(filter.range.to));
    let common: [&str; 6] = ["--from", &address, "--since", &since, "--until", &until];
    let arguments: Vec<&str> = ["fleet"]
        .iter()
        .chain(words)
        .chain(&common)
        .copied()
        .collect();
    Ok(tools::succeed(&arguments)?.out)
}

/// The commands give the same answers, and files that other commands read.
fn check_commands(scene: &Scene, cluster: &Cluster, filter: &FleetFilter) -> anyhow::Result<()> {
    let one = [
        "--host",
        "it's node-3",
        "--service",
        "shop",
        "--version",
        "2.0",
    ];
    let out = scene.session.path("fleet.json.gz");
    let out_text = out.to_string_lossy().into_owned();
    let flame: [&str; 3] = ["flame", "-o", &out_text];
    let words = [&flame[..], &one[..]].concat();
    fleet(cluster, filter, &words)?;
    let (known, ours) = (tools::info(&scene.profile)?, tools::info(&out)?);
    let all_ms = |info: &Value| info["samples"]["all_ms"].as_f64().context("no sum");
    ensure!(
        (all_ms(&known)? - all_ms(&ours)?).abs() < 0.01,
        "{known} {ours}"
    );
    let folded = scene.session.path("fleet.folded");
    fleet(cluster, filter, &["flame", "-o", &folded.to_string_lossy()])?;
    let text = fs::read_to_string(folded)?;
    ensure!(
        text.lines().any(|line| line.starts_with("main;parse ")),
        "{text}"
    );
    let tree = fleet(cluster, filter, &["flame"])?;
    ensure!(
        tree.lines().any(|line| line.ends_with("   parse")),
        "{tree}"
    );
    let none = fleet(
        cluster,
        filter,
        &["top", "--json", "--service", "shop' OR '1' = '1"],
    )?;
    ensure!(
        serde_json::from_str::<Value>(&none)?["functions"] == json!([]),
        "{none}"
    );
    let diff = fleet(
        cluster,
        filter,
        &["diff", "--before", "1.0", "--after", "2.0"],
    )?;
    ensure!(diff.contains("+0.00") && diff.contains("parse"), "{diff}");
    for (command, text) in [
        ("groups", "basket"),
        ("open-spans", "checkout"),
        ("spans", "ms"),
    ] {
        let answer = fleet(cluster, filter, &[command])?;
        ensure!(
            answer.contains(text) || command == "spans",
            "{command}: {answer}"
        );
    }
    Ok(())
}

/// The halves of a span in two batches are one span, also if it begins before the range; an
/// interval that ends before its start changes no other; and an exception in the middle of an
/// answer is an error of the command.
fn check_halves(cluster: &Cluster, filter: &FleetFilter) -> anyhow::Result<()> {
    let start_ns = filter.range.from.0 * 1000 + 1000;
    let row = |phase: &str, batch: u64, start: u64, end: u64, span: u64| {
        json!({"day": "2100-01-01", "service": "s", "version": "", "host": "h", "session": 1,
               "batch": batch, "seq": span, "process": "p", "pid": "7", "thread": "t", "tid": 7,
               "name": if phase == "end" { "" } else { "request" }, "category": "Other",
               "phase": phase, "start_ns": start, "end_ns": end, "span": span, "kind": "Span",
               "field.key": [], "field.value": []})
    };
    let day = cluster.execute(&format!(
        "SELECT toDate(toDateTime({}), 'UTC')",
        start_ns / 1_000_000_000
    ))?;
    let rows: Vec<String> = [
        row("start", 1, start_ns, 0, 9),
        row("end", 2, 0, start_ns + 5_000_000, 9),
        row("start", 1, start_ns - 2_000_000, 0, 10),
        row("end", 2, 0, start_ns + 5_000_000, 10),
        row("interval", 2, start_ns + 9_000_000, start_ns, 11),
    ]
    .map(|row| row.to_string())
    .into();
    let rows = rows.join("\n").replace("2100-01-01", day.trim());
    cluster.insert(FleetTable::Spans, rows.as_bytes())?;
    let spans: Value = serde_json::from_str(&fleet(cluster, filter, &["spans", "--json"])?)?;
    let spans = spans["spans"].as_array().context("no spans")?;
    let request = find(spans, "span_name", "request")?;
    ensure!(
        request["spans"] == 3
            && request["longest_ns"] == 7_000_000
            && request["time_ns"] == 12_000_000,
        "{request}"
    );
    cluster.execute("DROP TABLE profiler_groups")?;
    let address = cluster.address();
    let said = tools::run(&["fleet", "groups", "--from", &address])?;
    ensure!(
        said.code == Some(2) && said.error.contains("profiler fleet ddl"),
        "{said:?}"
    );
    Ok(())
}

/// Executes statements, and prints the rows of each question as JSON.
const CHDB: &str = r#"
import json, sys
from chdb.session import Session
told = json.load(sys.stdin)
session = Session()
for statement in told["statements"]:
    session.query(statement)
session.query("USE " + told["database"])
for table, path in told["files"]:
    session.query(f"INSERT INTO {table} FROM INFILE '{path}' COMPRESSION 'gzip' FORMAT JSONEachRow")
answers = {}
for name, question in told["questions"].items():
    lines = str(session.query(question, "JSONEachRow")).splitlines()
    answers[name] = [json.loads(line) for line in lines if line]
json.dump(answers, sys.stdout)
"#;

/// The Python that has chDB, a present-day ClickHouse in a library. `PROFILER_CHDB` names it.
fn chdb() -> anyhow::Result<Option<String>> {
    let python = std::env::var("PROFILER_CHDB").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(&python);
    let quiet = command
        .args(["-c", "import chdb.session"])
        .stdin(Stdio::null());
    let imported = quiet.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if imported.is_ok_and(|status| status.success()) {
        return Ok(Some(python));
    }
    skip(
        "chdb",
        "neither PROFILER_CHDB nor python3 has the package chdb-core",
    )?;
    Ok(None)
}

#[test]
fn x14_a_present_day_engine_gives_the_same_answers_from_the_same_files() -> anyhow::Result<()> {
    own_process!();
    let Some(python) = chdb()? else {
        return Ok(());
    };
    let scene = Scene::record()?;
    let mut files = Vec::new();
    for (host, version) in HOSTS {
        let rows = scene.rows(host, version)?;
        for table in FleetTable::ALL.into_iter().chain(FleetTable::ALL) {
            if !table_rows(&rows, table)?.is_empty() {
                let file = rows.join(format!("{}.ndjson.gz", table.name()));
                files.push(json!([table.name(), file]));
            }
        }
    }
    let parameters = all_parameters(&scene.filter()?);
    let filled = |question: FleetQuery| -> anyhow::Result<(String, Value)> {
        Ok((
            question.name().to_owned(),
            json!(parameters.fill(question.text())?),
        ))
    };
    let questions: serde_json::Map<String, Value> = FleetQuery::ALL
        .into_iter()
        .map(filled)
        .collect::<anyhow::Result<_>>()?;
    // The rows are from today, so none of them is too old.
    let schema = FleetSchema::new("fleet")?.keep_days(30, Engine::Current);
    let told = json!({"database": "fleet", "statements": schema.statements(), "files": files,
                      "questions": questions});
    let mut command = Command::new(python);
    command
        .args(["-c", CHDB])
        .current_dir(scene.session.path("."));
    let mut engine = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    engine
        .stdin
        .take()
        .context("no input")?
        .write_all(told.to_string().as_bytes())?;
    let output = engine.wait_with_output()?;
    ensure!(output.status.success(), "{:?}", output.status);
    let answers: Value = serde_json::from_slice(&output.stdout)?;
    check_answers(&scene, &mut |question| {
        let rows = answers[question.name()].as_array().cloned();
        rows.with_context(|| format!("no answer to {}", question.name()))
    })
}

#[test]
fn x15_an_error_of_fleet_is_one_line_without_a_password() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let missing = directory.path().join("none").to_string_lossy().into_owned();
    let nowhere = "clickhouse://127.0.0.1:1/profiler";
    let cases: [&[&str]; 7] = [
        &["fleet", "top", "--from", nowhere],
        &[
            "fleet",
            "top",
            "--from",
            "clickhouse://me:sesame@127.0.0.1/x",
        ],
        &["fleet", "top", "--from", "http://127.0.0.1"],
        &[
            "fleet",
            "top",
            "--from",
            nowhere,
            "--password-file",
            &missing,
        ],
        &["fleet", "top", "--from", nowhere, "--since", "tomorrow"],
        &[
            "fleet",
            "top",
            "--from",
            nowhere,
            "--since",
            "2026-01-02",
            "--until",
            "2026-01-01",
        ],
        &["fleet", "ddl", "--database", "a;b"],
    ];
    for case in cases {
        let said = tools::fail(case)?;
        ensure!(!said.error.contains("sesame"), "{said:?}");
    }
    let said = tools::succeed(&["fleet", "ddl", "--cluster", "fleet", "--without-ttl"])?;
    ensure!(said.out.matches("CREATE TABLE").count() == 12, "{said:?}");
    Ok(())
}
