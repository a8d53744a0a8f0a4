//! The cost of the live page: a page that sends one request per second, for a session with 200
//! processes and 1,000 groups. Of these, 990 groups are in one process each, 8 are shared by four
//! processes each, and 2 are in all processes. One run in three leaves a peak.
//!
//! The figure is the processor time of the threads that work for the page: the server's thread and
//! the thread of its alerts. Markers and the flame graph are not included, because they are read
//! only while that part of the page is open; `live_flame` measures the flame graph.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use profiler_core::groups::{Group, GroupKind};
use profiler_parent::LiveServer;

use crate::workers;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::http::get;
use integration_tests::patience::until;

const PROCESSES: u64 = 200;
/// Groups in one process each. Groups of processes and of their threads are additional.
const OWN: u64 = 990;
/// Groups that are shared by [`SOME`] processes each.
const OF_SOME: u64 = 8;
/// Groups in all processes.
const OF_ALL: u64 = 2;
/// Processes that share a group of [`OF_SOME`].
const SOME: u64 = 4;
/// Duration of a run that leaves a peak, which takes at least 16 µs.
const PEAK: Duration = Duration::from_micros(40);
/// Requests before each measurement.
const WARM_UP: usize = 3;
/// Seconds of each measurement.
const SECONDS: usize = 15;
/// The default request of the page.
const USUAL: &str = "live.json?window=10s&sort=wall&top=25&ptop=20";
/// The request for all rows.
const ALL: &str = "live.json?window=10s&sort=wall&top=all&ptop=all";
/// The request for the number of the groups of this figure.
const OF_PLUGINS: &str = "live.json?window=10s&kind=plugin&top=1&ptop=1";

/// All figures of the live page.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let session = workers::quiet_session(256 << 20)?;
    let live = session.serve_live(([127, 0, 0, 1], 0).into())?;
    let mut workers =
        workers::start_all(&session, PROCESSES, "child", "live-groups", |number| number)?;
    until_all_are_shown(&live)?;
    let body = ask(&live, ALL)?;
    let total = total_groups(&body)?;
    report.put(Figure::new("live.rows", total as f64, "groups"));
    report.put(Figure::new(
        "live.all_rows_kib",
        body.len() as f64 / 1024.0,
        "KiB",
    ));
    let [server, alerts] = cpu_pct(&live, USUAL)?;
    report.put(
        Figure::new("live.cpu_pct", server + alerts, "% of a CPU").promised(Promise::AtMost(1.0)),
    );
    report.put(Figure::new("live.cpu_pct.server", server, "% of a CPU"));
    report.put(Figure::new("live.cpu_pct.alerts", alerts, "% of a CPU"));
    let [server, alerts] = cpu_pct(&live, ALL)?;
    report.put(Figure::new(
        "live.cpu_pct.all_rows",
        server + alerts,
        "% of a CPU",
    ));
    for worker in &mut workers {
        worker.child.kill().context("cannot end a child")?;
    }
    drop(live);
    drop(session);
    crate::live_flame::measure(report)
}

/// Waits until the page shows the groups of all children. The page may answer from a snapshot that
/// the poller of alerts took a second earlier, while the children were started.
fn until_all_are_shown(live: &LiveServer) -> Result<()> {
    let expected = OWN + OF_SOME + OF_ALL;
    let mut shown = Ok(0);
    let is_whole = until(|| {
        shown = ask(live, OF_PLUGINS).and_then(|body| total_groups(&body));
        shown.as_ref().map_or(true, |total| *total >= expected)
    });
    let shown = shown?;
    ensure!(
        is_whole && shown == expected,
        "{shown} of {expected} groups are shown"
    );
    Ok(())
}

/// Returns how many groups match a request, from its answer.
fn total_groups(body: &str) -> Result<u64> {
    let answer: serde_json::Value = serde_json::from_str(body)?;
    answer["groups"]["total"].as_u64().context("no total")
}

