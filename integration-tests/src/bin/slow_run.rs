//! A child in which one group is slow once. Saves the evidence of the alert, and the whole profile
//! in both formats, as input for the real viewer.
//!
//!     slow_run DIRECTORY
//!     node integration-tests/viewer/check.mjs DIRECTORY/evidence.json.gz DIRECTORY/evidence.expect.json
//!
//! The child's main thread waits all the time. Its thread "worker" works for the group once, for
//! [`RUN`].

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::Builder;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use integration_tests::own;
use integration_tests::patience::{LONG, Stopwatch, until};
use profiler_core::groups::{Group, GroupKind, Probes};
use profiler_core::session::Features;
use profiler_parent::{AlertRules, AlertTarget, EvidenceOptions, Format, Session};
use serde_json::{Value, json};

/// The argument that makes this program a child.
const ROLE: &str = "--child";
const CHILD: &str = "editor";
const THREAD: &str = "worker";
const GROUP: &str = "spell checker";
const RUN: Duration = Duration::from_millis(600);
const PAUSE: Duration = Duration::from_millis(500);
const MARGIN: Duration = Duration::from_millis(5);

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match &arguments[..] {
        [role] if role == ROLE => child(),
        [directory] => run(Path::new(directory)),
        _ => bail!("usage: slow_run DIRECTORY"),
    }
}

fn run(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let session = Session::builder()
        .name("slow run")
        .features(Features::STACK_WALK.with(Features::CPU))
        .start()?;
    let evidence = EvidenceOptions::in_directory(directory.join("alerts")).margin(MARGIN);
    let alerts = session.alerts(AlertRules::default().buffering(PAUSE), evidence)?;
    let (sender, received) = channel();
    alerts.add(
        AlertTarget::Group(GROUP.to_owned()),
        "scene",
        move |alerts| {
            drop(sender.send(alerts.to_vec()));
        },
    )?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg(ROLE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = session.spawn(CHILD, command)?;
    let mut answers = BufReader::new(child.stdout.take().context("no output")?);
    let mut line = || -> Result<String> {
        let mut line = String::new();
        answers.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    };
    ensure!(line()? == "ready", "the child does not record");
    let measures = || {
        let groups = session.groups();
        let mut all = groups.processes.iter();
        all.all(|process| process.probes.contains(Probes::JANK))
    };
    ensure!(until(measures), "a process does not measure runs");
    std::thread::sleep(PAUSE);
    let mut orders = child.stdin.take().context("no input")?;
    writeln!(orders, "run")?;
    ensure!(line()? == "ran", "the child did not run");
    let alert = received.recv_timeout(LONG)?.pop().context("no alert")?;
    let evidence = alert
        .evidence
        .with_context(|| format!("no evidence: {:?}", alert.evidence_error))?;
    std::fs::copy(evidence, directory.join("evidence.json.gz"))?;
    session.capture().save(directory.join("whole.json.gz"))?;
    session
        .capture()
        .format(Format::Gecko)
        .save(directory.join("gecko.json.gz"))?;
    drop(orders);
    child.wait()?;
    expect(directory, "evidence", &evidence_expectation())?;
    let took = Duration::from_nanos(alert.highest_ns);
    expect(directory, "whole", &whole_expectation("ms", took))?;
    expect(directory, "gecko", &whole_expectation("", took))?;
    expect(directory, "recorded", &recorded_expectation())
}

fn child() -> Result<()> {
    own::join_session()?;
    let (order, orders) = channel::<()>();
    let (done, is_done) = channel::<()>();
    let worker = Builder::new().name(THREAD.to_owned()).spawn(move || {
        for () in orders {
            let _run = Group::register(GroupKind::Plugin, GROUP).enter();
            work();
            drop(_run);
            let _ = done.send(());
        }
    })?;
    writeln!(std::io::stdout(), "ready")?;
    while wait_for_order()? {
        order.send(())?;
        is_done.recv()?;
        writeln!(std::io::stdout(), "ran")?;
    }
    drop(order);
    worker.join().map_err(|_| anyhow!("the worker panicked"))
}

/// Waits for a line; `false` at the end of the input.
#[inline(never)]
fn wait_for_order() -> Result<bool> {
    Ok(std::io::stdin().lock().read_line(&mut String::new())? > 0)
}

#[inline(never)]
fn work() {
    let begun = Stopwatch::start();
    while begun.elapsed() < RUN {
        std::hint::black_box((0..1_000_u64).sum::<u64>());
    }
}

/// The evidence shows the run from its begin to its end, in its thread, and little else.
fn evidence_expectation() -> Value {
    json!({
        "opensOn": { "process": CHILD, "thread": THREAD, "marker": GROUP, "marginMs": MARGIN.as_millis() },
        "threads": [{
            "process": CHILD,
            "name": THREAD,
            "markers": { GROUP: 1 },
            "samples": { "min": 5 },
            "complete": true,
        }],
        "processes": [
            { "name": "slow run", "markers": {}, "complete": true },
            { "name": CHILD },
        ],
        "schemas": [{ "name": "SlowRun", "fields": ["Group", "Kind", "Duration"] }],
        "markerLabels": [{
            "process": CHILD,
            "marker": GROUP,
            "label": format!("slow run of the plugin {GROUP}"),
            "count": 1,
        }],
    })
}

/// The time of the group is where the group ran. The waiting main thread can be left out.
fn whole_expectation(unit: &str, took: Duration) -> Value {
    let [least, most] =
        [RUN, took * 3 / 2].map(|time| u64::try_from(time.as_millis()).unwrap_or(0));
    let group = json!({
        "process": CHILD,
        "name": format!("plugin {GROUP}"),
        "unit": unit,
        "graphType": "line-rate",
        // The graph has 50 ranges of time. The run is in several of them, and the rest is idle.
        "busyRanges": { "min": 3, "max": 40 },
        "sum": { "min": least, "max": most },
    });
    let mut expect = json!({
        "processes": [{ "name": "slow run" }, { "name": CHILD }],
        "counters": [
            group,
            { "process": CHILD, "name": "all groups" },
            { "process": CHILD, "name": format!("all groups of {THREAD}") },
        ],
    });
    if !unit.is_empty() {
        let wait = "slow_run!slow_run::wait_for_order";
        let work = "slow_run!slow_run::work";
        expect["threads"] = json!([
            {
                "process": CHILD,
                "name": "GeckoMain",
                "totalSamples": { wait: { "min": 100 } },
                "busyTotalSamples": { wait: { "max": 50 } },
            },
            {
                "process": CHILD,
                "name": THREAD,
                "busyTotalSamples": { work: { "min": 5 } },
            },
        ]);
    }
    expect
}

/// The profile of `profiler record -- sh -c 'exec slow_run --child'` is about this program only.
fn recorded_expectation() -> Value {
    let program = "slow_run";
    json!({
        "processes": [{ "name": program }],
        "meta": { "product": program },
        "threads": [{ "process": program, "name": THREAD, "samples": { "min": 5 } }],
    })
}

fn expect(directory: &Path, name: &str, expectation: &Value) -> Result<()> {
    let path = directory.join(format!("{name}.expect.json"));
    Ok(std::fs::write(
        path,
        serde_json::to_vec_pretty(expectation)?,
    )?)
}
