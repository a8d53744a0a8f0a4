//! Tests of the live flame graph: row L2 of `docs/features.md`.
//!
//! They request its data over HTTP, as the page does, from sessions with real processes. Some
//! processes record samples with known stacks and times, others do real work.

use std::time::Duration;

use anyhow::Context;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::thread_names;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::session;
use profiler_parent::core::session::Features;
use serde_json::Value;

use crate::live_support::{CHILD, Page, serve, start};

const MS: u64 = 1_000_000;

/// The row of a function in the table: own time and total, in nanoseconds.
fn function(answer: &Value, part: &str) -> Option<(u64, u64)> {
    let functions = answer["functions"].as_array()?;
    let is_it = |place: &Value| {
        let function = place
            .as_u64()
            .and_then(|place| functions.get(place as usize));
        function.is_some_and(|function| {
            function["name"]
                .as_str()
                .is_some_and(|name| name.contains(part))
        })
    };
    let rows = answer["table"]["rows"].as_array()?;
    let row = rows.iter().find(|row| is_it(&row["function"]))?;
    Some((row["self_ns"].as_u64()?, row["total_ns"].as_u64()?))
}

/// The nodes as lines: depth, name and total in milliseconds.
fn nodes(answer: &Value) -> Vec<(u64, String, u64)> {
    let column = |name: &str| {
        answer["nodes"][name]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let name = |place: &Value| {
        let place = place.as_u64().map(|place| place as usize);
        place
            .map_or("all", |place| {
                answer["functions"][place]["name"].as_str().unwrap_or("?")
            })
            .to_owned()
    };
    let depths = column("depth");
    let rows = depths
        .iter()
        .zip(column("function"))
        .zip(column("total_ns"));
    rows.map(|((depth, function), total)| {
        (
            depth.as_u64().unwrap_or(99),
            name(&function),
            total.as_u64().unwrap_or(0) / MS,
        )
    })
    .collect()
}

fn owned(lines: &[(u64, &str, u64)]) -> Vec<(u64, String, u64)> {
    lines
        .iter()
        .map(|(depth, name, ms)| (*depth, (*name).to_owned(), *ms))
        .collect()
}

/// Requests the flame graph until everything that is recorded has been read and has this total.
fn total(page: &Page, query: &str, ms: u64) -> anyhow::Result<Value> {
    page.until(&format!("flame.json?{query}"), |answer| {
        answer["is_behind"] == false && answer["total_ns"] == ms * MS
    })
}

#[test]
fn l2_the_time_of_all_processes_is_added_up_by_function() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut children = HelperProcess::spawn_many(&session, CHILD, 2)?;
    children[0].ask("sample draw 300 1000")?;
    let thread = children[1].ask("sample draw 100 1000")?;
    children[1].ask("sample parse 200 1000")?;
    let all = total(&page, "window=start", 600)?;
    assert_eq!(
        nodes(&all),
        owned(&[
            (0, "all", 600),
            (1, "main", 600),
            (2, "draw", 400),
            (2, "parse", 200)
        ])
    );
    assert_eq!(function(&all, "main"), Some((0, 600 * MS)));
    let processes = all["processes"].as_array().context("no processes")?;
    let times: Vec<_> = processes
        .iter()
        .map(|one| (&one["name"], &one["on_cpu_ns"]))
        .collect();
    assert_eq!(
        times,
        [
            (&"child-0".into(), &(300 * MS).into()),
            (&"child-1".into(), &(300 * MS).into())
        ]
    );
    let key = processes[1]["key"].as_str().context("no key")?;
    let one = page.json(&format!("flame.json?window=start&process={key}"))?;
    assert_eq!(
        nodes(&one),
        owned(&[
            (0, "all", 300),
            (1, "main", 300),
            (2, "draw", 100),
            (2, "parse", 200)
        ])
    );
    let tid = thread.trim_start_matches("ok ");
    assert_eq!(one["threads"][0]["tid"].to_string(), tid);
    let of = |query: &str| page.json(&format!("flame.json?window=start&{query}"));
    assert_eq!(
        of(&format!("process={key}&thread={tid}"))?["total_ns"],
        300 * MS
    );
    assert_eq!(of(&format!("process={key}&thread=1"))?["total_ns"], 0);
    assert_eq!(of("group=process:child-0")?["total_ns"], 300 * MS);
    assert_eq!(of("find=pars")?["found_ns"], 200 * MS);
    Ok(())
}

