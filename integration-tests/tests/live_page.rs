//! Tests of what the live page of a session shows, and to whom: row L1 of `docs/features.md`.
//!
//! They request the page's data over HTTP, as a browser does: groups, processes and markers. The
//! server runs only on demand, answers only clients with the token, and ends with the session.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use integration_tests::assert_matches;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::thread_names;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use profiler_parent::core::marker::category;
use profiler_parent::{LiveError, LiveOptions, marker};
use serde_json::Value;

use crate::live_support::{CHILD, LOOPBACK, ask, names, row, rows, serve, start};

#[test]
fn l1_nothing_runs_unless_asked() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let serves =
        |name: &String| name.starts_with("profiler-live") || name.starts_with("profiler-observ");
    assert!(
        until(|| !thread_names().iter().any(serves)),
        "a thread runs before the page is served"
    );
    let (live, page) = serve(&session)?;
    let threads = || {
        thread_names()
            .into_iter()
            .filter(serves)
            .collect::<Vec<_>>()
    };
    assert!(
        until(|| threads() == ["profiler-live"]),
        "not only the thread of the server: {:?}",
        threads()
    );
    page.json("live.json")?;
    page.json("markers.json")?;
    assert!(
        until(|| threads().len() == 2),
        "no observer, although a client watches markers: {:?}",
        threads()
    );
    drop(live);
    assert!(
        until(|| threads().is_empty()),
        "a thread remains: {:?}",
        threads()
    );
    Ok(())
}

#[test]
fn l1_rows_are_groups_over_processes_and_open_into_them() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut children = HelperProcess::spawn_many(&session, CHILD, 2)?;
    for (child, times) in children.iter_mut().zip([3, 4]) {
        child.ask("probes")?;
        child.ask(&format!("work-for plugin checker {times} 2000"))?;
        child.ask("work-for tenant acme 1 1000")?;
    }
    let table = page.until("groups.json?top=all", |table| {
        row(table, "checker").is_some_and(|row| row["ticks"] == 7) && row(table, "acme").is_some()
    })?;
    let checker = row(&table, "checker").context("no row")?;
    assert_eq!(
        (&checker["kind"], &checker["processes"]),
        (&"plugin".into(), &2.into())
    );
    let key = checker["key"].as_str().context("no key")?;
    let opened = page.json(&format!("groups.json?top=all&open={key}"))?;
    let members = row(&opened, "checker")
        .and_then(|row| row["members"].as_array())
        .context("no members")?;
    let mut ticks: Vec<u64> = members
        .iter()
        .filter_map(|member| member["ticks"].as_u64())
        .collect();
    ticks.sort_unstable();
    assert_eq!(ticks, [3, 4]);
    let all = page.json("groups.json?sort=ticks&top=1&kind=plugin")?;
    assert_eq!(
        (names(&all), all["total"].as_u64()),
        (vec!["checker"], Some(1))
    );
    assert_eq!(names(&page.json("groups.json?find=ACM")?), ["acme"]);
    Ok(())
}

#[test]
fn l1_a_window_counts_only_recent_work_and_keeps_all_rows() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("work-for plugin early 5 0")?;
    page.until("groups.json?window=10s&top=all", |table| {
        // It is in the first snapshot of the window, so it is not new.
        row(table, "early").is_some_and(|row| row["ticks"] == 0)
    })?;
    child.ask("work-for plugin late 2 0")?;
    let recent = page.until("groups.json?window=10s&top=all", |table| {
        row(table, "late").is_some()
    })?;
    assert_eq!(
        row(&recent, "late").map(|row| &row["ticks"]),
        Some(&2.into())
    );
    assert_eq!(
        row(&recent, "early").map(|row| &row["ticks"]),
        Some(&0.into())
    );
    let all = page.json("groups.json?window=start&top=all")?;
    assert_eq!(row(&all, "early").map(|row| &row["ticks"]), Some(&5.into()));
    Ok(())
}

#[test]
fn l1_rows_of_processes_show_memory_state_and_end() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut children = HelperProcess::spawn_many(&session, CHILD, 3)?;
    children[0].ask("mark 500")?;
    assert!(children[1].freeze(), "the child does not stop");
    children[2].end("exit 3")?;
    let state = |table: &Value, name: &str| {
        row(table, name).and_then(|row| row["state"].as_str().map(str::to_owned))
    };
    let table = page.until("processes.json", |table| {
        let has_state = |name: &str, expected: &str| {
            state(table, name).is_some_and(|state| state.contains(expected))
        };
        has_state("child-1", "frozen")
            && has_state("child-2", "code 3")
            && row(table, "child-0").is_some_and(|row| row["recorded"].as_u64() >= Some(500))
    })?;
    assert_eq!(names(&table), ["parent", "child-0", "child-1", "child-2"]);
    let child = row(&table, "child-0").context("no row")?;
    for key in ["held_bytes", "allowance", "resident_bytes"] {
        assert!(child[key].as_u64() > Some(0), "{key}: {child}");
    }
    assert_eq!(
        (&child["state"], &child["dropped"]),
        (&"recording".into(), &0.into())
    );
    let session_row = page.json("session.json")?;
    assert_eq!(session_row["memory_limit"], session.memory_limit().get());
    assert_eq!(
        (&session_row["processes"], &session_row["running"]),
        (&4.into(), &3.into())
    );
    children[1].signal(libc::SIGCONT);
    Ok(())
}

