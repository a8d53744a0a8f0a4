//! Tests of the application's own traces: the samples and markers of several processes carry them,
//! `info --trace` finds them, exports to OTLP link to them, and another program reads the trace of
//! a thread from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::installed::found_or_skip;
use integration_tests::own_process;
use integration_tests::profile::{Mark, Profile};
use integration_tests::session::{self, TestSession};
use integration_tests::tools;
use profiler_core::session::Features;
use profiler_core::trace::TraceContext;
use profiler_export::{ExportOptions, Target, export};
use profiler_parent::groups::{GroupKind, Probes};
use serde_json::Value;
use test_support::protobuf::{Field, fields};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const FIRST: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECOND: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NEITHER: &str = "00-0000000000000000000000000000abcd-00000000000000ef-00";

/// A session that takes samples.
fn sampling() -> anyhow::Result<TestSession> {
    session::start(|builder| builder.features(Features::STACK_WALK.with(Features::CPU)))
}

fn trace_id(header: &str) -> &str {
    &header[3..35]
}

/// What `info` says about a trace of a profile.
fn info(profile: &Path, trace: &str) -> anyhow::Result<Value> {
    let path = profile.to_string_lossy();
    let said = tools::succeed(&["info", &path, "--json", "--top", "1000", "--trace", trace])?;
    Ok(serde_json::from_str(&said.out)?)
}

/// Processes of the threads that worked for a trace, each with its samples and markers.
fn workers(info: &Value) -> anyhow::Result<BTreeMap<String, (f64, u64)>> {
    let mut all: BTreeMap<String, (f64, u64)> = BTreeMap::new();
    for thread in info["trace"]["threads"].as_array().context("no threads")? {
        let name = thread["process"].as_str().context("no name")?;
        let sum = all.entry(name.to_owned()).or_default();
        sum.0 += thread["samples"].as_f64().context("no samples")?;
        sum.1 += thread["markers"].as_u64().context("no markers")?;
    }
    Ok(all)
}

/// The markers of a process with this name.
fn marks<'p>(profile: &'p Profile, process: &str, name: &str) -> anyhow::Result<Vec<&'p Mark>> {
    let threads = &profile.process(process)?.threads;
    let marks = threads.iter().flat_map(|thread| &thread.marks);
    Ok(marks.filter(|mark| mark.name == name).collect())
}

#[test]
fn a_trace_has_exactly_its_samples_and_markers_of_all_processes() -> anyhow::Result<()> {
    own_process!();
    let session = sampling()?;
    let mut shop = HelperProcess::spawn(&session, CHILD, "shop", "init")?;
    let mut stock = HelperProcess::spawn(&session, CHILD, "stock", "init")?;
    assert_eq!(shop.ask(&format!("serve {FIRST} 200 3"))?, "ok true");
    stock.ask(&format!("serve {FIRST} 100 2"))?;
    stock.ask(&format!("serve {SECOND} 100 1"))?;
    for (report, profile) in session.capture_both()? {
        for process in ["shop", "stock"] {
            for mark in marks(&profile, process, "not served")? {
                ensure!(mark.data.get("traceId").is_none(), "{mark:?}");
            }
        }
        let first = info(&report.path, trace_id(FIRST))?;
        let of_first = workers(&first)?;
        let names: Vec<&str> = of_first.keys().map(String::as_str).collect();
        assert_eq!(names, ["shop", "stock"]);
        assert_eq!((of_first["shop"].1, of_first["stock"].1), (3, 2), "{first}");
        let of_second = workers(&info(&report.path, SECOND)?)?;
        assert_eq!(of_second.len(), 1);
        assert_eq!(of_second["stock"].1, 1);
        // A sample carries what the thread worked for at this instant: no stack is of other work.
        let functions = first["samples"]["top"].as_array().context("no samples")?;
        let is_there = |name: &str| {
            functions
                .iter()
                .any(|row| row["function"].to_string().contains(name))
        };
        ensure!(
            is_there("serve_busily") && !is_there("serve_nobody"),
            "{first}"
        );
        let busy: Vec<&str> = first["trace"]["markers"]
            .as_array()
            .context("no markers")?
            .iter()
            .filter_map(|marker| marker["span"].as_str())
            .collect();
        assert_eq!(busy, ["00f067aa0ba902b7"; 5]);
        ensure!(workers(&info(&report.path, NEITHER)?)?.is_empty());
    }
    Ok(())
}

#[test]
fn waits_at_one_place_belong_to_the_traces_that_wait() -> anyhow::Result<()> {
    own_process!();
    let session = sampling()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "shop", "init")?;
    child.ask(&format!("wait-in-turn 100 8 {FIRST} {SECOND}"))?;
    let (report, _) = session.capture()?;
    let of = |header| anyhow::Ok(workers(&info(&report.path, trace_id(header))?)?["shop"].0);
    let (first, second) = (of(FIRST)?, of(SECOND)?);
    // They wait equally long.
    let share = first / (first + second);
    ensure!((0.25..0.75).contains(&share), "{first} and {second}");
    Ok(())
}