#[test]
fn l2_a_graph_can_be_inverted_and_zoomed_and_recent_windows_contain_recent_time()
-> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let session_row = page.json("session.json")?;
    let began_ns = session_row["at_ns"].as_i64().context("no time")?;
    child.ask("sample draw 30 1000")?;
    child.ask("sample main 10 1000")?;
    let all = total(&page, "window=start", 40)?;
    assert_eq!(
        nodes(&all),
        owned(&[
            (0, "all", 40),
            (1, "main", 40),
            (2, "draw", 30),
            (2, "main", 10)
        ])
    );
    assert_eq!(
        function(&all, "main"),
        Some((10 * MS, 40 * MS)),
        "recursion counts once"
    );
    let inverted = page.json("flame.json?window=start&inverted=1")?;
    assert_eq!(
        nodes(&inverted),
        owned(&[
            (0, "all", 40),
            (1, "draw", 30),
            (2, "main", 30),
            (1, "main", 10),
            (2, "main", 10)
        ])
    );
    let id = |place: usize| all["functions"][place]["id"].as_str().unwrap_or("none");
    let path = format!("{}.{}", id(0), id(1));
    let zoomed = page.json(&format!("flame.json?window=start&path={path}"))?;
    assert_eq!(nodes(&zoomed), owned(&[(0, "draw", 30)]));
    assert_eq!(
        (&zoomed["total_ns"], &zoomed["is_path_empty"]),
        (&(40 * MS).into(), &false.into())
    );
    let lost = page.json("flame.json?window=start&path=12345")?;
    assert_eq!(
        (&lost["is_path_empty"], nodes(&lost).len()),
        (&true.into(), 0)
    );
    // A pass that begins later contains all samples.
    let passes = all["passes"].as_u64();
    for window in ["10s", "60s"] {
        let query = format!("flame.json?window={window}&compare=1");
        let recent = page.until(&query, |answer| answer["passes"].as_u64() > passes)?;
        let ns = |key: &str| recent[key].as_u64().unwrap_or(0);
        let sum = ns("total_ns") + ns("before_total_ns");
        let before = &recent["before"]["from_ns"];
        let from_ns = before.as_i64().or(recent["range"]["from_ns"].as_i64());
        // On a slow machine, the windows may begin after the samples.
        if from_ns.context("no range")? <= began_ns {
            assert_eq!(sum, 40 * MS, "{window}: {recent}");
        } else {
            assert!(sum <= 40 * MS, "{window}: counted twice: {recent}");
        }
    }
    Ok(())
}

