//! A session for the live page: a parent, two working plugin hosts, one of which is janky, and a
//! third host that is stopped. The hosts work for several groups, including two tenants, and
//! compute something, so that there are functions to show.
//!
//! ```text
//! live_scene      prints the page's address and runs until standard input is closed
//! ```
//! Started by `integration-tests/viewer/live.mjs`, which opens the page in a browser. The input
//! line `overtake` makes a host enter `tortoise` 5,000 times, so that it overtakes `hare`.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use integration_tests::helper_process::HelperProcess;
use profiler_core::ids::ByteLimit;
use profiler_parent::LiveOptions;
use profiler_parent::Session;
use profiler_parent::core::counter::Counter;
use profiler_parent::core::marker::category;
use profiler_prometheus::on_live_page;
use profiler_sys::spawn_quiet;

const ROUND: Duration = Duration::from_millis(100);
/// Work of the first two hosts per round: kind, group, number of entries, microseconds per entry.
const WORK: [&[(&str, &str, u32, u32)]; 2] = [
    &[
        ("plugin", "spell checker", 4, 1_200),
        ("tenant", "acme", 8, 400),
        ("tenant", "globex", 2, 900),
        ("request", "GET /search", 5, 700),
    ],
    &[
        ("plugin", "spell checker", 2, 900),
        ("plugin", "image decoder", 1, 6_000),
        ("tenant", "acme", 3, 1_500),
        ("task", "index", 6, 150),
    ],
];
/// Rounds between two janky runs of the second host.
const JANKY: u64 = 25;

static QUEUED: Counter = Counter::new("queued requests", "Other", "Requests that wait");

fn main() -> Result<()> {
    let session = Session::builder()
        .memory_limit(ByteLimit::new(64 << 20))
        .name("application")
        .start()?;
    let live = session.serve_live_with(
        ([127, 0, 0, 1], 0).into(),
        on_live_page(&session, LiveOptions::default()),
    )?;
    let child = child()?;
    let child = child.to_str().context("the path is not UTF-8")?;
    let mut hosts = (1..=3)
        .map(|number| {
            HelperProcess::spawn(&session, child, &format!("plugin host {number}"), "init")
        })
        .collect::<Result<Vec<_>>>()?;
    for host in &mut hosts {
        host.ask("work-for plugin hare 40 0")?;
        host.ask("work-for plugin tortoise 2 0")?;
    }
    hosts[0].ask("serve-requests 40")?;
    hosts[1].ask("serve-requests 70")?;
    hosts[2].ask("work-for plugin frozen 3 2000")?;
    hosts[2].freeze();
    println!("{}", live.url());
    perform(&mut hosts)?;
    hosts[2].signal(libc::SIGCONT);
    Ok(())
}

/// Returns the path of the helper program, which is built beside this one.
fn child() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("child"))
}

fn perform(hosts: &mut [HelperProcess]) -> Result<()> {
    let lines = lines()?;
    for round in 1_u64.. {
        let [first, second, ..] = &mut *hosts else {
            return Ok(());
        };
        for (host, works) in [first, second].into_iter().zip(WORK) {
            for (kind, group, times, us) in works {
                let group = group.replace(' ', "-");
                host.ask(&format!("work-for {kind} {group} {times} {us}"))?;
            }
        }
        if round % JANKY == 3 {
            hosts[1].ask("work-for plugin image-decoder 1 130000")?;
            hosts[0].ask("wait-for tenant acme 30")?;
        }
        QUEUED.set(i64::try_from(round % 17 * 3)?);
        profiler_parent::text_marker!(
            "round",
            &category::TEST,
            Default::default(),
            &format!("number {round}")
        );
        match lines.try_recv() {
            Ok(line) if line == "overtake" => {
                drop(hosts[0].ask("work-for plugin tortoise 5000 0")?)
            }
            Ok(_) | Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        std::thread::sleep(ROUND);
    }
    Ok(())
}

/// Returns a channel of the lines of standard input. It closes with standard input.
fn lines() -> Result<Receiver<String>> {
    let (sender, receiver) = channel();
    spawn_quiet("scene-lines", move || {
        let _ = std::io::stdin()
            .lock()
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line));
    })?;
    Ok(receiver)
}