/// Returns the names of a child's groups.
fn names(child: u64) -> Vec<String> {
    let own = (0..OWN)
        .filter(|group| group % PROCESSES == child)
        .map(|group| format!("plugin {group}"));
    let sets = PROCESSES / SOME;
    let of_some = (0..OF_SOME).filter(|group| group % sets == child % sets);
    let of_some = of_some.map(|group| format!("shared plugin {group}"));
    own.chain(of_some)
        .chain((0..OF_ALL).map(|group| format!("plugin {group} of all")))
        .collect()
}

/// In a child: enters its groups repeatedly. One entry in three is long enough to leave a peak.
pub(crate) fn enter_groups(child: u64) -> ! {
    let register = |name: String| Group::register(GroupKind::Plugin, &name);
    let groups: Vec<Group> = names(child).into_iter().map(register).collect();
    workers::until_closed("entered");
    let mut round = 0_usize;
    loop {
        for (place, group) in groups.iter().enumerate() {
            let _run = group.enter();
            if place.wrapping_add(round).is_multiple_of(3) {
                std::thread::sleep(PEAK);
            }
        }
        round = round.wrapping_add(1);
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Returns the share of a processor that a client with one request per second costs: for the
/// server's thread, and for the thread of its alerts.
fn cpu_pct(live: &LiveServer, request: &str) -> Result<[f64; 2]> {
    let ask_for = |seconds: usize| -> Result<()> {
        (0..seconds).try_for_each(|_| {
            ask(live, request)?;
            std::thread::sleep(Duration::from_secs(1));
            Ok(())
        })
    };
    ask_for(WARM_UP)?;
    let before = page_cpu_ns()?;
    ask_for(SECONDS)?;
    let after = page_cpu_ns()?;
    let share = |thread: usize| (after[thread] - before[thread]) / 1e9 / SECONDS as f64 * 100.0;
    Ok([share(0), share(1)])
}

/// Returns the nanoseconds of processor time of the threads that work for the page.
fn page_cpu_ns() -> Result<[f64; 2]> {
    thread_cpu_ns(["profiler-live", "profiler-alerts"])
}

/// Returns the nanoseconds of processor time of the threads with these names.
pub(crate) fn thread_cpu_ns<const N: usize>(names: [&str; N]) -> Result<[f64; N]> {
    let mut sums = [0.0; N];
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        for (known, sum) in names.iter().zip(&mut sums) {
            if name.trim() == *known {
                let stat = std::fs::read_to_string(task.join("schedstat"))?;
                *sum += stat.split(' ').next().context("no time")?.parse::<f64>()?;
            }
        }
    }
    Ok(sums)
}

/// Requests a path below the token.
pub(crate) fn ask(live: &LiveServer, request: &str) -> Result<String> {
    PageAddress::of(live)?.ask(request)
}

/// The address of a live page, for clients on several threads.
#[derive(Clone, Debug)]
pub(crate) struct PageAddress {
    address: SocketAddr,
    /// The token and a slash.
    path: String,
}

impl PageAddress {
    pub(crate) fn of(live: &LiveServer) -> Result<Self> {
        let url = live.url();
        let path = url
            .split_once("//")
            .and_then(|(_, rest)| rest.split_once('/'))
            .context("no path")?
            .1;
        Ok(Self {
            address: live.address(),
            path: path.to_owned(),
        })
    }

    /// Requests a path below the token.
    pub(crate) fn ask(&self, request: &str) -> Result<String> {
        let Self { address, path } = self;
        get(address, &format!("/{path}{request}"), "")?.text()
    }

    /// Requests several paths at the same time.
    pub(crate) fn ask_at_once<const N: usize>(&self, requests: [&str; N]) -> Result<[String; N]> {
        std::thread::scope(|scope| {
            let answers = requests.map(|request| scope.spawn(move || self.ask(request)));
            let answers = answers.map(|answer| match answer.join() {
                Ok(answer) => answer,
                Err(_) => bail!("a client panicked"),
            });
            let answers: Vec<String> = answers.into_iter().collect::<Result<_>>()?;
            answers
                .try_into()
                .ok()
                .context("as many answers as requests")
        })
    }
}