#[test]
fn the_samples_and_markers_of_a_killed_process_keep_their_trace() -> anyhow::Result<()> {
    own_process!();
    let session = sampling()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "mortal", "init")?;
    child.ask(&format!("serve {FIRST} 100 4"))?;
    child.end("kill 9")?;
    let (report, profile) = session.capture()?;
    let of_first = workers(&info(&report.path, trace_id(FIRST))?)?;
    let (samples, markers) = of_first["mortal"];
    ensure!(samples >= 20.0, "{of_first:?}");
    assert_eq!(markers, 4);
    let counts = &profile.process("mortal")?.total;
    assert_eq!(
        counts.recorded,
        counts.delivered + counts.unfinished,
        "{counts:?}"
    );
    Ok(())
}

#[test]
fn each_marker_of_a_trace_has_it_also_in_later_chunks() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "shop", "init")?;
    child.ask(&format!("serve {FIRST} 0 40000"))?;
    child.ask(&format!("serve {SECOND} 0 10"))?;
    let (_, profile) = session.capture()?;
    let served = marks(&profile, "shop", "served")?;
    ensure!(served.len() > 10_000, "{} markers are left", served.len());
    let (last, first) = served.split_at(served.len() - 10);
    let (first, last) = (last, first);
    for (all, header) in [(first, FIRST), (last, SECOND)] {
        for mark in all {
            assert_eq!(mark.data["traceId"], trace_id(header), "{mark:?}");
        }
    }
    for mark in marks(&profile, "shop", "not served")? {
        ensure!(mark.data.get("traceId").is_none(), "{mark:?}");
    }
    Ok(())
}

#[test]
fn profiles_for_otlp_link_to_the_spans_of_the_application() -> anyhow::Result<()> {
    own_process!();
    let session = sampling()?;
    let mut child = HelperProcess::spawn(&session, CHILD, "shop", "init")?;
    child.ask(&format!("serve {FIRST} 100 1"))?;
    let (report, _) = session.capture()?;
    let to = session.path("profiles.pb");
    export(&report.path, &to, &ExportOptions::to(Target::OtlpProfiles))?;
    let bytes = fs::read(&to)?;
    let context: TraceContext = FIRST.parse()?;
    // A link: the trace id (field 1, 16 bytes) and the span id (field 2, 8 bytes).
    let trace = context.trace_id().get().to_be_bytes();
    let span = context.span_id().get().to_be_bytes();
    let link = [&[0x0a, 16], &trace[..], &[0x12, 8], &span[..]].concat();
    let dictionary = messages(&[&bytes], 2);
    let links = messages(&dictionary, 4);
    let places = links.iter().zip(0_u64..).filter(|(row, _)| **row == link);
    let places: Vec<u64> = places.map(|(_, place)| place).collect();
    assert_eq!(places.len(), 1, "the table has no link to the trace");
    // Resources, scopes, profiles and samples.
    let samples = [1, 2, 2, 2]
        .into_iter()
        .fold(vec![&bytes[..]], |messages_of, field| {
            messages(&messages_of, field)
        });
    let is_linked = |sample: &[u8]| {
        let fields = fields(sample);
        let mut links = fields.iter();
        links.any(|field| matches!(field, Field::Number(3, place) if *place == places[0]))
    };
    let linked = samples.iter().filter(|sample| is_linked(sample)).count();
    ensure!(linked > 0, "none of {} samples has the link", samples.len());
    ensure!(linked < samples.len(), "samples of no trace have the link");
    Ok(())
}

/// The messages in a field of these messages.
fn messages<'b>(of: &[&'b [u8]], number: u64) -> Vec<&'b [u8]> {
    let all = of.iter().flat_map(|message: &&'b [u8]| fields(message));
    all.filter_map(|field| match field {
        Field::Bytes(of, inner) if of == number => Some(inner),
        _ => None,
    })
    .collect()
}

#[test]
fn the_processor_time_of_each_tenant_in_samples_is_that_of_its_group() -> anyhow::Result<()> {
    own_process!();
    // A virtual machine lets the timers of processor time pause, and samples are missing then.
    let mut run = run_of_tenants()?;
    for _ in 1..5 {
        if run.percent_at_changes() < MOST_AT_CHANGES {
            break;
        }
        run = run_of_tenants()?;
    }
    let at_changes = run.percent_at_changes();
    ensure!(at_changes < MOST_AT_CHANGES, "{run:?}");
    let all_exact: u64 = run.exact.values().sum();
    for (name, ns) in &run.exact {
        let in_samples = percent(run.sampled.get(*name).copied().unwrap_or(0), run.all());
        let difference = (in_samples - percent(*ns, all_exact)).abs();
        // A sample at a change also stands for work before it.
        ensure!(
            difference < 2.0 + at_changes,
            "{name}: {difference} points: {run:?}"
        );
    }
    Ok(())
}

