//! Tests of `profiler merge` with real sessions: three of them, with children, one of which is
//! killed; and one that is captured twice.
//!
//! The sessions are sessions of one machine, so their true places on one time line are known from
//! the clock of its boot.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::profile::KILLED;
use integration_tests::session;
use integration_tests::tools::{self, Said, json as read};
use serde_json::Value;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const HOSTS: [&str; 3] = ["web", "db", "cache"];
/// Markers of each thread of a child.
const MARKERS: u64 = 500;
/// How exactly the clocks are read, even if this process is interrupted meanwhile.
const EXACT_MS: f64 = 10.0;

/// Records a session with two children, one of which is killed in the session of `db`.
fn record(host: &str, to: &Path) -> anyhow::Result<()> {
    let mut session = session::start(|builder| builder)?;
    let mut helpers = ["worker 1", "worker 2"]
        .map(|name| HelperProcess::spawn(&session, CHILD, name, "init").expect("a child"));
    HelperProcess::ask_all(&mut helpers, &format!("hold 2 {MARKERS}"))?;
    if host == "db" {
        let [_, killed] = &mut helpers;
        killed.child.kill()?;
        killed.child.wait()?;
    }
    session.session()?.capture().save(to)?;
    session.end();
    Ok(())
}

/// Records the three sessions. Returns their profiles.
fn record_all(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let profile = |host: &&str| {
        let to = directory.join(format!("{host}.json"));
        record(host, &to).map(|()| to)
    };
    HOSTS.iter().map(profile).collect()
}

fn merge(profiles: &[PathBuf], to: &Path, flags: &[&str]) -> anyhow::Result<Said> {
    let named = HOSTS.iter().zip(profiles);
    let named = named.map(|(host, path)| format!("{host}={}", path.display()));
    let mut words: Vec<String> = ["merge", "-o"].map(str::to_owned).to_vec();
    words.push(to.display().to_string());
    words.extend(named);
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    tools::run(&words)
}

fn threads<'p>(profile: &'p Value, process: &str) -> Vec<&'p Value> {
    let all = profile["threads"].as_array().into_iter().flatten();
    all.filter(|thread| thread["processName"] == process)
        .collect()
}

/// The times of all markers with a payload of the child.
fn times(threads: &[&Value]) -> Vec<f64> {
    let of = |thread: &&Value| {
        let markers = &thread["markers"];
        let column = |key: &str| markers[key].as_array().cloned().unwrap_or_default();
        let rows = column("data").into_iter().zip(column("startTime"));
        let own = rows.filter(|(data, _)| data["sequence"].is_u64());
        own.filter_map(|(_, at)| at.as_f64()).collect::<Vec<_>>()
    };
    threads.iter().flat_map(of).collect()
}

fn start_ms(profile: &Value) -> anyhow::Result<f64> {
    let meta = &profile["meta"];
    let start = meta["startTimeAsClockMonotonicNanosecondsSinceBoot"].as_f64();
    Ok(start.context("no start")? / 1e6)
}

#[test]
fn three_sessions_are_one_profile_with_every_marker_at_its_time() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let profiles = record_all(directory.path())?;
    let to = directory.path().join("merged.json");
    let said = merge(&profiles, &to, &[])?;
    ensure!(said.code == Some(0), "{said:?}");
    let merged = read(&to)?;
    let first_start = start_ms(&read(&profiles[0])?)?;
    for (host, profile) in HOSTS.iter().zip(&profiles) {
        let own = read(profile)?;
        let offset = start_ms(&own)? - first_start;
        for worker in ["worker 1", "worker 2"] {
            let before = times(&threads(&own, worker));
            let after = times(&threads(&merged, &format!("{worker} ({host})")));
            assert_eq!(after.len() as u64, 2 * MARKERS, "{worker} of {host}");
            let moved = before
                .iter()
                .zip(&after)
                .map(|(before, after)| after - before);
            let wrong = moved.filter(|ms| (ms - offset).abs() > EXACT_MS).count();
            assert_eq!(
                (before.len(), wrong),
                (after.len(), 0),
                "{worker} of {host}"
            );
        }
        let pids: Vec<_> = threads(&merged, &format!("worker 1 ({host})"))
            .iter()
            .filter_map(|thread| thread["pid"].as_str())
            .collect();
        let real = threads(&own, "worker 1")[0]["pid"]
            .as_str()
            .context("no pid")?;
        assert!(
            pids.iter().all(|pid| *pid == format!("{host}:{real}")),
            "{pids:?}"
        );
    }
    let log = merged["profileGatheringLog"]
        .as_object()
        .context("no log")?;
    let rows = log.values().filter_map(|log| log["processes"].as_array());
    let killed = rows.flatten().filter(|row| row["verdict"] == KILLED);
    let killed: Vec<_> = killed.map(|row| (&row["name"], &row["host"])).collect();
    assert_eq!(
        killed,
        [(&Value::from("worker 2 (db)"), &Value::from("db"))]
    );
    Ok(())
}

