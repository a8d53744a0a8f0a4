//! Row L1: the live page of real sessions, asked as a browser and `profiler top` ask it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::thread_names;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::session::{self, TestSession};
use integration_tests::tools;
use profiler_parent::core::marker::category;
use profiler_parent::{LiveError, LiveOptions, LiveServer, marker};
use serde_json::Value;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// What a server answers.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

/// One request, with this `Host`.
fn ask(address: SocketAddr, method: &str, path: &str, host: &str) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, LONG)?;
    stream.set_read_timeout(Some(LONG))?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").context("no head")?;
    let body = answer.split_off(end + 4);
    let head = String::from_utf8(answer)?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Answer { status, head, body })
}

/// A live page as a client knows it.
struct Page {
    address: SocketAddr,
    path: String,
}

impl Page {
    fn of(url: &str) -> anyhow::Result<Self> {
        let (host, path) =
            url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).context("no url")?;
        Ok(Self { address: host.parse()?, path: format!("/{path}") })
    }

    fn ask(&self, method: &str, what: &str) -> anyhow::Result<Answer> {
        ask(self.address, method, &format!("{}{what}", self.path), &self.address.to_string())
    }

    fn json(&self, what: &str) -> anyhow::Result<Value> {
        let answer = self.ask("GET", what)?;
        ensure!(answer.status == 200, "{what}: {}", answer.head);
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// Asks until something holds of the answer.
    fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let watch = Stopwatch::start();
        loop {
            let found = self.json(what)?;
            if holds(&found) {
                return Ok(found);
            }
            ensure!(watch.elapsed() < LONG, "{what} says only {found:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn served(session: &TestSession) -> anyhow::Result<(LiveServer, Page)> {
    let live = session.serve_live(LOOPBACK.into())?;
    let page = Page::of(&live.url())?;
    Ok((live, page))
}

fn rows(table: &Value) -> &[Value] {
    table["rows"].as_array().map_or(&[], Vec::as_slice)
}

fn row<'a>(table: &'a Value, name: &str) -> Option<&'a Value> {
    rows(table).iter().find(|row| row["name"] == name)
}

fn names(table: &Value) -> Vec<&str> {
    rows(table).iter().filter_map(|row| row["name"].as_str()).collect()
}

fn start() -> anyhow::Result<TestSession> {
    session::start(|builder| builder)
}

#[test]
fn l1_nothing_runs_unless_asked() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let serves = |name: &String| name.starts_with("profiler-live") || name.starts_with("profiler-observ");
    // A capture of the test before may still be ending.
    assert!(until(|| !thread_names().iter().any(serves)), "something runs already");
    let (live, page) = served(&session)?;
    let ours = || thread_names().into_iter().filter(serves).collect::<Vec<_>>();
    assert!(until(|| ours() == ["profiler-live"]), "one thread, and nobody observes: {:?}", ours());
    page.json("live.json")?;
    page.json("markers.json")?;
    assert!(until(|| ours().len() == 2), "whoever watches markers has them observed: {:?}", ours());
    drop(live);
    assert!(until(|| ours().is_empty()), "nothing is left: {:?}", ours());
    Ok(())
}

#[test]
fn l1_rows_are_groups_over_processes_and_open_into_them() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = served(&session)?;
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
    assert_eq!((&checker["kind"], &checker["processes"]), (&"plugin".into(), &2.into()));
    let key = checker["key"].as_str().context("no key")?;
    let opened = page.json(&format!("groups.json?top=all&open={key}"))?;
    let members = row(&opened, "checker").and_then(|row| row["members"].as_array()).context("no members")?;
    let mut ticks: Vec<u64> = members.iter().filter_map(|member| member["ticks"].as_u64()).collect();
    ticks.sort_unstable();
    assert_eq!(ticks, [3, 4]);
    let all = page.json("groups.json?sort=ticks&top=1&kind=plugin")?;
    assert_eq!((names(&all), all["total"].as_u64()), (vec!["checker"], Some(1)));
    assert_eq!(names(&page.json("groups.json?find=ACM")?), ["acme"]);
    Ok(())
}

#[test]
fn l1_lately_says_what_was_done_since_and_forgets_nothing_else() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = served(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("work-for plugin early 5 0")?;
    page.until("groups.json?window=10s&top=all", |table| {
        row(table, "early").is_some_and(|row| row["ticks"] == 0) // in the first look, so not new
    })?;
    child.ask("work-for plugin late 2 0")?;
    let lately = page.until("groups.json?window=10s&top=all", |table| row(table, "late").is_some())?;
    assert_eq!(row(&lately, "late").map(|row| &row["ticks"]), Some(&2.into()));
    assert_eq!(row(&lately, "early").map(|row| &row["ticks"]), Some(&0.into()));
    let all = page.json("groups.json?window=start&top=all")?;
    assert_eq!(row(&all, "early").map(|row| &row["ticks"]), Some(&5.into()));
    Ok(())
}

