//! Many crashes in all ways: every verdict is right, no process hangs, and no status is changed.
//!
//! `.ci/crashes COUNT` runs this test with more crashes.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use profiler_parent::Session;
use test_support::own_process;

use crate::children::{CrashSeen, crashes, wait_for_stacks};
use crate::ways::{WAYS, Way, crash, wait_for_both};

/// The number of crashes.
const COUNT: &str = "PROFILER_CRASHES";
/// The number of crashes in a short run.
const FEW: usize = 204;
/// The number of crashes per session.
const PER_SESSION: usize = 34;
/// The way in which a child crashes, and whether its crash is recorded.
const WAY: &str = "TEST_WAY";
const RECORDED: &str = "recorded";
/// The way in which either signal may end the process.
const RACING: &str = "two threads";

#[test]
fn every_crash_is_recorded_and_changes_no_status() {
    own_process!();
    if let Some(role) = own_process::role() {
        profiler_child::init();
        let way = std::env::var(WAY).unwrap();
        if way == RACING {
            wait_for_both();
        }
        if role == RECORDED {
            profiler_crash::install().unwrap();
            wait_for_stacks();
        }
        crash(&way);
        std::process::exit(0);
    }
    let count = std::env::var(COUNT).ok().and_then(|text| text.parse().ok());
    let count = count.unwrap_or(FEW);
    let plain: HashMap<&str, ExitStatus> = plain_statuses();
    let mut done = 0;
    let mut kinds: HashMap<String, usize> = HashMap::new();
    while done < count {
        let batch: Vec<&Way> = (done..count.min(done + PER_SESSION))
            .filter_map(|number| WAYS.get(number % WAYS.len()))
            .collect();
        run(&batch, &plain, &mut kinds);
        done += batch.len();
        println!("{done} crashes: {kinds:?}");
    }
}

/// How the children end without the handlers.
fn plain_statuses() -> HashMap<&'static str, ExitStatus> {
    let session = Session::builder().start().unwrap();
    let status = |way: &Way| {
        let mut child = session.spawn(way.name, child(way, "plain")).unwrap();
        child.wait().unwrap()
    };
    WAYS.iter().map(|way| (way.name, status(way))).collect()
}

fn child(way: &Way, role: &str) -> std::process::Command {
    let mut command = own_process::child(role);
    command.env(WAY, way.name);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Lets children crash in these ways, in one session, and checks the profile.
fn run(batch: &[&Way], plain: &HashMap<&str, ExitStatus>, kinds: &mut HashMap<String, usize>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let session = Session::builder().start().unwrap();
    let mut statuses = Vec::new();
    for pair in batch.chunks(2) {
        let children: Vec<_> = pair
            .iter()
            .map(|way| (way, session.spawn(way.name, child(way, RECORDED)).unwrap()))
            .collect();
        for (way, mut child) in children {
            let pid = child.id().get();
            statuses.push((**way, pid, child.wait().unwrap()));
        }
    }
    let report = session.capture().save(&path).unwrap();
    let profile = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let crashes = crashes(&profile);
    for (way, pid, status) in statuses {
        let row = report.processes.iter().find(|row| row.pid.get() == pid);
        let verdict = row.unwrap().verdict.to_string();
        check(&way, (status, plain[way.name]), &verdict);
        let own: Vec<&CrashSeen> = crashes
            .iter()
            .filter(|crash| crash.pid == pid.to_string())
            .collect();
        check_crashes(&way, &verdict, &own);
        let name = format!("{} by signal {}", way.name, status.signal().unwrap());
        *kinds.entry(name).or_default() += 1;
    }
}

fn check(way: &Way, (status, plain): (ExitStatus, ExitStatus), verdict: &str) {
    let name = way.name;
    if name == RACING {
        assert!(
            [Some(4), Some(11)].contains(&status.signal()),
            "{name}: {status:?}"
        );
    } else {
        assert_eq!(status, plain, "{name}: {verdict}");
    }
    let signal = status.signal().unwrap();
    let told = format!("recovered: crashed with signal {signal} (SIG");
    assert!(verdict.starts_with(&told), "{name}: {verdict}");
    assert!(verdict.contains(way.told), "{name}: {verdict}");
    let named = |signal: &&str| verdict.contains(&format!(": {signal}: "));
    assert!(way.signals.iter().any(named), "{name}: {verdict}");
}

fn check_crashes(way: &Way, verdict: &str, crashes: &[&CrashSeen]) {
    let name = way.name;
    let all = if name == RACING { 2 } else { 1 };
    assert_eq!(crashes.len(), all, "{name}: {verdict}: {crashes:?}");
    let has_function = |crash: &&&CrashSeen| crash.has_function(way.function);
    assert!(
        crashes.iter().any(|crash| has_function(&crash)),
        "{name}: {crashes:?}"
    );
}