/// The most processor time in samples at changes of the tenant, in percent, of a run that has
/// enough samples.
const MOST_AT_CHANGES: f64 = 10.0;

fn percent(ns: u64, of: u64) -> f64 {
    ns as f64 / of as f64 * 100.0
}

/// The processor time of the tenants in a session of its own.
#[derive(Debug)]
struct TenantsRun {
    exact: BTreeMap<&'static str, u64>,
    sampled: BTreeMap<String, u64>,
    at_changes: u64,
}

impl TenantsRun {
    fn all(&self) -> u64 {
        self.sampled.values().sum()
    }

    fn percent_at_changes(&self) -> f64 {
        match self.all() {
            0 => 100.0,
            all => percent(self.at_changes, all),
        }
    }
}

fn run_of_tenants() -> anyhow::Result<TenantsRun> {
    let session = sampling()?;
    let _monitor = session.monitor(Probes::ALL);
    let mut child = HelperProcess::spawn(&session, CHILD, "shop", "init")?;
    ensure!(integration_tests::reports::all_measure(
        &session,
        Probes::ALL
    ));
    child.ask("tenants")?;
    let exact = session.groups();
    let exact = exact.process("shop").context("no process")?;
    let (_, profile) = session.capture()?;
    let (sampled, at_changes) = cpu_of_groups(&profile, "shop")?;
    let exact = ["acme", "globex", "initech"].map(|name| {
        let group = exact.group(GroupKind::Tenant, name);
        (name, group.map_or(0, |group| group.totals.cpu_ns))
    });
    Ok(TenantsRun {
        exact: exact.into(),
        sampled,
        at_changes,
    })
}

/// The processor time in the samples of a process, by the group that they carry, and how much of it
/// is in samples that carry another group than the sample before.
fn cpu_of_groups(profile: &Profile, process: &str) -> anyhow::Result<(BTreeMap<String, u64>, u64)> {
    let threads = profile.json["threads"].as_array().context("no threads")?;
    let mut sums = BTreeMap::new();
    let mut at_changes = 0;
    for thread in threads
        .iter()
        .filter(|thread| thread["processName"] == process)
    {
        let markers = &thread["markers"];
        let intervals: Vec<(f64, f64, &str)> = markers["data"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
            .filter(|(_, data)| data["type"] == "SampleContext")
            .filter_map(|(row, data)| {
                let time = |key: &str| markers[key][row].as_f64();
                Some((
                    time("startTime")?,
                    time("endTime")?,
                    data["group"].as_str()?,
                ))
            })
            .collect();
        let samples = &thread["samples"];
        let deltas = samples["timeDeltas"].as_array().context("no times")?;
        let mut at = 0.0;
        let mut before = None;
        for (row, delta) in deltas.iter().enumerate() {
            at += delta.as_f64().unwrap_or(0.0);
            let cpu = samples["threadCPUDelta"][row].as_u64().unwrap_or(0);
            let group = intervals
                .iter()
                .find(|(from, to, _)| *from <= at && at <= *to);
            let group = group.map(|(.., group)| *group);
            at_changes += if group == before { 0 } else { cpu };
            before = group;
            if let Some(group) = group {
                *sums.entry(group.to_owned()).or_default() += cpu;
            }
        }
    }
    Ok((sums, at_changes))
}

/// The debugger finds the record by the thread-local symbol, as a profiler outside of the process
/// does.
#[test]
fn another_program_reads_the_trace_of_a_thread_from_outside() -> anyhow::Result<()> {
    own_process!();
    if !found_or_skip("gdb")? {
        return Ok(());
    }
    let session = session::start(|builder| builder)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "shop", "init")?;
    let read = |pid: u32| -> anyhow::Result<String> {
        let output = Command::new("gdb")
            .args(["-batch", "-nx", "-p", &pid.to_string()])
            .args(["-ex", "thread find .", "-ex", "thread 1"])
            .args(["-ex", "x/28xb *(char **)&otel_thread_ctx_v1"])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let bytes = text.lines().filter(|line| line.contains(":\t0x"));
        let bytes = bytes.flat_map(|line| line.split("0x").skip(2));
        let all: Vec<&str> = bytes.map(str::trim).collect();
        ensure!(
            all.len() == 28,
            "{text} {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(all.concat())
    };
    let expected = |header: &str, valid: &str| {
        let (trace, span) = (trace_id(header), &header[36..52]);
        format!("{trace}{span}{valid}010000")
    };
    child.ask(&format!("keep-trace {FIRST}"))?;
    assert_eq!(read(child.pid())?, expected(FIRST, "01"));
    child.ask(&format!("keep-trace {SECOND}"))?;
    assert_eq!(read(child.pid())?, expected(SECOND, "01"));
    Ok(())
}