#[test]
fn l2_real_work_is_shown_by_the_names_of_its_functions() -> anyhow::Result<()> {
    own_process!();
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = session::start(|builder| builder.features(features))?;
    let (_live, page) = serve(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("compute-shares")?;
    let query = "flame.json?window=start&group=thread:computer&rows=200";
    let named = |answer: &Value| {
        let (_, three) = function(answer, "three_quarters")?;
        let (_, one) = function(answer, "one_quarter")?;
        Some(three + one)
    };
    // An address whose name has not been looked up yet is shown as a function of its own, and on a
    // loaded machine the look-ups are far apart. So these functions may have a small share.
    let found = page.until(query, |answer| named(answer) > Some(500 * MS))?;
    let all = found["on_cpu_ns"].as_u64();
    assert!(named(&found) <= all, "more than all time: {found}");
    // The main thread of the process waits for commands, and computes nothing.
    let process = &found["processes"][0];
    let key = process["key"].as_str().context("no key")?;
    let process = format!("process={key}&thread={}", process["pid"]);
    let query = format!("flame.json?window=start&time=off-cpu&rows=200&{process}");
    let waits = page.until(&query, |answer| {
        answer["total_ns"].as_u64() > Some(1000 * MS)
    })?;
    assert_eq!(function(&waits, "three_quarters"), None, "{waits}");
    child.ask("stop-computing")?;
    Ok(())
}

#[test]
fn l2_a_stopped_or_ended_process_is_shown_without_its_help() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut children = HelperProcess::spawn_many(&session, CHILD, 2)?;
    children[0].ask("sample draw 20 1000")?;
    children[1].ask("sample parse 10 1000")?;
    assert!(children[0].freeze(), "the child does not stop");
    children[1].end("exit 0")?;
    let all = total(&page, "window=start", 30)?;
    assert_eq!(
        nodes(&all),
        owned(&[
            (0, "all", 30),
            (1, "main", 30),
            (2, "draw", 20),
            (2, "parse", 10)
        ])
    );
    children[0].signal(libc::SIGCONT);
    children[0].ask("sample draw 5 1000")?;
    total(&page, "window=start", 35)?;
    Ok(())
}

#[test]
fn l2_a_group_selects_the_samples_within_its_runs() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let query = "flame.json?group=plugin:slow";
    let watch = Stopwatch::start();
    loop {
        child.ask("sample outside 5 1000")?;
        child.ask("sample-for slow inside 5 100")?;
        let answer = page.json(query)?;
        assert_eq!(function(&answer, "outside"), None, "not in a run: {answer}");
        if function(&answer, "inside").is_some_and(|(own, _)| own > 0) {
            assert!(answer["runs"]["count"].as_u64() > Some(0), "{answer}");
            return Ok(());
        }
        anyhow::ensure!(watch.elapsed() < LONG, "no sample of the group: {answer}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn l2_samples_are_read_only_while_a_client_looks() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let threads = || {
        let mut names = thread_names();
        names.retain(|name| name == "profiler-flame" || name == "profiler-names");
        names.sort();
        names
    };
    let servers = || {
        let names = thread_names();
        names.iter().filter(|name| *name == "profiler-live").count()
    };
    page.json("live.json")?;
    assert_eq!(
        threads(),
        Vec::<String>::new(),
        "no client looks at the flame graph"
    );
    assert_eq!(servers(), 1, "a worker without work");
    let has_worker = || page.json("flame.json").is_ok() && servers() > 1;
    assert!(until(has_worker), "the server's thread makes the answer");
    assert!(
        until(|| threads() == ["profiler-flame", "profiler-names"]),
        "{:?}",
        threads()
    );
    assert!(
        until(|| threads().is_empty()),
        "a thread remains: {:?}",
        threads()
    );
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("sample draw 20 1000")?;
    total(&page, "window=start", 20)?;
    Ok(())
}

#[test]
fn l2_the_time_since_the_start_says_that_older_entries_were_evicted() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| {
        builder.memory_limit(profiler_core::ids::ByteLimit::new(8 << 20))
    })?;
    let (_live, page) = serve(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let watch = Stopwatch::start();
    loop {
        child.ask("sample draw 2000 10")?;
        let table = page.json("processes.json")?;
        let row = crate::live_support::row(&table, "child").context("no row")?;
        if row["evicted"].as_u64() > Some(0) {
            break;
        }
        anyhow::ensure!(watch.elapsed() < LONG, "nothing is evicted: {row}");
    }
    let answer = page.until("flame.json?window=start", |answer| {
        answer["is_behind"] == false && answer["samples"].as_u64() > Some(0)
    })?;
    assert!(
        answer["missing"]["evicted_before"].as_u64() > Some(0),
        "{}",
        answer["missing"]
    );
    Ok(())
}