#[test]
fn l1_processes_say_what_they_hold_how_they_are_and_how_they_ended() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = served(&session)?;
    let mut children = HelperProcess::spawn_many(&session, CHILD, 3)?;
    children[0].ask("mark 500")?;
    assert!(children[1].freeze(), "it does not stop");
    children[2].end("exit 3")?;
    let state =
        |table: &Value, name: &str| row(table, name).and_then(|row| row["state"].as_str().map(str::to_owned));
    let table = page.until("processes.json", |table| {
        let is = |name: &str, wanted: &str| state(table, name).is_some_and(|state| state.contains(wanted));
        is("child-1", "frozen")
            && is("child-2", "code 3")
            && row(table, "child-0").is_some_and(|row| row["recorded"].as_u64() >= Some(500))
    })?;
    assert_eq!(names(&table), ["parent", "child-0", "child-1", "child-2"]);
    let child = row(&table, "child-0").context("no row")?;
    for key in ["held_bytes", "allowance", "resident_bytes"] {
        assert!(child[key].as_u64() > Some(0), "{key}: {child}");
    }
    assert_eq!((&child["state"], &child["dropped"]), (&"recording".into(), &0.into()));
    let session_row = page.json("session.json")?;
    assert_eq!(session_row["memory_limit"], session.memory_limit().get());
    assert_eq!((&session_row["processes"], &session_row["running"]), (&4.into(), &3.into()));
    children[1].signal(libc::SIGCONT);
    Ok(())
}

#[test]
fn l1_an_alert_leads_to_its_evidence() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = served(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    // It has heard what is to be measured, and is known.
    assert!(until(|| child.ask("probes").is_ok_and(|said| said != "ok 0")), "it hears of no probe");
    child.ask("work-for plugin slow 1 0")?;
    page.until("groups.json?top=all", |table| row(table, "slow").is_some_and(|row| row["runs"] == 1))?;
    child.ask("mark 10")?;
    child.ask("work-for plugin slow 1 90000")?;
    // If the machine has held the run before up, there is an alert of that one, too.
    let is_it = |alert: &Value| alert["highest_ns"].as_u64() >= Some(90_000_000);
    let alerts =
        page.until("alerts.json", |alerts| alerts.as_array().is_some_and(|all| all.iter().any(is_it)))?;
    let alert =
        alerts.as_array().and_then(|all| all.iter().find(|alert| is_it(alert))).context("no alert")?;
    assert_eq!((&alert["group"], &alert["kind"]), (&"slow".into(), &"plugin".into()));
    assert_eq!((&alert["process_name"], &alert["process"]), (&"child".into(), &child.pid().into()));
    let number = alert["number"].as_u64().context("no number")?;
    assert_eq!(
        page.json(&format!("alerts.json?alert={number}"))?,
        Value::Array(Vec::new()),
        "only later ones"
    );
    assert_eq!(page.ask("POST", &format!("capture?alert={number}&what=the%20slow%20one"))?.status, 202);
    is_captured(&page, "the slow one")?;
    assert_eq!(page.ask("POST", "capture?alert=999")?.status, 404);
    assert_eq!(page.ask("GET", "capture")?.status, 405);
    assert_eq!(page.ask("GET", "profiles/profile-77.json.gz")?.status, 404);
    assert_eq!(page.ask("GET", "profiles/../../../etc/passwd")?.status, 404);
    Ok(())
}

/// The latest profile is there, and can be had as a file, which other pages may read by a path that says nothing of the token.
fn is_captured(page: &Page, what: &str) -> anyhow::Result<()> {
    let profiles = page.until("profiles.json", |all| all[0]["state"] != "writing")?;
    let profile = &profiles[0];
    ensure!(profile["state"] == "ready" && profile["what"] == what, "{profile}");
    let name = profile["name"].as_str().context("no name")?;
    let file = page.ask("GET", &format!("profiles/{name}"))?;
    ensure!(file.status == 200 && Some(file.body.len() as u64) == profile["bytes"].as_u64(), "{}", file.head);
    ensure!(!file.head.contains("access-control-allow"), "below the token: {}", file.head);
    ensure!(file.body.starts_with(&[0x1f, 0x8b]), "not compressed");
    let path = profile["path"].as_str().context("no path")?;
    ensure!(std::fs::read(path)? == file.body, "what `profiler view` would open is something else");
    is_shared(page, profile["link"].as_str().context("no link")?, &file.body)
}