#[test]
fn l1_markers_are_delivered_while_a_client_watches() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    marker!("before the first request", &category::TEST);
    page.json("markers.json?name=watched")?;
    let watch = Stopwatch::start();
    let mut found = Value::Null;
    while watch.elapsed() < LONG && rows(&found).is_empty() {
        marker!("watched", &category::TEST);
        marker!("other", &category::TEST);
        std::thread::sleep(Duration::from_millis(20));
        found = page.json("markers.json?name=watched")?;
    }
    assert!(
        names(&found).contains(&"watched") && !names(&found).contains(&"other"),
        "{found}"
    );
    let latest = rows(&found)[0]["number"].as_u64().context("no number")?;
    let later = page.json(&format!("markers.json?name=watched&after={latest}"))?;
    assert!(
        rows(&later)
            .iter()
            .all(|row| row["number"].as_u64() > Some(latest)),
        "a marker is delivered twice"
    );
    Ok(())
}

#[test]
fn l1_large_markers_are_bounded_in_bytes_and_omitted_ones_are_counted() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    page.json("markers.json?name=fat")?;
    let value = "x".repeat(15_000);
    let counted =
        |view: &Value| view["number"].as_u64().unwrap_or(0) + view["dropped"].as_u64().unwrap_or(0);
    for round in 1..=8 {
        {
            let span = profiler_parent::span!("fat", &category::TEST);
            (0..60).for_each(|_| span.detail("d", &value));
        }
        page.until("markers.json?name=fat&after=1000", |view| {
            counted(view) >= round
        })?;
    }
    let answer = page.ask("GET", "markers.json?name=fat")?;
    let view: Value = serde_json::from_slice(&answer.body)?;
    assert!(
        view["left_out"].as_u64() > Some(0),
        "no marker is left out of {} bytes",
        answer.body.len()
    );
    assert!(answer.body.len() < 2 << 20, "{} bytes", answer.body.len());
    Ok(())
}

#[test]
fn l1_a_client_without_the_token_learns_nothing() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (live, page) = serve(&session)?;
    let address = live.address();
    let own = address.to_string();
    let wrong = "0".repeat(32);
    for path in [
        "/",
        "/live.json",
        &format!("/{wrong}/"),
        &format!("/{wrong}/live.json"),
        "/favicon.ico",
        "//",
    ] {
        let answer = ask(address, "GET", path, &own)?;
        assert_eq!(
            (answer.status, answer.body.len()),
            (404, 0),
            "{path}: {}",
            answer.head
        );
    }
    for host in ["evil.example", "evil.example:80", "127.0.0.1", ""] {
        let answer = ask(address, "GET", &format!("{}live.json", page.path), host)?;
        assert!(
            (400..404).contains(&answer.status) && answer.body.is_empty(),
            "{host}: {}",
            answer.head
        );
    }
    let localhost = format!("localhost:{}", address.port());
    let answer = ask(address, "GET", &page.path, &localhost)?;
    assert_eq!(answer.status, 200);
    for header in ["default-src 'none'", "no-referrer", "no-store", "nosniff"] {
        assert!(answer.head.contains(header), "{}", answer.head);
    }
    let text = String::from_utf8(answer.body)?;
    assert!(
        !text.contains("http://") && !text.contains("https://"),
        "the page refers to another server"
    );
    assert_eq!(ask(address, "DELETE", &page.path, &own)?.status, 405);
    Ok(())
}

#[test]
fn l1_only_loopback_is_served_and_the_server_ends_with_the_session() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let refused = session.serve_live(([0, 0, 0, 0], 0).into());
    assert_matches!(refused, Err(LiveError::NotLoopback(_)));
    let live = session.serve_live_with(LOOPBACK.into(), LiveOptions::default().alerts(None))?;
    let taken = session.serve_live(live.address());
    assert!(matches!(taken, Err(LiveError::Listen { .. })), "{taken:?}");
    let address = live.address();
    assert!(TcpStream::connect(address).is_ok());
    drop(session);
    assert!(
        until(|| TcpStream::connect(address).is_err()),
        "the server outlives its session"
    );
    drop(live);
    Ok(())
}