#[test]
fn the_command_reports_hosts_and_their_uncertainty_and_info_lists_all_processes()
-> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let profiles = record_all(directory.path())?;
    let to = directory.path().join("merged.json.gz");
    let said = merge(&profiles, &to, &["--json", "--shift", "cache=-2.5"])?;
    ensure!(said.code == Some(0), "{said:?}");
    let report: Value = serde_json::from_str(&said.out)?;
    let names: Vec<_> = report["hosts"]
        .as_array()
        .context("no hosts")?
        .iter()
        .collect();
    assert_eq!(
        names.iter().map(|host| &host["name"]).collect::<Vec<_>>(),
        HOSTS
    );
    assert_eq!(report["hosts"][2]["shifted_ms"], -2.5);
    // All three were recorded in one boot, if the system says in which.
    if read(&profiles[0])?["meta"]["hosts"][0]["clockId"].is_string() {
        let uncertainty = |host: usize| &report["hosts"][host]["uncertainty"];
        assert_eq!(
            (&uncertainty(1)["by"], &uncertainty(1)["host"]),
            (&"same_clock".into(), &"web".into())
        );
        assert_eq!(uncertainty(2)["by"], "shifted");
    }
    let info = tools::succeed(&["info", "--json", "--no-names", &to.display().to_string()])?;
    let info: Value = serde_json::from_str(&info.out)?;
    let rows = info["processes"].as_array().context("no processes")?;
    assert_eq!(rows.len(), 9, "{rows:?}");
    let of = |host: &str| rows.iter().filter(|row| row["host"] == host).count();
    assert_eq!(HOSTS.map(of), [3; 3]);
    let traced = directory.path().join("merged.trace.json");
    let words = ["export", "--to", "chrome-trace", "--no-names"].map(str::to_owned);
    let paths = [to, "-o".into(), traced].map(|path| path.display().to_string());
    tools::succeed(&[&words[..], &paths].concat())?;
    Ok(())
}

#[test]
fn a_merge_without_a_name_does_not_replace_an_earlier_one() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let profiles = record_all(directory.path())?;
    let earlier = directory.path().join("merged.json.gz");
    std::fs::write(&earlier, "earlier")?;
    let mut command = Command::new(tools::profiler()?);
    command.arg("merge").args(&profiles);
    let output = command.current_dir(directory.path()).output()?;
    ensure!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(&earlier)?, "earlier");
    assert!(directory.path().join("merged-2.json.gz").exists());
    Ok(())
}

#[test]
fn two_captures_of_one_session_state_one_start_and_their_merge_is_warned_about()
-> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let [one, other, to] =
        ["one.json", "other.json", "merged.json"].map(|name| directory.path().join(name));
    let mut session = session::start(|builder| builder)?;
    session.session()?.capture().save(&one)?;
    session.session()?.capture().save(&other)?;
    session.end();
    let [first, second] = [read(&one)?, read(&other)?];
    for key in ["clockId", "startClockNs"] {
        let of = |profile: &Value| profile["meta"]["hosts"][0][key].clone();
        assert_eq!(of(&first), of(&second), "{key}");
    }
    let words = ["merge", "-o"].map(str::to_owned);
    let paths = [to, one, other].map(|path| path.display().to_string());
    let said = tools::succeed(&[&words[..], &paths].concat())?;
    assert!(said.error.contains("same session as"), "{said:?}");
    Ok(())
}

#[test]
fn a_single_profile_gets_another_host_name_everywhere() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let profile = directory.path().join("web.json");
    record("web", &profile)?;
    let before = read(&profile)?;
    let name = before["meta"]["hosts"][0]["name"]
        .as_str()
        .context("no host")?;
    assert_eq!(before["meta"]["extra"][0]["entries"][0]["value"], name);
    let to = directory.path().join("renamed.json");
    let said = merge(&[profile], &to, &[])?;
    ensure!(said.code == Some(0), "{said:?}");
    let mut after = read(&to)?;
    assert_eq!(after["meta"]["hosts"][0]["name"], "web");
    assert_eq!(after["meta"]["extra"][0]["entries"][0]["value"], "web");
    // The paths of a library, or a marker, may contain the name by chance.
    let meta = after["meta"].take().to_string();
    assert!(name.len() < 4 || !meta.contains(name), "{meta}");
    Ok(())
}

#[test]
fn a_merge_that_fails_says_why_in_one_line_and_leaves_no_file() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let profile = directory.path().join("web.json");
    record("web", &profile)?;
    let text = std::fs::read(&profile)?;
    let cut = directory.path().join("cut.json");
    std::fs::write(&cut, &text[..text.len() / 2])?;
    let cases = [
        (
            vec![profile.clone(), cut.clone()],
            "out.json",
            "cut.json is not a profile",
        ),
        (
            vec![profile.clone(), profile.clone()],
            "out.json",
            "is an input twice",
        ),
        (
            vec![profile.clone(), cut.clone()],
            "web.json",
            "choose another output",
        ),
        (
            vec![profile.clone(), "none.json".into()],
            "out.json",
            "none.json",
        ),
    ];
    let count = || std::fs::read_dir(directory.path()).map(Iterator::count);
    let before = count()?;
    for (inputs, to, why) in cases {
        let said = merge(&inputs, &directory.path().join(to), &[])?;
        let is_one_line = said.error.trim_end().lines().count() == 1;
        assert!(
            said.code == Some(2) && said.error.contains(why) && is_one_line,
            "{said:?}"
        );
        assert_eq!(count()?, before, "{why}");
    }
    assert_eq!(std::fs::read(&profile)?, text);
    Ok(())
}

#[test]
fn without_room_for_the_output_the_old_file_stays_and_no_other_is_left() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let profile = directory.path().join("web.json");
    record("web", &profile)?;
    let to = directory.path().join("merged.json");
    std::fs::write(&to, "old")?;
    // The shell limits the size of files to 4 KiB, and lets writes beyond it fail.
    let limited = std::process::Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 8; exec "$@""#, "sh"])
        .arg(tools::profiler()?)
        .arg("merge")
        .arg(&profile)
        .arg("-o")
        .arg(&to)
        .output()?;
    let said = String::from_utf8(limited.stderr)?;
    assert!(
        limited.status.code() == Some(2) && said.contains("cannot write"),
        "{said}"
    );
    assert_eq!(std::fs::read_to_string(&to)?, "old");
    assert_eq!(std::fs::read_dir(directory.path())?.count(), 2);
    Ok(())
}