fn is_shared(page: &Page, link: &str, body: &[u8]) -> anyhow::Result<()> {
    let token = page.path.trim_matches('/');
    ensure!(!link.contains(token), "the viewer's server would be told the token: {link}");
    let host = page.address.to_string();
    let get = |method: &str, path: &str| ask(page.address, method, path, &host);
    let shared = get("GET", link)?;
    ensure!(shared.status == 200 && shared.body == body, "{}", shared.head);
    ensure!(shared.head.contains("access-control-allow-origin: *"), "{}", shared.head);
    let preflight = get("OPTIONS", link)?;
    ensure!(
        preflight.status == 204 && preflight.head.contains("access-control-allow-methods: GET"),
        "{}",
        preflight.head
    );
    ensure!(get("POST", link)?.status == 405);
    let secret = link.trim_start_matches('/').split('/').next().unwrap_or_default();
    let elsewhere =
        [format!("/{secret}/live.json"), format!("/{secret}/"), link.replace(secret, &"0".repeat(32))];
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

#[test]
fn l1_a_button_captures_everything() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (live, page) = served(&session)?;
    marker!("mine", &category::TEST);
    assert_eq!(page.ask("POST", "capture?what=all%20of%20it")?.status, 202);
    is_captured(&page, "all of it")?;
    let profiles = page.json("profiles.json")?;
    let path = profiles[0]["path"].as_str().context("no path")?.to_owned();
    drop(live);
    assert!(until(|| !std::path::Path::new(&path).exists()), "files go with the server");
    Ok(())
}

#[test]
fn l1_markers_stream_to_whoever_watches() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = served(&session)?;
    marker!("before anybody watched", &category::TEST);
    page.json("markers.json?name=watched")?;
    let watch = Stopwatch::start();
    let mut found = Value::Null;
    while watch.elapsed() < LONG && rows(&found).is_empty() {
        marker!("watched", &category::TEST);
        marker!("other", &category::TEST);
        std::thread::sleep(Duration::from_millis(20));
        found = page.json("markers.json?name=watched")?;
    }
    assert!(names(&found).contains(&"watched") && !names(&found).contains(&"other"), "{found}");
    let latest = rows(&found)[0]["number"].as_u64().context("no number")?;
    let later = page.json(&format!("markers.json?name=watched&after={latest}"))?;
    assert!(rows(&later).iter().all(|row| row["number"].as_u64() > Some(latest)), "each is told once");
    Ok(())
}

#[test]
fn l1_markers_that_say_very_much_are_bounded_in_bytes_and_the_rest_is_counted() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (_live, page) = served(&session)?;
    page.json("markers.json?name=fat")?;
    let value = "x".repeat(15_000);
    let known = |view: &Value| view["number"].as_u64().unwrap_or(0) + view["dropped"].as_u64().unwrap_or(0);
    for round in 1..=8 {
        {
            let span = profiler_parent::span!("fat", &category::TEST);
            (0..60).for_each(|_| span.detail("d", &value));
        }
        page.until("markers.json?name=fat&after=1000", |view| known(view) >= round)?;
    }
    let answer = page.ask("GET", "markers.json?name=fat")?;
    let view: Value = serde_json::from_slice(&answer.body)?;
    assert!(view["left_out"].as_u64() > Some(0), "nothing is left out of {} bytes", answer.body.len());
    assert!(answer.body.len() < 2 << 20, "{} bytes", answer.body.len());
    Ok(())
}

#[test]
fn l1_who_does_not_know_the_token_learns_nothing() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let (live, page) = served(&session)?;
    let address = live.address();
    let own = address.to_string();
    let wrong = "0".repeat(32);
    for path in
        ["/", "/live.json", &format!("/{wrong}/"), &format!("/{wrong}/live.json"), "/favicon.ico", "//"]
    {
        let answer = ask(address, "GET", path, &own)?;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{path}: {}", answer.head);
    }
    for host in ["evil.example", "evil.example:80", "127.0.0.1", ""] {
        let answer = ask(address, "GET", &format!("{}live.json", page.path), host)?;
        assert!((400..404).contains(&answer.status) && answer.body.is_empty(), "{host}: {}", answer.head);
    }
    let localhost = format!("localhost:{}", address.port());
    let answer = ask(address, "GET", &page.path, &localhost)?;
    assert_eq!(answer.status, 200);
    for header in ["default-src 'none'", "no-referrer", "no-store", "nosniff"] {
        assert!(answer.head.contains(header), "{}", answer.head);
    }
    let text = String::from_utf8(answer.body)?;
    assert!(!text.contains("http://") && !text.contains("https://"), "the page loads nothing from elsewhere");
    assert_eq!(ask(address, "DELETE", &page.path, &own)?.status, 405);
    Ok(())
}

