//! Tests of captures that a client of the live page starts: row L1 of `docs/features.md`.
//!
//! A capture of everything, or of the time of an alert, becomes a file that the page offers. Other
//! pages can read the file by a path that does not contain the token.

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use profiler_parent::core::marker::category;
use profiler_parent::marker;
use serde_json::Value;

use crate::live_support::{CHILD, Page, ask, row, serve, start};

#[test]
fn l1_an_alert_leads_to_its_evidence() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = serve(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    // Before the slow run, the child must measure runs and its group must be known.
    assert!(
        until(|| child.ask("probes").is_ok_and(|answer| answer != "ok 0")),
        "the child measures nothing"
    );
    child.ask("work-for plugin slow 1 0")?;
    page.until("groups.json?top=all", |table| {
        row(table, "slow").is_some_and(|row| row["runs"] == 1)
    })?;
    child.ask("mark 10")?;
    child.ask("work-for plugin slow 1 90000")?;
    // If the machine delayed the first run, there is an alert for that run, too.
    let is_slow = |alert: &Value| alert["highest_ns"].as_u64() >= Some(90_000_000);
    let alerts = page.until("alerts.json", |alerts| {
        alerts.as_array().is_some_and(|all| all.iter().any(is_slow))
    })?;
    let alert = alerts
        .as_array()
        .and_then(|all| all.iter().find(|alert| is_slow(alert)))
        .context("no alert")?;
    assert_eq!(
        (&alert["group"], &alert["kind"]),
        (&"slow".into(), &"plugin".into())
    );
    assert_eq!(
        (&alert["process_name"], &alert["process"]),
        (&"child".into(), &child.pid().into())
    );
    let number = alert["number"].as_u64().context("no number")?;
    assert_eq!(
        page.json(&format!("alerts.json?alert={number}"))?,
        Value::Array(Vec::new()),
        "an alert that is not later is returned"
    );
    assert_eq!(
        page.ask(
            "POST",
            &format!("capture?alert={number}&what=the%20slow%20one")
        )?
        .status,
        202
    );
    check_captured(&page, "the slow one")?;
    assert_eq!(page.ask("POST", "capture?alert=999")?.status, 404);
    assert_eq!(page.ask("GET", "capture")?.status, 405);
    assert_eq!(page.ask("GET", "profiles/profile-77.json.gz")?.status, 404);
    assert_eq!(page.ask("GET", "profiles/../../../etc/passwd")?.status, 404);
    Ok(())
}

#[test]
fn l1_a_button_captures_everything() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (live, page) = serve(&session)?;
    marker!("mine", &category::TEST);
    assert_eq!(page.ask("POST", "capture?what=all%20of%20it")?.status, 202);
    check_captured(&page, "all of it")?;
    let profiles = page.json("profiles.json")?;
    let path = profiles[0]["path"].as_str().context("no path")?.to_owned();
    drop(live);
    assert!(
        until(|| !std::path::Path::new(&path).exists()),
        "a file remains after the server"
    );
    Ok(())
}

/// Checks that the latest profile is ready, is offered as a file below the token, and can be read
/// by other pages under a path without the token.
fn check_captured(page: &Page, what: &str) -> anyhow::Result<()> {
    let profiles = page.until("profiles.json", |all| all[0]["state"] != "writing")?;
    let profile = &profiles[0];
    ensure!(
        profile["state"] == "ready" && profile["what"] == what,
        "{profile}"
    );
    let name = profile["name"].as_str().context("no name")?;
    let file = page.ask("GET", &format!("profiles/{name}"))?;
    ensure!(
        file.status == 200 && Some(file.body.len() as u64) == profile["bytes"].as_u64(),
        "{}",
        file.head
    );
    ensure!(
        !file.head.contains("access-control-allow"),
        "other pages may read a path with the token: {}",
        file.head
    );
    ensure!(file.body.starts_with(&[0x1f, 0x8b]), "not compressed");
    let path = profile["path"].as_str().context("no path")?;
    ensure!(
        std::fs::read(path)? == file.body,
        "the file for `profiler view` differs"
    );
    check_shared(
        page,
        profile["link"].as_str().context("no link")?,
        &file.body,
    )
}

/// Checks that pages of any origin can read the profile at `link`, and nothing else by its secret.
fn check_shared(page: &Page, link: &str, body: &[u8]) -> anyhow::Result<()> {
    let token = page.path.trim_matches('/');
    ensure!(
        !link.contains(token),
        "the link for the viewer contains the token: {link}"
    );
    let host = page.address.to_string();
    let get = |method: &str, path: &str| ask(page.address, method, path, &host);
    let shared = get("GET", link)?;
    ensure!(
        shared.status == 200 && shared.body == body,
        "{}",
        shared.head
    );
    ensure!(
        shared.head.contains("access-control-allow-origin: *"),
        "{}",
        shared.head
    );
    let preflight = get("OPTIONS", link)?;
    ensure!(
        preflight.status == 204 && preflight.head.contains("access-control-allow-methods: GET"),
        "{}",
        preflight.head
    );
    ensure!(get("POST", link)?.status == 405);
    let secret = link
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    let elsewhere = [
        format!("/{secret}/live.json"),
        format!("/{secret}/"),
        link.replace(secret, &"0".repeat(32)),
    ];
    for path in elsewhere {
        let refused = get("GET", &path)?;
        ensure!(
            refused.status == 404 && !refused.head.contains("access-control"),
            "{path}: {}",
            refused.head
        );
    }
    Ok(())
}