#[test]
fn l1_only_loopback_is_served_and_it_ends_with_the_session() -> anyhow::Result<()> {
    own_process!();
    let session = start()?;
    let refused = session.serve_live(([0, 0, 0, 0], 0).into());
    assert!(matches!(refused, Err(LiveError::NotLoopback(_))), "{refused:?}");
    let live = session.serve_live_with(LOOPBACK.into(), LiveOptions::default().alerts(None))?;
    let taken = session.serve_live(live.address());
    assert!(matches!(taken, Err(LiveError::Listen { .. })), "{taken:?}");
    let address = live.address();
    assert!(TcpStream::connect(address).is_ok());
    drop(session);
    assert!(until(|| TcpStream::connect(address).is_err()), "it outlives its session");
    drop(live);
    Ok(())
}

/// `profiler record --live` with the helper as its program.
struct Recording {
    command: Child,
    url: String,
    errors: BufReader<std::process::ChildStderr>,
    _directory: tempfile::TempDir,
}

impl Recording {
    fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(tools::profiler()?);
        command.args([
            "record",
            "-o",
            "out.json.gz",
            "--live",
            "127.0.0.1:0",
            "--name",
            "helper",
            "--",
            CHILD,
            "init",
        ]);
        command.current_dir(directory.path()).process_group(0);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = pipes.spawn()?;
        let mut errors = BufReader::new(command.stderr.take().context("no pipe")?);
        let mut line = String::new();
        errors.read_line(&mut line)?;
        let url = line.trim().strip_prefix("profiler: live at ").with_context(|| line.clone())?.to_owned();
        Ok(Self { command, url, errors, _directory: directory })
    }

    fn tell(&mut self, what: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.command.stdin.as_mut().context("no pipe")?, "{what}")?)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.command.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.command.wait();
    }
}

/// The exit code of `profiler top` that is told the address where other users cannot read it.
fn top_without_argument(url: &str, way: &str) -> anyhow::Result<Option<i32>> {
    let mut command = Command::new(tools::profiler()?);
    command.args(["top", "--once"]).stdin(Stdio::piped()).stdout(Stdio::null());
    if way == "variable" {
        command.env("PROFILER_LIVE_URL", url)
    } else {
        command.arg("-")
    };
    let mut running = command.spawn()?;
    writeln!(running.stdin.take().context("no pipe")?, "{}", if way == "input" { url } else { "" })?;
    Ok(running.wait()?.code())
}

#[test]
fn l1_profiler_top_shows_the_live_page_of_profiler_record() -> anyhow::Result<()> {
    own_process!();
    let mut recording = Recording::start()?;
    recording.tell("work-for plugin checker 6 1500")?;
    recording.tell("work-for tenant acme 40 10")?;
    let page = Page::of(&recording.url)?;
    page.until("groups.json?top=all", |table| {
        ["checker", "acme"].iter().all(|name| row(table, name).is_some())
            && row(table, "acme").is_some_and(|row| row["ticks"] == 40)
    })?;
    let top = |options: &[&str]| tools::run(&[&["top", "--once", recording.url.as_str()], options].concat());
    for way in ["variable", "input"] {
        assert_eq!(top_without_argument(&recording.url, way)?, Some(0), "{way}");
    }
    let said = top(&["--sort", "ticks", "--processes"])?;
    assert_eq!((said.code, said.error.as_str()), (Some(0), ""));
    let line = |name: &str| said.out.lines().position(|line| line.starts_with(name));
    assert!(line("acme") < line("checker") && line("acme").is_some(), "{}", said.out);
    assert!(line("helper").is_some() && line("profiler ").is_some(), "{}", said.out);
    assert!(!said.out.contains('\x1b'), "plain text in a pipe");
    assert!(top(&["--find", "chec", "-n", "1"])?.out.contains("1 of 1 groups"));
    let wrong = tools::run(&["top", "--once", &format!("http://{}/{}/", page.address, "0".repeat(32))])?;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.error.contains("there is no live page"), "{wrong:?}");
    recording.tell("exit 0")?;
    assert!(until(|| recording.command.try_wait().is_ok_and(|status| status.is_some())), "it does not end");
    let mut rest = String::new();
    recording.errors.read_to_string(&mut rest)?;
    assert!(rest.contains("profiler: wrote out.json.gz"), "{rest}");
    assert!(rest.contains(&format!("PROFILER_LIVE_URL={} profiler top", recording.url)), "{rest}");
    assert_eq!(tools::run(&["top", "--once", &recording.url])?.code, Some(2), "and the page is gone");
    Ok(())
}
